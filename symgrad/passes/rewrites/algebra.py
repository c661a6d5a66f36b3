"""Algebraic identities: equations of arithmetic, comparison and logic.

A row holds bit for bit in IEEE arithmetic unless it says otherwise; what is not here, such as
`multiply(x, 0) -> 0` for floats without `fast_math`, does not hold there: `inf * 0` is nan.
"""

from __future__ import annotations

import math

from symgrad.graph.build import apply
from symgrad.graph.dtypes import bool_
from symgrad.graph.node import Tensor
from symgrad.graph.ops.activations import (
    composed_by_erf,
    composed_by_tanh,
    composed_share,
    gelu_by_erf,
    gelu_by_tanh,
    normal_share,
)
from symgrad.graph.ops.arithmetic import abs, add, divide, multiply, negative, subtract
from symgrad.graph.ops.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    where,
)
from symgrad.graph.ops.elementwise import broadcast_operands, filled, uniform_value
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.transcendental import exp, log, pow_op, rsqrt, sigmoid, sqrt, tanh
from symgrad.graph.structures import Number
from symgrad.passes.rewrites.equations import rule
from symgrad.passes.rewrites.rules import Holds

BITWISE, CLOSE = Holds.BITWISE, Holds.CLOSE
EXCEPT_NEG_ZERO, INTEGERS, REAL = Holds.EXCEPT_NEG_ZERO, Holds.INTEGERS, Holds.REAL


def _all(x: Tensor, value: bool) -> Tensor:
    """Return bools of the shape of `x`, all `value`."""
    return filled(x.shape, value, bool_)


def _zero(x: Tensor) -> Tensor:
    return filled(x.shape, 0, x.dtype)


def _one(x: Tensor) -> Tensor:
    return filled(x.shape, 1, x.dtype)


def _power(x: Tensor, y: float) -> Tensor:
    """Return `pow(x, y)`, of integers also below 0, which `pow` refuses: folding finds such y."""
    return apply(pow_op, *broadcast_operands("pow", x, y))


def _reciprocal(c: Tensor) -> Tensor:
    """Return `1 / c`, which is known but where the equation is only printed.

    As an op it would be divided again by the rule it comes from.
    """
    value = uniform_value(c)
    return divide(1, c) if value is None else filled(c.shape, 1 / value, c.dtype)


def _inf_for_minus_inf(x: Tensor) -> Tensor:
    infinity = filled(x.shape, math.inf, x.dtype)
    return where(equal(x, negative(infinity)), infinity, x)


def _has_exact_reciprocal(value: Number) -> bool:
    """Return whether dividing by `value` is multiplying by its reciprocal: a power of two.

    The limits keep the reciprocal a normal number in every float dtype.
    """
    magnitude = math.fabs(value)
    return 2.0**-14 <= magnitude <= 2.0**14 and math.frexp(magnitude)[0] == 0.5


NEUTRAL = (
    rule(lambda x: (add(x, -0.0), x), BITWISE),
    rule(lambda x: (add(x, 0), x), EXCEPT_NEG_ZERO),  # -0 + 0 is 0
    rule(lambda x: (subtract(x, 0), x), BITWISE),
    rule(lambda x: (subtract(0, x), negative(x)), EXCEPT_NEG_ZERO),  # 0 - 0 is 0, not -0
    rule(lambda x: (subtract(-0.0, x), negative(x)), BITWISE),
    rule(lambda x: (multiply(x, 1), x), BITWISE),
    rule(lambda x: (multiply(x, -1), negative(x)), BITWISE),
    rule(lambda x: (multiply(x, 0), _zero(x)), INTEGERS),  # inf * 0 is nan
    rule(lambda x: (divide(x, 1), x), BITWISE),
    rule(lambda x: (divide(x, -1), negative(x)), BITWISE),
    rule(lambda x: (maximum(x, -math.inf), x), BITWISE),
    rule(lambda x: (minimum(x, math.inf), x), BITWISE),
)

