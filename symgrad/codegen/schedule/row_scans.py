"""Loop interchange of prefix scans: rows are added to rows, rather than one column after another.

    for j in 0..1000 {
      prefix s: f32 = -0.0 for k in 0..500 {
        t0: f32 = x[j + 1000*k]
        yield t0
      } combine (a0) (b0) {
        c0: f32 = add(a0, b0)
        yield c0
      } each {
        y[j + 1000*k] = s
      }
    }

becomes

    for j in 0..1000 { running2[j] = -0.0 }
    for k in 0..500 ordered {
      for j in 0..1000 {
        a0: f32 = running2[j]
        t0: f32 = x[j + 1000*k]
        b0: f32 = t0
        c0: f32 = add(a0, b0)
        running2[j] = c0
        s: f32 = c0
        y[j + 1000*k] = s
      }
    }

so that memory is walked through from its beginning to its end; the running results of a row stay in
the cache. Each is combined with the same elements in the same order as before. Scans of few
elements keep their running results in registers: then each row is a stream that can be fetched
ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.codegen.loops.access import names_used
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    For,
    Kernel,
    Let,
    Load,
    Param,
    Prefix,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import drop_unused, indices
from symgrad.codegen.schedule.vectorize import nested, perfect_nest
from symgrad.cost_model import MAX_STREAMS, VECTOR_BYTES
from symgrad.records import dataclass, replace


def interchange_scans(kernel: Kernel) -> Kernel:
    """Take the scans over rows of a kernel row by row, the running results in memory."""
    params = list(kernel.params)
    body: list[Stmt] = []
    for statement in kernel.body:
        plan = _plan(statement)
        body += (statement,) if plan is None else _interchanged(plan, params)
    return replace(kernel, params=tuple(params), body=tuple(body))


@dataclass(frozen=True, slots=True)
class _RowScan:
    """A scan in loops, of which the last goes along its rows."""

    loops: tuple[For, ...]
    prefix: Prefix


def _plan(statement: Stmt) -> _RowScan | None:
    """Return how a statement is a scan over rows, None if it is none that gains."""
    if not isinstance(statement, For):
        return None
    loops, body = perfect_nest(statement)
    if len(body) != 1 or not isinstance(prefix := body[0], Prefix):
        return None
    if prefix.has_values_as_indices:
        return None
    is_long = prefix.extent > MAX_STREAMS and all(loop.extent for loop in loops)
    along = [loop for loop in loops if _goes_along_rows(loop, prefix)]
    if not is_long or not along:
        return None
    rows = along[-1]
    return _RowScan((*(loop for loop in loops if loop is not rows), rows), prefix)


def _goes_along_rows(loop: For, prefix: Prefix) -> bool:
    """Return whether elements of rows lie side by side along `loop`, at least a vector of them."""
    itemsize = max(a.identity.dtype.itemsize for a in prefix.accumulators)
    strides = {abs(index.coefficient(loop.var)) for index in indices((prefix,))}
    return 1 in strides and strides <= {0, 1} and loop.extent * itemsize >= VECTOR_BYTES


def _interchanged(plan: _RowScan, params: list[Param]) -> list[Stmt]:
    """Return the loops of a plan; the buffers of its running results join `params`."""
    prefix, loops = plan.prefix, plan.loops
    extents = [loop.extent for loop in loops]
    steps = [math.prod(extents[i + 1 :]) for i in range(len(loops))]
    place = index_of(*((loop.var, step) for loop, step in zip(loops, steps, strict=True)))
    first: list[Stmt] = []
    loads: list[Stmt] = []
    stores: list[Stmt] = []
    for number in _carried(prefix):
        identity, combined = prefix.accumulators[number].identity, prefix.combined[number]
        name = f"running{len(params)}"
        params.append(Param(name, identity.dtype, math.prod(extents), "scratch"))
        first.append(Store(name, place, identity))
        loads.append(Let(prefix.left[number], Load(name, place, identity.dtype)))
        stores.append(Store(name, place, combined))
    body = (*loads, *_combining(prefix), *stores, *_results(prefix), *prefix.each)
    row = replace(loops[-1], body=drop_unused(body, set()))
    ordered = For(prefix.var, prefix.extent, (row,), ordered=True)
    whole = (*loops[:-1], ordered)
    return [nested(loops, tuple(first)), nested(whole, ordered.body)]


def _combining(prefix: Prefix) -> Sequence[Stmt]:
    """Return what brings an element to the running results."""
    items = zip(prefix.right, prefix.items, strict=True)
    return (*prefix.body, *(Let(name, item) for name, item in items), *prefix.combine)


def _results(prefix: Prefix) -> Sequence[Stmt]:
    """Return what gives the running results their names."""
    dtypes = (a.identity.dtype for a in prefix.accumulators)
    before = (Ref(name, dtype) for name, dtype in zip(prefix.left, dtypes, strict=True))
    values = before if prefix.exclusive else prefix.combined
    pairs = zip(prefix.accumulators, values, strict=True)
    return [Let(a.name, value) for a, value in pairs]


def _carried(prefix: Prefix) -> list[int]:
    """Return which accumulators matter from one element to the next."""
    needed: set[str] = set()
    drop_unused(prefix.each, needed)
    carried = [i for i, a in enumerate(prefix.accumulators) if a.name in needed]
    for number in carried:  # grows by those it is combined from
        names = _names_of(prefix, number)
        new = (i for i, name in enumerate(prefix.left) if name in names and i not in carried)
        carried.extend(new)
    return sorted(carried)


def _names_of(prefix: Prefix, number: int) -> set[str]:
    """Return the names that a combined result is computed from."""
    combined = prefix.combined[number]
    names = {combined.name} if isinstance(combined, Ref) else set()
    for let in reversed(prefix.combine):
        if let.name in names:
            names |= names_used(let.value)
    return names
