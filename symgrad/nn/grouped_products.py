"""Grouped products of matrices: groups of rows of different lengths, each with a matrix of its own.

Rows of a group are cut into blocks of the same number of rows, of which one after the other is
multiplied: so the work grows with the rows, not with the groups. Products of operands that are
scaled are in `scaled_products.py`.
"""

from __future__ import annotations

from typing import Any

from symgrad.cost_model import ROWS_OF_GROUPED_BLOCK
from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.iteration import scan
from symgrad.graph.dtypes import int64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, promote_operands
from symgrad.graph.ops.arithmetic import add, floor_divide, multiply, subtract
from symgrad.graph.ops.comparison import less, where
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.counting import searchsorted
from symgrad.graph.ops.cumulative import cumulative_sum
from symgrad.graph.ops.elementwise import filled, float_operand
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.reduction import any_zero
from symgrad.graph.ops.slicing import place, slice_axes
from symgrad.graph.ops.structure import accumulator_dtype, expand_dims, permute_dims, reshape
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.nn.operand_shapes import shaped
from symgrad.records import dataclass

_OP = "grouped_mm"


@public(known_as=["ragged_dot", "_grouped_mm"])
def grouped_mm(a: Any, b: Any, offsets: Any = None) -> Tensor:
    """Multiply groups of rows by a matrix each: the grouped, or ragged, product of matrices.

    Of a mixture of experts `a` is (rows, k), `b` is (groups, k, n), and group g has the rows from
    `offsets[g - 1]`, or 0, to below `offsets[g]`; the result is (rows, n). `offsets` are integers
    that do not fall, and what is beyond the rows counts as their end; rows from the last of them on
    belong to no group, and are 0 in the result.
    What the groups divide is the axis that both lack:

    - (rows, k) with (groups, k, n), groups of rows: (rows, n).
    - (groups, m, k) with (k, columns), groups of columns: (m, columns).
    - (m, k) with (k, n), groups of terms of the sum, as for gradients to weights: (groups, m, n).
    - (groups, m, k) with (groups, k, n), without `offsets`: (groups, m, n).

    Dtypes promote, integers become float32; a 16-bit float is added up in float32 and rounded once.
    The gradient to each operand is a grouped product of the other with that of the result.

    Raises `ShapeError` for ranks and sizes that do not fit, `DTypeError` for offsets that are no
    integers, `GraphError` for offsets that are missing, or given with two batches.

    >>> a, b = sg.ones((4, 2)), sg.constant([[[1.0], [1.0]], [[5.0], [5.0]]])
    >>> sg.run(sg.nn.grouped_mm(a, b, [1, 3]))[:, 0]
    array([ 2., 10., 10.,  0.], dtype=float32)
    """
    a, b = (float_operand(side) for side in promote_operands(_OP, a, b))
    ranks = a.ndim, b.ndim
    if any(n not in (2, 3) for n in ranks):
        problem = f"a: {a.type} and b: {b.type} are not of two or three axes"
        raise ShapeError(_OP, problem, source=user_source())
    if (offsets is None) != (ranks == (3, 3)):
        problem = "offsets are not given" if offsets is None else "offsets are given"
        raise GraphError(_OP, f"{problem} for {a.type} and {b.type}", source=user_source())
    b = shaped(_OP, "b", b, "axis -1 of a", (*b.shape[:-2], a.shape[-1], b.shape[-1]))
    if offsets is None:
        return matmul(a, shaped(_OP, "b", b, "axis 0 of a", (a.shape[0], *b.shape[1:])))
    ends = _offsets(offsets)
    match ranks:
        case (2, 3):
            return _by_rows(a, shaped(_OP, "b", b, "offsets", (*ends.shape, *b.shape[1:])), ends)
        case (3, 2):
            a = shaped(_OP, "a", a, "offsets", (*ends.shape, *a.shape[1:]))
            columns = _by_rows(permute_dims(b, (1, 0)), permute_dims(a, (0, 2, 1)), ends)
            return permute_dims(columns, (1, 0))
        case _:
            return _by_terms(permute_dims(a, (1, 0)), b, ends)