SIGNS = (
    rule(lambda x: (negative(negative(x)), x), BITWISE),
    rule(lambda x, y: (add(x, negative(y)), subtract(x, y)), BITWISE),
    rule(lambda x, y: (subtract(x, negative(y)), add(x, y)), BITWISE),
    rule(lambda x, y: (negative(subtract(x, y)), subtract(y, x)), EXCEPT_NEG_ZERO),
    rule(lambda x: (subtract(negative(x), x), negative(add(x, x))), BITWISE),
    rule(lambda x, y: (multiply(negative(x), y), negative(multiply(x, y))), BITWISE),
    rule(lambda x, y: (divide(negative(x), y), negative(divide(x, y))), BITWISE),
    rule(lambda x, y: (divide(x, negative(y)), negative(divide(x, y))), BITWISE),
    rule(lambda x: (abs(negative(x)), abs(x)), BITWISE),
    rule(lambda x: (abs(abs(x)), abs(x)), BITWISE),
    rule(lambda x: (multiply(abs(x), abs(x)), multiply(x, x)), BITWISE),
)

CANCELLATION = (
    rule(lambda x: (subtract(x, x), _zero(x)), INTEGERS),  # inf - inf is nan
    rule(lambda x, y: (subtract(add(x, y), y), x), INTEGERS),
    rule(lambda x, y: (add(subtract(x, y), y), x), INTEGERS),
    rule(lambda x: (divide(x, x), _one(x)), REAL),
    rule(lambda x, y: (divide(multiply(x, y), y), x), REAL),
    rule(lambda x: (maximum(x, x), x), BITWISE),
    rule(lambda x: (minimum(x, x), x), BITWISE),
)

CONSTANTS = (
    # Division is several times the cost of a product.
    rule(
        lambda x, c: (divide(x, c), multiply(x, _reciprocal(c))),
        BITWISE,
        constants=_has_exact_reciprocal,
    ),
    rule(
        lambda x, c: (divide(x, c), multiply(x, _reciprocal(c))),
        REAL,
        constants=lambda value: value != 0,
    ),
    rule(lambda x, c, d: (multiply(multiply(x, c), d), multiply(x, multiply(c, d))), INTEGERS),
    rule(lambda x, c, d: (add(add(x, c), d), add(x, add(c, d))), INTEGERS),
)

# What an activation shares with its slope is then one tensor.
COMPOSED = (
    rule(lambda x: (gelu_by_erf(x), composed_by_erf(x)), BITWISE),
    rule(lambda x: (normal_share(x), composed_share(x)), BITWISE),
    rule(lambda x: (gelu_by_tanh(x), composed_by_tanh(x)), BITWISE),
)

# A power of a half is a root, which is nan of -inf, where the power is that of inf; and of -0 the
# root is -0, where the power is 0 or inf. A power takes five to ten times as long as a root or a
# quotient. Factors are such that none of them over- or underflows where the power does not.
POWERS = (
    rule(lambda x: (_power(x, 0), _one(x)), BITWISE),  # of nan too
    rule(lambda x: (_power(x, 1), x), BITWISE),
    rule(lambda x: (_power(x, 2), multiply(x, x)), CLOSE),
    rule(lambda x: (_power(x, 3), multiply(multiply(x, x), x)), CLOSE),
    rule(lambda x: (_power(x, 4), multiply(multiply(x, x), multiply(x, x))), CLOSE),
    rule(lambda x: (_power(x, -1), divide(1, x)), CLOSE),
    rule(lambda x: (_power(x, -2), multiply(divide(1, x), divide(1, x))), CLOSE),
    rule(lambda x: (_power(x, 0.5), sqrt(x)), REAL),
    rule(lambda x: (_power(x, -0.5), rsqrt(x)), REAL),
    rule(lambda x: (_power(x, 0.5), abs(sqrt(_inf_for_minus_inf(x)))), CLOSE),
    rule(lambda x: (_power(x, -0.5), abs(rsqrt(_inf_for_minus_inf(x)))), CLOSE),
    rule(
        lambda x: (_power(x, 1.5), multiply(_inf_for_minus_inf(x), sqrt(_inf_for_minus_inf(x)))),
        CLOSE,
    ),
    rule(
        lambda x: (
            _power(x, -1.5),
            multiply(divide(1, _inf_for_minus_inf(x)), rsqrt(_inf_for_minus_inf(x))),
        ),
        CLOSE,
    ),
    rule(
        lambda x: (
            _power(x, -2.5),
            multiply(
                multiply(divide(1, _inf_for_minus_inf(x)), divide(1, _inf_for_minus_inf(x))),
                abs(rsqrt(_inf_for_minus_inf(x))),
            ),
        ),
        CLOSE,
    ),
    rule(lambda x: (divide(1, sqrt(x)), rsqrt(x)), BITWISE),
    rule(lambda x: (multiply(sqrt(x), sqrt(x)), x), REAL),
    rule(lambda x: (sqrt(multiply(x, x)), abs(x)), REAL),  # x * x may overflow
    rule(lambda x: (log(exp(x)), x), REAL),
    rule(lambda x: (exp(log(x)), x), REAL),
    rule(lambda x, y: (multiply(exp(x), exp(y)), exp(add(x, y))), REAL),
)

