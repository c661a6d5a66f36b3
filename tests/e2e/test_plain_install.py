"""Getting started as a new user does: a wheel, a fresh environment, the page from top to bottom.

The environment has what the wheel asks for and nothing else, so that a dependency that is not
declared, or a file that is not in the wheel, is missed here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import symgrad as sg

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "getting_started.md"
_SOURCES = ("symgrad", "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_HELPERS = ("tests/support/page_blocks.py", "tests/support/doc_examples.py")
# What runs the blocks of the page, with the interpreter and the symgrad of the environment.
_RUN_PAGE = """
import sys
from pathlib import Path
from tests.support.page_blocks import PageRun, blocks_of

page, folder = map(Path, sys.argv[1:])
run = PageRun(page.name, folder, {"__name__": "__main__"})
sys.path.insert(0, str(folder))
for block in blocks_of(page.read_text(encoding="utf-8")):
    run.run(block)
    print(run.printed)
print(run.names["sg"].__file__)
"""

pytestmark = pytest.mark.slow


def _run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=kept | environment, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    if "pip" in map(str, command) and re.search(r"NewConnectionError|ConnectTimeout", done.stderr):
        pytest.skip("no index of packages is reached")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the sources, which are built in a folder of their own."""
    folder = tmp_path_factory.mktemp("sources")
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder)
    _run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "."], folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a fresh environment, in which the page's command was run."""
    folder = tmp_path_factory.mktemp("fresh")
    _run([sys.executable, "-m", "venv", "env"], folder)
    found = folder / "env" / "bin" / "python"
    (line,) = re.findall(r"(?m)^pip install .*$", PAGE.read_text(encoding="utf-8"))
    pip, *words = shlex.split(line, comments=True)
    given = [re.sub(r"^symgrad\b", str(wheel), word) for word in words]
    assert given != words, "the page installs something else"
    _run([found, "-m", pip, "--quiet", *given], folder)
    return found


def test_the_wheel_holds_the_package_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"symgrad"}
    sources = {str(p.relative_to(ROOT)) for p in (ROOT / "symgrad").rglob("*") if p.is_file()}
    assert {n for n in sources if "__pycache__" not in n} == {n for n in names if n in sources}


def test_getting_started_works_in_a_fresh_environment(python: Path, tmp_path: Path) -> None:
    for name in _HELPERS:
        place = tmp_path / "helpers" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place)
    work = tmp_path / "work"
    work.mkdir()
    printed = _run(
        [python, "-c", _RUN_PAGE, PAGE, work], work,
        PYTHONPATH=str(tmp_path / "helpers"), SYMGRAD_CACHE_DIR=str(tmp_path / "cache"),
    )  # fmt: skip
    assert Path(printed.splitlines()[-1]).is_relative_to(python.parents[1])
    accuracy = re.search(r"loss 0\.\d+, accuracy (\d+)%", printed)
    assert accuracy is not None
    assert int(accuracy[1]) > 90
    assert {"train.py", "train.html", "circle.safetensors"} <= {p.name for p in work.iterdir()}


def test_the_console_command_is_there_and_nothing_that_is_installed_conflicts(
    python: Path, tmp_path: Path
) -> None:
    said = _run([python.with_name("symgrad"), "info"], tmp_path)
    assert re.match(rf"symgrad +{re.escape(sg.__version__)}\n", said)
    assert "No broken requirements" in _run([python, "-m", "pip", "check"], tmp_path)
