"""Rows of the table for Fourier transforms, of pairs of real tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.ops.fourier import fourier, hermitian_fourier, real_fourier
from symgrad.graph.ops.fourier_columns import (
    even_odd_columns,
    fourier_columns,
    paired_columns,
)
from tests.support.case import Array, Case, Real

_WIDE = (dtypes.float32, dtypes.float64)


def _row(
    name: str,
    op: str,
    build: Callable[..., Tensor],
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    order: int = 2,
    also: Any = (),
    symbolic: bool = True,
) -> Case:
    inputs = tuple(Real(shape, -1.0, 1.0) for shape in shapes)
    return Case(name, op, build, expected, inputs, _WIDE, order, also, symbolic, 20.0)


def _stacked(z: Array) -> Array:
    return np.stack([z.real, z.imag])


def _transform(re: Array, im: Array, axis: int) -> Array:
    return _stacked(np.fft.fft(re + 1j * im, axis=axis) if re.size else re + 0j)


def _real(x: Array, axis: int) -> Array:
    return _stacked(np.fft.rfft(x, axis=axis) if x.shape[axis] else x + 0j)


def _turned_columns(re: Array, im: Array, c: Array, s: Array) -> Array:
    found = np.fft.fft(re + 1j * im, axis=0)
    found[1:] *= c + 1j * s
    return np.moveaxis(_stacked(found), (0, 1), (2, 1))


def _even_odd(x: Array, mirrored: Array, roots: Array) -> Array:
    signs = np.array([1.0, -1.0])[:, None, None]
    even, odd = x + signs * mirrored, x - signs * mirrored
    found = even[0] + 1j * even[1] + (roots[0] + 1j * roots[1]) * (odd[1] - 1j * odd[0])
    return np.moveaxis(_stacked(found), 0, -1) / 2


def _paired(x: Array, mirrored: Array, roots: Array) -> Array:
    here, there = x[0] + 1j * x[1], mirrored[0] - 1j * mirrored[1]
    odd, even = (here - there) * (roots[0] - 1j * roots[1]), here + there
    return _stacked(odd + 1j * even)[::-1]


FOURIER = (
    _row("fourier", "fourier", lambda re, im: sg.stack(fourier(re, im, 1)),
         lambda re, im: _transform(re, im, 1), (2, 6), (2, 6),
         also=(((2, 1), (2, 1)), ((0, 4), (0, 4)), ((3, 0), (3, 0)), ((1, 37), (1, 37)),
               ((2, 24), (2, 24)))),
    _row("fourier_inverse", "fourier",
         lambda re, im: sg.stack(fourier(re, im, 0, 0.5, is_inverse=True)),
         lambda re, im: _stacked(np.fft.ifft(re + 1j * im, axis=0, norm="forward") / 2),
         (5, 2), (5, 2), also=(((41, 1), (41, 1)), ((18, 1), (18, 1)))),
    _row("fourier_across", "fourier", lambda re, im: sg.stack(fourier(re, im, 0)),
         lambda re, im: _transform(re, im, 0), (12, 9), (12, 9), order=0,
         also=(((41, 8), (41, 8)), ((64, 2), (64, 2)))),
    _row("fourier_of_imaginary", "fourier", lambda x: fourier(sg.zeros_like(x), x, 0)[1],
         lambda x: np.fft.fft(x).real, (5,), order=1),
    _row("real_fourier_even", "real_fourier", lambda x: sg.stack(real_fourier(x, 1)),
         lambda x: _real(x, 1), (2, 8),
         also=(((2, 2),), ((2, 4),), ((3, 74),), ((0, 4),))),
    _row("real_fourier_odd", "real_fourier", lambda x: sg.stack(real_fourier(x, 0)),
         lambda x: _real(x, 0), (5, 3), also=(((1, 3),), ((3, 9),), ((0, 2),))),
    _row("hermitian_fourier_even", "hermitian_fourier",
         lambda re, im: hermitian_fourier(re, im, 1, 2 * (re.shape[1] - 1)),
         lambda re, im: np.fft.irfft(re + 1j * im, axis=1, norm="forward"), (2, 5), (2, 5),
         also=(((2, 2), (2, 2)), ((2, 3), (2, 3)), ((1, 38), (1, 38)))),
    _row("hermitian_fourier_odd", "hermitian_fourier",
         lambda re, im: hermitian_fourier(re, im, 0, 2 * re.shape[0] - 1),
         lambda re, im: np.fft.irfft(re + 1j * im, 2 * len(re) - 1, axis=0, norm="forward"),
         (4, 3), (4, 3), also=(((1, 2), (1, 2)), ((2, 9), (2, 9)))),
    _row("fourier_columns", "fourier_columns",
         lambda re, im: fourier_columns(re, im, axes=(0, 2)),
         lambda re, im: np.moveaxis(_transform(re, im, 0), 1, 2), (15, 4), (15, 4), order=0,
         symbolic=False),
    _row("fourier_columns_turned", "fourier_columns",
         lambda re, im, c, s: fourier_columns(re, im, c, s, axes=(2, 1)), _turned_columns,
         (16, 3), (16, 3), (15, 3), (15, 3), order=0, symbolic=False),
    _row("fourier_columns_swapped", "fourier_columns",
         lambda re, im: fourier_columns(re, im, axes=(2, 0), is_swapped=True),
         lambda re, im: np.moveaxis(_transform(re, im, 0)[::-1], 0, 2), (7, 4), (7, 4), order=0,
         symbolic=False),
    _row("even_odd_columns", "even_odd_columns", even_odd_columns, _even_odd,
         (2, 3, 4), (2, 3, 4), (2, 3, 4), order=0, symbolic=False),
    _row("paired_columns", "paired_columns",
         lambda x, y, roots: paired_columns((x[:1], x[1:]), (y[:1], y[1:]), roots), _paired,
         (2, 3, 4), (2, 3, 4), (2, 3, 4), order=0, symbolic=False),
)  # fmt: skip
