"""The functions that operators and methods of `Tensor` call, by name.

Tensors are below the ops, which are made of them: so the ops put their public functions into this
table when they are imported. It is not the table of ops, which is in `opdef.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.graph.container import leafwise

PublicOp = Callable[..., Any]
_PUBLIC_OPS: dict[str, PublicOp] = {}


def provide(name: str, function: PublicOp) -> None:
    """Make `function` what the operators and methods of `Tensor` call under `name`.

    It then maps over the leaves of a container: `tensor + container` is one.
    """
    assert name not in _PUBLIC_OPS, f"{name} is provided twice"
    _PUBLIC_OPS[name] = leafwise(function)


def public_op(name: str) -> PublicOp:
    """Return the function provided under `name`."""
    return _PUBLIC_OPS[name]
