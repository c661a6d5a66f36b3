"""Rows of the table for ops that move, fold, contract or index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.ops.gathering import gather, iota, set_rows
from symgrad.graph.ops.greatest_numbers import greatest_number
from symgrad.graph.ops.numeric_checks import stop_if
from symgrad.graph.ops.structure import broadcast_to
from tests.support.case import BOOL, FLOATS, NUMBERS, Case, Real, Whole

_EVERY = (*BOOL, *NUMBERS)


def _view(
    name: str,
    op: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    also: tuple[tuple[tuple[int, ...], ...], ...] = (),
    symbolic: bool = True,
) -> Case:
    inputs = tuple(Real(shape) for shape in shapes)
    return Case(name, op, build, expected, inputs, _EVERY, 2, also, symbolic)


_VIEWS = (
    _view(
        "reshape",
        "reshape",
        lambda x: sg.reshape(x, (x.shape[1], -1)),
        lambda x: x.reshape(x.shape[1], -1 if x.size else 0),
        (3, 4),
        also=(((1, 1),), ((0, 3),)),
    ),
    _view("permute_dims", "permute_dims", lambda x: sg.permute_dims(x, (2, 0, 1)),
          lambda x: np.transpose(x, (2, 0, 1)), (2, 3, 4), also=(((0, 1, 2),),)),
    _view("broadcast_to", "broadcast_to", lambda x: broadcast_to(x, (5, *x.shape[:1], 4)),
          lambda x: np.broadcast_to(x, (5, x.shape[0], 4)), (3, 1), also=(((1, 1),), ((0, 1),))),
    _view("slice", "slice", lambda x: x[:, 1:4], lambda x: x[:, 1:4], (3, 5),
          also=(((2, 0),), ((2, 1),), ((0, 3),))),
    _view("slice_every_second", "slice", lambda x: x[1::2, ::2], lambda x: x[1::2, ::2], (5, 4),
          also=(((0, 1),), ((1, 1),))),
    _view("slice_backwards", "slice", lambda x: x[::-1, 3:0:-2], lambda x: x[::-1, 3:0:-2], (3, 6),
          also=(((0, 1),), ((1, 3),))),
    _view("slice_from_the_end", "slice", lambda x: x[-2:, :-1], lambda x: x[-2:, :-1], (3, 6),
          also=(((1, 1),), ((0, 0),))),
    _view("pad", "pad", lambda x: sg.pad(x, ((1, 2), (0, 1)), constant_values=1),
          lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=1), (3, 4),
          also=(((0, 2),), ((1, 1),))),
    _view("concat", "concat", lambda x, y: sg.concat([x, y, x], axis=1),
          lambda x, y: np.concatenate([x, y, x], axis=1), (2, 3), (2, 4),
          also=(((2, 0), (2, 1)), ((0, 3), (0, 3)))),
    _view("stack", "concat", lambda x, y: sg.stack([x, y], axis=1),
          lambda x, y: np.stack([x, y], axis=1), (2, 3), (2, 3)),
    _view("flip", "slice", lambda x: sg.flip(x, 1), lambda x: np.flip(x, 1), (2, 3)),
    _view("expand_dims", "reshape", lambda x: sg.expand_dims(x, axis=(0, -1)),
          lambda x: np.expand_dims(x, (0, -1)), (2, 3)),
    _view("squeeze", "reshape", lambda x: sg.squeeze(x, 1), lambda x: np.squeeze(x, 1), (2, 1, 3)),
    _view("matrix_transpose", "permute_dims", sg.matrix_transpose,
          lambda x: np.swapaxes(x, -1, -2), (2, 3, 4)),
    _view("moveaxis", "permute_dims", lambda x: sg.moveaxis(x, (0, 2), (-1, 0)),
          lambda x: np.moveaxis(x, (0, 2), (-1, 0)), (2, 3, 4)),
    _view("roll", "concat", lambda x: sg.roll(x, (1, -2), axis=(0, 1)),
          lambda x: np.roll(x, (1, -2), axis=(0, 1)), (3, 4), also=(((0, 4),), ((1, 1),))),
    Case("roll_computed", None, lambda x, shift: sg.roll(x, shift, axis=0),
         lambda x, shift: np.roll(x, int(shift), axis=0), (Real((3, 4)), Whole((), -9, 10)),
         _EVERY, 2, also=(((0, 4), ()), ((1, 2), ()))),
    _view("tile", "broadcast_to", lambda x: sg.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), (4,)),
    _view("repeat", "broadcast_to", lambda x: sg.repeat(x, 2, axis=1),
          lambda x: np.repeat(x, 2, axis=1), (3, 4)),
    _view("split", "slice", lambda x: sg.split(x, 2, axis=1)[1],
          lambda x: np.split(x, 2, axis=1)[1], (3, 4)),
    _view("unstack", "slice", lambda x: sg.unstack(x, axis=1)[2], lambda x: x[:, 2], (2, 3),
          symbolic=False),
    _view("diagonal", "slice", lambda x: sg.diagonal(x, 1), lambda x: np.diagonal(x, 1), (3, 4),
          symbolic=False, also=(((4, 3),), ((1, 1),), ((2, 0),))),
    _view("tril", "where", sg.tril, np.tril, (3, 4)),
    _view("triu", "where", lambda x: sg.triu(x, k=1), lambda x: np.triu(x, 1), (3, 4)),
)  # fmt: skip


def _reduction(
    name: str,
    expected: Callable[..., Any],
    given: Real,
    accepts: tuple[DType, ...] = NUMBERS,
    order: int = 2,
    also: tuple[tuple[tuple[int, ...], ...], ...] = (((1, 1, 1),), ((2, 3, 0),)),
    op: str | None = None,
    symbolic: bool = True,
    suffix: str = "",
) -> tuple[Case, ...]:
    function = getattr(sg, name)
    rows = (
        ("all", lambda x: function(x), lambda x: expected(x, axis=None)),
        ("middle", lambda x: function(x, axis=1), lambda x: expected(x, axis=1)),
        ("outer", lambda x: function(x, axis=(0, -1), keepdims=True),
         lambda x: expected(x, axis=(0, 2), keepdims=True)),
    )  # fmt: skip
    return tuple(
        Case(f"{name}_{row}{suffix}", op or name, build, wanted, (given,), accepts, order, also,
             symbolic=symbolic, slack=16)
        for row, build, wanted in rows
    )  # fmt: skip


def _search(name: str) -> tuple[Case, ...]:
    function, expected = getattr(sg, name), getattr(np, name)
    given = (Real(_BLOCK),)
    return tuple(
        Case(
            f"{name}_{axis}",
            name,
            lambda x, axis=axis: function(x, axis),
            lambda x, axis=axis: expected(x, axis=axis),
            given,
            NUMBERS,
            order=0,
            also=(((1, 1, 1),),),
        )
        for axis in (None, 0, -1)
    )


_BLOCK = (2, 3, 4)

_REDUCTIONS = (
    *_reduction("sum", np.sum, Real(_BLOCK), accepts=_EVERY),
    *_reduction("mean", np.mean, Real(_BLOCK), op="divide", also=(((1, 1, 1),),)),
    *_reduction("prod", np.prod, Real(_BLOCK, 0.5, 1.5)),
    *_reduction("prod", np.prod, Real(_BLOCK, 0.5, 2.0, zeros=2), accepts=FLOATS,
                suffix="_with_zeros"),
    *_reduction("max", np.max, Real(_BLOCK), also=(((1, 1, 1),),)),
    *_reduction("min", np.min, Real(_BLOCK), also=(((1, 1, 1),),)),
    *_reduction("any", np.any, Real(_BLOCK), accepts=_EVERY, order=0),
    *_reduction("all", np.all, Real(_BLOCK), accepts=_EVERY, order=0),
    *_search("argmax"),
    *_search("argmin"),
    *(Case(f"fmax_{axes}", "fmax", lambda x, axes=axes: greatest_number(x, axes),
           lambda x, axes=axes: np.fmax.reduce(x, axis=axes, keepdims=True, initial=-np.inf),
           (Real(_BLOCK),), FLOATS, order=0, also=(((1, 1, 1),), ((2, 3, 0),)))
      for axes in ((1,), (0, 1))),
)  # fmt: skip


def _product(
    name: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    also: tuple[tuple[tuple[int, ...], ...], ...] = (),
    symbolic: bool = True,
) -> Case:
    inputs = tuple(Real(shape) for shape in shapes)
    return Case(name, "einsum", build, expected, inputs, NUMBERS, 2, also, symbolic, slack=16)


_SQUARES = (((1, 1), (1, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)))

_CONTRACTIONS = (
    _product("matmul", sg.matmul, np.matmul, (3, 4), (4, 2), also=_SQUARES),
    _product("matmul_vectors", sg.matmul, np.matmul, (4,), (4,), also=(((0,), (0,)),)),
    _product("matmul_row", sg.matmul, np.matmul, (4,), (2, 4, 3)),
    _product("matmul_column", sg.matmul, np.matmul, (2, 3, 4), (4,)),
    _product("matmul_batch", sg.matmul, np.matmul, (2, 1, 3, 4), (5, 4, 2)),
    _product("matmul_transposed", lambda a, b: sg.matmul(a, b, transpose_a=True, transpose_b=True),
             lambda a, b: np.matmul(a.T, b.T), (4, 3), (2, 4)),
    _product("tensordot", sg.tensordot, np.tensordot, (2, 3, 4), (3, 4, 2)),
    _product("tensordot_pairs", lambda a, b: sg.tensordot(a, b, axes=((0, 2), (1, 0))),
             lambda a, b: np.tensordot(a, b, axes=((0, 2), (1, 0))), (2, 3, 4), (4, 2, 5)),
    _product("vecdot", sg.vecdot, np.vecdot, (2, 3, 4), (3, 4)),
    _product("dot", sg.dot, np.dot, (2, 3, 4), (5, 4, 2)),
    _product("outer", sg.outer, np.outer, (2,), (3,), also=(((), (3,)), ((0,), (3,)))),
    _product("einsum", lambda a, b: sg.einsum("bij,bkj->bik", a, b),
             lambda a, b: np.einsum("bij,bkj->bik", a, b), (2, 3, 4), (2, 5, 4)),
    _product("einsum_of_three", lambda a, b, c: sg.einsum("ij,jk,kl->il", a, b, c),
             lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c), (2, 3), (3, 4), (4, 5)),
    _product("einsum_diagonal", lambda a, b: sg.einsum("iij,j->i", a, b),
             lambda a, b: np.einsum("iij,j->i", a, b), (3, 3, 2), (2,)),
    _product("einsum_ellipsis", lambda a, b: sg.einsum("...ij,...j->...i", a, b),
             lambda a, b: np.einsum("...ij,...j->...i", a, b), (2, 3, 4), (1, 4)),
)  # fmt: skip

_INDEXING = (
    Case("gather", "gather", lambda x, i, j: gather(x, [i, j], 1),
         lambda x, i, j: x[:, i, j], (Real((2, 3, 4)), Whole((5,), -3, 3), Whole((5,), 0, 4)),
         _EVERY, also=(((2, 3, 4), (0,), (0,)), ((2, 3, 4), (), ()), ((0, 3, 4), (2,), (2,)))),
    Case("check_numerics", "check_numerics", lambda flags: stop_if(flags, ("a", "b", "c")),
         np.zeros_like, (Whole((3,), 0, 1),), symbolic=False),
    Case("take", "gather", lambda x, i: sg.take(x, i, axis=1), lambda x, i: np.take(x, i, axis=1),
         (Real((2, 3, 4)), Whole((2, 2), -3, 3)), _EVERY),
    Case("take_flat", "gather", sg.take, np.take, (Real((2, 3)), Whole((4,), -6, 6)), _EVERY),
    Case("take_along_axis", "gather", lambda x, i: sg.take_along_axis(x, i, axis=1),
         lambda x, i: np.take_along_axis(x, i, axis=1),
         (Real((2, 3, 4)), Whole((2, 5, 1), -3, 3)), _EVERY),
    Case("scatter_add", "scatter_add", sg.scatter_add,
         lambda base, i, updates: _scattered(base, i, updates),
         (Real((3, 2)), Whole((5,), -3, 3), Real((5, 2))), NUMBERS,
         also=(((3, 2), (0,), (0, 2)), ((3, 2), (2, 2), (2, 2, 2)), ((3, 2), (), (2,)))),
    Case("scatter_set", "scatter_set", lambda base, i, updates: set_rows(base, updates, [i], 0),
         lambda base, i, updates: _written(base, i, updates),
         (Real((3, 2)), Whole((5,), -3, 3), Real((5, 2))), _EVERY,
         also=(((3, 2), (0,), (0, 2)), ((3, 2), (2, 2), (2, 2, 2)), ((3, 2), (), (2,)))),
    Case("scatter_set_inner", "scatter_set",
         lambda base, i, j, updates: set_rows(base, updates, [i, j], 1),
         lambda base, i, j, updates: _written_inside(base, i, j, updates),
         (Real((2, 3, 4, 2)), Whole((5,), -3, 3), Whole((5,), 0, 4), Real((2, 5, 2))), _EVERY,
         also=(((2, 3, 4, 2), (0,), (0,), (2, 0, 2)), ((2, 3, 4, 1), (1,), (1,), (2, 1, 1)))),
    Case("iota", "iota", lambda x: sg.add(x, sg.astype(iota(x.shape, 0), x.dtype)),
         lambda x: x + np.arange(x.shape[0]).reshape(-1, 1).astype(x.dtype), (Real((3, 2)),),
         NUMBERS, also=(((0, 2),), ((1, 1),))),
    Case("one_hot", "iota", lambda i: sg.one_hot(i, 4, dtypes.float64, 0),
         lambda i: np.moveaxis(np.eye(4)[i], -1, 0), (Whole((2, 3), 0, 4),), (dtypes.int64,),
         order=0, also=(((),), ((0,),))),
    Case("getitem_arrays", "gather", lambda x, i, j: x[i, :, None, j],
         lambda x, i, j: x[i, :, None, j],
         (Real((2, 3, 4)), Whole((5, 1), -2, 2), Whole((3,), 0, 4)), _EVERY),
    Case("getitem_mask", "gather", lambda x: x[np.array([True, False, True])],
         lambda x: x[[0, 2]], (Real((3, 2)),), _EVERY, symbolic=False),
)  # fmt: skip


def _scattered(base: Any, indices: Any, updates: Any) -> Any:
    wide = base.copy()
    for place in np.ndindex(indices.shape):
        wide[indices[place]] += updates[place]
    return wide


def _written(base: Any, indices: Any, updates: Any) -> Any:
    rows = base.copy()
    for place in np.ndindex(indices.shape):
        rows[indices[place]] = updates[place]
    return rows


def _written_inside(base: Any, i: Any, j: Any, updates: Any) -> Any:
    rows = base.copy()
    for place in range(len(i)):
        rows[:, i[place], j[place]] = updates[:, place]
    return rows


STRUCTURAL = (*_VIEWS, *_REDUCTIONS, *_CONTRACTIONS, *_INDEXING)
