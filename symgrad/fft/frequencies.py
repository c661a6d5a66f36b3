"""Frequencies of discrete Fourier transforms, and the order in which they stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, called, user_source
from symgrad.fft.operands import as_length
from symgrad.frontend.creation import arange
from symgrad.graph import dtypes
from symgrad.graph.devices import require_device
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axes
from symgrad.graph.ops.arithmetic import divide, multiply
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim


@public()
def fftfreq(
    n: Dim,
    /,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return the frequencies of `fft` of n samples `d` apart: 0, 1, ..., -2, -1 over n d.

    The result is float32 if no dtype is given.

    >>> sg.run(sg.fft.fftfreq(4))
    array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    with called("fftfreq"):
        size = as_length("fftfreq", n)
        positive = arange(0, (size + 1) // 2)
        whole = concat([positive, arange(-(size // 2), 0)], axis=0)
        return _frequencies("fftfreq", whole, size, d, dtype, device)


@public()
def rfftfreq(
    n: Dim,
    /,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return the frequencies of `rfft` of n samples `d` apart: 0, 1, ..., n // 2 over n d.

    The result is float32 if no dtype is given.

    >>> sg.run(sg.fft.rfftfreq(4))
    array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    with called("rfftfreq"):
        size = as_length("rfftfreq", n)
        return _frequencies("rfftfreq", arange(0, size // 2 + 1), size, d, dtype, device)


def _frequencies(
    op: str, counted: Tensor, n: Dim, d: float, dtype: DTypeLike | None, device: str | None
) -> Tensor:
    require_device(op, device)
    wanted = dtypes.float32 if dtype is None else as_dtype(dtype)
    if not wanted.is_float:
        raise DTypeError(op, f"{wanted.name} is no real floating dtype", source=user_source())
    counted = require_least(counted, n, 1, op, "n must be 1 or more, it is {size}")
    wide = cast(counted, dtypes.float64)
    step = multiply(cast(as_tensor(n, dtypes.int64), dtypes.float64), float(d))
    return cast(divide(wide, step), wanted)


@public(functions=[np.fft.fftshift])
def fftshift(x: Any, /, axes: Any = None) -> Tensor:
    """Put the frequency 0 in the middle of `axes`, all of them if not given.

    The shape and the dtype are those of `x`; the gradient is shifted back.

    >>> sg.run(sg.fft.fftshift([0, 1, 2, -2, -1]))
    array([-2, -1,  0,  1,  2], dtype=int32)
    """
    with called("fftshift"):
        return _shifted("fftshift", x, axes, is_inverse=False)


@public(functions=[np.fft.ifftshift])
def ifftshift(x: Any, /, axes: Any = None) -> Tensor:
    """Put the frequency 0, in the middle of `axes`, in front: the inverse of `fftshift`.

    >>> sg.run(sg.fft.ifftshift([-2, -1, 0, 1, 2]))
    array([ 0,  1,  2, -2, -1], dtype=int32)
    """
    with called("ifftshift"):
        return _shifted("ifftshift", x, axes, is_inverse=True)


def _shifted(op: str, x: Any, axes: Any, *, is_inverse: bool) -> Tensor:
    found = as_tensor(x)
    for axis in normalize_axes(op, axes, found.ndim):
        n = found.shape[axis]
        cut = n // 2 if is_inverse else (n + 1) // 2
        parts = [narrow(found, axis, cut, n - cut), narrow(found, axis, 0, cut)]
        found = concat(parts, axis=axis)
    return found
