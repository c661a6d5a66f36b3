"""Signs, fractions and neighbours of floats: what takes a number apart, without rounding.

The meaning at special values is that of the Array API standard and of IEEE 754.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import divide, multiply, negative, sign, subtract
from symgrad.graph.ops.comparison import less
from symgrad.graph.ops.elementwise import (
    broadcast_operands,
    filled_like,
    float_operand,
    float_operands,
    infer_same,
    is_float,
    is_number,
    one_call,
    rounded_once,
)
from symgrad.graph.ops.whole_numbers import as_real_number, round
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import ScalarExpr
from symgrad.graph.types import Array


@public(is_standard=True, ufuncs=[np.trunc])
def trunc(x: Any, /) -> Tensor:
    """Round towards 0, elementwise, in the dtype of `x`; integers stay. It has no gradient.

    Raises `DTypeError` for bools and complex numbers.

    >>> sg.run(sg.trunc([-1.5, 2.7]))
    array([-1.,  2.], dtype=float32)
    """
    x = as_real_number("trunc", x)
    return apply(trunc_op, x) if x.dtype.is_float else x


trunc_op = elementwise(
    "trunc",
    infer=infer_same("trunc", is_float),
    reference=rounded_once(np.trunc),
    grad="none",
    body=one_call("trunc"),
)


@public(ufuncs=[np.fmod])
def fmod(x: Any, y: Any, /) -> Tensor:
    """Compute the remainder of the truncated division `x / y`, with the sign of `x`, exactly.

    Of an integer by 0 it is 0, of a float nan. The gradient to `y` is `-trunc(x / y)`. That with
    the sign of `y` is `remainder`. Raises `DTypeError` for bools.

    >>> sg.run(sg.fmod([-7.0, 7.0], [3.0, -3.0]))
    array([-1.,  1.], dtype=float32)
    """
    return apply(fmod_op, *broadcast_operands("fmod", x, y))


def _fmod_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    # What is left when the remainder is taken off divides, but for rounding.
    quotient = round(divide(subtract(x, node.output), y))
    return g, negative(multiply(g, quotient))


fmod_op = elementwise(
    "fmod",
    infer=infer_same("fmod", is_number),
    reference=rounded_once(np.fmod),
    grad=_fmod_grad,
    body=one_call("fmod"),
)


@public(is_standard=True, ufuncs=[np.copysign])
def copysign(x: Any, y: Any, /) -> Tensor:
    """Compute a number with the magnitude of `x` and the sign bit of `y`, elementwise.

    Zeros and nan have a sign bit too; integers become float32. The gradient to `x` is 1 where the
    signs agree and -1 where they differ, and 0 at 0, as that of `abs`; to `y` there is none.

    >>> sg.run(sg.copysign([1.0, -2.0], [-0.0, 3.0]))
    array([-1.,  2.], dtype=float32)
    """
    return apply(copysign_op, *float_operands("copysign", x, y))


def _copysign_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    return multiply(g, multiply(sign(x), copysign(filled_like(y, 1), y))), None


copysign_op = elementwise(
    "copysign",
    infer=infer_same("copysign", is_float),
    reference=rounded_once(np.copysign),
    grad=_copysign_grad,
    body=one_call("copysign"),
)


@public(is_standard=True, ufuncs=[np.signbit])
def signbit(x: Any, /) -> Tensor:
    """Compute whether the sign bit is set, elementwise: of -0.0 and of some nan it is, too.

    The result is bool. Integers become float32.

    >>> sg.run(sg.signbit([-0.0, 0.0]))
    array([ True, False])
    """
    x = float_operand(x)
    one = filled_like(x, 1)
    return less(copysign(one, x), filled_like(x, 0))


@public(is_standard=True, ufuncs=[np.nextafter])
def nextafter(x: Any, y: Any, /) -> Tensor:
    """Compute the next float of the dtype after `x` in the direction of `y`, elementwise.

    It is `y` where both are equal and nan where either is. The gradient to `x` is 1; to `y` there
    is none.

    >>> sg.run(sg.nextafter(1.0, [2.0, 0.0]) - 1)
    array([ 1.1920929e-07, -5.9604645e-08], dtype=float32)
    """
    return apply(nextafter_op, *float_operands("nextafter", x, y))


def _nextafter_reference(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        # Of equal zeros it is y, which NumPy has otherwise for float16.
        return np.where(x == y, y, np.nextafter(x, y))


def _nextafter_body(s: Scalars[ScalarExpr], x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    dtype = s.dtype_of(x)
    return _next_half(s, x, y, dtype) if dtype.is_half else s.call("nextafter", x, y)


# Significant bits of the 16-bit floats, their least positive number and their largest.
_HALVES = {
    dtypes.float16: (11, 2.0**-24, 65504.0),
    dtypes.bfloat16: (8, 2.0**-133, (2 - 2.0**-7) * 2.0**127),
}


def _next_half(s: Scalars[ScalarExpr], x: ScalarExpr, y: ScalarExpr, dtype: DType) -> ScalarExpr:
    """Return the neighbour by arithmetic in float32, rounded: 5/8 to 5/4 of a unit away.

    Between half a unit and one and a half, also where the unit halves below a power of 2, what is
    there rounds to the neighbour. Units stop shrinking below the normal numbers.
    """
    bits, least, largest = _HALVES[dtype]
    wide = dtypes.float32
    x, y = s.cast(x, wide), s.cast(y, wide)
    zero = s.const(0, wide)
    size = s.call("abs", x)
    step = s.call("mul", size, s.const(1.25 * 2.0**-bits, wide))
    step = s.call("max", step, s.const(0.75 * least, wide))
    is_infinite = s.call("gt", size, s.const(largest, wide))
    inward = s.select(is_infinite, s.const(largest, wide), s.call("sub", size, step))
    is_outward = s.call("xor", s.call("lt", x, y), s.call("lt", x, zero))
    is_zero = s.call("eq", x, zero)
    moved = s.select(is_outward, s.call("add", size, step), inward)
    moved = s.select(is_zero, step, moved)
    moved = s.call("copysign", moved, s.select(is_zero, y, x))
    moved = s.select(s.call("eq", x, y), y, moved)
    moved = s.select(s.call("ne", x, x), x, s.select(s.call("ne", y, y), y, moved))
    return s.cast(moved, dtype)


nextafter_op = elementwise(
    "nextafter",
    infer=infer_same("nextafter", is_float),
    reference=_nextafter_reference,
    grad=lambda _node, g: (g, None),
    body=_nextafter_body,
)
