"""Test matrix: the fast tests with every Python from 3.11 on that this machine has.

    python tools/all_pythons.py [ARGUMENT OF PYTEST...]

An interpreter is looked for on the path as `python3.N`, and in `~/.pyenv/versions`. Each one has an
environment of its own in `.venvs`, which later runs use again. A version that the package says it
runs on, and that is not found, is told and is no failure.
"""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = 11


def find_pythons() -> dict[int, str]:
    """Return the interpreter of each minor version that there is, pyenv's before that of the path.

    >>> 3 in find_pythons()
    False
    """
    found: dict[int, str] = {}
    for folder in sorted(Path.home().glob(".pyenv/versions/3.*")):
        version = re.match(r"3\.(\d+)\.", f"{folder.name}.")
        if version and (folder / "bin" / "python").exists():
            found[int(version[1])] = str(folder / "bin" / "python")
    for minor in range(OLDEST, 30):
        on_path = shutil.which(f"python3.{minor}")
        if on_path is not None:
            found.setdefault(minor, on_path)
    return {minor: path for minor, path in sorted(found.items()) if minor >= OLDEST}


def stated_versions() -> set[int]:
    """Return the minor versions that the classifiers of the package name.

    >>> OLDEST in stated_versions()
    True
    """
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    named = re.findall(r"Python :: 3\.(\d+)", settings["metadata"]["classifiers"])
    return {int(minor) for minor in named}


def report(found: Iterable[int], failed: Collection[int]) -> str:
    """Return a line for each version that was tested or should have been.

    >>> print(report([11, 12], failed=[12]))
    Python 3.11: passed
    Python 3.12: failed
    Python 3.13: not found on the path or in ~/.pyenv/versions, not tested
    Python 3.14: not found on the path or in ~/.pyenv/versions, not tested
    """
    results = {minor: "failed" if minor in failed else "passed" for minor in found}
    absent = "not found on the path or in ~/.pyenv/versions, not tested"
    versions = sorted(results.keys() | stated_versions())
    return "\n".join(f"Python 3.{minor}: {results.get(minor, absent)}" for minor in versions)


def run_tests(minor: int, python: str, arguments: list[str]) -> bool:
    """Make the environment of an interpreter, run the tests there, and say whether they passed."""
    environment = ROOT / ".venvs" / f"3.{minor}"
    inside = environment / "bin" / "python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", environment], check=True)
    pip = [str(inside), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--editable", f"{ROOT}[dev]"], check=True)
    done = subprocess.run([inside, "-m", "pytest", "--quiet", *arguments], cwd=ROOT, check=False)
    return done.returncode == 0


def main() -> int:
    """Test with each interpreter; return 1 if one failed, or if there is none."""
    pythons = find_pythons()
    failed = []
    for minor, python in pythons.items():
        print(f"Python 3.{minor}: {python}", flush=True)
        if not run_tests(minor, python, sys.argv[1:]):
            failed.append(minor)
    print(report(pythons, failed))
    return 1 if failed or not pythons else 0


if __name__ == "__main__":
    sys.exit(main())
