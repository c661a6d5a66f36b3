"""Statistics along axes: variance, average, range, counts; and those that leave out nan.

No op is declared here. Of 16-bit floats everything is computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, called, user_source
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType, float_limits
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axes, normalize_axis, promote_operands
from symgrad.graph.ops.arithmetic import divide, multiply, square, subtract
from symgrad.graph.ops.comparison import equal, isnan, less_equal, logical_not, not_equal, where
from symgrad.graph.ops.complex_parts import complex_op, conj, imag, real
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import filled_like, float_operand, is_inexact
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.reduction import all as all_over
from symgrad.graph.ops.reduction import max as max_over
from symgrad.graph.ops.reduction import mean as mean_over
from symgrad.graph.ops.reduction import min as min_over
from symgrad.graph.ops.reduction import prod as prod_over
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import accumulator_dtype, broadcast_to, reshape
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim


def _wide(x: Any) -> tuple[Tensor, DType]:
    """Return floats in the dtype they are computed in, and the one of the result."""
    tensor = float_operand(x)
    return cast(tensor, accumulator_dtype(tensor.dtype)), tensor.dtype


def _freedom(op: str, x: Tensor, axis: Any, correction: float) -> Tensor:
    """Return the number of elements less `correction`, at least 0."""
    axes = normalize_axes(op, axis, x.ndim)
    count: Dim = x.type.with_shape(tuple(x.shape[a] for a in axes)).size
    if isinstance(count, int):
        return as_tensor(max(count - correction, 0.0), x.dtype)
    left = subtract(size_of(count, x.dtype), correction)
    return maximum(left, 0.0)


def _variance(op: str, x: Tensor, axis: Any, correction: float, keepdims: bool) -> Tensor:
    deviation = subtract(x, mean_over(x, axis, keepdims=True))
    squares = _squares(deviation)
    freedom = _freedom(op, squares, axis, correction)
    return divide(sum_over(squares, axis, keepdims=keepdims), freedom)


def _squares(x: Tensor) -> Tensor:
    """Return the squared magnitudes of elements, which are real."""
    return real(multiply(x, conj(x))) if x.dtype.is_complex else square(x)


@public(is_standard=True)
def var(
    x: Any, /, axis: Any = None, *, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """Compute the variance over `axis`: the sum of squared deviations by `n - correction`.

    A correction of 1 gives the unbiased estimate (NumPy's `ddof`). Integers are computed as
    float32. Where `n - correction` is not positive the result is nan, or inf. Two passes, over the
    mean and over the deviations, so nothing cancels; the gradient is 2 (x - mean) / (n -
    correction). Of complex numbers the squares are those of magnitudes, and the result is real.

    >>> float(sg.run(sg.var(sg.constant([1.0, 2.0, 3.0, 6.0]))))
    3.5
    """
    wide, dtype = _wide(x)
    return cast(_variance("var", wide, axis, correction, keepdims), dtype.real)


@public(is_standard=True)
def std(
    x: Any, /, axis: Any = None, *, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """Compute the standard deviation over `axis`: the square root of `var`.

    Where all elements are equal it has no gradient: it is nan there.

    >>> float(sg.run(sg.std(sg.constant([1.0, 3.0]))))
    1.0
    """
    wide, dtype = _wide(x)
    return cast(sqrt(_variance("std", wide, axis, correction, keepdims)), dtype.real)


@public()
def ptp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Compute the range along `axis` (peak to peak): the maximum less the minimum.

    >>> sg.run(sg.ptp([[1.0, 5.0], [7.0, 0.0]], axis=1))
    array([4., 7.], dtype=float32)
    """
    with called("ptp"):
        x = as_tensor(x)
        return subtract(max_over(x, axis, keepdims=keepdims), min_over(x, axis, keepdims=keepdims))


@public(is_standard=True, functions=[np.count_nonzero])
def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Count the elements along `axis` that are true, or not 0, as int64; nan counts.

    >>> sg.run(sg.count_nonzero([[0, 1], [2, 3]], axis=0))
    array([1, 2])
    """
    with called("count_nonzero"):
        x = as_tensor(x)
        counted = x if x.dtype.is_bool else not_equal(x, 0)
        return sum_over(cast(counted, dtypes.int64), axis, keepdims=keepdims)


@public()
def average(
    x: Any, /, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Compute the mean over `axis`, weighted by `weights` if there are any.

    `weights` has the shape of `x`, or that of `axis`. With `returned` the result is a pair of the
    average and the sum of the weights; both have gradients by `x` and by `weights`. Integers are
    averaged in float32. Raises `ShapeError` for weights of another shape.

    >>> sg.run(sg.average([1.0, 2.0, 4.0], weights=[3.0, 1.0, 0.0]))
    array(1.25, dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("average", axis, x.ndim)
    if weights is None:
        found = mean_over(x, axes, keepdims=keepdims)
        count = x.type.with_shape(tuple(x.shape[a] for a in axes)).size
        return (found, broadcast_to(size_of(count, x.dtype), found.shape)) if returned else found
    x, weights = promote_operands("average", x, weights)
    weights = broadcast_to(_aligned(x, weights, axis), x.shape)
    total = sum_over(weights, axes, keepdims=keepdims)
    found = divide(sum_over(multiply(x, weights), axes, keepdims=keepdims), total)
    return (found, total) if returned else found


def _aligned(x: Tensor, weights: Tensor, axis: Any) -> Tensor:
    """Return weights of the axes of `x`, with size 1 for those that they do not have."""
    if weights.shape == x.shape:
        return weights
    given = () if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    order = [normalize_axis("average", a, x.ndim) for a in given]
    if weights.shape != tuple(x.shape[a] for a in order) or order != sorted(order):
        raise ShapeError(
            "average",
            f"weights: {weights.type} fit neither x: {x.type} nor axis {axis} of it",
            source=user_source(),
        )
    return reshape(weights, tuple(n if a in order else 1 for a, n in enumerate(x.shape)))


def without_nan(x: Any, value: float) -> Tensor:
    """Return `x` with `value` in the place of nan; what was nan gets no gradient."""
    tensor = as_tensor(x)
    if not is_inexact(tensor.dtype):
        return tensor
    return where(isnan(tensor), filled_like(tensor, value), tensor)


@public(functions=[np.nansum])
def nansum(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Sum over `axis`, nan as 0; what is nan has gradient 0.

    >>> sg.run(sg.nansum([1.0, np.nan, 3.0]))
    array(4., dtype=float32)
    """
    with called("nansum"):
        return sum_over(without_nan(x, 0), axis, keepdims=keepdims)


@public(functions=[np.nanprod])
def nanprod(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Multiply over `axis`, nan as 1; what is nan has gradient 0.

    >>> sg.run(sg.nanprod([2.0, np.nan, 3.0]))
    array(6., dtype=float32)
    """
    with called("nanprod"):
        return prod_over(without_nan(x, 1), axis, keepdims=keepdims)


@public(functions=[np.nanmax])
def nanmax(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Take the greatest element along `axis` that is no nan; nan where all are.

    The dtype is that of `x`. The gradient goes to the greatest, equal shares to several, and is 0
    where all are nan. Raises `ShapeError` for an axis without elements.

    >>> sg.run(sg.nanmax([1.0, np.nan, 3.0]))
    array(3., dtype=float32)
    """
    with called("nanmax"):
        return _nan_where_all_are(x, axis, keepdims, max_over(without_nan(x, -np.inf), axis,
                                                              keepdims=keepdims))  # fmt: skip


@public(functions=[np.nanmin])
def nanmin(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Take the least element along `axis` that is no nan; nan where all are.

    >>> sg.run(sg.nanmin([1.0, np.nan, 3.0]))
    array(1., dtype=float32)
    """
    with called("nanmin"):
        return _nan_where_all_are(x, axis, keepdims, min_over(without_nan(x, np.inf), axis,
                                                              keepdims=keepdims))  # fmt: skip


def _nan_where_all_are(x: Any, axis: Any, keepdims: bool, found: Tensor) -> Tensor:
    if not found.dtype.is_float:
        return found
    nothing = all_over(isnan(as_tensor(x)), axis, keepdims=keepdims)
    return where(nothing, filled_like(found, np.nan), found)


@public(functions=[np.nanmean])
def nanmean(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Average over `axis` what is no nan; nan where all is. What is nan has gradient 0.

    >>> sg.run(sg.nanmean([1.0, np.nan, 3.0]))
    array(2., dtype=float32)
    """
    wide, dtype = _wide(x)
    return cast(_nanmean(wide, axis, keepdims), dtype)


def _nanmean(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    total = sum_over(without_nan(x, 0), axis, keepdims=keepdims)
    return divide(total, _numbers(x, axis, keepdims))


def _numbers(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Count what is no nan, in the real dtype of `x`; exact below 2**24 of float32."""
    counted = cast(logical_not(isnan(x)), dtypes.int64)
    return cast(sum_over(counted, axis, keepdims=keepdims), x.dtype.real)


def _nanvar(x: Tensor, axis: Any, correction: float, keepdims: bool) -> Tensor:
    deviation = subtract(x, _nanmean(x, axis, keepdims=True))
    squares = _squares(where(isnan(x), filled_like(x, 0), deviation))
    freedom = subtract(_numbers(x, axis, keepdims), correction)
    found = divide(sum_over(squares, axis, keepdims=keepdims), freedom)
    return where(less_equal(freedom, 0), filled_like(found, np.nan), found)


@public()
def nanvar(
    x: Any, /, axis: Any = None, *, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """Compute the variance over `axis` of what is no nan; nan where `n - correction` is below 1.

    >>> sg.run(sg.nanvar([1.0, np.nan, 3.0]))
    array(1., dtype=float32)
    """
    wide, dtype = _wide(x)
    return cast(_nanvar(wide, axis, correction, keepdims), dtype.real)


@public()
def nanstd(
    x: Any, /, axis: Any = None, *, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """Compute the standard deviation over `axis` of what is no nan: the square root of `nanvar`.

    >>> sg.run(sg.nanstd([1.0, np.nan, 3.0]))
    array(1., dtype=float32)
    """
    wide, dtype = _wide(x)
    return cast(sqrt(_nanvar(wide, axis, correction, keepdims)), dtype.real)


@public()
def nan_to_num(x: Any, /, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> Tensor:  # fmt: skip
    """Replace nan by `nan` and infinities by `posinf` and `neginf`.

    Where these are None it is by the limits of the dtype. What is replaced has gradient 0. Each
    part of a complex number is replaced by itself.

    >>> sg.run(sg.nan_to_num([1.0, np.nan, np.inf], posinf=9.0))
    array([1., 0., 9.], dtype=float32)
    """
    tensor = as_tensor(x)
    if tensor.dtype.is_complex:
        parts = (nan_to_num(part(tensor), nan, posinf, neginf) for part in (real, imag))
        return apply(complex_op, *parts)
    if not tensor.dtype.is_float:
        return tensor
    given: dict[str, Any] = {"nan": nan, "posinf": posinf, "neginf": neginf}
    for name, value in given.items():
        if value is not None and not isinstance(value, int | float | np.number):
            shown = value.type if isinstance(value, Tensor) else repr(value)
            problem = f"{name}: {shown} is no number"
            raise DTypeError("nan_to_num", problem, hint="use sg.where", source=user_source())
    greatest = float(float_limits(tensor.dtype).max)
    above = greatest if posinf is None else posinf
    below = -greatest if neginf is None else neginf
    found = where(isnan(tensor), filled_like(tensor, nan), tensor)
    found = where(equal(tensor, np.inf), filled_like(tensor, above), found)
    return where(equal(tensor, -np.inf), filled_like(tensor, below), found)
