"""Unroll and jam: two rows beside each other are computed at once, and share what they read.

    for i in 0..54 {
      for k in 0..128 vector(16) {
        t0: f32 = x[128*i + k]
        t1: f32 = x[128*i + k + 128]
        t2: f32 = add(t0, t1)
        y[128*i + k] = t2
      }
    }

becomes

    for i in 0..27 {
      for k in 0..128 vector(16) {
        t0.0: f32 = x[256*i + k]
        t0.1: f32 = x[256*i + k + 128]
        t1.1: f32 = x[256*i + k + 256]
        t2.0: f32 = add(t0.0, t0.1)
        t2.1: f32 = add(t0.1, t1.1)
        y[256*i + k] = t2.0
        y[256*i + k + 128] = t2.1
      }
    }

A window that has been written out reads as many elements as it multiplies, and a core does more
multiplications than loads: of 3 by 3 places a pair of rows reads 21 elements, not 36. It is taken
where loads are many, rows overlap and a third of all loads is shared. With what is the same for all
rows alone, as scales and shifts, a network with 12 such loads in a row gained nothing. What is left
over of an odd number of rows is a nest of its own behind it. No element depends on another: no
result changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Atom,
    Check,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Plain,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import mentions, substitute_variable
from symgrad.codegen.schedule.long_loops import Straight, mapped, straight, with_names
from symgrad.cost_model import LEAST_SHARED_CYCLES, MANY_LOADS, SHARED_LOADS
from symgrad.records import replace


def share_loads(kernel: Kernel) -> Kernel:
    """Return `kernel` with rows that read much of the same computed two at a time."""
    return replace(kernel, body=_shared(kernel.body, 1))


def _shared(body: Sequence[Stmt], times: int) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for statement in body:
        if not isinstance(statement, For):
            result.append(statement)
        elif (nests := _in_pairs(statement, times)) is not None:
            result += nests
        else:
            inner = _shared(statement.body, times * statement.extent)
            result.append(replace(statement, body=inner))
    return tuple(result)


def _in_pairs(outer: For, times: int) -> list[Stmt] | None:
    """Return the nests for pairs of rows and for what is left over; None where nothing is gained.

    The loop runs so many `times`: code for two rows is worth it where all of them take long.
    """
    if outer.extent < 2 or outer.vector > 1 or outer.ordered or len(outer.body) != 1:
        return None
    inner = outer.body[0]
    if not isinstance(inner, For) or inner.vector == 1 or inner.ordered:
        return None
    body = _independent(inner.body)
    if body is None or _loads(body) < MANY_LOADS:
        return None
    if times * statement_cycles(outer) < LEAST_SHARED_CYCLES:
        return None
    pair = _pair(body, outer.var)
    if _loads(pair) > SHARED_LOADS * 2 * _loads(body) or not _overlap(body, pair, outer.var):
        return None
    pairs, left = divmod(outer.extent, 2)
    nests: list[Stmt] = [replace(outer, extent=pairs, body=(replace(inner, body=pair),))]
    if left:
        behind = _moved(body, outer.var, index_of((outer.var, 1), const=2 * pairs))
        nests.append(replace(outer, extent=left, body=(replace(inner, body=behind),)))
    return nests


def _independent(body: Sequence[Stmt]) -> Straight | None:
    """Return a body that loads nothing it stores, so all loads may come first; else None."""
    found = straight(body)
    if found is None or any(isinstance(s, Check) for s in found):
        return None
    loaded = {s.value.buffer for s in found if isinstance(s, Let) and isinstance(s.value, Load)}
    stored = {s.buffer for s in found if isinstance(s, Store)}
    return found if loaded.isdisjoint(stored) else None


def _overlap(body: Straight, pair: Straight, variable: str) -> bool:
    """Return whether two rows read elements of the same rows, not only what is the same for all."""
    return _loads(pair, variable) < 2 * _loads(body, variable)


def _loads(body: Straight, variable: str | None = None) -> int:
    """Return how many loads there are, or of those how many read other elements in other rows."""
    found = (s.value.index for s in body if isinstance(s, Let) and isinstance(s.value, Load))
    return sum(variable is None or mentions(index, variable) for index in found)


def _pair(body: Straight, variable: str) -> Straight:
    """Return the statements of two rows in turns; what both load is loaded once."""
    values: list[Plain] = []
    stores: list[Plain] = []
    loaded: dict[tuple[str, Index], Ref] = {}
    names: tuple[dict[str, Atom], ...] = ({}, {})
    rows = (_moved(body, variable, index_of((variable, 2), const=row)) for row in range(2))
    for together in zip(*rows, strict=True):
        for row, statement in enumerate(together):
            changed = with_names(statement, names[row])
            if not isinstance(changed, Let):
                stores.append(changed)
                continue
            value = changed.value
            own = found = Ref(f"{changed.name}.{row}", value.dtype)
            if isinstance(value, Load):
                found = loaded.setdefault((value.buffer, value.index), own)
            names[row][changed.name] = found
            if found is own:
                values.append(replace(changed, name=own.name))
    return (*values, *stores)


def _moved(body: Straight, variable: str, by: Index) -> Straight:
    return mapped(body, partial(substitute_variable, variable=variable, by=by))
