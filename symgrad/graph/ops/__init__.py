"""Every op, declared once, one file a family; an op shares its file with its adjoint."""

from __future__ import annotations

import functools
import importlib
import pkgutil


@functools.cache
def declare_all() -> None:
    """Import every family: a text and the Array API have ops that the program at hand may not."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