SYMMETRIES = (
    rule(lambda x: (tanh(negative(x)), negative(tanh(x))), CLOSE),
    rule(lambda x: (subtract(1, sigmoid(x)), sigmoid(negative(x))), REAL),
)

COMPARISONS = (
    rule(lambda x: (less(x, x), _all(x, False)), BITWISE),
    rule(lambda x: (greater(x, x), _all(x, False)), BITWISE),
    rule(lambda x: (equal(x, x), _all(x, True)), INTEGERS),  # nan differs from itself
    rule(lambda x: (not_equal(x, x), _all(x, False)), INTEGERS),
    rule(lambda x: (less_equal(x, x), _all(x, True)), INTEGERS),
    rule(lambda x: (greater_equal(x, x), _all(x, True)), INTEGERS),
    rule(lambda x, y: (logical_not(equal(x, y)), not_equal(x, y)), BITWISE),
    rule(lambda x, y: (logical_not(not_equal(x, y)), equal(x, y)), BITWISE),
)

LOGIC = (
    rule(lambda p: (logical_not(logical_not(p)), p), BITWISE),
    rule(lambda p: (logical_and(p, p), p), BITWISE),
    rule(lambda p: (logical_or(p, p), p), BITWISE),
    rule(lambda p: (logical_xor(p, p), _all(p, False)), BITWISE),
    rule(lambda p: (logical_and(p, True), p), BITWISE),
    rule(lambda p: (logical_and(p, False), _all(p, False)), BITWISE),
    rule(lambda p: (logical_or(p, False), p), BITWISE),
    rule(lambda p: (logical_or(p, True), _all(p, True)), BITWISE),
    rule(lambda p: (logical_xor(p, False), p), BITWISE),
    rule(lambda p: (logical_xor(p, True), logical_not(p)), BITWISE),
    rule(lambda p, q: (logical_not(logical_xor(p, q)), equal(p, q)), BITWISE),
)

CHOICES = (
    rule(lambda p, x: (where(p, x, x), x), BITWISE),
    rule(lambda x, y: (where(True, x, y), x), BITWISE),
    rule(lambda x, y: (where(False, x, y), y), BITWISE),
    rule(lambda p: (where(p, True, False), p), BITWISE),
    rule(lambda p: (where(p, False, True), logical_not(p)), BITWISE),
    rule(lambda p, x, y: (where(logical_not(p), x, y), where(p, y, x)), BITWISE),
    rule(lambda p, x, y, z: (where(p, where(p, x, y), z), where(p, x, z)), BITWISE),
    rule(lambda p, x, y, z: (where(p, x, where(p, y, z)), where(p, x, z)), BITWISE),
    rule(lambda x: (where(less(x, 0), negative(x), x), abs(x)), EXCEPT_NEG_ZERO),
)

ALGEBRA = (
    *NEUTRAL,
    *SIGNS,
    *CANCELLATION,
    *CONSTANTS,
    *COMPOSED,
    *POWERS,
    *SYMMETRIES,
    *COMPARISONS,
    *LOGIC,
    *CHOICES,
)
