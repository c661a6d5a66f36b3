"""Cache invalidation: a digest of the files that the compiler consists of.

What is kept of a graph or of loops, without the code that came of them, is right for the compiler
that made it and for no other. So is what these files alone determine, such as the text of a module
that is the same for all programs: a process makes it once for those after it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from symgrad.codegen.native.object_store import EntryKey, digest_of, object_store

_SOURCES = ("graph", "passes", "codegen", "compiler.py", "cost_model", "errors.py", "records.py")
_RECORDS = "runtime/stored_program.py"  # how what is kept of a program is written
# All that a leaf function is made by, and nothing else; a test says whether it is all.
_SOURCES_OF_LEAVES = (
    *("codegen/contract/**/*.py", "codegen/ir/*.py", "codegen/loops/blocking.py"),
    *("codegen/loops/strided.py", "codegen/matrix_unit.py", "codegen/target.py"),
    *("codegen/target_attributes.py", "codegen/vectors.py", "graph/aligned.py", "graph/dtypes.py"),
    *("graph/foreign_functions.py", "graph/huge_pages.py", "graph/identity.py"),
    *("graph/late_binding.py", "graph/sizes.py", "graph/types.py"),
    *("graph/whole_copies.py", "cost_model/*.py", "errors.py", "records.py"),
)
_PACKAGE = Path(__file__).parents[2]
_SETTLED = 10.0  # seconds: a file changed as lately may not be the one that was imported
_IMPORTED = time.time()


@cache
def compiler_version() -> str | None:
    """Return a digest of what turns a graph into a program; None if that is not known for sure."""
    return _version(f"{_PACKAGE}/{name}" for name in (*_SOURCES, _RECORDS))


@cache
def caller_version() -> str | None:
    """Return a digest of what emits the code that calls steps; None if that is not known."""
    runtime = _version([f"{_PACKAGE}/runtime"], goes_down=False)
    compiler = compiler_version()
    return None if compiler is None or runtime is None else digest_of(compiler, runtime)


def leaf_version() -> str | None:
    """Return a digest of what emits leaf functions; None if that is not known for sure."""
    version = compiler_version()
    return None if version is None else kept_text("leaves", version, sources_of_leaves)


def kept_text(what: str, version: str, make: Callable[[], str]) -> str:
    """Return a text that a version determines: what a process before has made, or makes now."""
    store, key = object_store(), EntryKey("derived", what, version)
    found = None if store is None else store.read(key)
    if found is not None:
        return found.decode()
    made = make()
    if store is not None:
        store.write(key, made.encode())
    return made


@cache
def sources_of_leaves() -> str:
    """Return a digest of the files that emit leaf functions, whether they were imported or not.

    It is of their contents, and so the same wherever a version is installed.
    """
    found = (path for pattern in _SOURCES_OF_LEAVES for path in _PACKAGE.glob(pattern))
    state, root = hashlib.blake2b(digest_size=16), f"{_PACKAGE.as_posix()}/"
    for path in sorted([path.as_posix() for path in found]):
        with open(path, "rb", buffering=0) as opened:  # noqa: PTH123
            content = opened.read()
        state.update(f"{path.removeprefix(root)} {len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()


def _version(places: Iterable[str], *, goes_down: bool = True) -> str | None:
    states = _states(places, goes_down=goes_down)
    changed = _times_of_change(states)
    # Modules in an archive, or compiled ones alone, have no sources to be told from others by.
    if not changed or max(changed.values()) > (_IMPORTED - _SETTLED) * 1e9:
        return None
    files = [f"{path} {states[path].st_size} {changed[path]}" for path in sorted(states)]
    return digest_of(platform.python_version(), np.__version__, "\0".join(files))


def _times_of_change(states: Mapping[str, os.stat_result]) -> dict[str, int]:
    """Return when each file was last changed, in nanoseconds.

    Builds that are to be the same bit for bit give all files one time of modification, in every
    version. It tells nothing then, and what counts is when a file came to be where it is.
    """
    modified = {path: state.st_mtime_ns for path, state in states.items()}
    if len(set(modified.values())) > 1:
        return modified
    return {path: state.st_ctime_ns for path, state in states.items()}


def _states(places: Iterable[str], *, goes_down: bool) -> dict[str, os.stat_result]:
    """Return the sources among some files and in some folders, by path.

    What has no extension is a folder.
    """
    found = {}
    pending = [*places]
    while pending:
        place = pending.pop()
        with suppress(FileNotFoundError, NotADirectoryError):
            if place.endswith(".py"):
                # An entry that `scandir` yields, and a `Path`, take twice as long to ask.
                found[place] = os.stat(place)  # noqa: PTH116
            else:
                pending += _inside(place, goes_down=goes_down)
    return found


def _inside(folder: str, *, goes_down: bool) -> list[str]:
    """Return the sources in a folder, and the folders."""
    names = [n for n in os.listdir(folder) if n.endswith(".py") or (goes_down and "." not in n)]  # noqa: PTH208
    # What Python has compiled are as many files again, and no sources.
    return [f"{folder}/{name}" for name in names if name != "__pycache__"]
