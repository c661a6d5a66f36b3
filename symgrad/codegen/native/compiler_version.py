"""Cache invalidation: a digest of the files that the compiler consists of.

What is kept of a graph or of loops, without the code that came of them, is right for the compiler
that made it and for no other.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from symgrad.codegen.native.object_store import digest_of

_SOURCES = ("graph", "passes", "codegen", "compiler.py", "cost_model.py")
_SETTLED = 10.0  # seconds: a file changed as lately may not be the one that was imported
_IMPORTED = time.time()


@cache
def compiler_version() -> str | None:
    """Return a digest of what turns a graph into a program; None if that is not known for sure."""
    root = Path(__file__).parents[2]
    states = [(path, path.stat()) for path in _source_files(root)]
    lately = max((state.st_mtime for _, state in states), default=_IMPORTED)
    if lately > _IMPORTED - _SETTLED:
        return None
    files = (f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in states)
    return digest_of(platform.python_version(), np.__version__, *files)


def _source_files(root: Path) -> Iterator[Path]:
    for name in _SOURCES:
        if name.endswith(".py"):
            yield root / name
        for folder, _, files in sorted(os.walk(root / name)):
            yield from (Path(folder, file) for file in sorted(files) if file.endswith(".py"))
