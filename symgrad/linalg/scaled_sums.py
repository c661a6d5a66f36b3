"""Scaled sums of powers: Lp norms along the last axis, whose powers neither overflow nor vanish.

The squares of float32 and halves are summed in float64, which holds them all. Rows of float64 are
divided by their greatest number where that is far out, as BLAS has it (nrm2), and of other powers
by the greatest or the least one. A scale is a constant to gradients, which have none of a norm by
it, and so no gradient is 0 or infinite that need not be.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from symgrad.graph import dtypes
from symgrad.graph.dtypes import float_limits
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, isfinite, multiply, square
from symgrad.graph.ops.comparison import equal, greater, less, logical_and, logical_or, where
from symgrad.graph.ops.complex_parts import imag, real
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.reduction import max as greatest
from symgrad.graph.ops.reduction import min as least
from symgrad.graph.ops.roots import root_of_squares
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import expand_dims, reduce_sum, reshape
from symgrad.graph.ops.transcendental import pow

# Rows whose greatest number is further out, or further down, are divided by it: of others squares,
# and the third powers in second derivatives, are floats. The reciprocal of what is below the least
# one is none.
_FAR, _LEAST = 2.0**64, 2.0**-1022
# Of a column whose greatest number is beyond the first one, or below its reciprocal, squares may
# overflow or vanish beside one another; by the second one it is moved to where they do not.
_FAR_SQUARES = {"f32": (2.0**55, 2.0**80), "f64": (2.0**480, 2.0**600)}


def length_over(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the Euclidean norm over axes, of floats or complex numbers; the gradient at 0 is 0.

    It is of the float dtype of `x`, where that is none of halves, of which it is float32.
    """
    parts = [real(x), imag(x)] if x.dtype.is_complex else [x]
    narrow = dtypes.float32 if parts[0].dtype.is_half else parts[0].dtype
    if narrow != dtypes.float64:
        return cast(_root([cast(part, dtypes.float64) for part in parts], axes), narrow)
    sizes = [x.shape[axis] for axis in axes]
    if 0 in sizes:
        return _root(parts, axes)
    if not all(isinstance(size, int) for size in sizes):
        parts, axes = [_with_a_zero(part, axes) for part in parts], (x.ndim - len(axes),)
    shift = _scale_of(_greatest(parts, axes))
    found = _root([multiply(part, shift) for part in parts], axes)
    return divide(found, reshape(shift, found.shape))


def scale_of_columns(a: Tensor) -> Tensor:
    """Return 1 for each column of matrices, or a power of 2 where all its squares are far out.

    Columns have one each: what is small in another column than what is large does not vanish.
    """
    is_wide = a.dtype in (dtypes.float64, dtypes.complex128)
    far, shift = _FAR_SQUARES["f64" if is_wide else "f32"]
    size = absolute(a)
    is_large, is_moderate = (
        any_of(greater(size, limit), axis=a.ndim - 2, keepdims=True) for limit in (far, 1 / far)
    )
    one = filled(is_large.shape, 1, size.dtype)
    return cast(where(is_large, 1 / shift, where(is_moderate, one, shift)), a.dtype)


def _scale_of(size: Tensor) -> Tensor:
    is_far = logical_or(greater(size, _FAR), less(size, 1 / _FAR))
    inverse = divide(1, maximum(size, _LEAST))
    return where(logical_and(isfinite(size), is_far), inverse, filled_like(size, 1))


def _greatest(parts: list[Tensor], axes: tuple[int, ...]) -> Tensor:
    first, *others = (greatest(absolute(part), axis=axes, keepdims=True) for part in parts)
    return stop_gradient(maximum(first, others[0]) if others else first)


def _with_a_zero(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return what may turn out to have no elements as rows with one more, whose norm is the same.

    The axes are the last ones.
    """
    rows = reshape(x, (*x.shape[: axes[0]], math.prod([x.shape[a] for a in axes], start=1)))
    return concat([rows, filled((*rows.shape[:-1], 1), 0, x.dtype)], axis=-1)


def _root(parts: list[Tensor], axes: tuple[int, ...]) -> Tensor:
    first, *others = (reduce_sum(square(part), axes) for part in parts)
    return root_of_squares(add(first, others[0]) if others else first)


def root_of_powers(sizes: Tensor, order: float) -> Tensor:
    """Return the root of the sum of powers of each row of `sizes`, none of which is negative.

    Of a positive order the gradient is 0 where a size is 0, or all of them.
    """
    last = (sizes.ndim - 1,)
    if sizes.shape[-1] == 0 or 0 < order <= 1:  # whose powers are no further out than the sizes
        scale = filled(sizes.shape[:-1], 1, sizes.dtype)
    else:
        extreme = _extreme_of_rows(sizes, order)
        # Of others the powers, and those in second derivatives, are floats: what is small beside
        # the greatest one has a slope of its own, and would vanish by a scale.
        most = float_limits(sizes.dtype).maxexp
        far = 2.0 ** min(most / (4 * abs(order)), most - 2)
        is_far = logical_or(greater(extreme, far), less(extreme, 1 / far))
        is_scale = logical_and(is_far, logical_and(isfinite(extreme), greater(extreme, 0)))
        scale = where(is_scale, extreme, filled_like(extreme, 1))
    scaled = divide(sizes, expand_dims(scale, axis=-1))
    if order < 0:
        return multiply(pow(reduce_sum(pow(scaled, order), last), 1 / order), scale)
    total = reduce_sum(where_positive(scaled, lambda t: pow(t, order)), last)
    return multiply(where_positive(total, lambda t: pow(t, 1 / order)), scale)


def where_positive(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function with f(0) = 0 whose gradient at 0 is to be 0."""
    is_zero = equal(x, 0)
    found = function(where(is_zero, filled_like(x, 1), x))
    return where(is_zero, filled_like(x, 0), found)


def _extreme_of_rows(sizes: Tensor, order: float) -> Tensor:
    """Return the greatest number of each row, or for an order below 0 the least, as a constant."""
    if not isinstance(sizes.shape[-1], int):  # which may be 0
        element = filled((*sizes.shape[:-1], 1), 0 if order > 0 else math.inf, sizes.dtype)
        sizes = concat([sizes, element], axis=-1)
    return stop_gradient((greatest if order > 0 else least)(sizes, axis=-1))
