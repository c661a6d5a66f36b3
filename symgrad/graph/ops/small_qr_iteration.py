"""QR iteration of small matrices of two or three diagonals, written out: what its kinds share.

Each lane of a vector has a matrix of its own, as in `small_matrices.py`, whose greatest element is
near 1. A state is a column: the n elements of the diagonal, the n - 1 beside it, cosines and sines
of the rotations that a step did, once or twice as many, and a number that is 0 once nothing is left
beside the diagonal. In a lane that is done a step rotates nothing, so no matrix depends on those
beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import Condition, FloatExpr
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.block_matrices import PART_BYTES, WRITTEN_OUT
from symgrad.graph.ops.comparison import greater
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.slicing import concat, place
from symgrad.graph.ops.small_elimination import BYTES_OF_STEPS
from symgrad.graph.ops.small_matrices import (
    Row,
    batch_columns,
    column_map,
    is_wide_float,
    on_arrays,
)
from symgrad.graph.ops.small_reflections import q_times
from symgrad.graph.ops.small_sweeps import SWEPT_OUT
from symgrad.graph.ops.structure import broadcast_to, expand_dims
from symgrad.graph.ops.views import narrow
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType

REDUCED_AT_ONCE = 8  # rows of a matrix that one kernel reduces, and to which steps come down
_ROWS_OF_A_LEVEL = 3  # that are done before steps leave them out
_STEPS_A_ROW = 30  # at most: on average they are two
# What is less than this is not a sum of squares: its digits vanish, and beside 1 it is nothing.
LEAST_SQUARE = {"f32": 2.0**-100, "f64": 2.0**-900}

StateStep = Callable[[Tensor, int], Tensor]


def is_iterated(a: TensorType) -> bool:
    """Return whether these (count, m, n) matrices are so small that each has a lane."""
    return SWEPT_OUT < min(a.static_shape[1:]) <= WRITTEN_OUT and not a.dtype.is_complex


def bytes_of_parts(a: TensorType) -> int:
    """Return how many bytes of matrices are computed together, by steps or by Jacobi rotations."""
    return BYTES_OF_STEPS if is_iterated(a) else PART_BYTES


def begun(parts: Sequence[Tensor], n: int, sides: int) -> Tensor:
    """Return the state that iteration begins with, of what is on and beside the diagonal."""
    rest, dtype = parts[0].shape[1:], parts[0].dtype
    turns, left = filled((sides * (2 * n - 2), *rest), 0, dtype), filled((1, *rest), 1, dtype)
    return concat([*parts, turns, left], axis=0)


def orthogonal(steps: Sequence[Tensor], n: int, start: int, like: Tensor) -> Tensor:
    """Return as (n, n, count) columns the product of the reflections of rows from `start` on.

    `like` says how many matrices there are, as its last axis does, and of which dtype.
    """
    count, size = like.type.static_shape[-1], n - start
    ones = broadcast_to(_identity(n, like), (n, n, count))
    if not steps:
        return ones
    inner = q_times(narrow(narrow(ones, 0, 0, size), 1, 0, size), steps)
    if not start:
        return inner
    below = place(inner, (n, size, count), (start, 0, 0), (1, 1, 1))
    return concat([narrow(ones, 1, 0, start), below], axis=1)


def _identity(n: int, like: Tensor) -> Tensor:
    rows = [
        place(filled((1, 1, 1), 1, like.dtype), (1, n, 1), (0, k, 0), (1, 1, 1)) for k in range(n)
    ]
    return concat(rows, axis=0)


def iterated(
    step: StateStep, state: Tensor, columns: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Do steps until only the diagonal is left; return it, in no order, and columns turned.

    `columns` are (n, rows, count) each, for as many sides as states have rotations of. The last few
    rows of matrices are done first; then the first ones are iterated on for themselves.
    """
    n, sides = columns[0].type.static_shape[0], len(columns)
    done: list[list[Tensor]] = []  # the last rows first
    turned = list(columns)
    while n:
        least = n - _ROWS_OF_A_LEVEL if n >= 2 * _ROWS_OF_A_LEVEL else 0
        state, turned = _until_done(step, state, turned, least)
        done.append([narrow(t, 0, least, n - least) for t in (state, *turned)])
        if least:
            parts = [narrow(state, 0, 0, least), narrow(state, 0, n, least - 1)]
            state, turned = begun(parts, least, sides), [narrow(t, 0, 0, least) for t in turned]
        n = least
    values, *found = (concat(rows[::-1], axis=0) for rows in zip(*done, strict=True))
    return values, found


