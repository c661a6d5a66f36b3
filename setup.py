"""Long description of the package: the README, read where there is no repository around it.

All other metadata is in `setup.cfg`.
"""

import re
from pathlib import Path

from setuptools import setup

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def long_description(readme: str) -> str:
    """Return a README whose links to files of the repository are the names of these files."""
    return _LINK.sub(lambda link: f"`{link[2]}`" if link[1] == link[2] else _named(link), readme)


def _named(link: re.Match[str]) -> str:
    return f"{link[1]} (`{link[2]}`)"


if __name__ == "__main__":
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    setup(long_description=long_description(readme))
