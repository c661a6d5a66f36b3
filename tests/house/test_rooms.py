"""The sizes of rooms: files of at most 400 lines, functions that fit a screen and nest three deep.

Files that are longer are named in `CONTRIBUTING.md`, and no other is named there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

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


_TEXT = re.compile(r'"""(?:.|\n)*?"""')
# A statement with others in it, as deep in a function as is one level too deep.
_DEEP = re.compile(
    rf"^ {{{4 * (MAX_DEPTH + 1)},}}(?:if|for|while|with|try|match|async)\b.*[:(\[{{] *(?:#.*)?$",
    re.MULTILINE,
)


def _may_be_too_large(text: str) -> bool:
    """Say, from how lines are indented, whether functions may be: parsing all takes seconds."""
    return _longest(text) > MAX_FUNCTION or _DEEP.search(text) is not None


def _longest(text: str) -> int:
    """Return of how many lines is the longest function, as far as indentation tells."""
    without = _TEXT.sub(lambda found: "0" + "\n" * found[0].count("\n"), text)
    starts: list[tuple[int, int]] = []
    longest = 0
    for number, line in enumerate(without.split("\n"), start=1):
        bare = line.lstrip(" ")
        if bare[:1].isalpha() or bare.startswith(("_", "@")):  # a statement, in its first line
            indent = len(line) - len(bare)
            while starts and starts[-1][0] >= indent:
                starts.pop()
            if bare.startswith(("def ", "async def ")):
                starts.append((indent, number))
        if starts and bare:
            longest = max(longest, number - starts[0][1] + 1)
    return longest


def test_functions_fit_a_screen_and_are_not_nested_deep():
    _check(path for path in MODULES if _may_be_too_large(path.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_functions_fit_a_screen_and_are_not_nested_deep_whatever_the_text_looks_like():
    _check(MODULES)


def _check(paths: Iterable[Path]) -> None:
    complaints = []
    for path in paths:
        for function in _functions(path.read_text(encoding="utf-8")):
            where = f"{place(path)}:{function.lineno}: {function.name}"
            length, depth = _length(function), _depth(function.body)
            complaints += [f"{where} has {length} lines"] if length > MAX_FUNCTION else []
            complaints += [f"{where} nests {depth} deep"] if depth > MAX_DEPTH else []
    assert not complaints, "\n".join(complaints)


def test_a_function_that_may_be_too_large_is_told_from_its_text():
    lines = "        a\n" * (MAX_FUNCTION - 1)
    assert not _may_be_too_large(f"class A:\n    def f(\n{lines}\n    b: int\n")
    assert _may_be_too_large(f"class A:\n    def f(\n    ):\n{lines}    b: int\n")
    assert _may_be_too_large(f'def f():\n    """A.\n\nB."""\n{lines}')
    deep = "".join(" " * 4 * n + "if a:\n" for n in range(1, MAX_DEPTH + 2))
    assert _may_be_too_large(f"def f():\n{deep}")
    assert _may_be_too_large(f"def f():\n{deep[:-1]}  # a reason\n")
    assert not _may_be_too_large("def f():\n    if a:\n")


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
