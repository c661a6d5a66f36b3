"""Discrete Fourier transforms (FFT) along one axis: complex, of real and of Hermitian numbers.

They are ops on pairs of real tensors (`symgrad/graph/ops/fourier.py`); here are their arguments.
Along several axes: `several_axes.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import called
from symgrad.fft.operands import (
    Norm,
    as_axis,
    as_length,
    as_operand,
    as_real_operand,
    require_numbers,
    resized,
    scale_of,
    split_scale,
)
from symgrad.graph.node import Tensor
from symgrad.graph.ops.complex_parts import complex as of_parts
from symgrad.graph.ops.complex_parts import conj, imag, real
from symgrad.graph.ops.fourier import (
    fourier,
    hermitian_fourier,
    real_fourier,
)
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim


@public(functions=[np.fft.fft])
def fft(x: Any, /, n: Dim | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Discrete Fourier transform: y[k] = sum over j of x[j] exp(-2 pi i j k / n) along `axis`.

    `n` numbers are transformed: the first ones of `x`, or all of them and zeros behind them. The
    sum is divided by n with `norm` "forward" and by its square root with "ortho". A float32, an
    integer or a complex64 gives complex64, else complex128. The gradient is the adjoint transform.
    Raises `ShapeError` for n below 1. Cooley and Tukey (1965).

    >>> sg.run(sg.fft.fft([1.0, 0.0, -1.0, 0.0]))
    array([0.+0.j, 2.+0.j, 0.+0.j, 2.+0.j], dtype=complex64)
    """
    with called("fft"):
        return along_axis("fft", as_operand("fft", x), n, axis, norm, is_inverse=False)


@public(functions=[np.fft.ifft])
def ifft(x: Any, /, n: Dim | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Inverse of `fft`: x[j] = 1 / n * sum over k of y[k] exp(2 pi i j k / n) along `axis`.

    Arguments, dtypes and errors are those of `fft`; the factor is 1 with `norm` "forward", and one
    over the square root of n with "ortho". The gradient is the adjoint transform.

    >>> sg.run(sg.fft.ifft([0.0, 2.0, 0.0, 2.0]))
    array([ 1.+0.j,  0.+0.j, -1.+0.j,  0.+0.j], dtype=complex64)
    """
    with called("ifft"):
        return along_axis("ifft", as_operand("ifft", x), n, axis, norm, is_inverse=True)


@public(functions=[np.fft.rfft])
def rfft(x: Any, /, n: Dim | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Discrete Fourier transform of real numbers: the first n // 2 + 1 numbers of `fft`.

    The others are their conjugates. Arguments and errors are those of `fft`; a complex `x` raises
    `DTypeError`. The gradient is the adjoint transform, which is real.

    >>> sg.run(sg.fft.rfft([1.0, 0.0, -1.0, 0.0]))
    array([0.+0.j, 2.+0.j, 0.+0.j], dtype=complex64)
    """
    with called("rfft"):
        return real_along_axis("rfft", as_real_operand("rfft", x), n, axis, norm)


@public(functions=[np.fft.irfft])
def irfft(x: Any, /, n: Dim | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Inverse of `rfft`: `n` real numbers, 2 * (m - 1) of m numbers if it is not given.

    Of `x` the first n // 2 + 1 numbers count, or zeros behind it; imaginary parts of the first one,
    and for even n of the last, do not. The result is float32 or float64. The gradient is the
    adjoint transform, 0 for those imaginary parts. Errors are those of `fft`.

    >>> sg.run(sg.fft.irfft([0.0, 2.0, 0.0]))
    array([ 1.,  0., -1.,  0.], dtype=float32)
    """
    with called("irfft"):
        found = as_operand("irfft", x)
        return hermitian_along_axis("irfft", found, n, axis, norm, is_inverse=True)


@public(functions=[np.fft.hfft])
def hfft(x: Any, /, n: Dim | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Discrete Fourier transform of Hermitian numbers, x[n - j] = conj(x[j]): `n` real numbers.

    Arguments are those of `irfft`, of which this is the forward direction: the sum is not divided
    unless `norm` is "forward", or "ortho".

    >>> sg.run(sg.fft.hfft([1.0, 2.0, 1.0]))
    array([ 6.,  0., -2.,  0.], dtype=float32)
    """
    with called("hfft"):
        found = as_operand("hfft", x)
        flipped = conj(found) if found.dtype.is_complex else found
        return hermitian_along_axis("hfft", flipped, n, axis, norm, is_inverse=False)


@public(functions=[np.fft.ihfft])
def ihfft(x: Any, /, n: Dim | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Inverse of `hfft`: the first n // 2 + 1 numbers of the inverse transform of n real ones.

    Arguments, dtypes and errors are those of `rfft`; the sum is divided by n, with `norm` "ortho"
    by its square root, and not with "forward".

    >>> sg.run(sg.fft.ihfft([6.0, 0.0, 0.0, 0.0]))
    array([1.5-0.j, 1.5-0.j, 1.5-0.j], dtype=complex64)
    """
    with called("ihfft"):
        given = as_real_operand("ihfft", x)
        return conj(real_along_axis("ihfft", given, n, axis, norm, is_inverse=True))


def along_axis(op: str, x: Tensor, n: Any, axis: Any, norm: Norm, *, is_inverse: bool) -> Tensor:
    """Return the complex transform of `n` numbers along an axis, all there are for None."""
    at = as_axis(op, axis, x)
    x = _of_length(op, x, n, at)
    scale = scale_of(op, norm, x.shape[at], is_inverse=is_inverse)
    x, factor = split_scale(x, scale)
    return of_parts(*fourier(real(x), imag(x), at, factor, is_inverse=is_inverse))


def real_along_axis(
    op: str, x: Tensor, n: Any, axis: Any, norm: Norm, *, is_inverse: bool = False
) -> Tensor:
    """Return the first half of the forward transform of `n` real numbers."""
    at = as_axis(op, axis, x)
    x = _of_length(op, x, n, at)
    x, factor = split_scale(x, scale_of(op, norm, x.shape[at], is_inverse=is_inverse))
    return of_parts(*real_fourier(x, at, factor))


def hermitian_along_axis(
    op: str, x: Tensor, n: Any, axis: Any, norm: Norm, *, is_inverse: bool
) -> Tensor:
    """Return `n` real numbers, the inverse transform of numbers and their conjugates."""
    at = as_axis(op, axis, x)
    x = require_numbers(op, x, at)
    size = as_length(op, 2 * (x.shape[at] - 1) if n is None else n)
    scale = scale_of(op, norm, size, is_inverse=is_inverse)
    x, factor = split_scale(resized(x, at, size // 2 + 1), scale)
    return hermitian_fourier(real(x), imag(x), at, size, factor)


def _of_length(op: str, x: Tensor, n: Any, axis: int) -> Tensor:
    if n is not None:
        return resized(x, axis, as_length(op, n))
    return require_numbers(op, x, axis)
