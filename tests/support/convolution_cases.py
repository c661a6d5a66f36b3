"""Rows of the table for convolutions: 1 to 3 axes, strides, dilation, groups, both layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from symgrad.graph.node import Tensor
from symgrad.graph.ops.convolution import conv_general
from symgrad.graph.ops.interleaving import interleave
from tests.support.case import FLOATS, NUMBERS, Array, Case, Real

_Layout = Literal["NHWC", "NCHW"]
_Shapes = tuple[tuple[int, ...], ...]


def correlate(
    x: Array, kernel: Array, strides: Sequence[int], dilation: Sequence[int], groups: int
) -> Array:
    """Return a convolution of `x` (n, *spatial, c), as a sum over the elements of the window."""
    rank, count = len(strides), kernel.shape[-2]
    found = kernel.shape[-1] // groups
    sizes = list(zip(x.shape[1:-1], kernel.shape, strides, dilation, strict=False))
    out = [(size - d * (window - 1) - 1) // s + 1 for size, window, s, d in sizes]
    total = np.zeros((x.shape[0], *out, kernel.shape[-1]), x.dtype)
    for tap in itertools.product(*(range(n) for n in kernel.shape[:rank])):
        starts = [t * d for t, d in zip(tap, dilation, strict=True)]
        parts = zip(starts, strides, out, strict=True)
        seen = x[(slice(None), *(slice(a, a + s * n, s) for a, s, n in parts))]
        for group in range(groups):
            own = slice(group * found, (group + 1) * found)
            channels = slice(group * count, (group + 1) * count)
            total[..., own] += seen[..., channels] @ kernel[tap][:, own]
    return total


def _expected(
    strides: Sequence[int], dilation: Sequence[int], groups: int, layout: _Layout
) -> Callable[..., Array]:
    def expected(x: Array, kernel: Array) -> Array:
        if layout == "NHWC":
            return correlate(x, kernel, strides, dilation, groups)
        turned = np.moveaxis(x, 1, -1), np.moveaxis(kernel, (0, 1), (-1, -2))
        return np.moveaxis(correlate(*turned, strides, dilation, groups), -1, 1)

    return expected


def _convolution(
    name: str,
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    *,
    strides: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1),
    groups: int = 1,
    layout: _Layout = "NHWC",
    also: tuple[_Shapes, ...] = (),
    dtypes: Any = FLOATS,
    symbolic: bool = True,
) -> Case:
    dilation = dilation[: len(strides)]

    def build(x: Tensor, kernel: Tensor) -> Tensor:
        return conv_general(
            x, kernel, strides=strides, dilation=dilation, groups=groups, layout=layout
        )

    expected = _expected(strides, dilation, groups, layout)
    inputs = (Real(x), Real(kernel))
    return Case(name, "convolution", build, expected, inputs, dtypes, 2, also, symbolic, slack=16)


_CONVOLUTIONS = (
    _convolution("conv1d", (2, 7, 3), (3, 3, 4), strides=(1,), dtypes=NUMBERS,
                 also=(((1, 1, 1), (1, 1, 1)), ((0, 5, 2), (2, 2, 2)), ((2, 5, 0), (2, 0, 3)),
                       ((1, 3, 2), (3, 2, 0)))),
    _convolution("conv2d", (2, 6, 5, 3), (3, 2, 3, 4), strides=(1, 1),
                 also=(((1, 1, 1, 1), (1, 1, 1, 1)), ((0, 3, 4, 2), (2, 2, 2, 2)))),
    _convolution("conv2d_strided", (2, 7, 8, 2), (3, 2, 2, 3), strides=(2, 3),
                 also=(((1, 5, 5, 2), (1, 1, 2, 3)),)),
    _convolution("conv2d_dilated", (1, 7, 6, 2), (3, 2, 2, 3), strides=(1, 1), dilation=(2, 3)),
    _convolution("conv2d_strided_dilated", (1, 8, 9, 2), (2, 3, 2, 3), strides=(2, 3),
                 dilation=(3, 2)),
    _convolution("conv2d_grouped", (1, 5, 6, 4), (2, 3, 2, 6), strides=(2, 1), groups=2),
    _convolution("conv2d_depthwise", (2, 5, 6, 3), (3, 3, 1, 3), strides=(1, 1), groups=3),
    _convolution("conv2d_nchw", (2, 3, 5, 6), (4, 3, 2, 3), strides=(1, 2), layout="NCHW"),
    _convolution("conv2d_nchw_grouped", (1, 4, 5, 6), (8, 1, 3, 2), strides=(1, 1), groups=4,
                 layout="NCHW"),
    _convolution("conv2d_wide", (1, 5, 4, 4), (2, 2, 4, 8), strides=(1, 1)),
    _convolution("conv3d", (1, 4, 5, 4, 2), (2, 3, 2, 2, 3), strides=(1, 2, 1)),
)  # fmt: skip


def _alternating(even: Array, odd: Array) -> Array:
    joined = np.zeros((even.shape[0], even.shape[1] + odd.shape[1]), even.dtype)
    joined[:, ::2], joined[:, 1::2] = even, odd
    return joined


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    shape = (even.shape[0], even.shape[1] + odd.shape[1])
    return interleave([even, odd], shape, ((0, 0), (0, 1)), (1, 2))


_JOINS = (
    Case("interleave", "interleave", _interleave, _alternating, (Real((3, 4)), Real((3, 3))),
         NUMBERS, also=(((1, 1), (1, 1)), ((2, 1), (2, 0)), ((0, 2), (0, 2)))),
)  # fmt: skip

CONVOLUTIONS = (*_CONVOLUTIONS, *_JOINS)