def _until_done(
    step: StateStep, state: Tensor, columns: Sequence[Tensor], least: int
) -> tuple[Tensor, list[Tensor]]:
    """Do steps until no row from `least` on has anything beside the diagonal."""
    n = columns[0].type.static_shape[0]
    types = [state.type, *(t.type for t in columns)]

    def steps(state: Tensor, *columns: Tensor) -> list[Tensor]:
        for _ in range(2):  # of two the second is written where the first one read
            state = step(state, least)
            columns = tuple(turn_columns(t, [state], side) for side, t in enumerate(columns))
        return [state, *columns]

    def goes_on(state: Tensor, *_columns: Tensor) -> list[Tensor]:
        left = narrow(state, 0, state.type.static_shape[0] - 1, 1)
        return [any_of(greater(left, 0.0))]

    condition, body = Traced("goes_on", types), Traced("steps", types)
    condition.run(goes_on)
    body.run(steps)
    found = loop([state, *columns], condition, body, _STEPS_A_ROW * n // 2).outputs
    return found[1], list(found[2 : 2 + len(columns)])


def rows_of_state(op: str, x: TensorType, sides: int) -> int:
    """Return of how many rows the matrices are of which states are given."""
    require_dtype(op, "state", x, is_wide_float)
    size = x.shape[0] if x.ndim > 1 else 0
    per_row = 2 + 2 * sides
    if not isinstance(size, int) or size < 2 * per_row - 2 * sides or (size + 2 * sides) % per_row:
        raise ShapeError(op, f"state: {x} does not have {per_row} n - {2 * sides} elements, n > 1")
    return (size + 2 * sides) // per_row


def last_block(beside: Row) -> list[Condition]:
    """Return for each element beside the diagonal whether it is of the last block with such.

    What is nan is not: nothing is rotated there.
    """
    ended = started = abs(beside[0]) < 0.0
    found = []
    for element in reversed(beside):
        is_any = abs(element) > 0.0
        found.append(is_any & ~ended)
        ended = ended | (started & ~is_any)
        started = started | is_any
    return found[::-1]


def at_ends(is_active: Sequence[Condition], diagonal: Row, beside: Row) -> list[FloatExpr]:
    """Return of a block the first element of the diagonal, and the three of its last two rows."""
    top, corner = diagonal[0], [diagonal[0], beside[0], diagonal[1]]
    for k in range(1, len(beside)):
        top = (is_active[k] & ~is_active[k - 1]).choose(diagonal[k], top)
        last = diagonal[k], beside[k], diagonal[k + 1]
        corner = [is_active[k].choose(x, y) for x, y in zip(last, corner, strict=True)]
    return [top, *corner]


def rotation(x: FloatExpr, y: FloatExpr, is_here: Condition) -> tuple[FloatExpr, ...]:
    """Return cosine and sine that turn (x, y) to (length, 0); none where there is nothing to do."""
    square = (y * y).plus(x, x)
    is_any = is_here & (square > LEAST_SQUARE[x.short])
    scale = square.rsqrt()  # one rotation waits for the other, and this is sooner there than a root
    length = square * scale
    return is_any.choose(x * scale, 1.0), is_any.choose(y * scale, 0.0), is_any.choose(length, 0.0)


def not_negligible(diagonal: Row, beside: Row) -> Row:
    """Return what is beside the diagonal, 0 for what is rounding of its neighbours on it."""
    least = LEAST_SQUARE[diagonal[0].short] ** 0.5
    half_ulp = float(np.finfo(diagonal[0].dtype.numpy).eps) / 2
    kept = []
    for k, element in enumerate(beside):
        near = abs(diagonal[k]) + abs(diagonal[k + 1])
        is_kept = abs(element) > (near * half_ulp).greatest(least)
        kept.append(is_kept.choose(element, 0.0))
    return kept


def stepped_state(
    diagonal: Row, beside: Row, turns: Sequence[Sequence[FloatExpr]], least: int
) -> list[FloatExpr]:
    """Return the state after a step: of `turns` each has a cosine and a sine for each side."""
    kept = not_negligible(diagonal, beside)
    left = diagonal[0].like(0.0)
    for element in kept[max(least - 1, 0) :]:
        left = left + abs(element)
    return [*diagonal, *kept, *(x for part in zip(*turns, strict=True) for x in part), left]


# ------------------------------------------------------------------------------- turn_columns


def turn_columns(x: Tensor, states: Sequence[Tensor], side: int) -> Tensor:
    """Apply the rotations of states to neighbours of columns (n, rows, count)."""
    n, rows, count = x.type.static_shape
    size = 2 * n - 2
    turns = (narrow(state, 0, 2 * n - 1 + side * size, size) for state in states)
    return apply(turn_columns_op, x, *(_for_rows(t, rows, count) for t in turns))


def _for_rows(turns: Tensor, rows: int, count: int) -> Tensor:
    return broadcast_to(expand_dims(turns, 1), (turns.shape[0], rows, count))


def _turn_infer(x: TensorType, *turns: TensorType) -> TensorType:
    op = "turn_columns"
    require_dtype(op, "x", x, is_wide_float)
    if x.ndim < 2 or not isinstance(x.shape[0], int) or x.shape[0] < 2:
        raise ShapeError(op, f"x: {x} does not have two columns on axis 0")
    for number, turn in enumerate(turns):
        require_dtype(op, f"turns {number}", turn, lambda dtype: dtype == x.dtype)
        if turn.shape[:1] != (2 * x.shape[0] - 2,):
            raise ShapeError(op, f"turns {number}: {turn} are not those of the columns of x: {x}")
        tails = (t.with_shape(t.shape[1:]) for t in (x, turn))
        meet_shapes(op, "x", next(tails), f"turns {number}", next(tails))
    return x


def _turned(x: Row, *turns: Row) -> Row:
    count = len(x) - 1
    found = list(x)
    for turn in turns:
        for k in range(count):
            cosine, sine = turn[k], turn[count + k]
            near, far = found[k], found[k + 1]
            found[k] = (cosine * near).plus(sine, far)
            found[k + 1] = (cosine * far).less(sine, near)
    return found


def _turn_reference(x: Array, *turns: Array) -> Array:
    return on_arrays(_turned, (x, *turns))


def _turn_kernel(x: TensorType, *turns: TensorType) -> ColumnMap:
    return column_map(_turned, 6 * x.static_shape[0] * len(turns))


def _turn_batch(operands: Operands) -> Tensor:
    return batch_columns(operands)


turn_columns_op = define(
    "turn_columns",
    infer=_turn_infer,
    reference=_turn_reference,
    grad="none",
    kernel=_turn_kernel,
    batch=_turn_batch,
)
