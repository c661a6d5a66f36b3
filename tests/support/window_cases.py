"""Rows of the table for windows: unfold and fold, and maxima with one gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.graph.ops.unfolding import fold_axes, unfold_axes
from symgrad.graph.ops.window_maxima import first_max
from tests.support.case import BOOL, NUMBERS, Case, Real
from tests.support.spatial_cases import SPATIAL

Array = np.ndarray[Any, Any]


def _unfolded(x: Array, window: int, stride: int, dilation: int) -> Array:
    """Return windows of the middle axis, one after another."""
    count = (x.shape[1] - dilation * (window - 1) - 1) // stride + 1
    rows = [x[:, o * stride :][:, : dilation * (window - 1) + 1 : dilation] for o in range(count)]
    return np.moveaxis(np.stack(rows, axis=1), 2, -1)


def _folded(y: Array, size: int, stride: int, dilation: int) -> Array:
    """Return the sum of windows of the middle axis, the last axis being that within them."""
    x = np.zeros((y.shape[0], size, y.shape[2]), y.dtype)
    for o in range(y.shape[1]):
        for w in range(y.shape[3]):
            x[:, o * stride + dilation * w] += y[:, o, :, w]
    return x


UNFOLDINGS: tuple[Case, ...] = (
    Case("unfold", "unfold", lambda x: unfold_axes(x, (1,), (3,), (2,), (1,)),
         lambda x: _unfolded(x, 3, 2, 1), (Real((2, 7, 3)),), (*BOOL, *NUMBERS),
         also=(((0, 3, 1),), ((2, 4, 0),))),
    Case("unfold_dilated", "unfold", lambda x: unfold_axes(x, (1,), (2,), (1,), (3,)),
         lambda x: _unfolded(x, 2, 1, 3), (Real((2, 6, 3)),), NUMBERS, also=(((1, 4, 1),),)),
    Case("unfold_side_by_side", "unfold", lambda x: unfold_axes(x, (1,), (2,), (2,), (1,)),
         lambda x: _unfolded(x, 2, 2, 1), (Real((2, 6, 3)),), NUMBERS, also=(((1, 2, 1),),)),
    Case("fold", "fold", lambda y: fold_axes(y, (1,), (y.shape[1] * 2 + 1,), (2,), (1,)),
         lambda y: _folded(y, y.shape[1] * 2 + 1, 2, 1), (Real((2, 3, 4, 3)),), NUMBERS,
         also=(((1, 1, 1, 3),), ((0, 2, 1, 3),)), symbolic=False),
    Case("fold_of_last_axis", "fold",
         lambda y: fold_axes(y, (1,), (y.shape[1] + 2,), (1,), (1,)),
         lambda y: _folded(y[:, :, None], y.shape[1] + 2, 1, 1)[:, :, 0], (Real((2, 5, 3)),),
         NUMBERS, also=(((1, 1, 3),), ((0, 2, 3),)), symbolic=False),
    Case("fold_with_gaps", "fold", lambda y: fold_axes(y, (1,), (y.shape[1] * 3,), (3,), (1,)),
         lambda y: _folded(y, y.shape[1] * 3, 3, 1), (Real((2, 3, 4, 2)),), NUMBERS,
         also=(((1, 1, 1, 2),),), symbolic=False),
    Case("fold_side_by_side", None,
         lambda y: fold_axes(y, (1,), (y.shape[1] * 2,), (2,), (1,)),
         lambda y: _folded(y, y.shape[1] * 2, 2, 1), (Real((2, 3, 4, 2)),), NUMBERS,
         also=(((1, 1, 1, 2),),), symbolic=False),
    Case("first_max", "first_max", lambda x: first_max(x, (1,)), lambda x: x.max(1),
         (Real((3, 4, 2)),), NUMBERS, also=(((1, 1, 1),), ((2, 3, 0),))),
)  # fmt: skip

WINDOWS: tuple[Case, ...] = (*UNFOLDINGS, *SPATIAL)
