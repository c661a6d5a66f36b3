"""Late binding: what methods of tensors and graphs call by name, because it lies above them.

A tensor is below the ops, which are made of tensors, and a graph below its text: so the functions
are put into this table when their modules are imported. It is not the table of ops (`opdef.py`),
nor that of the functions users know as ops (`public_ops.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

BoundFunction = TypeVar("BoundFunction", bound=Callable[..., Any])

_PROVIDED: dict[str, Callable[..., Any]] = {}
_MODULES: dict[str, str] = {}  # by the name of a function that is not provided yet, its module


def provide(function: BoundFunction) -> BoundFunction:
    """Make `function` what is called by its name; a decorator that leaves it as it is."""
    name = function.__name__
    assert name not in _PROVIDED, f"{name} is provided twice"
    _PROVIDED[name] = function
    return function


def provide_from(module: str, *names: str) -> None:
    """Make functions of a module what is called by their names; it is imported by the first call.

    That is for what most programs never call.
    """
    _MODULES.update(dict.fromkeys(names, module))


def wrap_provided(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put `wrap(function)` in the place of each function provided so far.

    So what is above ops can make all of them take more than tensors: nests of them, for instance.
    """
    _PROVIDED.update({name: wrap(function) for name, function in _PROVIDED.items()})


def provided(name: str) -> Callable[..., Any]:
    """Return the function provided under `name`."""
    found = _PROVIDED.get(name)
    if found is None:
        function = getattr(importlib.import_module(_MODULES[name]), name)
        found = _PROVIDED.setdefault(name, function)  # its module may have done so
    return found
