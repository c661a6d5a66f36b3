"""The house: imports go down only and are absolute, and every module says what it is for.

The floors themselves are contracts in `setup.cfg`; here they are run with the other tests.
"""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).parents[2]
FOLDERS = ("symgrad", "tests", "examples", "benchmarks", "tools")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def _place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_import_contracts_of_setup_cfg_are_kept(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    status = cli.lint_imports(config_filename="setup.cfg", no_cache=True, no_logo=True)
    assert status == 0, capsys.readouterr().out


def _floors() -> list[str]:
    """Return the names on the floors of `setup.cfg`, from the top down."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return re.findall(r"\w+", settings["importlinter:contract:floors"]["layers"])


def test_every_package_has_its_floor_and_every_floor_a_package():
    found = {path.parent.name for path in (ROOT / "symgrad").glob("*/__init__.py")}
    found |= {path.stem for path in (ROOT / "symgrad").glob("*.py")} - {"__init__"}
    assert sorted(_floors()) == sorted(found)


def test_the_documents_name_the_floors_in_their_order():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## The house")[2].partition("\n## ")[0]
    lines = re.findall(r"^    (\w[\w, ]*?)(?:  |$)", section, re.MULTILINE)
    drawn = [name for line in lines for name in line.split(", ")]
    assert drawn == _floors()
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = table.partition("## The floors")[2].partition("## ")[0]
    missing = [name for name in _floors() if name not in table]
    assert not missing, f"docs/architecture.md leaves out {missing}"


def test_there_are_modules_to_look_at():
    assert ROOT / "symgrad" / "__init__.py" in MODULES


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_a_module_says_what_it_is_for(path):
    docstring = ast.get_docstring(ast.parse(path.read_bytes()))
    assert docstring, f"{_place(path)} has no docstring"


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_imports_are_absolute(path):
    relative = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert not relative, f"{_place(path)} imports relatively at lines {relative}"
