"""Building the package: its long description, and the code that it brings along.

The description is the README, read where there is no repository around it; all other metadata is
in `setup.cfg`. Leaf functions of common products are compiled for levels of x86-64 and put into the
package where `SYMGRAD_BUILD_PYTHON` names an interpreter that has what symgrad needs, as `make
dist` does: a build in isolation has not. It takes some minutes.
"""

import os
import re
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

BUILD_PYTHON = "SYMGRAD_BUILD_PYTHON"
_PACK = """
from pathlib import Path
from symgrad.runtime.precompile import pack
pack(Path("symgrad", "precompiled"))
"""
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def long_description(readme: str) -> str:
    """Return a README whose links to files of the repository are the names of these files."""
    return _LINK.sub(lambda link: f"`{link[2]}`" if link[1] == link[2] else _named(link), readme)


def _named(link: re.Match[str]) -> str:
    return f"{link[1]} (`{link[2]}`)"


class BuildWithPacks(build_py):
    """Copies the modules, and compiles by them what the package brings along."""

    def run(self) -> None:
        super().run()
        python = os.environ.get(BUILD_PYTHON, "")
        if python and not self.editable_mode:
            # Only what was copied is imported, and nothing else is left there.
            package = str(Path(self.build_lib).resolve())
            chosen = {"PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"}
            command = [python, "-c", _PACK]
            subprocess.run(command, check=True, cwd=package, env=os.environ | chosen)


if __name__ == "__main__":
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    setup(long_description=long_description(readme), cmdclass={"build_py": BuildWithPacks})
