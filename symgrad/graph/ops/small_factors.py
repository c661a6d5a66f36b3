"""Inverses of small matrices by LU factors, a column in each lane: see `small_elimination.py`.

A column of the inverse is what the factors leave of a row of the permutation, which is no more than
a number. So nothing is exchanged, and a column stays in registers from its first element to its
last: what it needs of the factors of its matrix is read where it is used.
"""

from __future__ import annotations

from functools import partial

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.arithmetic import divide
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.small_matrices import Row, column_map, is_wide_float, on_arrays, rows_of
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType


def pivots_of_columns(factors: Tensor, n: int) -> Tensor:
    """Return the diagonals of factors that are columns of n * n elements, or more."""
    return slice_axes(factors, (0, 0), (n, factors.type.static_shape[1]), (n + 1, 1))


def transposed_inverses(factors: Tensor, places: Tensor, scale: Tensor, n: int) -> Tensor:
    """Return (count, n, n) transposes of inverses, each times its number of `scale`.

    `factors` are columns of n * n elements of L and U, `places` of n numbers: which row of the
    factors a row of the matrix is.
    """
    count = factors.type.static_shape[1]
    pivots = pivots_of_columns(factors, n)
    given = [
        reshape(permute_dims(places, (1, 0)), (1, count, n)),
        *(
            reshape(t, (*t.shape, 1))
            for t in (scale, factors, divide(filled_like(pivots, 1), pivots))
        ),
    ]
    operands = [broadcast_to(t, (*t.shape[:-1], n)) for t in given]
    return apply(solve_by_factors_op, *operands, n=n)


def _infer(
    place: TensorType, scale: TensorType, factors: TensorType, reciprocals: TensorType, *, n: int
) -> TensorType:
    op = "solve_by_factors"
    sizes = {"place": 1, "scale": 1, "factors": n * n, "reciprocals": n}
    given = zip(sizes.items(), (place, scale, factors, reciprocals), strict=True)
    for (name, size), operand in given:
        require_dtype(op, name, operand, is_wide_float)
        if operand.ndim != 3 or operand.shape[0] != size:
            raise ShapeError(op, f"{name}: {operand} does not have {size} elements on axis 0")
        tails = (t.with_shape(t.shape[1:]) for t in (place, operand))
        meet_shapes(op, "place", next(tails), name, next(tails))
    return place.with_shape((*place.shape[1:], n))


def _solved(place: Row, scale: Row, factors: Row, reciprocals: Row, *, n: int) -> list[FloatExpr]:
    """Subtract each element, when it is known, from all that it is a part of."""
    rows = rows_of(factors, n)
    x = [place[0].equals(float(i)).choose(scale[0], 0.0) for i in range(n)]
    for k in range(n):
        for i in range(k + 1, n):
            x[i] = x[i].less(rows[i][k], x[k])
    for k in reversed(range(n)):
        x[k] = x[k] * reciprocals[k]
        for i in range(k):
            x[i] = x[i].less(rows[i][k], x[k])
    return x


def _reference(*operands: Array, n: int) -> Array:
    return on_arrays(partial(_solved, n=n), operands).transpose(1, 2, 0).copy()


def _kernel(*_operands: TensorType, n: int) -> ColumnMap:
    return column_map(partial(_solved, n=n), 2 * n * n, axis=2)


def _batch(operands: Operands, *, n: int) -> Tensor:
    """Give matrices one axis more, which is one with that which counts them."""
    size = operands.size
    inner = [permute_dims(t, (1, 0, 2, 3)) for t in operands.lifted()]
    merged = [reshape(t, (t.shape[0], size * t.shape[2], t.shape[3])) for t in inner]
    result = operands.apply(*merged, n=n)
    return reshape(result, (size, *operands.node.output.shape))


solve_by_factors_op = define(
    "solve_by_factors",
    infer=_infer,
    reference=_reference,
    grad="none",
    kernel=_kernel,
    batch=_batch,
)
