"""What compares floors returns how they differ: a test that drops it asserts nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.modules import ROOT, place

_SAY_WHAT_IS_WRONG = {"run_everywhere", "run_variants", "complaint", "fuzz"}
_FILES = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]


def dropped(text: str) -> list[int]:
    """Return the lines of calls whose result, which says what is wrong, is dropped."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        called = ast.unparse(node.value.func).rpartition(".")[2]
        found += [node.lineno] if called in _SAY_WHAT_IS_WRONG else []
    return found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f():\n    run_everywhere(graph, inputs)\n", [2]),
        ("floors.run_variants(graph, inputs, ways)", [1]),
        ("assert run_everywhere(graph, inputs) is None", []),
        ("different = complaint(7)", []),
    ],
)
def test_what_drops_a_result_is_found(text, lines):
    assert dropped(text) == lines


def _calls(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in _SAY_WHAT_IS_WRONG):
        return []  # to parse all files takes seconds
    return [f"{place(path)}:{line}" for line in dropped(text)]


def test_no_test_drops_what_an_oracle_says():
    found = [where for path in _FILES for where in _calls(path)]
    assert not found, f"to be asserted on: {found}"
