"""Random rotations: orthogonal matrices of the Haar distribution, and sums that are portable."""

from __future__ import annotations

from symgrad.frontend.iteration import scan
from symgrad.frontend.matrices import eye
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import abs, add, divide, multiply, subtract
from symgrad.graph.ops.comparison import equal, greater_equal, less, where
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.structure import broadcast_to, expand_dims
from symgrad.graph.ops.subscript import getitem
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.types import Shape
from symgrad.random.distributions import portable_normal
from symgrad.random.streams import Stream


def orthogonal_matrices(stream: Stream, n: int, shape: Shape, dtype: DType) -> Tensor:
    """Return matrices of n x n that Householder's reduction of a normal matrix would give.

    That is the Q of its QR factorization in which R has a positive diagonal, and so is spread by
    the Haar measure (G. W. Stewart, "The efficient generation of random orthogonal matrices with an
    application to condition estimators", 1980). The columns that are reduced are independent of
    what was reflected before, so the vectors of all reflections are drawn at once: the k-th has
    elements from k on.
    """
    whole = (*shape, n, n)
    drawn = portable_normal(*stream.words(whole), dtype)
    row, column = iota((n, n), 0), iota((n, n), 1)
    x = where(broadcast_to(greater_equal(column, row), whole), drawn, 0.0)
    is_diagonal = broadcast_to(equal(row, column), whole)
    norm = sqrt(sum_by_halves(multiply(x, x)))
    first = sum_by_halves(where(is_diagonal, x, 0.0))  # of zeros and one element: that one
    is_negative = less(first, 0.0)
    # The reflection is 1 - tau * v * transpose(v), where the first element of v is 1.
    size = add(norm, abs(first))
    safe = where(equal(size, 0.0), 1.0, size)
    scale = where(is_negative, subtract(0.0, safe), safe)
    v = where(is_diagonal, 1.0, divide(x, scale))
    tau = divide(size, where(equal(norm, 0.0), 1.0, norm))
    product = _reflected(v, multiply(tau, v), eye(n, dtype=dtype))
    # R has the opposite sign of what was reduced.
    signs = where(is_negative, constant(1.0, dtype), constant(-1.0, dtype))
    return multiply(product, moveaxis(signs, -1, -2))


def _reflected(v: Tensor, scaled: Tensor, identity: Tensor) -> Tensor:
    """Return the product of the reflections, of which the last one is applied first."""

    def step(product: Tensor, vectors: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        column, scaled_column = (expand_dims(vector, -1) for vector in vectors)
        inner = sum_by_halves(multiply(column, product), -2)
        return subtract(product, multiply(scaled_column, inner)), None

    rows = (moveaxis(v, -2, 0), moveaxis(scaled, -2, 0))
    product: Tensor = scan(step, broadcast_to(identity, v.shape), rows, reverse=True)[0]
    return product


def sum_by_halves(x: Tensor, axis: int = -1) -> Tensor:
    """Return the sum along an axis of known size, which stays: in an order no target changes."""
    axis %= x.ndim
    count = x.shape[axis]
    assert isinstance(count, int), "the size of the axis is known"
    width = 1 << (max(count, 1) - 1).bit_length()
    if width != count:
        padded = (*x.shape[:axis], width, *x.shape[axis + 1 :])
        x = place(x, padded, (0,) * x.ndim, (1,) * x.ndim)
    before = (slice(None),) * axis
    while width > 1:
        width //= 2
        upper = getitem(x, (*before, slice(width, 2 * width)))
        x = add(getitem(x, (*before, slice(0, width))), upper)
    return x