def _offsets(given: Any) -> Tensor:
    offsets = as_tensor(given)
    if not offsets.dtype.is_integer:
        problem = f"offsets: {offsets.type} are of no integer dtype"
        raise DTypeError(_OP, problem, source=user_source())
    if offsets.ndim != 1:
        raise ShapeError(_OP, f"offsets: {offsets.type} is no vector", source=user_source())
    return cast(offsets, int64)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Rows of `groups` groups in blocks: which group each is of, which rows it has, and which not.

    `slot` is for each group where its first row would be among those of all blocks, if it were
    row 0 of all.
    """

    group: Tensor
    row: Tensor
    is_row: Tensor
    slot: Tensor


def _blocks(rows: Dim, ends: Tensor, size: int) -> _Blocks:
    groups, ends = ends.shape[0], minimum(ends, rows)
    starts = place(slice_axes(ends, (0,), (groups - 1,), (1,)), (groups,), (1,), (1,))
    counts = floor_divide(add(subtract(ends, starts), size - 1), size)
    last = cumulative_sum(counts, axis=0)
    first = subtract(last, counts)
    block = iota((rows // size + groups,), 0)  # no more than are full, and one of each group
    group = minimum(searchsorted(last, block, side="right"), groups - 1)
    before = multiply(subtract(block, gather(first, [group], 0)), size)  # rows of the same group
    begin = add(gather(starts, [group], 0), before)
    row = add(expand_dims(begin, axis=1), iota((size,), 0))
    is_row = less(row, expand_dims(gather(ends, [group], 0), axis=1))
    return _Blocks(group, row, is_row, subtract(multiply(first, size), starts))


def _size_of_block(rows: Dim) -> int:
    return min(rows, ROWS_OF_GROUPED_BLOCK) if isinstance(rows, int) else ROWS_OF_GROUPED_BLOCK


def _rows_of(x: Tensor, blocks: _Blocks) -> Tensor:
    """Return the rows of each block, zeros where it has none: (blocks, rows, features)."""
    rows, features = x.shape
    with_zeros = place(x, (rows + 1, features), (0, 0), (1, 1))  # there may be no other row
    return gather(with_zeros, [where(blocks.is_row, blocks.row, rows)], 0)


def _by_rows(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    (rows, _), (groups, _, columns) = a.shape, b.shape
    if any_zero(a.type, (0,)) or any_zero(b.type, (0,)):
        return filled((rows, columns), 0, a.dtype)
    size = _size_of_block(rows)
    blocks = _blocks(rows, ends, size)
    _, products = scan(
        lambda carry, given: (carry, matmul(given[0], gather(b, [given[1]], 0))),
        (), (_rows_of(a, blocks), blocks.group),
    )  # fmt: skip
    row = iota((rows,), 0)
    group = minimum(searchsorted(ends, row, side="right"), groups - 1)
    is_grouped = less(row, slice_axes(ends, (groups - 1,), (1,), (1,)))
    slot = where(is_grouped, add(gather(blocks.slot, [group], 0), row), 0)
    flat = reshape(products, (blocks.group.shape[0] * size, columns))
    return where(expand_dims(is_grouped, axis=1), gather(flat, [slot], 0), 0)


def _by_terms(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    (terms, rows), (_, columns) = a.shape, b.shape
    groups, wide = ends.shape[0], accumulator_dtype(a.dtype)
    if any_zero(a.type, (0,)) or any_zero(ends.type, (0,)):
        return filled((groups, rows, columns), 0, a.dtype)
    blocks = _blocks(terms, ends, _size_of_block(terms))

    def step(total: Tensor, given: Any) -> tuple[Tensor, tuple[()]]:
        left, right, group = given
        product = matmul(permute_dims(cast(left, wide), (1, 0)), cast(right, wide))
        return total.at[group].add(product), ()

    start = filled((groups, rows, columns), 0, wide)
    total, _ = scan(step, start, (_rows_of(a, blocks), _rows_of(b, blocks), blocks.group))
    return cast(total, a.dtype)
