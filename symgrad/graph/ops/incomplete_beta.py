"""Incomplete beta function, regularized, with its derivatives by all three arguments.

The formulas are in `incomplete_beta_formula.py`; here are the records, and what NumPy says: the
power series of DLMF 8.17.8, of positive terms, until it stands still.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import body_of_formula
from symgrad.graph.node import Grads, Infer, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import require_dtype, require_equal_types
from symgrad.graph.ops import incomplete_beta_formula as formulas
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.elementwise import is_float, rounded_once
from symgrad.graph.ops.gamma import digamma, digamma_reference, gammaln_reference
from symgrad.graph.ops.marks import prevent_gradient
from symgrad.graph.ops.transcendental import log, log1p
from symgrad.graph.types import Array, TensorType

_SECOND = "the second derivatives of the incomplete beta function by a and b are not known"


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return I_x(a, b) of floats of one type."""
    return apply(betainc_op, a, b, x)


def betainc_by_a(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of I_x(a, b) by `a`, which is never positive."""
    a, b = prevent_gradient(a, _SECOND), prevent_gradient(b, _SECOND)
    return apply(betainc_by_a_op, a, b, x)


def betainc_by_b(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of I_x(a, b) by `b`, which is never negative."""
    a, b = prevent_gradient(a, _SECOND), prevent_gradient(b, _SECOND)
    return apply(betainc_by_b_op, a, b, x)


def beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of I_x(a, b) by `x`, the density of the beta distribution."""
    return apply(beta_density_op, a, b, x)


# --------------------------------------------------------------------------------------- gradients


def _betainc_grad(node: Node, g: Tensor) -> Grads:
    a, b, x = node.inputs
    by_a, by_b = betainc_by_a(a, b, x), betainc_by_b(a, b, x)
    return multiply(g, by_a), multiply(g, by_b), multiply(g, beta_density(a, b, x))


def _slopes(a: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the derivatives of the logarithm of the density by a and by b."""
    of_both = digamma(add(a, b))
    by_a = subtract(log(x), subtract(digamma(a), of_both))
    return by_a, subtract(log1p(multiply(x, -1)), subtract(digamma(b), of_both))


# What arrives at the parameters of these derivatives is refused there.
def _by_a_grad(node: Node, g: Tensor) -> Grads:
    a, b, x = node.inputs
    return g, g, multiply(g, multiply(beta_density(a, b, x), _slopes(a, b, x)[0]))


def _by_b_grad(node: Node, g: Tensor) -> Grads:
    a, b, x = node.inputs
    return g, g, multiply(g, multiply(beta_density(a, b, x), _slopes(a, b, x)[1]))


def _density_grad(node: Node, g: Tensor) -> Grads:
    a, b, x = node.inputs
    g = multiply(g, node.output)
    by_a, by_b = _slopes(a, b, x)
    by_x = subtract(divide(subtract(a, 1), x), divide(subtract(b, 1), subtract(1, x)))
    return multiply(g, by_a), multiply(g, by_b), multiply(g, by_x)


# ------------------------------------------------------------------------------------- references


def _parts(a: Array, b: Array, x: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return where 1 - I is summed, the density, the sum, and its derivatives by a and b."""
    a, b, x = (v.astype(np.float64) for v in (a, b, x))
    usual = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a + b)
    a, b, x = (np.where(usual, v, 0.5) for v in (a, b, x))
    swap = x * (a + b + 2) > a + 1
    p, q, z = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - x, x)
    betaln = gammaln_reference(p) + gammaln_reference(q) - gammaln_reference(p + q)
    density = np.exp(a * np.log(x) + b * np.log1p(-x) - betaln)
    return swap, density, *_sums(p, q, z), usual


def _sums(a: Array, b: Array, x: Array) -> tuple[Array, Array, Array]:
    """Return the sum over k of x**k * (a+b)...(a+b+k-1) / (a...(a+k)), and its derivatives."""
    term = total = 1 / a
    by_a, by_b = -1 / a, np.zeros_like(a)  # the derivatives of the logarithm of the term
    sum_a, sum_b = term * by_a, term * by_b
    for k in range(1_000_000):
        term = term * x * (a + b + k) / (a + k + 1)
        rise = 1 / (a + b + k)
        by_a, by_b = by_a + rise - 1 / (a + k + 1), by_b + rise
        total, sum_a, sum_b = total + term, sum_a + term * by_a, sum_b + term * by_b
        if not np.any(term * by_b > 1e-18 * sum_b):  # the sum that is the last to end
            break
    return total, sum_a, sum_b


def _limits(result: Array, a: Array, b: Array, x: Array, at_one: float) -> Array:
    result = np.where((x == 0) | (b == 0), 0, result)
    result = np.where((x == 1) | (a == 0), at_one, result)
    is_unknown = ((a == 0) & ((b == 0) | (x == 0))) | ((b == 0) & (x == 1))
    is_known = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1) & ~is_unknown
    return np.where(is_known, result, np.nan)


def _betainc_reference(a: Array, b: Array, x: Array) -> Array:
    swap, density, total, _, _, _ = _parts(a, b, x)
    part = density * total
    return _limits(np.where(swap, 1 - part, part), a, b, x, 1)


def _by_a_reference(a: Array, b: Array, x: Array) -> Array:
    swap, density, total, by_a, by_b, usual = _parts(a, b, x)
    slope = np.log(np.where(usual, x, 0.5)) - digamma_reference(a) + digamma_reference(a + b)
    result = density * (slope * total + np.where(swap, by_b, by_a))
    return _limits(np.where(swap, -result, result), a, b, x, 0)


def _by_b_reference(a: Array, b: Array, x: Array) -> Array:
    swap, density, total, by_a, by_b, usual = _parts(a, b, x)
    slope = np.log1p(-np.where(usual, x, 0.5)) - digamma_reference(b) + digamma_reference(a + b)
    result = density * (slope * total + np.where(swap, by_a, by_b))
    return _limits(np.where(swap, -result, result), a, b, x, 0)


def _density_reference(a: Array, b: Array, x: Array) -> Array:
    _, density, _, _, _, _ = _parts(a, b, x)
    x = x.astype(np.float64)
    at_zero = np.where(a > 1, 0, np.where(a == 1, b, math.inf))
    at_one = np.where(b > 1, 0, np.where(b == 1, a, math.inf))
    value = np.where(x == 0, at_zero, np.where(x == 1, at_one, density / (x * (1 - x))))
    return np.where((a >= 0) & (b >= 0) & (x >= 0) & (x <= 1), value, np.nan)


# ---------------------------------------------------------------------------------------- records


def _infer(op: str) -> Infer:
    def infer(a: TensorType, b: TensorType, x: TensorType) -> TensorType:
        for name, operand in (("a", a), ("b", b), ("x", x)):
            require_dtype(op, name, operand, is_float)
        return require_equal_types(op, a=a, b=b, x=x)

    return infer


betainc_op = elementwise(
    "betainc",
    infer=_infer("betainc"),
    reference=rounded_once(_betainc_reference),
    grad=_betainc_grad,
    body=body_of_formula(formulas.betainc_formula),
)

betainc_by_a_op = elementwise(
    "betainc_by_a",
    infer=_infer("betainc_by_a"),
    reference=rounded_once(_by_a_reference),
    grad=_by_a_grad,
    body=body_of_formula(formulas.slope_by_a_formula),
)

betainc_by_b_op = elementwise(
    "betainc_by_b",
    infer=_infer("betainc_by_b"),
    reference=rounded_once(_by_b_reference),
    grad=_by_b_grad,
    body=body_of_formula(formulas.slope_by_b_formula),
)

beta_density_op = elementwise(
    "beta_density",
    infer=_infer("beta_density"),
    reference=rounded_once(_density_reference),
    grad=_density_grad,
    body=body_of_formula(formulas.betainc_density_formula),
)
