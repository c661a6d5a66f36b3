"""Multidimensional discrete Fourier transforms: along one axis after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import called
from symgrad.fft.operands import Norm, as_operand, as_real_operand, axes_and_sizes
from symgrad.fft.transforms import along_axis, hermitian_along_axis, real_along_axis
from symgrad.graph.node import Tensor
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim

Sizes = Sequence[Dim | None] | None
Along = Sequence[int] | None


@public(functions=[np.fft.fftn])
def fftn(x: Any, /, s: Sizes = None, axes: Along = None, norm: Norm = "backward") -> Tensor:
    """Discrete Fourier transform along `axes`, all of them if not given: `fft` along each.

    `s` has the number of numbers along each, -1 for all there are; without `axes` it is of
    the last ones. Raises `ShapeError` for a repeated axis and for `s` and `axes` of two lengths.

    >>> sg.run(sg.fft.fftn([[1.0, 1.0], [1.0, -1.0]]))
    array([[2.+0.j, 2.+0.j],
           [2.+0.j, -2.+0.j]], dtype=complex64)
    """
    with called("fftn"):
        return _complex("fftn", x, s, axes, norm, is_inverse=False)


@public(functions=[np.fft.ifftn])
def ifftn(x: Any, /, s: Sizes = None, axes: Along = None, norm: Norm = "backward") -> Tensor:
    """Inverse of `fftn`, with the same arguments: `ifft` along each axis.

    >>> sg.run(sg.fft.ifftn([[4.0, 0.0], [0.0, 0.0]]))
    array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    with called("ifftn"):
        return _complex("ifftn", x, s, axes, norm, is_inverse=True)


@public(functions=[np.fft.rfftn])
def rfftn(x: Any, /, s: Sizes = None, axes: Along = None, norm: Norm = "backward") -> Tensor:
    """Discrete Fourier transform of real numbers: `rfft` along the last axis, `fft` along others.

    Arguments are those of `fftn`. A complex `x` raises `DTypeError`.

    >>> sg.run(sg.fft.rfftn([[1.0, 1.0], [1.0, -1.0]]))
    array([[2.+0.j, 2.+0.j],
           [2.+0.j, -2.+0.j]], dtype=complex64)
    """
    with called("rfftn"):
        return _real("rfftn", x, s, axes, norm)


@public(functions=[np.fft.irfftn])
def irfftn(x: Any, /, s: Sizes = None, axes: Along = None, norm: Norm = "backward") -> Tensor:
    """Inverse of `rfftn`: `ifft` along all axes but the last, and `irfft` along that.

    `s` has the sizes of the result, -1 for that of `x`.

    >>> sg.run(sg.fft.irfftn([[4.0, 0.0], [0.0, 0.0]]))
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    with called("irfftn"):
        return _hermitian("irfftn", x, s, axes, norm)


@public(functions=[np.fft.fft2])
def fft2(x: Any, /, s: Sizes = None, axes: Along = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Discrete Fourier transform along the last two axes; see `fftn`.

    >>> sg.fft.fft2(sg.zeros((3, 4, 6))).dtype
    symgrad.complex64
    """
    with called("fft2"):
        return _complex("fft2", x, s, axes, norm, is_inverse=False)


@public(functions=[np.fft.ifft2])
def ifft2(x: Any, /, s: Sizes = None, axes: Along = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Inverse of `fft2`; see `ifftn`.

    >>> sg.fft.ifft2(sg.zeros((3, 4, 6))).shape
    (3, 4, 6)
    """
    with called("ifft2"):
        return _complex("ifft2", x, s, axes, norm, is_inverse=True)


@public(functions=[np.fft.rfft2])
def rfft2(x: Any, /, s: Sizes = None, axes: Along = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Discrete Fourier transform of real numbers along the last two axes; see `rfftn`.

    >>> sg.fft.rfft2(sg.zeros((3, 4, 6))).shape
    (3, 4, 4)
    """
    with called("rfft2"):
        return _real("rfft2", x, s, axes, norm)


@public(functions=[np.fft.irfft2])
def irfft2(x: Any, /, s: Sizes = None, axes: Along = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Inverse of `rfft2`; see `irfftn`.

    >>> sg.fft.irfft2(sg.zeros((3, 4, 4))).shape
    (3, 4, 6)
    """
    with called("irfft2"):
        return _hermitian("irfft2", x, s, axes, norm)


def _complex(op: str, x: Any, s: Sizes, axes: Along, norm: Norm, *, is_inverse: bool) -> Tensor:
    found = as_operand(op, x)
    for axis, size in reversed(axes_and_sizes(op, found, s, axes)):
        found = along_axis(op, found, size, axis, norm, is_inverse=is_inverse)
    return found


def _real(op: str, x: Any, s: Sizes, axes: Along, norm: Norm) -> Tensor:
    found = as_real_operand(op, x)
    *others, (axis, size) = axes_and_sizes(op, found, s, axes)
    found = real_along_axis(op, found, size, axis, norm)
    for axis, size in reversed(others):
        found = along_axis(op, found, size, axis, norm, is_inverse=False)
    return found


def _hermitian(op: str, x: Any, s: Sizes, axes: Along, norm: Norm) -> Tensor:
    found = as_operand(op, x)
    *others, (axis, size) = axes_and_sizes(op, found, s, axes)
    for other, count in others:
        found = along_axis(op, found, count, other, norm, is_inverse=True)
    return hermitian_along_axis(op, found, size, axis, norm, is_inverse=True)
