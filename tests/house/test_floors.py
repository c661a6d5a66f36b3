"""The house: imports go down only and are absolute, and every module says what it is for.

The floors themselves are contracts in `setup.cfg`; here they are run with the other tests.
"""

from __future__ import annotations

import ast
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
