"""How fast vectors turn: what gradients of eigenvectors and singular vectors divide by distances.

With a matrix turn its eigenvectors: one towards another by how the matrix changes between the two,
divided by the distance of their eigenvalues. Of equal eigenvalues that has no limit, unless the
change between the two is 0: then nothing turns. The op of this file is that quotient. It is linear
in what is divided, and so is its gradient, which is the quotient of what arrives: a seed of zeros,
as forward mode has one, must not make a zero of it.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, multiply, negative, subtract
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.complex_parts import complex, imag, real
from symgrad.graph.ops.elementwise import filled_like, infer_same, is_float, rounded_once
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.ops.triangles import adjoint, triangle
from symgrad.graph.types import Array


def quotient(x: Tensor, gap: Tensor) -> Tensor:
    """Return x / gap of real gaps, and 0 for 0 / 0: what is not turned has no rate."""
    if not x.dtype.is_complex:
        return apply(turn_rate_op, x, gap)
    return complex(*(apply(turn_rate_op, part, gap) for part in (real(x), imag(x))))


def turn_rates(turned: Tensor, gap: Tensor) -> Tensor:
    """Return (x - x') / gap for the square matrices `turned`, x, where ' conjugates.

    Where a gap is 0 the difference is 0 as well, of whatever does not depend on which vectors were
    taken of equal eigenvalues; and yet it has another limit than 0 in general, as of a function of
    matrices, that the vectors do not tell. So what arrives there is divided by itself: the result
    is 0 if nothing arrives, and infinite or nan otherwise.
    """
    is_equal = equal(gap, 0.0)
    return quotient(where(is_equal, off_diagonal(turned), odd_part(turned)), gap)


def odd_part(x: Tensor) -> Tensor:
    """Return x - x', where ' conjugates, without the imaginary numbers of the diagonal."""
    odd = subtract(x, adjoint(x))
    if not x.dtype.is_complex:
        return odd
    return add(triangle(odd, lower=True, k=-1), triangle(odd, lower=False, k=1))


def off_diagonal(x: Tensor) -> Tensor:
    """Return `x` with zeros on the diagonals of its matrices."""
    is_diagonal = broadcast_to(equal(iota(x.shape[-2:], 0), iota(x.shape[-2:], 1)), x.shape)
    return where(is_diagonal, filled_like(x, 0), x)


def _formula(x: FloatExpr, gap: FloatExpr) -> FloatExpr:
    rate = x / gap
    return gap.equals(0.0).choose(x.equals(0.0).choose(x, rate), rate)


def _reference(x: Array, gap: Array) -> Array:
    return np.where((gap == 0) & (x == 0), x, x / gap)


def _grad(node: Node, g: Tensor) -> Grads:
    _, gap = node.inputs
    to_x = quotient(g, gap)
    return to_x, negative(quotient(multiply(g, node.output), gap))


turn_rate_op = elementwise(
    "turn_rate",
    infer=infer_same("turn_rate", is_float),
    reference=rounded_once(_reference),
    grad=_grad,
    body=body_of_formula(_formula),
)
