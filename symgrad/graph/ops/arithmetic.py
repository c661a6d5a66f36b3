"""Ops of arithmetic and of order on numbers, integers included."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, called, user_source
from symgrad.graph.build import apply
from symgrad.graph.given_arrays import reached_limits
from symgrad.graph.late_binding import provided
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.comparison import (
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    where,
)
from symgrad.graph.ops.elementwise import (
    broadcast_operands,
    filled_like,
    float_operand,
    infer_same,
    is_inexact,
    is_number,
    one_call,
    rounded_once,
    uniform_value,
)
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import ScalarExpr


@public(is_standard=True, ufuncs=[np.add])
def add(x: Any, y: Any, /) -> Tensor:
    """Compute the sum `x + y`, elementwise; bools are refused.

    >>> sg.run(sg.add([1.0, 2.0], 10.0))
    array([11., 12.], dtype=float32)
    """
    return apply(add_op, *broadcast_operands("add", x, y))


add_op = elementwise(
    "add",
    infer=infer_same("add", is_number),
    reference=rounded_once(np.add),
    grad=lambda _node, g: (g, g),
    body=one_call("add"),
    commutes="yes",
    of_pairs="each",
)


@public(is_standard=True, ufuncs=[np.subtract], known_as=["sub"])
def subtract(x: Any, y: Any, /) -> Tensor:
    """Compute the difference `x - y`, elementwise; bools are refused.

    >>> sg.run(sg.subtract([1.0, 2.0], 10.0))
    array([-9., -8.], dtype=float32)
    """
    return apply(subtract_op, *broadcast_operands("subtract", x, y))


def _subtract_grad(_node: Node, g: Tensor) -> Grads:
    return g, negative(g)


subtract_op = elementwise(
    "subtract",
    infer=infer_same("subtract", is_number),
    reference=rounded_once(np.subtract),
    grad=_subtract_grad,
    body=one_call("sub"),
    of_pairs="each",
)


@public(is_standard=True, ufuncs=[np.multiply], known_as=["mul"])
def multiply(x: Any, y: Any, /) -> Tensor:
    """Compute the product `x * y`, elementwise; bools are refused.

    >>> sg.run(sg.multiply([1.0, 2.0], [[1.0], [10.0]]))
    array([[ 1.,  2.],
           [10., 20.]], dtype=float32)
    """
    return apply(multiply_op, *broadcast_operands("multiply", x, y))


def _multiply_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    return multiply(g, y), multiply(g, x)


multiply_op = elementwise(
    "multiply",
    infer=infer_same("multiply", is_number),
    reference=rounded_once(np.multiply),
    grad=_multiply_grad,
    body=one_call("mul"),
    commutes="yes",
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.divide], known_as=["div", "true_divide"])
def divide(x: Any, y: Any, /) -> Tensor:
    """Compute the quotient `x / y`, elementwise; integers are divided as float32.

    >>> sg.run(sg.divide([1, 3], 2))
    array([0.5, 1.5], dtype=float32)
    """
    x, y = broadcast_operands("divide", x, y)
    return apply(divide_op, float_operand(x), float_operand(y))


def _divide_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    quotient = divide(g, y)
    # What is divided by y is the reciprocal already, of which the gradient needs no division.
    scaled = multiply(g, node.output) if uniform_value(x) == 1 else quotient
    return quotient, negative(multiply(scaled, node.output))


divide_op = elementwise(
    "divide",
    infer=infer_same("divide", is_inexact),
    reference=rounded_once(np.divide),
    grad=_divide_grad,
    body=one_call("div"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.floor_divide])
def floor_divide(x: Any, y: Any, /) -> Tensor:
    """Compute the floor of the exact `x / y`; an integer divided by 0 gives 0. It has no gradient.

    >>> sg.run(sg.floor_divide([7, -7], 2))
    array([ 3, -4], dtype=int32)
    """
    return apply(floor_divide_op, *broadcast_operands("floor_divide", x, y))


floor_divide_op = elementwise(
    "floor_divide",
    infer=infer_same("floor_divide", is_number),
    reference=rounded_once(np.floor_divide),
    grad="none",
    body=one_call("floordiv"),
)


@public(is_standard=True, ufuncs=[np.remainder], known_as=["mod", "fmod"])
def remainder(x: Any, y: Any, /) -> Tensor:
    """Compute the remainder of `x / y`, with the sign of `y`; of an integer by 0 it is 0.

    The gradients are 1 by `x` and `-floor(x / y)` by `y`.

    >>> sg.run(sg.remainder([7, -7], 3))
    array([1, 2], dtype=int32)
    """
    return apply(remainder_op, *broadcast_operands("remainder", x, y))


def _remainder_grad(node: Node, g: Tensor) -> Grads:
    # remainder = x - floor(x / y) * y, where the quotient is constant between its jumps
    return g, negative(multiply(g, floor_divide(*node.inputs)))


remainder_op = elementwise(
    "remainder",
    infer=infer_same("remainder", is_number),
    reference=rounded_once(np.remainder),
    grad=_remainder_grad,
    body=one_call("mod"),
)


@public(is_standard=True, ufuncs=[np.negative], known_as=["neg"])
def negative(x: Any, /) -> Tensor:
    """Compute `-x`; unsigned integers wrap around.

    >>> sg.run(sg.negative([1.0, -2.0]))
    array([-1.,  2.], dtype=float32)
    """
    return apply(negative_op, as_tensor(x))


negative_op = elementwise(
    "negative",
    infer=infer_same("negative", is_number),
    reference=rounded_once(np.negative),
    grad=lambda _node, g: (negative(g),),
    body=one_call("neg"),
    of_pairs="each",
)


@public(is_standard=True, ufuncs=[np.positive])
def positive(x: Any, /) -> Tensor:
    """Return `x`, which must be a tensor of numbers.

    >>> sg.run(sg.positive([1.0, -2.0]))
    array([ 1., -2.], dtype=float32)
    """
    return as_number("positive", x)


def as_number(op: str, x: Any) -> Tensor:
    """Return `x` as a tensor; raises `DTypeError` that names `op` for bools."""
    tensor = as_tensor(x)
    if tensor.dtype.is_bool:
        raise DTypeError(op, f"{tensor.type} is no number", hint="use astype", source=user_source())
    return tensor


@public(is_standard=True, ufuncs=[np.square])
def square(x: Any, /) -> Tensor:
    """Compute the square `x * x`.

    >>> sg.run(sg.square([3, -2]))
    array([9, 4], dtype=int32)
    """
    x = as_number("square", x)
    return multiply(x, x)


@public(is_standard=True, ufuncs=[np.absolute, np.fabs], known_as=["absolute"])
def abs(x: Any, /) -> Tensor:
    """Compute the absolute value; its gradient at 0 is 0. The least signed integer stays.

    Of complex numbers it is the modulus, a real number.

    >>> sg.run(sg.abs([-1.5, 2.0]))
    array([1.5, 2. ], dtype=float32)
    """
    x = as_number("abs", x)
    if x.dtype.is_complex:
        modulus: Tensor = provided("modulus")(x)  # lies above
        return modulus
    return x if x.dtype.kind == "unsigned" else apply(abs_op, x)


def _abs_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, sign(node.inputs[0])),)


abs_op = elementwise(
    "abs",
    infer=infer_same("abs", is_number),
    reference=rounded_once(np.abs),
    grad=_abs_grad,
    body=one_call("abs"),
)


@public(is_standard=True, ufuncs=[np.sign])
def sign(x: Any, /) -> Tensor:
    """Compute 1 for positive numbers, -1 for negative ones, 0 for zeros; nan stays.

    Of a complex number z it is z / abs(z), and 0 of 0; so it is differentiated, too.

    >>> sg.run(sg.sign([-2.0, 0.0, 3.0]))
    array([-1.,  0.,  1.], dtype=float32)
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        direction: Tensor = provided("direction")(x)  # lies above
        return direction
    return apply(sign_op, x)


