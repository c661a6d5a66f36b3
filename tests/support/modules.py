"""The files of the house that are looked at one by one, and the statements of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("symgrad", "tests", "examples", "benchmarks", "tools")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def place(path: Path) -> str:
    """Return where a file is in the repository."""
    return str(path.relative_to(ROOT))


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of `body` and of those in them, at any depth.

    Most nodes of a tree are expressions, so this takes a tenth of what `ast.walk` does.
    """
    for statement in body:
        yield statement
        for inner in ("body", "orelse", "finalbody"):
            yield from statements(getattr(statement, inner, ()))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from statements(part.body)
