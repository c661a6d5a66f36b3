"""Gaussian elimination of small matrices by few columns, written out: see `small_matrices.py`.

All that is written out of a matrix of 16 rows is more code than a processor keeps nearby. So two
columns are eliminated at a time, by kernels that each see all matrices of a part of a batch. In
between the elements of all matrices lie side by side, as lanes need them. A step has two columns of
L and U, L as its rows were when they were eliminated, and the places of their pivots. The next ones
and a determinant read no rows of U, so these may not be stored (`passes/fusion/narrow_columns.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.block_matrices import LANES, WRITTEN_OUT, block, cuts, to_columns
from symgrad.graph.ops.small_matrices import (
    Row,
    batch_columns,
    batch_rows,
    column_map,
    is_wide_float,
    on_arrays,
    rows_type,
)
from symgrad.graph.ops.small_solving import FEW_ROWS
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType

COLUMNS_OF_A_STEP = 2  # columns that are eliminated at a time: of 16 rows they fill 32 registers
MOST_SIDES = 2  # of a system that is solved by steps for itself, without factors that are kept
BYTES_OF_STEPS = 1 << 14  # of matrices that go through all steps: the nearest cache has them


def goes_by_steps(a: TensorType) -> bool:
    """Return whether these matrices are so small, and so many, that each lane has one."""
    n = a.static_shape[-1]
    is_small = FEW_ROWS < n <= WRITTEN_OUT and is_wide_float(a.dtype)
    return is_small and a.count >= LANES * n * n


def eliminated(a: Tensor) -> list[Tensor]:
    """Return the steps of the elimination of (count, n, n) matrices, with partial pivoting."""
    n = a.type.static_shape[-1]
    steps: list[Tensor] = []
    for cut in cuts(n, COLUMNS_OF_A_STEP):
        x = to_columns(block(a, (0, n), cut))
        steps.append(apply(eliminate_columns_op, x, *lower_parts(steps, n), n=n, first=0))
    return steps


def lower_parts(steps: Sequence[Tensor], n: int) -> list[Tensor]:
    """Return of each step the rows from its first pivot on, and the places of pivots."""
    found, start = [], 0
    for step in steps:
        size = step.type.static_shape[0]
        width = size // (n + 1)
        found.append(narrow(step, 0, start * width, size - start * width))
        start += width
    return found


def solve_by_steps(b: Tensor, steps: Sequence[Tensor], *, transpose: bool) -> Tensor:
    """Return the solutions for (count, n, width) right sides, the elements of each as a row.

    With `transpose` they are those of the transposes of the matrices that were eliminated.
    """
    n = b.type.static_shape[1]
    return apply(solve_by_steps_op, to_columns(b), *steps, n=n, transpose=transpose)


def det_of_steps(steps: Sequence[Tensor], n: int) -> Tensor:
    """Return the determinants, as columns of one element."""
    return apply(det_of_steps_op, *lower_parts(steps, n), n=n)


def factors_of_steps(steps: Sequence[Tensor], n: int) -> Tensor:
    """Return L and U in one matrix, and then the order of its rows, as columns."""
    return apply(factors_of_steps_op, *steps, n=n)


def places_of_steps(steps: Sequence[Tensor], n: int) -> Tensor:
    """Return which row of L and U each row of the matrices is, as columns of numbers."""
    return apply(places_of_steps_op, *steps, n=n)


def check_steps(op: str, n: int, *operands: TensorType) -> None:
    """Raise unless operands have columns of n elements, or steps of these, for as many matrices."""
    first = operands[0]
    for number, operand in enumerate(operands):
        require_dtype(op, f"operand {number}", operand, is_wide_float)
        if operand.ndim < 2 or not isinstance(operand.shape[0], int):
            raise ShapeError(op, f"{operand} does not have columns of elements on axis 0")
        tails = (t.with_shape(t.shape[1:]) for t in (first, operand))
        meet_shapes(op, "operand 0", next(tails), f"operand {number}", next(tails))
    if n < 1 or (first.shape[0] % n and first.shape[0] % (n + 1)):
        raise ShapeError(op, f"{first} does not have columns of {n} elements on axis 0")


def _check_lower(op: str, n: int, *parts: TensorType) -> None:
    """Raise unless each of these is the lower part of a step behind those before it."""
    for part in parts:
        if part.static_shape[0] % (n + 1) or not n:
            raise ShapeError(op, f"{part} does not have columns of {n} elements on axis 0")
        n -= part.static_shape[0] // (n + 1)


def _batch(operands: Operands, *, n: int) -> Tensor:
    return batch_columns(operands, n=n)


def _eliminate_batch(operands: Operands, *, n: int, first: int) -> Tensor:
    return batch_columns(operands, n=n, first=first)


def columns_of(x: Sequence[FloatExpr], n: int) -> list[Row]:
    """Return the columns of a block that is given row by row."""
    width = len(x) // n
    return [list(x[column : n * width : width]) for column in range(width)]


def taken(
    steps: Sequence[Sequence[FloatExpr]], n: int, *, are_lower: bool = False
) -> list[tuple[Row, FloatExpr]]:
    """Return each column of the steps, with the number that goes with it: the place of a pivot.

    In lower parts of steps zeros stand for the rows that they have not.
    """
    found: list[tuple[Row, FloatExpr]] = []
    for step in steps:
        above = [step[0].like(0.0)] * len(found) if are_lower else []
        size = len(step) // (n - len(above) + 1) * (n - len(above))
        pairs = zip(columns_of(step[:size], n - len(above)), step[size:], strict=True)
        found += [([*above, *column], place) for column, place in pairs]
    return found


def _exchange(columns: Sequence[Row], k: int, pivot: FloatExpr) -> None:
    """Exchange elements k of columns with those at the place `pivot`, which is no lower."""
    old = [x[k] for x in columns]
    for i in range(k + 1, len(columns[0]) if columns else 0):
        is_here = pivot.equals(float(i))
        for x, first in zip(columns, old, strict=True):
            x[k], x[i] = is_here.choose(x[i], x[k]), is_here.choose(first, x[i])


def _apply(columns: Sequence[Row], k: int, step: tuple[Row, FloatExpr]) -> None:
    """Do to columns what step k did to its own."""
    factors, pivot = step
    _exchange(columns, k, pivot)
    for i in range(k + 1, len(factors)):
        for x in columns:
            x[i] = x[i].less(factors[i], x[k])


def _place_of_greatest(x: Row, k: int) -> FloatExpr:
    """Return where the greatest element from k on is, the first of equal ones."""
    best, place = abs(x[k]), x[k].like(float(k))
    for i in range(k + 1, len(x)):
        size = abs(x[i])
        is_greater = size > best
        best, place = is_greater.choose(size, best), is_greater.choose(x[i].like(float(i)), place)
    return place


# --------------------------------------------------------------------------- eliminate_columns


def _eliminate_infer(x: TensorType, *parts: TensorType, n: int, first: int) -> TensorType:
    check_steps("eliminate_columns", n, x, *parts)
    _check_lower("eliminate_columns", n, *parts)
    if not 0 <= first < n:
        raise ShapeError("eliminate_columns", f"first: there is no row {first} of {n}")
    width = x.static_shape[0] // n
    return x.with_shape(((n - first + 1) * width, *x.shape[1:]))


def _eliminate(x: Row, *parts: Row, n: int, first: int) -> list[FloatExpr]:
    done, columns = taken(parts, n, are_lower=True), columns_of(x, n)
    start = len(done)
    for k, step in enumerate(done):
        _apply(columns, k, step)
    for number, column in enumerate(columns):
        k = start + number
        for j in range(start, k):
            _apply([column], j, done[j])
        place = _place_of_greatest(column, k)
        _exchange([column], k, place)
        pivot = column[k]
        scale = pivot.equals(0.0).choose(pivot.like(1.0), 1.0 / pivot)
        column[k + 1 :] = [element * scale for element in column[k + 1 :]]
        done.append((column, place))
    rows = list(zip(*columns, strict=True))[first:]
    return [*(element for row in rows for element in row), *(p for _, p in done[start:])]


def _eliminate_reference(x: Array, *parts: Array, n: int, first: int) -> Array:
    return on_arrays(partial(_eliminate, n=n, first=first), (x, *parts))


def _eliminate_kernel(x: TensorType, *_parts: TensorType, n: int, first: int) -> ColumnMap:
    return column_map(partial(_eliminate, n=n, first=first), x.static_shape[0] * n)


def _eliminate_narrow(node: Node, start: int, size: int, *, n: int, first: int) -> Tensor | None:
    """Leave rows out at the beginning, which are those of U."""
    width = node.inputs[0].type.static_shape[0] // n
    if start % width or start + size != node.output.type.static_shape[0]:
        return None
    return apply(eliminate_columns_op, *node.inputs, n=n, first=first + start // width)


eliminate_columns_op = define(
    "eliminate_columns",
    infer=_eliminate_infer,
    reference=_eliminate_reference,
    grad="none",
    kernel=_eliminate_kernel,
    batch=_eliminate_batch,
    narrow=_eliminate_narrow,
)


# ------------------------------------------------------------------------------ solve_by_steps


def _solve_infer(b: TensorType, *steps: TensorType, n: int, transpose: bool) -> TensorType:
    check_steps("solve_by_steps", n, b, *steps)
    return rows_type(b, b.static_shape[0])


def _solved(b: Row, *steps: Row, n: int, transpose: bool) -> list[FloatExpr]:
    done, columns = taken(steps, n), columns_of(b, n)
    (_solve_transposed if transpose else _solve)(done, columns)
    return [element for row in zip(*columns, strict=True) for element in row]


def _solve(done: Sequence[tuple[Row, FloatExpr]], columns: Sequence[Row]) -> None:
    for k, step in enumerate(done):
        _apply(columns, k, step)
    for k in reversed(range(len(done))):
        upper, _ = done[k]
        scale = 1.0 / upper[k]
        for column in columns:
            column[k] = column[k] * scale
            for i in range(k):
                column[i] = column[i].less(upper[i], column[k])


def _solve_transposed(done: Sequence[tuple[Row, FloatExpr]], columns: Sequence[Row]) -> None:
    """Take the steps back, the last one first, from what the transpose of U gives."""
    for k, (upper, _) in enumerate(done):
        scale = 1.0 / upper[k]
        for column in columns:
            for i in range(k):
                column[k] = column[k].less(upper[i], column[i])
            column[k] = column[k] * scale
    for k, (factors, pivot) in reversed(list(enumerate(done))):
        for column in columns:
            for i in range(k + 1, len(done)):
                column[k] = column[k].less(factors[i], column[i])
        _exchange(columns, k, pivot)


def _solve_reference(b: Array, *steps: Array, n: int, transpose: bool) -> Array:
    found = on_arrays(partial(_solved, n=n, transpose=transpose), (b, *steps))
    return np.ascontiguousarray(found.swapaxes(0, 1))


def _solve_kernel(b: TensorType, *_steps: TensorType, n: int, transpose: bool) -> ColumnMap:
    algorithm = partial(_solved, n=n, transpose=transpose)
    return column_map(algorithm, 2 * b.static_shape[0] * n, axis=1)


def _solve_batch(operands: Operands, *, n: int, transpose: bool) -> Tensor:
    return batch_rows(operands, n=n, transpose=transpose)


solve_by_steps_op = define(
    "solve_by_steps",
    infer=_solve_infer,
    reference=_solve_reference,
    grad="none",
    kernel=_solve_kernel,
    batch=_solve_batch,
)


# -------------------------------------------------------------------------------- det_of_steps


def _det_infer(*parts: TensorType, n: int) -> TensorType:
    check_steps("det_of_steps", n, *parts)
    _check_lower("det_of_steps", n, *parts)
    return parts[0].with_shape((1, *parts[0].shape[1:]))


def _determinant(*parts: Row, n: int) -> list[FloatExpr]:
    product = parts[0][0].like(1.0)
    for k, (column, place) in enumerate(taken(parts, n, are_lower=True)):
        pivot = column[k]
        product = product * place.equals(float(k)).choose(pivot, -pivot)
    return [product]


def _det_reference(*parts: Array, n: int) -> Array:
    return on_arrays(partial(_determinant, n=n), parts)


def _det_kernel(*_parts: TensorType, n: int) -> ColumnMap:
    return column_map(partial(_determinant, n=n), 3 * n)


det_of_steps_op = define(
    "det_of_steps",
    infer=_det_infer,
    reference=_det_reference,
    grad="none",
    kernel=_det_kernel,
    batch=_batch,
)


# ---------------------------------------------------------------------------- factors_of_steps


def _factors_infer(*steps: TensorType, n: int) -> TensorType:
    check_steps("factors_of_steps", n, *steps)
    return steps[0].with_shape((n * n + n, *steps[0].shape[1:]))


def _factors(*steps: Row, n: int) -> list[FloatExpr]:
    """Exchange the rows of L as those after them were."""
    done = taken(steps, n)
    columns = [list(column) for column, _ in done]
    order = [columns[0][0].like(float(i)) for i in range(n)]
    for k, (_, place) in enumerate(done):
        _exchange([*columns[:k], order], k, place)
    return [*(element for row in zip(*columns, strict=True) for element in row), *order]


def _factors_reference(*steps: Array, n: int) -> Array:
    return on_arrays(partial(_factors, n=n), steps)


def _factors_kernel(*_steps: TensorType, n: int) -> ColumnMap:
    return column_map(partial(_factors, n=n), n**3 // 3)


factors_of_steps_op = define(
    "factors_of_steps",
    infer=_factors_infer,
    reference=_factors_reference,
    grad="none",
    kernel=_factors_kernel,
    batch=_batch,
)


# ----------------------------------------------------------------------------- places_of_steps


def _places_infer(*steps: TensorType, n: int) -> TensorType:
    check_steps("places_of_steps", n, *steps)
    return steps[0].with_shape((n, *steps[0].shape[1:]))


def _places(*steps: Row, n: int) -> list[FloatExpr]:
    """Take the exchanges back, the last one first."""
    places = [steps[0][0].like(float(i)) for i in range(n)]
    for k, (_, place) in reversed(list(enumerate(taken(steps, n)))):
        _exchange([places], k, place)
    return places


def _places_reference(*steps: Array, n: int) -> Array:
    return on_arrays(partial(_places, n=n), steps)


def _places_kernel(*_steps: TensorType, n: int) -> ColumnMap:
    return column_map(partial(_places, n=n), n * n)


places_of_steps_op = define(
    "places_of_steps",
    infer=_places_infer,
    reference=_places_reference,
    grad="none",
    kernel=_places_kernel,
    batch=_batch,
)