def _sign_body(s: Scalars[ScalarExpr], x: ScalarExpr) -> ScalarExpr:
    dtype = s.dtype_of(x)
    zero, one = s.const(0, dtype), s.const(1, dtype)
    sign_of_rest = x
    if dtype.kind != "unsigned":
        # What is left is nan or a zero, of which the sum with 0 has no sign.
        unsigned = s.call("add", x, zero) if dtype.is_float else x
        sign_of_rest = s.select(s.call("lt", x, zero), s.const(-1, dtype), unsigned)
    return s.select(s.call("gt", x, zero), one, sign_of_rest)


sign_op = elementwise(
    "sign",
    infer=infer_same("sign", is_number),
    reference=rounded_once(np.sign),
    grad="none",
    body=_sign_body,
)


@public(is_standard=True, ufuncs=[np.maximum])
def maximum(x: Any, y: Any, /) -> Tensor:
    """Take the greater element, nan if either is nan; between equals `x` gets the gradient.

    >>> sg.run(sg.maximum([1.0, 5.0], 3.0))
    array([3., 5.], dtype=float32)
    """
    return apply(maximum_op, *broadcast_operands("maximum", x, y))


def _split_by(first_wins: Tensor, g: Tensor) -> Grads:
    zero = filled_like(g, 0)
    return where(first_wins, g, zero), where(first_wins, zero, g)


