"""Householder reflections of small matrices, written out by few columns: `small_elimination.py`.

A step has two columns, R in their upper parts and below them what the vectors of the reflections
have below their first element, which is 1; then the weights w of these reflections, I - w v v'.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.block_matrices import LANES, WRITTEN_OUT, block, cuts, to_columns
from symgrad.graph.ops.small_elimination import (
    COLUMNS_OF_A_STEP,
    check_steps,
    columns_of,
    taken,
)
from symgrad.graph.ops.small_matrices import (
    Row,
    batch_columns,
    batch_rows,
    column_map,
    is_wide_float,
    on_arrays,
    rows_type,
)
from symgrad.graph.ops.small_qr import ROWS_WRITTEN_OUT, reflection
from symgrad.graph.ops.structure import broadcast_to, expand_dims
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType


def reflects_by_steps(a: TensorType) -> bool:
    """Return whether these matrices are so small, and so many, that each lane has one."""
    m, n = a.static_shape[-2:]
    is_small = ROWS_WRITTEN_OUT < max(m, n) <= WRITTEN_OUT and is_wide_float(a.dtype)
    return is_small and a.count >= LANES * m * n


def reflected(a: Tensor) -> list[Tensor]:
    """Return the steps of the QR factorisation of (count, m, n) matrices."""
    _, m, n = a.type.static_shape
    steps: list[Tensor] = []
    for cut in cuts(n, COLUMNS_OF_A_STEP):
        x = to_columns(block(a, (0, m), cut))
        steps.append(apply(reflect_columns_op, x, *steps, n=m))
    return steps


def q_of_steps(steps: Sequence[Tensor], m: int, k: int) -> Tensor:
    """Return the first k columns of Q, of m rows, as columns of elements."""
    return apply(q_of_steps_op, *steps, n=m, k=k)


def step_of(x: Tensor, start: int, least: float) -> tuple[Tensor, Tensor]:
    """Return the step that leaves of columns (size, count) the first element, and that element.

    The columns are behind `start` rows, which the reflection does not see. Where squares of what is
    behind the first element are less than `least` altogether, it is zeros.
    """
    found = apply(step_of_op, x, start=start, least=least)
    size = found.type.static_shape[0] - 1
    return narrow(found, 0, 0, size), narrow(found, 0, size, 1)


def q_times(x: Tensor, steps: Sequence[Tensor]) -> Tensor:
    """Return Q @ x for columns (m, others, count), with the others in front.

    It is a tenth of the code of `q_of_steps` for a square Q, and twice the operations.
    """
    _, others, count = x.type.static_shape
    spread = (
        broadcast_to(expand_dims(t, 1), (t.type.static_shape[0], others, count)) for t in steps
    )
    return apply(q_times_op, x, *spread)


def r_of_steps(steps: Sequence[Tensor], m: int, k: int) -> Tensor:
    """Return the first k rows of R as columns of elements."""
    return apply(r_of_steps_op, *steps, n=m, k=k)


def reflect(columns: Sequence[Row], k: int, step: tuple[Row, FloatExpr]) -> None:
    """Apply the reflection of rows from k on to columns."""
    vector, weight = step
    for x in columns:
        seen = x[k]
        for i in range(k + 1, len(x)):
            seen = seen.plus(vector[i], x[i])
        seen = seen * weight
        x[k] = x[k] - seen
        for i in range(k + 1, len(x)):
            x[i] = x[i].less(vector[i], seen)


# ----------------------------------------------------------------------------- reflect_columns


def _reflect_infer(x: TensorType, *steps: TensorType, n: int) -> TensorType:
    check_steps("reflect_columns", n, x, *steps)
    width = x.static_shape[0] // n
    return x.with_shape((n * width + width, *x.shape[1:]))


def _reflect_columns(x: Row, *steps: Row, n: int) -> list[FloatExpr]:
    done, columns = taken(steps, n), columns_of(x, n)
    start = len(done)
    for k, step in enumerate(done[:n]):
        reflect(columns, k, step)
    for number, column in enumerate(columns):
        k = start + number
        weight = column[0].like(0.0)
        if k < n:
            vector, weight, column[k] = reflection(column[k:])
            column[k + 1 :] = vector[1:]
            reflect(columns[number + 1 :], k, (column, weight))
        done.append((column, weight))
    rows = zip(*columns, strict=True)
    return [*(element for row in rows for element in row), *(w for _, w in done[start:])]


def _reflect_reference(x: Array, *steps: Array, n: int) -> Array:
    return on_arrays(partial(_reflect_columns, n=n), (x, *steps))


def _reflect_kernel(x: TensorType, *_steps: TensorType, n: int) -> ColumnMap:
    return column_map(partial(_reflect_columns, n=n), 2 * x.static_shape[0] * n)


def _reflect_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_columns(operands, n=n)


reflect_columns_op = define(
    "reflect_columns",
    infer=_reflect_infer,
    reference=_reflect_reference,
    grad="none",
    kernel=_reflect_kernel,
    batch=_reflect_batch,
)


# ---------------------------------------------------------------------------------- q_of_steps


def _q_infer(*steps: TensorType, n: int, k: int) -> TensorType:
    check_steps("q_of_steps", n, *steps)
    return steps[0].with_shape((n * k, *steps[0].shape[1:]))


def _q(*steps: Row, n: int, k: int) -> list[FloatExpr]:
    """Apply the reflections to columns of an identity, the last one first."""
    done = taken(steps, n)[:n]
    zero, one = steps[0][0].like(0.0), steps[0][0].like(1.0)
    columns = [[one if i == j else zero for i in range(n)] for j in range(k)]
    for number in reversed(range(len(done))):
        vector, weight = done[number]
        reflect(columns[number + 1 :], number, (vector, weight))
        if number < k:  # before it there are zeros alone
            own = columns[number]
            own[number] = one - weight
            own[number + 1 :] = [-(x * weight) for x in vector[number + 1 :]]
    return [element for row in zip(*columns, strict=True) for element in row]


def _q_reference(*steps: Array, n: int, k: int) -> Array:
    return on_arrays(partial(_q, n=n, k=k), steps)


def _q_kernel(*_steps: TensorType, n: int, k: int) -> ColumnMap:
    return column_map(partial(_q, n=n, k=k), 2 * n * n * k)


def _batch(operands: Operands, *, n: int, k: int) -> Tensor:
    return batch_columns(operands, n=n, k=k)


q_of_steps_op = define(
    "q_of_steps",
    infer=_q_infer,
    reference=_q_reference,
    grad="none",
    kernel=_q_kernel,
    batch=_batch,
)


# ------------------------------------------------------------------------------------- step_of


def _step_infer(x: TensorType, *, start: int, least: float) -> TensorType:
    check_steps("step_of", x.static_shape[0] if x.ndim else 0, x)
    if start < 0 or least < 0:
        raise ShapeError("step_of", f"start: {start}, least: {least} are not negative")
    return x.with_shape((start + x.static_shape[0] + 2, *x.shape[1:]))


def _step_of(x: Row, *, start: int, least: float) -> list[FloatExpr]:
    vector, weight, corner = reflection(x, least=least)
    return [x[0].like(0.0)] * start + [*vector, weight, corner]


def _step_reference(x: Array, *, start: int, least: float) -> Array:
    return on_arrays(partial(_step_of, start=start, least=least), (x,))


def _step_kernel(x: TensorType, *, start: int, least: float) -> ColumnMap:
    return column_map(partial(_step_of, start=start, least=least), 4 * x.static_shape[0])


def _step_batch(operands: Operands, *, start: int, least: float) -> Tensor:
    return batch_columns(operands, start=start, least=least)


step_of_op = define(
    "step_of",
    infer=_step_infer,
    reference=_step_reference,
    grad="none",
    kernel=_step_kernel,
    batch=_step_batch,
)


# ------------------------------------------------------------------------------------- q_times


def _times_infer(x: TensorType, *steps: TensorType) -> TensorType:
    check_steps("q_times", x.static_shape[0] if x.ndim else 0, x, *steps)
    return rows_type(x, x.static_shape[0])


def _q_times(x: Row, *steps: Row) -> Row:
    column = list(x)
    for number, step in reversed(list(enumerate(taken(steps, len(x))[: len(x)]))):
        reflect([column], number, step)
    return column


def _times_reference(x: Array, *steps: Array) -> Array:
    return np.ascontiguousarray(np.swapaxes(on_arrays(_q_times, (x, *steps)), 0, 1))


def _times_kernel(x: TensorType, *steps: TensorType) -> ColumnMap:
    return column_map(_q_times, 2 * sum(step.static_shape[0] for step in steps), axis=1)


def _times_batch(operands: Operands) -> Tensor:
    return batch_rows(operands)


q_times_op = define(
    "q_times",
    infer=_times_infer,
    reference=_times_reference,
    grad="none",
    kernel=_times_kernel,
    batch=_times_batch,
)


# ---------------------------------------------------------------------------------- r_of_steps


def _r_infer(*steps: TensorType, n: int, k: int) -> TensorType:
    check_steps("r_of_steps", n, *steps)
    count = sum(step.static_shape[0] // (n + 1) for step in steps)
    return steps[0].with_shape((k * count, *steps[0].shape[1:]))


def _r(*steps: Row, n: int, k: int) -> list[FloatExpr]:
    zero = steps[0][0].like(0.0)
    columns = [column for column, _ in taken(steps, n)]
    return [column[i] if i <= j else zero for i in range(k) for j, column in enumerate(columns)]


def _r_reference(*steps: Array, n: int, k: int) -> Array:
    return on_arrays(partial(_r, n=n, k=k), steps)


def _r_kernel(*_steps: TensorType, n: int, k: int) -> ColumnMap:
    return column_map(partial(_r, n=n, k=k), n * k)


r_of_steps_op = define(
    "r_of_steps",
    infer=_r_infer,
    reference=_r_reference,
    grad="none",
    kernel=_r_kernel,
    batch=_batch,
)
