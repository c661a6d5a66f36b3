"""Beta function: its logarithm, of positive arguments.

Where both are large, Stirling's series of the three gamma functions (DLMF 5.11.1) are combined so
that their large parts cancel on paper, as Didonato and Morris (1992) do; likewise where one is.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.ops.gamma import digamma, gammaln_above, gammaln_reference, stirling_tail
from symgrad.graph.types import Array

_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_LARGE = 3.0


def betaln(a: Tensor, b: Tensor) -> Tensor:
    """Return `gammaln(a) + gammaln(b) - gammaln(a + b)` of positive floats of one type."""
    return apply(betaln_op, a, b)


def betaln_formula(a: FloatExpr, b: FloatExpr) -> FloatExpr:
    """Return the logarithm of the beta function for a, b >= 0, and nan elsewhere."""
    p, q = a.least(b), a.greatest(b)
    total = p + q
    of_p, of_q = gammaln_above(p), gammaln_above(q)
    small = of_p + (of_q - gammaln_above(total))
    tails = stirling_tail(q) - stirling_tail(total)
    log_ratio = (p / q).call("log1p")
    # gammaln(q) - gammaln(p + q) for q >= 3
    fall = tails - (q - 0.5) * log_ratio - p * (total.log() - 1.0)
    large = (_HALF_LOG_2_PI - 0.5 * q.log()) + (stirling_tail(p) + tails)
    large = large - (p - 0.5) * (q / p).call("log1p") - q * log_ratio
    result = (q >= _LARGE).choose(of_p + fall, small)
    result = (p >= _LARGE).choose(large, result)
    result = q.equals(math.inf).choose(q.like(-math.inf), result)
    result = p.equals(0.0).choose(q.equals(math.inf).choose(q.like(math.nan), math.inf), result)
    return (p >= 0.0).choose(result, math.nan)


def _betaln_grad(node: Node, g: Tensor) -> Grads:
    a, b = node.inputs
    of_both = digamma(add(a, b))
    return (
        multiply(g, subtract(digamma(a), of_both)),
        multiply(g, subtract(digamma(b), of_both)),
    )


def _betaln_reference(a: Array, b: Array) -> Array:
    """Return the logarithm of the beta function in float64, by two ways for large arguments."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    p, q = np.minimum(a, b), np.maximum(a, b)
    direct = gammaln_reference(p) + (gammaln_reference(q) - gammaln_reference(p + q))
    # Raised by 20 steps of B(p, q) = B(p, q + 1) * (p + q) / q, then DLMF 5.11.13 for the ratio.
    z = q + 20 + 0.5 * (p - 1)
    ratio = -p * np.log(z) + np.log1p((p - 1) * p * (p + 1) / (24 * z * z))
    for k in range(20):
        ratio = ratio + np.log1p(p / (q + k))
    result = np.where((q > 1e6) & (p < 1), gammaln_reference(p) + ratio, direct)
    result = np.where(np.isposinf(q), -np.inf, result)
    result = np.where(p == 0, np.where(np.isposinf(q), np.nan, np.inf), result)
    return np.where(p >= 0, result, np.nan)


betaln_op = elementwise(
    "betaln",
    infer=infer_same("betaln", is_float),
    reference=rounded_once(_betaln_reference),
    grad=_betaln_grad,
    body=body_of_formula(betaln_formula),
    commutes="yes",
)
