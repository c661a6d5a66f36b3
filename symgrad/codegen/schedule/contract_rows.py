"""Array contraction: of what a kernel writes row by row, and reads back in the same row, one row.

    for i in 0..256 {
      for j in 0..1024 vector(16) { ... e[1024*i + j] = t }
      fold ... e[1024*i + k] ...
    }

becomes, where nothing else reads `e`,

    for i in 0..256 ordered {
      for j in 0..1024 vector(16) { ... e[j] = t }
      fold ... e[k] ...
    }

so that `e` stays in the nearest cache and is never written to memory. Iterations then share it, and
are taken one after another; each part of a loop that threads share has a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    Fold,
    For,
    Generated,
    Index,
    IndexAtom,
    Kernel,
    Let,
    Load,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    accesses,
    buffers_used,
    index_extents,
    is_free_of,
    map_indices,
    statements,
    substitute_variable,
)
from symgrad.records import replace


def contract_rows(kernel: Kernel, name: str) -> Kernel | None:
    """Return `kernel` with one row of the buffer `name` as scratch memory, None if it has no rows.

    Nothing else reads the buffer.
    """
    searches = any(
        isinstance(s, Let) and isinstance(s.value, BinarySearch) for s in statements(kernel.body)
    )
    if searches or kernel.can_fail or not is_free_of(kernel.body, Generated):
        return None
    body = [parts_apart(s) if _uses(s, name) else s for s in kernel.body]
    loops = _row_loops(body, name)
    if not loops:
        return None
    row = own_row(loops[-1], loops[:-1], name)
    assert row is not None, "the innermost loop has rows"
    kept = [(loop.var, row) for loop in loops if loop.parallel]
    count = row * max((loop.extent for loop in loops if loop.parallel), default=1)

    def of_row(index: Index) -> Index:
        return index_of(*_within(index, loops).terms, *kept, const=index.const)

    changed = tuple(_in_order(s, loops, name) for s in change_indices(body, name, of_row))
    params = (
        replace(p, count=count, mode="scratch") if p.name == name else p for p in kernel.params
    )
    return replace(kernel, params=tuple(params), body=changed)


def _uses(statement: Stmt, name: str) -> bool:
    return any(name in used for used in buffers_used((statement,)))


def parts_apart(statement: Stmt) -> Stmt:
    """Return a loop that threads share as one over its parts, around one over their iterations."""
    if not isinstance(statement, For) or statement.vector > 1 or (statement.parallel or 1) == 1:
        return statement
    size = statement.parallel
    assert size is not None, "the loop is shared"
    if statement.extent % size:
        return statement
    part = f"{statement.var}.part"
    at = index_of((part, size), (statement.var, 1))
    body = map_indices(statement.body, lambda i: substitute_variable(i, statement.var, at))
    inner = replace(statement, extent=size, parallel=None, body=body)
    return For(part, statement.extent // size, (inner,), parallel=1)


def _row_loops(body: Sequence[Stmt], name: str) -> list[For]:
    """Return the loops around all uses of a buffer in which each iteration has a row of its own."""
    loops: list[For] = []
    while len(used := [s for s in body if _uses(s, name)]) == 1:
        (loop,) = used
        if not isinstance(loop, For) or own_row(loop, loops, name) is None:
            break
        loops.append(loop)
        body = loop.body
    is_shared = any((loop.parallel or 1) > 1 for loop in loops)
    return [] if is_shared else loops


def own_row(loop: For, around: Sequence[For], name: str) -> int | None:
    """Return how far rows of a buffer are apart from iteration to iteration, None if none are.

    Of a row each iteration has one of its own.
    """
    extents = index_extents(loop.body)
    used = [index for buffer, index in accesses(loop.body) if buffer == name]
    pitches = {index.coefficient(loop.var) for index in used}
    if loop.vector > 1 or len(pitches) != 1 or min(pitches) <= 0:
        return None
    for index in used:
        within = _within(index, [*around, loop])
        if not all(isinstance(atom, str) for atom, _ in index.terms):
            return None
        low, high = bounds(within, extents)
        if low < 0 or high >= min(pitches):
            return None
    return min(pitches)


def _within(index: Index, loops: Sequence[For]) -> Index:
    for loop in loops:
        index = substitute_variable(index, loop.var, Index())
    return index


def change_indices(
    body: Sequence[Stmt], name: str, change: Callable[[Index], Index]
) -> tuple[Stmt, ...]:
    """Return statements with each place in a buffer changed."""
    return tuple(_moved_statement(statement, name, change) for statement in body)


def _moved_statement(statement: Stmt, name: str, change: Callable[[Index], Index]) -> Stmt:
    match statement:
        case Let(to, Load(buffer=buffer) as load) if buffer == name:
            return Let(to, replace(load, index=change(load.index)))
        case Store(buffer=buffer) if buffer == name:
            return replace(statement, index=change(statement.index))
        case Prefix():
            parts = statement.body, statement.each
            body, each = (change_indices(part, name, change) for part in parts)
            return replace(statement, body=body, each=each)
        case For() | Fold():
            return replace(statement, body=change_indices(statement.body, name, change))
        case Let() | Store() | Check() | Product() | SortRows():
            return statement


def of_row(index: Index, row: IndexAtom | None, size: int, count: int) -> Index:
    """Return a place in scratch memory of `count` times as many rows; None is the first one."""
    terms = [(atom, c * count if c >= size else c) for atom, c in index.terms]
    return index_of(*terms, *([] if row is None else [(row, size)]), const=index.const)


def _in_order(statement: Stmt, loops: Sequence[For], name: str) -> Stmt:
    """Return the loops around uses of a buffer ordered, those of `loops` that are no parts."""
    if not isinstance(statement, For) or not _uses(statement, name):
        return statement
    if all(loop.var != statement.var for loop in loops):
        return statement
    body = tuple(_in_order(s, loops, name) for s in statement.body)
    return replace(statement, body=body, ordered=not statement.parallel)
