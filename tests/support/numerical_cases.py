"""Rows of the table for NumPy's numerical functions that are compositions: lines, moments, nan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import bfloat16, float32, float64, int8
from tests.support.case import Case, Input, Real, Whole

_FLOATS = (float32, float64)
_WITH_HALVES = (bfloat16, float32)

_MATRIX = Real((3, 4))
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
    slack: float = 8.0,
) -> Case:
    return Case(name, None, build, expected, inputs, dtypes, order, also, symbolic, slack)


def _holes(x: Any) -> Any:
    """Return `x` with nan in some places, tensor or array."""
    return np.where(x * x < 0.5, np.nan, x)


def _places(x: Any) -> Any:
    """Return increasing numbers, tensor or array."""
    return np.cumsum(x * x + 0.25)


def _weighted(x: Any, w: Any) -> Any:
    return np.cov(x, aweights=w)


_LINES = (
    _row("interp", lambda x, p, f: sg.interp(x, _places(p), f),
         lambda x, p, f: np.interp(x, _places(p), f), Real((5,), 0.3, 4.0), _ROW, _ROW, order=1,
         also=(((2, 3), (2,), (2,)), ((0,), (4,), (4,)), ((3,), (1,), (1,))), slack=64.0),
    _row("interp_ends", lambda x, f: sg.interp(x, [0.0, 0.5, 1.0], f, left=-1.0, right=x[0]),
         lambda x, f: np.interp(x, [0.0, 0.5, 1.0], f, left=-1.0, right=x[0]),
         Real((5,), kinks=(0.0, 0.5, 1.0)), Real((3,)), order=1, symbolic=False),
    _row("interp_periodic", lambda x, f: sg.interp(x, [2.5, 0.0, 1.0], f, period=3.0),
         lambda x, f: np.interp(x, [2.5, 0.0, 1.0], f, period=3.0),
         Real((5,), 0.1, 0.9), Real((3,)), symbolic=False),
    _row("gradient", np.gradient, np.gradient, Real((6,)), also=(((2,),), ((3,),))),
    _row("gradient_of_places", lambda x, p: np.gradient(x, _places(p), axis=1, edge_order=2),
         lambda x, p: np.gradient(x, _places(p), axis=1, edge_order=2), _MATRIX, _ROW,
         also=(((2, 3), (3,)),), symbolic=False, slack=64.0),
    _row("polyval", np.polyval, np.polyval, _ROW, _MATRIX, also=(((1,), ()), ((3,), (0,))),
         symbolic=False, slack=16.0),
    _row("convolve", np.convolve, np.convolve, _ROW, Real((3,)), also=(((1,), (5,)),),
         symbolic=False),
    _row("unwrap", lambda x: np.unwrap(x * 7), lambda x: np.unwrap(x * 7), _MATRIX, order=1,
         also=(((2, 1),),)),
)  # fmt: skip

_MOMENTS = (
    _row("cov", sg.cov, np.cov, _MATRIX, dtypes=_WITH_HALVES, also=(((4,),), ((2, 2),))),
    _row("cov_of_two", lambda x, y: sg.cov(x, y, rowvar=False, bias=True),
         lambda x, y: np.cov(x, y, rowvar=False, bias=True), Real((5, 2)), Real((5, 1))),
    _row("cov_weighted", lambda x, w: sg.cov(x, aweights=w, fweights=[1, 2, 1, 3]),
         lambda x, w: np.cov(x, aweights=w, fweights=[1, 2, 1, 3]), _MATRIX, Real((4,), 0.5, 2.0),
         symbolic=False),
    _row("corrcoef", lambda x: sg.corrcoef(x)[0], lambda x: np.corrcoef(x)[0], _MATRIX, order=1,
         also=(((2, 5),),), slack=64.0),
    _row("cross", sg.cross, np.cross, Real((2, 3)), Real((3,)), also=(((0, 3), (1, 3)),)),
    _row("kron", sg.kron, np.kron, Real((2, 3)), Real((3, 2)), dtypes=(int8, float32),
         also=(((2,), (1, 3)), ((0,), (2,)), ((), (2,)))),
)  # fmt: skip

_WITHOUT_NAN = (
    _row("nanmedian", lambda x: sg.nanmedian(_holes(x), axis=0),
         lambda x: np.nanmedian(_holes(x), axis=0), Real((5, 3)), order=1),
    _row("nanquantile", lambda x: sg.nanquantile(_holes(x), [0.25, 0.9], axis=1, keepdims=True),
         lambda x: np.nanquantile(_holes(x), [0.25, 0.9], axis=1, keepdims=True), Real((3, 6)),
         order=1, slack=16.0),
    _row("nanpercentile", lambda x: sg.nanpercentile(_holes(x), 40.0, method="nearest"),
         lambda x: np.nanpercentile(_holes(x), 40.0, method="nearest"), Real((5, 3)), order=1),
    _row("nanargmax", lambda x: sg.nanargmax(_holes(x), 0), lambda x: np.nanargmax(_holes(x), 0),
         Real((6, 2)), order=0),
    _row("nanargmin", lambda x: sg.nanargmin(_holes(x)), lambda x: np.nanargmin(_holes(x)),
         Real((6, 2)), order=0),
    _row("nancumsum", lambda x: sg.nancumsum(_holes(x), 1), lambda x: np.nancumsum(_holes(x), 1),
         _MATRIX, also=(((0, 2),), ((2, 1),))),
    _row("nancumprod", lambda x: sg.nancumprod(_holes(x)), lambda x: np.nancumprod(_holes(x)),
         _MATRIX, also=(((0,),),)),
)  # fmt: skip

_EXACT = (
    _row("gcd", lambda i, j: np.gcd(i, j * 6), lambda i, j: np.gcd(i, j * 6), Whole((4,), -99, 99),
         Whole((3, 1), -9, 9), dtypes=(float32,), order=0),
    _row("frexp", lambda x: np.frexp(x * 100)[0], lambda x: np.frexp(x * 100)[0], _MATRIX,
         dtypes=(bfloat16, float32, float64), order=0, slack=1.0),
    _row("ldexp", lambda x, i: np.ldexp(x, i), lambda x, i: np.ldexp(x, i), _MATRIX,
         Whole((4,), -9, 9), dtypes=(bfloat16, float32, float64), slack=1.0),
)  # fmt: skip

NUMERICAL = (*_LINES, *_MOMENTS, *_WITHOUT_NAN, *_EXACT)
