"""Every op, declared once, one file a family; an op shares its file with its adjoint."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from symgrad.graph.late_binding import provide


@provide
@functools.cache
def declare_all() -> None:
    """Import every family: a text may have ops that the program at hand does not.

    All functions that users know as ops are there without it (`symgrad/__init__.py`).
    """
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