maximum_op = elementwise(
    "maximum",
    infer=infer_same("maximum", is_number),
    reference=rounded_once(np.maximum),
    grad=lambda node, g: _split_by(greater_equal(*node.inputs), g),
    body=one_call("max"),
    commutes="but zeros",
)


@public(is_standard=True, ufuncs=[np.minimum])
def minimum(x: Any, y: Any, /) -> Tensor:
    """Take the lesser element, nan if either is nan; between equals `x` gets the gradient.

    >>> sg.run(sg.minimum([1.0, 5.0], 3.0))
    array([1., 3.], dtype=float32)
    """
    return apply(minimum_op, *broadcast_operands("minimum", x, y))


minimum_op = elementwise(
    "minimum",
    infer=infer_same("minimum", is_number),
    reference=rounded_once(np.minimum),
    grad=lambda node, g: _split_by(less_equal(*node.inputs), g),
    body=one_call("min"),
    commutes="but zeros",
)


@public(is_standard=True, known_as=["clamp", "clip_by_value"])
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """Limit `x` to `min` below and `max` above; a limit of None is none.

    The gradient of `x` is 0 beyond a limit and 1 at it.

    >>> sg.run(sg.clip([-2.0, 0.5, 2.0], -1, 1))
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    with called("clip"):
        x = as_tensor(x)
        low, high = reached_limits(x.dtype, min, max)
        bounded = x if low is None else maximum(x, low)
        return bounded if high is None else minimum(bounded, high)


@public(is_standard=True, ufuncs=[np.isinf])
def isinf(x: Any, /) -> Tensor:
    """Compute whether each element is infinite: of a complex number, whether a part is.

    >>> sg.run(sg.isinf([1.0, -np.inf, np.nan]))
    array([False,  True, False])
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        return logical_or(*map(_is_infinite, _parts(x)))
    return _is_infinite(x)


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    return provided("real")(x), provided("imag")(x)  # they lie above


def _is_infinite(x: Tensor) -> Tensor:
    if not x.dtype.is_float:
        return filled_like(x, False) if x.dtype.is_bool else less(x, x)
    return greater_equal(abs(x), filled_like(x, np.inf))


@public(is_standard=True, ufuncs=[np.isfinite])
def isfinite(x: Any, /) -> Tensor:
    """Compute whether each element, with all its parts, is neither infinite nor nan.

    >>> sg.run(sg.isfinite([1.0, -np.inf, np.nan]))
    array([ True, False, False])
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        return logical_and(*map(isfinite, _parts(x)))
    return less(abs(x), filled_like(x, np.inf)) if x.dtype.is_float else less_equal(x, x)
