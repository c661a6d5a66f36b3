"""Householder reflections of small matrices, written out by few columns: `small_elimination.py`.

A step has two columns, R in their upper parts and below them what the vectors of the reflections
have below their first element, which is 1; then the weights w of these reflections, I - w v v'.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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
    on_arrays,
    taken,
)
from symgrad.graph.ops.small_matrices import Row, batch_columns, column_map, is_wide_float
from symgrad.graph.ops.small_qr import ROWS_WRITTEN_OUT, reflection
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
