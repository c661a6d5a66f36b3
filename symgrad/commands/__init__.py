"""Subcommands of `python -m symgrad`; the command line itself is in `symgrad/__main__.py`."""
