"""Dispatch table of public ops: the one declaration of each stands above its definition.

    @public(is_standard=True, ufuncs=[np.exp])
    def exp(x: Any, /) -> Tensor:

From it are made what operators and methods of tensors call, the Array API's namespace, what stands
for NumPy's functions, which functions map over containers, and `docs/ops.md`. It is not the table
of the ops that nodes have, which is in `opdef.py`: `mean` is a function and no such op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad import suggestions
from symgrad.graph.late_binding import BoundFunction, provide
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class PublicOp:
    """A function that users know as an op.

    One that `is_standard` is in the Array API under its name. On tensors it stands for each of
    `ufuncs`, for the methods `reduce` of `reduces` and `accumulate` of `accumulates`, and for each
    of NumPy's `functions`, whose arguments it takes as they are.
    """

    function: Callable[..., Any]
    is_standard: bool
    ufuncs: Sequence[np.ufunc]
    reduces: np.ufunc | None
    accumulates: np.ufunc | None
    functions: Sequence[Callable[..., Any]]


PUBLIC_OPS: dict[str, PublicOp] = {}
UFUNCS: dict[np.ufunc, PublicOp] = {}
REDUCTIONS: dict[np.ufunc, PublicOp] = {}
ACCUMULATIONS: dict[np.ufunc, PublicOp] = {}
FUNCTIONS: dict[Callable[..., Any], PublicOp] = {}


def public(
    *,
    is_standard: bool = False,
    ufuncs: Sequence[np.ufunc] = (),
    reduces: np.ufunc | None = None,
    accumulates: np.ufunc | None = None,
    functions: Sequence[Callable[..., Any]] = (),
    known_as: Sequence[str] = (),
) -> Callable[[BoundFunction], BoundFunction]:
    """Declare a function to be an op that users know by its name; see `PublicOp`.

    `known_as` is what other libraries call it, for the hints of errors.
    """

    def declare(function: BoundFunction) -> BoundFunction:
        made = PublicOp(provide(function), is_standard, ufuncs, reduces, accumulates, functions)
        PUBLIC_OPS[function.__name__] = made
        _enter(UFUNCS, ufuncs, made)
        _enter(REDUCTIONS, () if reduces is None else [reduces], made)
        _enter(ACCUMULATIONS, () if accumulates is None else [accumulates], made)
        _enter(FUNCTIONS, functions, made)
        suggestions.known_as(*known_as)(function)
        return function

    return declare


def _enter(table: dict[Any, PublicOp], keys: Sequence[Any], op: PublicOp) -> None:
    for key in keys:
        assert key not in table, f"two ops stand for {key.__name__}"
        table[key] = op
