"""Dispatch table of `Tensor`: the functions that its operators and methods call, by name.

Tensors are below the ops, which are made of them: so the ops put their public functions into this
table when they are imported. It is not the table of ops, which is in `opdef.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PublicOp = Callable[..., Any]
_PUBLIC_OPS: dict[str, PublicOp] = {}


def provide(name: str, function: PublicOp) -> None:
    """Make `function` what the operators and methods of `Tensor` call under `name`."""
    assert name not in _PUBLIC_OPS, f"{name} is provided twice"
    _PUBLIC_OPS[name] = function


def wrap_public_ops(wrap: Callable[[PublicOp], PublicOp]) -> None:
    """Put `wrap(function)` in the place of each function provided so far.

    So what is above ops can make all of them take more than tensors: nests of them, for instance.
    """
    _PUBLIC_OPS.update({name: wrap(function) for name, function in _PUBLIC_OPS.items()})


def public_op(name: str) -> PublicOp:
    """Return the function provided under `name`."""
    return _PUBLIC_OPS[name]
