"""Lazy loading: public modules that are imported when somebody asks for one of their names.

A first step needs few of the modules that users may want, and importing takes a tenth of a
millisecond for each at least. Nor does a graph with its gradients need those of the compiler and
LLVM, which take longer to import than all else: `sg.compile` is late, too. Which are late is said
by the modules that list public names (`symgrad/__init__.py`); what looks through all public names,
as hints of errors do, loads them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

_AWAITED: dict[str, None] = {}  # modules by their paths, in the order in which they are loaded


def await_modules(paths: Iterable[str]) -> None:
    """Make modules known that are imported when they are needed."""
    _AWAITED.update(dict.fromkeys(paths))


def load_awaited() -> None:
    """Import all that is awaited."""
    while _AWAITED:
        path = next(iter(_AWAITED))
        importlib.import_module(path)
        _AWAITED.pop(path, None)
