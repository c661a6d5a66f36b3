"""Rows of the table for layers over space: convolution, pooling, unfold and fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import bfloat16, float32, int8
from tests.support.case import Case, Input, Real

Array = np.ndarray[Any, Any]
Pads = Sequence[tuple[int, int]]
_FEW = (bfloat16, float32)


def _row(
    name: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *inputs: Input,
    dtypes: Any = _FEW,
    also: tuple[tuple[tuple[int, ...], ...], ...] = (),
    symbolic: bool = True,
) -> Case:
    return Case(name, None, build, expected, inputs, dtypes, 2, also, symbolic, 8.0)


def _windows(x: Array, spans: Sequence[int], strides: Sequence[int], pads: Pads,
             value: float = 0.0) -> Array:  # fmt: skip
    """Return windows of the axes of space of `x`, whose channels are last, behind these."""
    padded = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value)
    axes = tuple(range(1, 1 + len(spans)))
    view = np.lib.stride_tricks.sliding_window_view(padded, spans, axes)
    return view[(slice(None), *(slice(None, None, s) for s in strides))]


def _conv(x: Array, kernel: Array, strides: Sequence[int], pads: Pads) -> Array:
    view = _windows(x, kernel.shape[:-2], strides, pads)
    space = len(strides)
    inside = list(range(2 + space, 2 + 2 * space))
    return np.asarray(np.tensordot(view, kernel, ([*inside, 1 + space], list(range(space + 1)))))


def _channels_first(x: Array) -> Array:
    return np.moveaxis(x, 1, -1)


def _conv_first(x: Array, kernel: Array) -> Array:
    """Return a convolution with channels first and two groups, stride 2 and padding by 1."""
    halves = zip(np.split(x, 2, 1), np.split(kernel, 2, 0), strict=True)
    parts = [
        _conv(_channels_first(a), np.transpose(k, (2, 3, 1, 0)), (2, 2), [(1, 1)] * 2)
        for a, k in halves
    ]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1)


def _conv_transpose(x: Array, kernel: Array, stride: int, cut: int) -> Array:
    """Return what each element of one axis of space adds, less `cut` on either side."""
    window = kernel.shape[0]
    whole = np.zeros((x.shape[0], (x.shape[1] - 1) * stride + window, kernel.shape[1]))
    for o in range(x.shape[1]):
        whole[:, o * stride : o * stride + window] += np.tensordot(x[:, o], kernel, (1, 2))
    return whole[:, cut : whole.shape[1] - cut]


def _mean_of_inside(x: Array) -> Array:
    ones = _windows(np.ones_like(x), (3, 3), (2, 2), [(1, 1)] * 2)
    return np.asarray(_windows(x, (3, 3), (2, 2), [(1, 1)] * 2).sum((-1, -2)) / ones.sum((-1, -2)))


def _adaptive(x: Array, count: int, function: Callable[..., Array]) -> Array:
    n = x.shape[1]
    bounds = [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
    return np.stack([function(x[:, a:b], axis=1) for a, b in bounds], 1)


SPATIAL: tuple[Case, ...] = (
    _row("conv", sg.nn.conv, lambda x, k: _conv(x, k, (1,), [(0, 0)]), Real((2, 5, 3)),
         Real((3, 3, 2)), also=(((0, 3, 1), (3, 1, 1)), ((1, 1, 1), (1, 1, 2))), symbolic=False),
    _row("conv_same_strided",
         lambda x, k: sg.nn.conv2d(x, k, strides=2, padding="SAME"),
         lambda x, k: _conv(x, k, (2, 2), [(0, 1), (1, 1)]), Real((1, 4, 5, 2)),
         Real((3, 3, 2, 2)), symbolic=False),
    _row("conv_groups_channels_first",
         lambda x, k: sg.nn.conv2d(x, k, strides=2, padding=[(1, 1), (1, 1)], groups=2,
                                   layout="NCHW"),
         _conv_first, Real((1, 4, 4, 3)), Real((4, 2, 3, 2)), symbolic=False),
    _row("conv_transpose", lambda x, k: sg.nn.conv_transpose(x, k, strides=2, padding=[(1, 1)]),
         lambda x, k: _conv_transpose(x, k, 2, 1), Real((2, 4, 3)), Real((3, 2, 3)),
         also=(((1, 2, 1), (3, 1, 1)),), symbolic=False),
    _row("max_pool", lambda x: sg.nn.max_pool(x, 2), lambda x: _windows(
        x, (2, 2), (2, 2), [(0, 0)] * 2).max((-1, -2)), Real((1, 4, 5, 3)),
         dtypes=(int8, *_FEW), also=(((0, 2, 2, 1),), ((2, 3, 2, 0),))),
    _row("max_pool_padded", lambda x: sg.nn.max_pool(x, 3, strides=2, padding=[(1, 1), (1, 1)]),
         lambda x: _windows(x, (3, 3), (2, 2), [(1, 1)] * 2, -100).max((-1, -2)),
         Real((1, 5, 4, 2)), dtypes=(int8, *_FEW), also=(((1, 1, 1, 1),),)),
    _row("max_pool_channels_first",
         lambda x: sg.nn.max_pool(x, (2, 3), strides=(2, 1), layout="NCHW"),
         lambda x: np.moveaxis(_windows(_channels_first(x), (2, 3), (2, 1), [(0, 0)] * 2)
                               .max((-1, -2)), -1, 1), Real((1, 2, 4, 5))),
    _row("avg_pool_padded", lambda x: sg.nn.avg_pool(x, 3, strides=2, padding=[(1, 1), (1, 1)]),
         _mean_of_inside, Real((1, 5, 4, 2)), also=(((1, 1, 1, 1),),)),
    _row("avg_pool", lambda x: sg.nn.avg_pool(x, 2, layout="NCHW"),
         lambda x: np.moveaxis(_windows(_channels_first(x), (2,), (2,), [(0, 0)]).mean(-1), -1, 1),
         Real((2, 3, 6)), also=(((1, 1, 2),),)),
    _row("adaptive_avg_pool", lambda x: sg.nn.adaptive_avg_pool(x, 3),
         lambda x: _adaptive(x, 3, np.mean), Real((2, 7, 2)), also=(((1, 3, 1),), ((1, 2, 1),))),
    _row("adaptive_max_pool", lambda x: sg.nn.adaptive_max_pool(x, 3),
         lambda x: _adaptive(x, 3, np.max), Real((2, 7, 2)), also=(((1, 3, 1),), ((1, 2, 1),))),
    _row("unfold_layer", lambda x: sg.nn.unfold(x, 3, padding="SAME"),
         lambda x: np.moveaxis(_windows(x, (3,), (1,), [(1, 1)]), -1, 2), Real((2, 5, 2)),
         dtypes=(int8, float32), also=(((1, 1, 1),),)),
    _row("fold_layer", lambda y: sg.nn.fold(y, 5, 3, padding="SAME"),
         lambda y: np.stack([sum(y[:, i - w + 1, w] for w in range(3) if 0 <= i - w + 1 < 5)
                             for i in range(5)], 1),
         Real((2, 5, 3, 2)), also=(((1, 5, 3, 1),),), symbolic=False),
)  # fmt: skip
