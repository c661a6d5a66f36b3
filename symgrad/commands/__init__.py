"""What `python -m symgrad` can do; the command line itself is in `symgrad/__main__.py`."""
