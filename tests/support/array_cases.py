"""Rows of the table for the functions of arrays that are compositions: shapes and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import bfloat16, float32, int8
from tests.support.case import Case, Input, Real

# The ops that they are made of have rows for every dtype.
_FEW = (int8, float32)
_FLOATS = (bfloat16, float32)

_MATRIX = Real((3, 4))
_CUBE = Real((2, 3, 4))
_ROW = Real((4,))


def _row(
    name: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *inputs: Input,
    dtypes: Any = _FLOATS,
    order: int = 2,
    also: tuple[tuple[tuple[int, ...], ...], ...] = (),
    symbolic: bool = True,
    slack: float = 4.0,
) -> Case:
    return Case(name, None, build, expected, inputs, dtypes, order, also, symbolic, slack)


def _moved(
    name: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *inputs: Input,
    also: tuple[tuple[tuple[int, ...], ...], ...] = (),
    symbolic: bool = True,
) -> Case:
    """Return a row of what only moves elements: it rounds none of them."""
    return _row(
        name, build, expected, *inputs, dtypes=_FEW, also=also, symbolic=symbolic, slack=1.0
    )


_JOINED = (
    _moved("broadcast_arrays", lambda x, y: sg.concat(sg.broadcast_arrays(x, y)),
           lambda x, y: np.concatenate(np.broadcast_arrays(x, y)), Real((3, 1)), _ROW),
    _moved("meshgrid", lambda x, y: sg.stack(sg.meshgrid(x, y)),
           lambda x, y: np.stack(np.meshgrid(x, y)), Real((3,)), _ROW, also=(((0,), (2,)),)),
    _moved("meshgrid_ij", lambda x, y: sg.concat(sg.meshgrid(x, y, indexing="ij")),
           lambda x, y: np.concatenate(np.meshgrid(x, y, indexing="ij")), Real((3,)), _ROW),
    _moved("atleast_1d", sg.atleast_1d, np.atleast_1d, Real(()), also=(((2,),),)),
    _moved("atleast_2d", sg.atleast_2d, np.atleast_2d, _ROW, also=(((),), ((0,),))),
    _moved("atleast_3d", sg.atleast_3d, np.atleast_3d, _ROW, also=(((),), ((2, 3),), ((0, 2),))),
    _moved("hstack", lambda x, y: sg.hstack([x, y]), lambda x, y: np.hstack([x, y]),
           _MATRIX, Real((3, 2)), also=(((2,), (3,)), ((), ()))),
    _moved("vstack", lambda x, y: sg.vstack([x, y]), lambda x, y: np.vstack([x, y]),
           _MATRIX, _ROW, also=(((0, 4), (4,)),)),
    _moved("dstack", lambda x, y: sg.dstack([x, y]), lambda x, y: np.dstack([x, y]),
           _MATRIX, _MATRIX, also=(((2,), (2,)),)),
    _moved("column_stack", lambda x, y: sg.column_stack([x, y]),
           lambda x, y: np.column_stack([x, y]), Real((3, 2)), Real((3,))),
    _moved("array_split", lambda x: sg.concat(sg.array_split(x, 3)[::-1]),
           lambda x: np.concatenate(np.array_split(x, 3)[::-1]), _ROW, also=(((1,),), ((0,),)),
           symbolic=False),
    _moved("array_split_at", lambda x: sg.concat(sg.array_split(x, [1, -1, 9], 1)[::-1], axis=1),
           lambda x: np.concatenate(np.array_split(x, [1, -1, 9], 1)[::-1], axis=1), _MATRIX,
           symbolic=False),
    _moved("hsplit", lambda x: sg.hsplit(x, 2)[1], lambda x: np.hsplit(x, 2)[1], _MATRIX,
           also=(((4,),),)),
    _moved("vsplit", lambda x: sg.vsplit(x, [1])[1], lambda x: np.vsplit(x, [1])[1], _MATRIX),
    _moved("dsplit", lambda x: sg.dsplit(x, 2)[0], lambda x: np.dsplit(x, 2)[0], _CUBE),
    _moved("rot90", sg.rot90, np.rot90, _MATRIX, also=(((1, 1),), ((0, 2),))),
    _moved("rot90_back", lambda x: sg.rot90(x, -1, (1, 2)), lambda x: np.rot90(x, -1, (1, 2)),
           _CUBE),
    _moved("fliplr", sg.fliplr, np.fliplr, _MATRIX),
    _moved("flipud", sg.flipud, np.flipud, _ROW),
    _moved("ravel", sg.ravel, np.ravel, _CUBE, also=(((),), ((0, 2),))),
    _moved("repeat_each", lambda x: sg.repeat(x, [2, 0, 1, 3], axis=1),
           lambda x: np.repeat(x, [2, 0, 1, 3], axis=1), _MATRIX, symbolic=False),
    _moved("diag_of_vector", lambda x: sg.diag(x, -1), lambda x: np.diag(x, -1), _ROW,
           also=(((1,),), ((0,),))),
    _moved("diag_of_matrix", lambda x: sg.diag(x, 1), lambda x: np.diag(x, 1), _MATRIX,
           symbolic=False),
    _moved("diagflat", lambda x: sg.diagflat(x, 1), lambda x: np.diagflat(x, 1), Real((2, 2))),
    _moved("diagonal_of_last_axes", lambda x: sg.diagonal(x),
           lambda x: np.diagonal(x, 0, -2, -1), Real((2, 3, 3))),
    _moved("empty_like", lambda x: sg.add(x, sg.empty_like(x)), lambda x: x, _MATRIX),
)  # fmt: skip

_PADDED = (
    *(
        _moved(f"pad_{mode}", lambda x, mode=mode: sg.pad(x, ((1, 2), (5, 9)), mode),
               lambda x, mode=mode: np.pad(x, ((1, 2), (5, 9)), mode), _MATRIX,
               also=(((1, 1),),))
        for mode in ("edge", "reflect", "symmetric", "wrap")
    ),
    _moved("pad_by_each_constant",
           lambda x: sg.pad(x, 1, constant_values=((1, 2), (3, 4))),
           lambda x: np.pad(x, 1, constant_values=((1, 2), (3, 4))), _MATRIX, also=(((0, 2),),)),
)  # fmt: skip


def _nan_holes(x: Any) -> Any:
    """Return `x` with nan where it is above 1; tensors and arrays."""
    xp = sg if isinstance(x, sg.Tensor) else np
    return xp.where(x > 1, xp.full_like(x, np.nan), x)


def _of_holes(name: str, **options: Any) -> Case:
    ddof = {"ddof": options["correction"]} if "correction" in options else {}
    axes = {key: value for key, value in options.items() if key != "correction"}
    return _row(
        f"{name}_{'_'.join(options) or 'all'}",
        lambda x: getattr(sg, name)(_nan_holes(x), **options),
        lambda x: getattr(np, name)(_nan_holes(x), **axes, **ddof),
        Real((5, 3), kinks=(1.0,), zeros=0),
        slack=32,
    )


_MEASURED = (
    _row("var", sg.var, np.var, _MATRIX, also=(((1,),), ((),)), slack=8),
    _row("var_unbiased", lambda x: sg.var(x, 1, correction=1, keepdims=True),
         lambda x: np.var(x, 1, ddof=1, keepdims=True), _MATRIX, slack=8),
    _row("var_of_integers", lambda x: sg.var(x, axis=0), lambda x: np.var(x, axis=0), _MATRIX,
         dtypes=(int8,), order=0, slack=8),
    _row("std", lambda x: sg.std(x, axis=(0, 1), correction=0.5),
         lambda x: np.std(x, axis=(0, 1), ddof=0.5), _MATRIX, slack=8),
    _row("ptp", lambda x: sg.ptp(x, 1), lambda x: np.ptp(x, 1), _MATRIX, dtypes=_FEW),
    _row("average", lambda x, w: sg.average(x, axis=1, weights=w),
         lambda x, w: np.average(x, axis=1, weights=w), _MATRIX, Real((4,), 0.5, 2.0), slack=16),
    _row("average_of_all", lambda x, w: sg.average(x, weights=w),
         lambda x, w: np.average(x, weights=w), _MATRIX, Real((3, 4), 0.5, 2.0), slack=16),
    _row("count_nonzero", lambda x: sg.count_nonzero(x, axis=0),
         lambda x: np.count_nonzero(x, axis=0), Real((4, 3), zeros=5), dtypes=_FEW, order=0,
         also=(((0, 2),),)),
    *(_of_holes(name, axis=0)
      for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")),
    _of_holes("nanmean"),
    _of_holes("nanvar", axis=0, correction=1),
    _row("nan_to_num", lambda x: sg.nan_to_num(_nan_holes(x), 0.5),
         lambda x: np.nan_to_num(_nan_holes(x), nan=0.5), Real((3, 4), kinks=(1.0,))),
    _moved("diff", sg.diff, np.diff, _MATRIX, also=(((1,),), ((0, 2),), ((2, 0),))),
    _moved("diff_of_second_order", lambda x, y: sg.diff(x, axis=0, n=2, prepend=y, append=1),
           lambda x, y: np.diff(x, axis=0, n=2, prepend=y, append=1), _MATRIX, Real((2, 4))),
    _row("isclose", lambda x, y: sg.isclose(x, y, atol=0.5),
         lambda x, y: np.isclose(x, y, atol=0.5), _MATRIX, _ROW, dtypes=_FEW, order=0),
    _row("allclose", lambda x, y: sg.allclose(x, y, atol=9), lambda x, y: np.allclose(x, y, atol=9),
         _MATRIX, _ROW, dtypes=_FEW, order=0, also=(((0,), (0,)),)),
    _row("isin", sg.isin, np.isin, _MATRIX, Real((2, 2)), dtypes=_FEW, order=0,
         also=(((), ()), ((2,), (0,)))),
    _row("array_equal", lambda x: sg.array_equal(x, x + 0), lambda x: np.array_equal(x, x), _MATRIX,
         dtypes=_FEW, order=0),
)  # fmt: skip

ARRAY_CASES = (*_JOINED, *_PADDED, *_MEASURED)
