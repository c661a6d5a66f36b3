"""Loop interchange of folds: rows that lie apart are added to rows, not one column after another.

    for p in 0..32 {
      for j in 0..1024 {
        fold s: f32 = 0.0 for k in 0..256 {
          t: f32 = x[262144*p + 1024*k + j]
          yield t
        } combine (a) (b) {
          c: f32 = add(a, b)
          yield c
        }
        y[1024*p + j] = s
      }
    }

becomes

    for p in 0..32 {
      for j in 0..1024 { running2[1024*p + j] = 0.0 }
      for k.rows in 0..32 ordered {
        for j in 0..1024 {
          a: f32 = running2[1024*p + j]
          fold s.rows: f32 = 0.0 for k in 0..8 { t: f32 = x[262144*p + 8192*k.rows + ...] yield t }
          b: f32 = s.rows
          c: f32 = add(a, b)
          running2[1024*p + j] = c
        }
      }
      for j in 0..1024 { s: f32 = running2[1024*p + j]  y[1024*p + j] = s }
    }

so that memory is walked through by whole rows, some of them at a time. A column of a matrix whose
rows are pages meets another page at each step, which a processor does not fetch ahead. The order in
which elements are combined is another one, so it depends on shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Generated,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Param,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import indices, is_free_of, map_indices, substitute_variable
from symgrad.codegen.schedule.vectorize import nested, perfect_nest
from symgrad.cost_model import (
    BYTES_BETWEEN_ROWS,
    BYTES_OF_BLOCKED_ROW,
    BYTES_OF_ROWS_APART,
    BYTES_OF_SHORT_ROW,
    LEAST_ROWS_APART,
    ROWS_TOGETHER,
)
from symgrad.records import dataclass, replace


def interchange_folds(kernel: Kernel) -> Kernel:
    """Take the folds over rows of a kernel some rows at a time, the running results in memory."""
    params = list(kernel.params)
    body = tuple(_interchanged(statement, params) for statement in kernel.body)
    return replace(kernel, params=tuple(params), body=body)


@dataclass(frozen=True, slots=True)
class _RowFold:
    """A fold over rows in loops, of which the last goes along them, and what follows it."""

    loops: tuple[For, ...]
    fold: Fold
    after: tuple[Stmt, ...]


def _interchanged(statement: Stmt, params: list[Param]) -> Stmt:
    plan = _plan(statement)
    if plan is None:
        return statement
    buffers = []
    for accumulator in plan.fold.accumulators:
        count = math.prod(loop.extent for loop in plan.loops)
        name = f"running{len(params)}"
        buffers.append(Param(name, accumulator.identity.dtype, count, "scratch"))
        params.append(buffers[-1])
    return _rows(plan, buffers)


def _plan(statement: Stmt) -> _RowFold | None:
    """Return how a statement is a fold over rows, None if it is none that gains."""
    if not isinstance(statement, For):
        return None
    loops, body = perfect_nest(statement)
    if not body or not isinstance(fold := body[0], Fold):
        return None
    after, row = body[1:], loops[-1]
    is_plain = is_free_of(fold.body, Check | Generated | Loop) and is_free_of(after, Check | Loop)
    if not is_plain or any(loop.ordered or not loop.extent for loop in loops):
        return None
    if not _gains(row, fold):
        return None
    plan = _RowFold(tuple(loops), fold, after)
    return plan if len(loops) > 1 else _in_blocks(plan)


def _in_blocks(plan: _RowFold) -> _RowFold | None:
    """Return `plan` with its rows in even blocks, which threads can share, None if there are none.

    A block is a page at most: a page is what a processor fetches ahead in.
    """
    (row,), fold = plan.loops, plan.fold
    itemsize = min(a.identity.dtype.itemsize for a in fold.accumulators)
    most, least = BYTES_OF_BLOCKED_ROW // itemsize, BYTES_OF_SHORT_ROW // itemsize
    sizes = range(min(most, row.extent), least, -1)
    size = next((size for size in sizes if row.extent % size == 0), None)
    if size is None:
        return None
    block = f"{row.var}.block"
    at = index_of((block, size), (row.var, 1))
    moved = map_indices((fold, *plan.after), lambda index: substitute_variable(index, row.var, at))
    assert isinstance(moved[0], Fold), "a fold stays one"
    loops = For(block, row.extent // size, ()), replace(row, extent=size)
    return _RowFold(loops, moved[0], moved[1:])


def _gains(row: For, fold: Fold) -> bool:
    """Return whether a fold walks through rows that lie apart, too many for the cache to keep."""
    apart = [index for index in indices(fold.body) if index.coefficient(row.var)]
    if any(index.coefficient(row.var) != 1 for index in apart):
        return False
    itemsize = min(a.identity.dtype.itemsize for a in fold.accumulators)
    pitch = max((abs(index.coefficient(fold.var)) for index in apart), default=0) * itemsize
    is_wide = row.extent * itemsize > BYTES_OF_SHORT_ROW and pitch > BYTES_BETWEEN_ROWS
    is_far = pitch * fold.extent > BYTES_OF_ROWS_APART and fold.extent >= LEAST_ROWS_APART
    return is_wide and is_far


def _rows(plan: _RowFold, buffers: Sequence[Param]) -> For:
    """Return the loops of a plan, with its running results in `buffers`."""
    fold, row = plan.fold, plan.loops[-1]
    steps = [math.prod(loop.extent for loop in plan.loops[i + 1 :]) for i in range(len(plan.loops))]
    pairs = zip(plan.loops, steps, strict=True)
    place = index_of(*((loop.var, step) for loop, step in pairs))
    first = tuple(
        Store(buffer.name, place, a.identity)
        for buffer, a in zip(buffers, fold.accumulators, strict=True)
    )
    last = tuple(
        Let(a.name, Load(buffer.name, place, buffer.dtype))
        for buffer, a in zip(buffers, fold.accumulators, strict=True)
    )
    whole, left = divmod(fold.extent, ROWS_TOGETHER)
    block = f"{fold.var}.rows"
    at = index_of((block, ROWS_TOGETHER), (fold.var, 1))
    some = _added(plan, buffers, place, at, ROWS_TOGETHER)
    body: list[Stmt] = [replace(row, body=first)]
    body.append(For(block, whole, (replace(row, body=some),), ordered=True))
    if left:
        rest = Index(whole * ROWS_TOGETHER, ((fold.var, 1),))
        body.append(replace(row, body=_added(plan, buffers, place, rest, left)))
    body.append(replace(row, body=(*last, *plan.after)))
    return nested(plan.loops[:-1], tuple(body))


def _added(
    plan: _RowFold, buffers: Sequence[Param], place: Index, at: Index, extent: int
) -> tuple[Stmt, ...]:
    """Return the statements that combine `extent` rows, from `at` on, with the running results."""
    fold = plan.fold
    (moved,) = map_indices((fold,), lambda index: substitute_variable(index, fold.var, at))
    assert isinstance(moved, Fold), "a fold stays one"
    own = tuple(replace(a, name=f"{a.name}.rows") for a in fold.accumulators)
    loads = (
        Let(name, Load(buffer.name, place, buffer.dtype))
        for name, buffer in zip(fold.left, buffers, strict=True)
    )
    items = (
        Let(name, Ref(a.name, a.identity.dtype)) for name, a in zip(fold.right, own, strict=True)
    )
    stores = (
        Store(buffer.name, place, value)
        for buffer, value in zip(buffers, fold.combined, strict=True)
    )
    rows = replace(moved, accumulators=own, extent=extent)
    return (rows, *loads, *items, *fold.combine, *stores)
