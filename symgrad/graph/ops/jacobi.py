"""Jacobi rotations of disjoint pairs of rows, and the order in which all pairs have their turn.

Rows lie in two halves, and row i of the first is paired with row i of the second. After each round
all rows but the first move on by one (the circle method), so that after n - 1 rounds every two of n
rows were a pair once and all are back in their places. No op is declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.graph import dtypes
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.block_matrices import block, to_columns
from symgrad.graph.ops.comparison import equal, less, logical_and, where
from symgrad.graph.ops.complex_parts import conj
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.ordering import argsort
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.ops.triangles import identity_like, permute_rows, scaled_range
from symgrad.graph.ops.views import narrow
from symgrad.graph.ops.while_loop import loop

_MOST_SWEEPS = 30  # convergence is quadratic: matrices of a thousand rows take some ten

Rotate = Callable[[Sequence[Tensor]], list[Tensor]]


def sweep_until(
    start: Sequence[Tensor], rounds: int, one_round: Rotate, is_far: Callable[..., Tensor]
) -> list[Tensor]:
    """Do sweeps of `rounds` rounds for as long as `is_far` says so of any matrix."""
    types = [t.type for t in start]
    number = constant(0, dtypes.int64)

    def sweep(*values: Tensor) -> list[Tensor]:
        if rounds == 1:
            return [*one_round(values[:-1]), add(values[-1], 1)]
        body = Traced("rotations", types)
        body.run(lambda *inner: one_round(inner))
        count = constant(rounds, dtypes.int64)
        rotated = scan_loop(count, values[:-1], (), body, rounds).outputs
        return [*rotated, add(values[-1], 1)]

    def goes_on(*values: Tensor) -> list[Tensor]:
        return [logical_and(any_of(is_far(*values[:-1])), less(values[-1], _MOST_SWEEPS))]

    loops = [Traced(name, [*types, number.type]) for name in ("is_far", "sweep")]
    loops[0].run(goes_on)
    loops[1].run(sweep)
    found = loop([*start, number], loops[0], loops[1], _MOST_SWEEPS).outputs
    return list(found[1 : 1 + len(start)])


def sweep_pair(
    matrices: Tensor, sweep: Callable[[Tensor, int], Tensor], is_far: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Do sweeps that are written out of (count, n, n) matrices, and of identities with them.

    Each takes and gives the elements of both along the first of two axes. `is_far` is asked of the
    first, of which the elements are along the first two of three axes.
    """
    count, n, _ = matrices.type.static_shape
    identity = broadcast_to(
        identity_like(filled_like(narrow(matrices, 0, 0, 1), 0)), matrices.shape
    )
    start = concat([to_columns(matrices), to_columns(identity)], axis=0)

    def part(x: Tensor, number: int) -> Tensor:
        return reshape(narrow(x, 0, number * n * n, n * n), (n, n, count))

    # Of two sweeps the second is written where the first one read.
    (found,) = sweep_until(
        [start], 1, lambda x: [sweep(sweep(x[0], n), n)], lambda x: is_far(part(x, 0))
    )
    turned, moved = (permute_dims(part(found, number), (2, 0, 1)) for number in (0, 1))
    return turned, moved


def rotation(difference: Tensor, between: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the rotation of [[p, b], [b', q]] to a diagonal matrix.

    `difference` is q - p. The lesser of the two angles is taken; where b is 0 there is none. Of a
    complex b the sine has the phase.
    """
    if between.dtype.is_complex:
        # The phase of what is near the end of the range has no modulus of 1 in its few digits.
        _, small, shift = scaled_range(difference.dtype)
        is_small = less(absolute(between), small)
        one = filled_like(difference, 1)
        factor = where(is_small, filled_like(one, shift), one)
        between = multiply(between, astype(factor, between.dtype))
        size = absolute(between)
        cosine, sine = rotation(multiply(difference, factor), size)
        share = divide(sine, where(equal(size, 0.0), one, size))
        return astype(cosine, between.dtype), multiply(astype(share, between.dtype), between)
    zero, one = filled_like(between, 0), filled_like(between, 1)
    is_diagonal = equal(between, 0.0)
    ratio = divide(difference, multiply(where(is_diagonal, one, between), 2.0))
    root = sqrt(add(multiply(ratio, ratio), one))
    signed = where(less(ratio, 0.0), subtract(zero, root), root)
    tangent = where(is_diagonal, zero, divide(one, add(ratio, signed)))
    cosine = divide(one, sqrt(add(multiply(tangent, tangent), one)))
    return cosine, multiply(cosine, tangent)


def rotate_rows(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate pairs of rows, and move all rows on to their next places."""
    count, n, m = x.type.static_shape
    half = n // 2
    first, second = block(x, (0, half), (0, m)), block(x, (half, n), (0, m))
    c, s = (broadcast_to(reshape(t, (count, half, 1)), first.shape) for t in (cosine, sine))
    p = subtract(multiply(c, first), multiply(s, second))
    q = add(multiply(conj(s), first), multiply(c, second))
    if half == 1:
        return concat([p, q], axis=1)
    return concat(
        [
            block(p, (0, 1), (0, m)),
            block(q, (0, 1), (0, m)),
            block(p, (1, half - 1), (0, m)),
            block(q, (1, half), (0, m)),
            block(p, (half - 1, half), (0, m)),
        ],
        axis=1,
    )


def in_order(keys: Tensor, rows: Sequence[Tensor], *, descending: bool) -> list[Tensor]:
    """Return the keys in order, and the rows of each matrix in that of its keys."""
    order = argsort(keys, axis=1, descending=descending)
    sorted_keys = permute_rows(reshape(keys, (*keys.shape, 1)), order)
    return [reshape(sorted_keys, keys.shape), *(permute_rows(x, order) for x in rows)]
