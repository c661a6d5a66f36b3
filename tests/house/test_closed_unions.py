"""Closed unions: the type checker names every place that must learn a new member.

A union is open as soon as one match over it has a case for whatever is left, or one place keeps a
list of its members by hand: then a new member goes by unseen.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from symgrad.codegen.loops.language import Expr, Stmt
from symgrad.codegen.program.language import Instr
from symgrad.graph.structures import KernelSpec
from tests.support.modules import statements

ROOT = Path(__file__).parents[2]
STRUCTURES = "symgrad/graph/structures.py"
LOOPS = "symgrad/codegen/loops/language.py"
PROGRAM = "symgrad/codegen/program/language.py"
MEMBERS = {
    "symgrad.graph.structures": {cls.__name__ for cls in get_args(KernelSpec)},
    "symgrad.codegen.loops.language": {cls.__name__ for cls in (*get_args(Stmt), *get_args(Expr))},
    "symgrad.codegen.program.language": {cls.__name__ for cls in get_args(Instr)},
}

# The modules that can know a member.
TEXTS = {
    path: text
    for path in sorted((ROOT / "symgrad").rglob("*.py"))
    if any(module in (text := path.read_text(encoding="utf-8")) for module in MEMBERS)
    or str(path.relative_to(ROOT)) in (STRUCTURES, LOOPS, PROGRAM)
}

# By the file and the name of a union: files that mypy must name when it has one more member.
PLACES = {
    (STRUCTURES, "KernelSpec"): {
        STRUCTURES,
        "symgrad/passes/costs.py",
        "symgrad/passes/sparsity/dependence.py",
        "symgrad/passes/placement/propagate.py",
        "symgrad/codegen/lower/groups.py",
        "symgrad/codegen/lower/values.py",
    },
    (STRUCTURES, "Nested"): {
        STRUCTURES,
        "symgrad/passes/costs.py",
        "symgrad/passes/sparsity/dependence.py",
        "symgrad/passes/placement/propagate.py",
        "symgrad/codegen/lower/groups.py",
        "symgrad/codegen/lower/values.py",
        "symgrad/codegen/program/build.py",
    },
    (LOOPS, "Stmt"): {
        "symgrad/codegen/kernel_costs.py",
        "symgrad/codegen/llvm/kernels.py",
        "symgrad/codegen/loops/access.py",
        "symgrad/codegen/loops/print.py",
        "symgrad/codegen/loops/rewrite.py",
        "symgrad/codegen/loops/run.py",
        "symgrad/codegen/loops/verify.py",
        "symgrad/codegen/program/registers.py",
        "symgrad/codegen/schedule/licm.py",
        "symgrad/codegen/schedule/reasons.py",
        "symgrad/codegen/schedule/relocate.py",
    },
    (LOOPS, "Expr"): {
        "symgrad/codegen/llvm/expressions.py",
        "symgrad/codegen/loops/print.py",
        "symgrad/codegen/loops/rewrite.py",
        "symgrad/codegen/loops/run.py",
        "symgrad/codegen/loops/verify.py",
        "symgrad/codegen/lower/scope.py",
        "symgrad/codegen/program/registers.py",
    },
    (PROGRAM, "Instr"): {
        "symgrad/codegen/llvm/instructions.py",
        "symgrad/codegen/program/arena.py",
        "symgrad/codegen/program/equal_loops.py",
        "symgrad/codegen/program/language.py",
        "symgrad/codegen/program/polls.py",
        "symgrad/codegen/program/print.py",
        "symgrad/codegen/program/registers.py",
        "symgrad/codegen/program/run.py",
        "symgrad/codegen/program/verify.py",
    },
}


def _added(union: str) -> str:
    return f"Added{union}"


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """Return what mypy says of a copy of the package whose unions have one more member each."""
    copy = tmp_path_factory.mktemp("closed_unions")
    shutil.copytree(ROOT / "symgrad", copy / "symgrad", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "setup.cfg", copy)
    if (ROOT / ".mypy_cache").exists():  # then only what is downstream of the unions is checked
        shutil.copytree(ROOT / ".mypy_cache", copy / ".mypy_cache")
    for place, union in PLACES:
        text = (copy / place).read_text(encoding="utf-8")
        member = f'class {_added(union)}:\n    """One more."""\n\n\n{union} = {_added(union)} | '
        text, count = re.subn(rf"^{union} = ", member, text, flags=re.MULTILINE)
        assert count == 1, f"{place} declares {union} in one line"
        (copy / place).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "symgrad"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if ": error: " in line]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "union"), PLACES)
def test_mypy_names_each_file_that_must_learn_a_new_member(complaints, place, union):
    named = {line.partition(":")[0] for line in complaints if _added(union) in line}
    unnamed = PLACES[place, union] - named
    assert unnamed == set()


@cache
def _tree(text: str) -> ast.Module:
    """Parse a module once for all tests that look at it."""
    return ast.parse(text)


def _members_in(tree: ast.Module, path: Path) -> set[str]:
    """Return the names by which a module knows members of the unions."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    found = set(MEMBERS.get(module, ()))
    for node in statements(tree.body):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names} & MEMBERS.get(node.module or "", set())
    return found


