"""Statement scheduling: stores come right behind what they store.

    t0: f32 = tanh(...)                 t0: f32 = tanh(...)
    t1: f32 = tanh(...)                 o0[i] = t0
    o0[i] = t0             becomes      t1: f32 = tanh(...)
    o1[i] = t1                          o1[i] = t1

A value that is stored late is kept until then: across calls of functions that is in memory. It is
for buffers that are stored to in one place and never read, so no other order changes a result.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from symgrad.codegen.loops.language import For, Let, Ref, Stmt, Store
from symgrad.codegen.loops.rewrite import buffers_used, statements


def store_early(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return the statements of a kernel with each store as early as it can be."""
    loaded, _ = buffers_used(body)
    stores = Counter(s.buffer for s in statements(body) if isinstance(s, Store))
    movable = {buffer for buffer, count in stores.items() if count == 1 and buffer not in loaded}
    return _moved(body, movable)


def _moved(body: Sequence[Stmt], movable: set[str]) -> tuple[Stmt, ...]:
    bound = {statement.name for statement in body if isinstance(statement, Let)}
    behind: dict[str, list[Store]] = defaultdict(list)
    left: list[Stmt] = []
    for statement in body:
        name = _stored_name(statement, movable)
        if isinstance(statement, Store) and name in bound:
            behind[name].append(statement)
        else:
            left.append(statement)
    found: list[Stmt] = []
    for statement in left:
        if isinstance(statement, For):
            found.append(replace(statement, body=_moved(statement.body, movable)))
            continue
        found.append(statement)
        if isinstance(statement, Let):
            found += behind[statement.name]
    return tuple(found)


def _stored_name(statement: Stmt, movable: set[str]) -> str:
    """Return which value a statement stores to a `movable` buffer, an empty name if none."""
    if not isinstance(statement, Store) or statement.buffer not in movable:
        return ""
    return statement.value.name if isinstance(statement.value, Ref) else ""
