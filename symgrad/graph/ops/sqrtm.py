"""Matrix square root: the op, its gradient, and its algorithm, Newton's iteration.

That is the product form of Denman and Beavers' iteration with scaling by determinants (Higham,
2008, section 6.3), which converges where no eigenvalue is real and not positive. A symmetric matrix
for which it does not has its root, if it has one, by its eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.nested import Traced
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.block_matrices import expansion, in_parts, transposed
from symgrad.graph.ops.block_matrices import product as block_product
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import (
    equal,
    greater,
    less,
    less_equal,
    logical_and,
    logical_not,
    where,
)
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.eigh import eigh
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.matrix_functions import adjoint_derivative
from symgrad.graph.ops.reduction import all as all_of
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.reduction import max as greatest
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.transcendental import exp, log, sqrt
from symgrad.graph.ops.triangles import identity_like
from symgrad.graph.ops.triangular import check_square
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType

_MOST_STEPS = 50  # scaled, a matrix with a condition number of 1e16 takes some 10
_SCALED = 1e-2  # what is nearer than that converges as fast without scaling


def sqrtm(a: Tensor) -> Tensor:
    """Return the principal square roots of square matrices, nan where they are not real."""
    return apply(sqrtm_op, a)


def _infer(a: TensorType) -> TensorType:
    check_square("sqrtm", "a", a)
    return a


def _reference(a: Array) -> Array:
    found = np.full(a.shape, np.nan)
    for at in np.ndindex(a.shape[:-2]):
        found[at] = _reference_of_one(a[at].astype("f8"), float(np.finfo(a.dtype).eps))
    return found.astype(a.dtype)


def _reference_of_one(a: Array, eps: float) -> Array:
    if a.size and np.isfinite(a).all() and (a == a.T).all():
        values, vectors = np.linalg.eigh(a)
        least = -len(a) * eps * np.abs(values).max()
        values = np.where(values < least, np.nan, np.maximum(values, 0))
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T)
    x, y = a, np.eye(len(a))
    for _ in range(100):
        try:
            following = (x + np.linalg.inv(y)) / 2
            y = (y + np.linalg.inv(x)) / 2
        except np.linalg.LinAlgError:
            return a * np.nan
        is_done = np.abs(following - x).max(initial=0) <= 1e-15 * np.abs(x).max(initial=0)
        x = following
        if is_done:
            return np.asarray(x)
    apart = np.abs(x @ x - a).max(initial=0)
    return np.asarray(x if apart <= 1e-8 * np.abs(a).max(initial=0) else a * np.nan)


def _grad(node: Node, g: Tensor) -> Grads:
    # x x = a, so that x' a_bar + a_bar x' = g.
    (a,) = node.inputs
    return (adjoint_derivative(sqrtm, a, g),)


def _kernel(a: TensorType) -> Call:
    n = a.static_shape[-1]

    def sqrtm(a: Tensor) -> list[Tensor]:
        (found,) = in_parts(lambda x: [_root(x)], reshape(a, (-1, n, n)))
        return [reshape(found, a.shape)]

    def nothing(a: Tensor) -> list[Tensor]:
        return [a]

    return expansion(sqrtm if a.count else nothing, a)


def _root(a: Tensor) -> Tensor:
    limit = float(np.sqrt(np.finfo(a.dtype.numpy).eps))

    def is_far(m: Tensor) -> Tensor:
        return greater(_distance(m), limit)  # and not for nan, which ends the iteration

    def goes_on(_x: Tensor, m: Tensor, step: Tensor) -> list[Tensor]:
        return [logical_and(any_of(is_far(m)), less(step, _MOST_STEPS))]

    def move(x: Tensor, m: Tensor, step: Tensor) -> list[Tensor]:
        moves = _over(is_far(m), m)
        pairs = zip(_step(x, m, is_scaled=True), (x, m), strict=True)
        return [*(where(moves, new, old) for new, old in pairs), add(step, 1)]

    start = [a, a, constant(0, dtypes.int64)]
    loops = [Traced(name, [t.type for t in start]) for name in ("is_far", "step")]
    loops[0].run(goes_on)
    loops[1].run(move)
    x, m = loop(start, loops[0], loops[1], _MOST_STEPS).outputs[1:3]
    is_near = less_equal(_distance(m), limit)
    x, _ = _step(x, m, is_scaled=False)  # convergence is quadratic: this is to rounding
    found = where(_over(is_near, a), x, filled_like(x, float("nan")))
    is_symmetric = all_of(equal(a, transposed(a)), axis=(1, 2))
    return _by_eigenvalues_where(logical_and(logical_not(is_near), is_symmetric), a, found)


def _step(x: Tensor, m: Tensor, *, is_scaled: bool) -> Sequence[Tensor]:
    """Return the next approximation of the root, and what goes to the identity as it converges."""
    one = identity_like(m)
    factors, order = lu(m)
    inverse = linear_solve(m, factors, order, one)
    if is_scaled:
        scale = _scale(m, factors)
        root = sqrt(scale)
        m, inverse = multiply(m, _over(scale, m)), divide(inverse, _over(scale, m))
        x = multiply(x, _over(root, x))
    mean = multiply(add(m, inverse), 0.5)
    following = multiply(block_product(x, add(one, inverse)), 0.5)
    return following, multiply(add(one, mean), 0.5)


def _scale(m: Tensor, factors: Tensor) -> Tensor:
    """Return |det m| ** (-1 / n), which makes the eigenvalues 1 on average; 1 near the identity."""
    n = m.type.static_shape[-1]
    logarithm = divide(reduce_sum(log(absolute(diagonal(factors))), (1,)), float(n))
    found = exp(subtract(filled_like(logarithm, 0), logarithm))
    return where(greater(_distance(m), _SCALED), found, filled_like(found, 1))


def _distance(m: Tensor) -> Tensor:
    """Return how far each matrix is from the identity, by its largest element."""
    return greatest(absolute(subtract(m, identity_like(m))), axis=(1, 2))


def _over(x: Tensor, like: Tensor) -> Tensor:
    """Repeat one value for each matrix over its elements."""
    return broadcast_to(reshape(x, (*x.shape, 1, 1)), like.shape)


def _by_eigenvalues_where(chosen: Tensor, a: Tensor, otherwise: Tensor) -> Tensor:
    """Return the roots of `chosen` symmetric matrices by eigenvalues, which may be 0."""
    found = [Traced(name, ()) for name in ("as_found", "by_eigenvalues")]
    found[0].run(lambda: [otherwise])
    found[1].run(lambda: [where(_over(chosen, a), _symmetric_root(a), otherwise)])
    return branch(astype(any_of(chosen), dtypes.int64), found).output


def _symmetric_root(a: Tensor) -> Tensor:
    n = a.type.static_shape[-1]
    values, vectors = eigh(a)
    largest = greatest(absolute(values), axis=1)
    least = multiply(largest, -n * float(np.finfo(a.dtype.numpy).eps))
    is_negative = less(values, broadcast_to(reshape(least, (*least.shape, 1)), values.shape))
    roots = sqrt(maximum(values, 0.0))
    roots = where(is_negative, filled_like(roots, float("nan")), roots)
    rows = broadcast_to(reshape(roots, (roots.shape[0], 1, n)), a.shape)
    return block_product(multiply(vectors, rows), vectors, transpose_b=True)


sqrtm_op = define(
    "sqrtm", infer=_infer, reference=_reference, grad=_grad, kernel=_kernel, batch=batch_in_front
)
