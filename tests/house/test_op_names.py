"""No pass asks for an op by its name: what it must know of an op is in the op's record.

A comparison of `node.op` with a string, or a look-up of it in a table, is a fact about an op that
stands far from its record, and that a new op misses. A pass that is about one op compares records
(`node.definition is reshape_op`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import symgrad  # declares all ops
from symgrad.graph.opdef import OPS

ROOT = Path(symgrad.__file__).parent
# Parsing takes most of the time: what has no name of an op tells no ops by it.
_NAME_OF_OP = re.compile(r"\.\s*op\b|(?:definition|_op)\s*\.\s*name\b")
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(ROOT.rglob("*.py"))
}

# The parser reads names, and users name the ops whose gradients they override.
_NAMES_ARE_GIVEN = {"graph/text/parse.py", "graph/build.py", "graph/gradient_registry.py"}
_LOOKS_UP = {"get", "setdefault", "pop"}


def _is_name_of_op(node: ast.AST) -> bool:
    """Return whether an expression is `x.op`, `x.definition.name` or `reshape_op.name`."""
    if not isinstance(node, ast.Attribute):
        return False
    if node.attr == "op":
        return True
    owner = ast.unparse(node.value).rpartition(".")[2]
    return node.attr == "name" and (owner == "definition" or owner.endswith("_op"))


def _by_name(text: str) -> Iterator[int]:
    """Yield the lines in which an op is told by its name."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                has_table = any(isinstance(op, ast.In | ast.NotIn) for op in ops)
                has_text = any(
                    isinstance(part, ast.Constant) and isinstance(part.value, str)
                    for side in sides
                    for part in ast.walk(side)
                )
                if any(map(_is_name_of_op, sides)) and (has_table or has_text):
                    yield node.lineno
            case ast.Match(subject=subject) if _is_name_of_op(subject):
                yield node.lineno
            case ast.Subscript(slice=key) if _is_name_of_op(key):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name), args=[key, *_]) if _is_name_of_op(key):
                if name in _LOOKS_UP:
                    yield node.lineno


def test_no_module_tells_ops_by_their_names():
    found = {
        f"{path}:{line}"
        for path, text in TEXTS.items()
        if path not in _NAMES_ARE_GIVEN and _NAME_OF_OP.search(text)
        for line in _by_name(text)
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "node.op == 'add'",
        "'add' != node.op",
        "t.node.op in _MOVES",
        "node.op not in {'add', 'pad'}",
        "node.definition.name in _TABLE",
        "match node.op:\n  case 'add': pass",
        "_RULES[node.op]",
        "_RULES.get(node.op)",
        "_RULES.get(inner.op, None)",
        "x.node.op == 'add' or y",
    ],
)
def test_a_name_of_an_op_in_a_comparison_or_a_table_is_found(text):
    assert _NAME_OF_OP.search(text)
    assert list(_by_name(text)) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "node.definition is add_op",
        "node.definition in LOOPS",
        "a.op == b.op",
        "key = node.op, attrs",
        "f'{node.op} fails'",
        "errors.append(node.op)",
        "row.name == 'add'",
    ],
)
def test_records_and_texts_are_no_tables_of_names(text):
    assert list(_by_name(text)) == []


def test_ops_that_are_looked_up_by_a_fixed_name_exist():
    names = {
        node.slice.value
        for text in TEXTS.values()
        if re.search(r"\bOPS\[['\"]", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "OPS"
        and isinstance(node.slice, ast.Constant)
    }
    assert names <= OPS.keys()
    assert names
