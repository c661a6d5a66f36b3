"""A step as one page of HTML that needs nothing else: see `page.write_report`."""
