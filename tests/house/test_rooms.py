"""The sizes of rooms: files of at most 400 lines, functions that fit a screen and nest three deep.

Files that are longer are named in `CONTRIBUTING.md`, and no other is named there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import pytest

from tests.support.modules import MODULES, ROOT, place, statements

MAX_FILE, MAX_FUNCTION, MAX_DEPTH = 400, 60, 3

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(text: str) -> Iterator[Function]:
    return (s for s in statements(ast.parse(text).body) if isinstance(s, Function))


def _length(function: Function) -> int:
    assert function.end_lineno is not None, "it was parsed from text"
    return function.end_lineno - function.lineno + 1


def _depth(body: Sequence[ast.stmt]) -> int:
    """Return how deep statements are nested in `body`; functions in it are looked at themselves."""
    return max(map(_depth_of, body), default=0)


def _depth_of(statement: ast.stmt) -> int:
    match statement:
        case ast.If(body=body, orelse=[ast.If() as following]):  # an elif
            return max(1 + _depth(body), _depth_of(following))
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
            return 1 + max(_depth(statement.body), _depth(statement.orelse))
        case ast.With() | ast.AsyncWith():
            return 1 + _depth(statement.body)
        case ast.Match():
            return 1 + max(_depth(case.body) for case in statement.cases)
        case ast.Try():
            handled = (handler.body for handler in statement.handlers)
            return 1 + max(
                map(_depth, (statement.body, *handled, statement.orelse, statement.finalbody))
            )
        case _:
            return 0


def test_files_over_the_limit_are_the_known_violations():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`([\w/]+\.py)`", text.partition("## Known violations")[2]))
    lengths = {place(path): path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert {place for place, length in lengths.items() if length > MAX_FILE} == known


def test_functions_fit_a_screen_and_are_not_nested_deep():
    complaints = []
    for path in MODULES:
        for function in _functions(path.read_text(encoding="utf-8")):
            where = f"{place(path)}:{function.lineno}: {function.name}"
            length, depth = _length(function), _depth(function.body)
            complaints += [f"{where} has {length} lines"] if length > MAX_FUNCTION else []
            complaints += [f"{where} nests {depth} deep"] if depth > MAX_DEPTH else []
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("return 1", 0),
        ("if a:\n  b\nelif c:\n  d\nelse:\n  e", 1),
        ("for a in b:\n  if c:\n    d", 2),
        ("match a:\n  case 1:\n    b\n  case 2:\n    if c:\n      d", 2),
        ("try:\n  a\nexcept E:\n  with b:\n    while c:\n      d", 3),
        ("def inner():\n  if a:\n    b", 0),
    ],
)
def test_depth_counts_what_a_reader_has_to_keep_in_mind(text, depth):
    assert _depth(ast.parse(text).body) == depth
