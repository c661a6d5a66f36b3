"""The house: imports go down only and are absolute, and every module says what it is for.

The floors themselves are contracts in `setup.cfg`; here they are run with the other tests.
"""

from __future__ import annotations

import configparser
import re

from importlinter import cli

from tests.support.modules import MODULES, ROOT, place

# As text, which ruff has formatted: to parse some hundred files takes seconds.
_DOCSTRING = re.compile(r'(?:#.*\n|\s)*[rR]?"""\s*[^\s"]')
_RELATIVE = re.compile(r"^\s*from\s*\..*", re.MULTILINE)


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
    drawing = section.partition("```text\n")[2].partition("```")[0]
    lines = re.findall(r"^(\w[\w, ]*?)(?:  |$)", drawing, re.MULTILINE)
    drawn = [name for line in lines for name in line.split(", ")]
    assert drawn == _floors()
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = table.partition("## The floors")[2].partition("## ")[0]
    missing = [name for name in _floors() if name not in table]
    assert not missing, f"docs/architecture.md leaves out {missing}"


def test_there_are_modules_to_look_at():
    assert ROOT / "symgrad" / "__init__.py" in MODULES


def test_every_module_says_what_it_is_for():
    bare = [place(p) for p in MODULES if not _DOCSTRING.match(p.read_text(encoding="utf-8"))]
    assert not bare, f"without a docstring: {bare}"


def test_imports_are_absolute():
    found = {place(p): _RELATIVE.findall(p.read_text(encoding="utf-8")) for p in MODULES}
    relative = {where: lines for where, lines in found.items() if lines}
    assert not relative, f"relative imports: {relative}"


def test_what_is_looked_for_in_a_module_is_found():
    assert _DOCSTRING.match('#!/usr/bin/env python\n\n"""What it is for."""\n')
    assert not _DOCSTRING.match('""""""\n')
    assert not _DOCSTRING.match('import ast\n\n"""Too late."""\n')
    assert _RELATIVE.findall("import a\nif b:\n    from .c import d\n") == ["    from .c import d"]
    assert _RELATIVE.search("from . import a")
    assert not _RELATIVE.search("from a.b import c\n")