def _patterns(pattern: ast.pattern | None) -> Iterator[ast.pattern]:
    """Yield the patterns that the subject itself, not a part of it, is held against."""
    match pattern:
        case ast.MatchOr():
            for part in pattern.patterns:
                yield from _patterns(part)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            yield from _patterns(inner)
        case ast.pattern():
            yield pattern
        case None:
            pass


def _is_over(match: ast.Match, members: set[str]) -> bool:
    patterns = (p for case in match.cases for p in _patterns(case.pattern))
    return any(
        isinstance(p, ast.MatchClass) and isinstance(p.cls, ast.Name) and p.cls.id in members
        for p in patterns
    )


def _takes_what_is_left(case: ast.match_case) -> bool:
    is_any = any(isinstance(p, ast.MatchAs) for p in _patterns(case.pattern))
    return is_any and not ast.unparse(case.body[0]).startswith("assert_never(")


def _open_matches(text: str, path: Path) -> list[int]:
    """Return the lines of cases that take whatever members of a union are left."""
    tree = _tree(text)
    members = _members_in(tree, path)
    every = (n for n in statements(tree.body) if isinstance(n, ast.Match)) if members else ()
    matches = (match for match in every if _is_over(match, members))
    return [c.pattern.lineno for m in matches for c in m.cases if _takes_what_is_left(c)]


def _hand_kept_lists(text: str, path: Path) -> list[int]:
    """Return the lines that ask for one of several members by their names."""
    tree = _tree(text)
    members = _members_in(tree, path)
    found = []
    for node in ast.walk(tree) if members else ():
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.expr() as value]):
                pass
            case ast.Assign(value=ast.expr() as value):
                pass
            case _:
                continue
        if isinstance(value, ast.BinOp | ast.Tuple):
            names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            found += [value.lineno] if len(members & names) > 1 else []
    return found


def _not_empty(found: Mapping[str, list[int]]) -> dict[str, list[int]]:
    return {place: lines for place, lines in found.items() if lines}


def test_no_match_over_a_union_has_a_case_for_whatever_is_left():
    found = {str(path): _open_matches(text, path) for path, text in TEXTS.items()}
    assert _not_empty(found) == {}


def test_members_of_a_union_are_listed_only_where_it_is_declared():
    declarations = {ROOT / place for place, _ in PLACES}
    others = ((path, text) for path, text in TEXTS.items() if path not in declarations)
    assert _not_empty({str(path): _hand_kept_lists(text, path) for path, text in others}) == {}


def test_the_checks_find_what_they_look_for():
    head = "from symgrad.graph.structures import Map, View\n"
    lists = "isinstance(x, Map | View)", "isinstance(x, (Map, View))", "MOVES = (Map, View)"
    for text in lists:
        assert _hand_kept_lists(head + text, ROOT / "any.py") == [2]
    assert _hand_kept_lists(head + "isinstance(x, Map)", ROOT / "any.py") == []
    match = "match x:\n  case Map() | View():\n    y\n  case {}:\n    {}"
    assert _open_matches(head + match.format("_", "pass"), ROOT / "any.py") == [5]
    assert _open_matches(head + match.format("other", "pass"), ROOT / "any.py") == [5]
    assert _open_matches(head + match.format("_", "assert_never(x)"), ROOT / "any.py") == []
    assert _open_matches(match.format("_", "pass"), ROOT / "any.py") == []
