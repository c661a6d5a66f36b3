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
from collections.abc import Mapping, Sequence

from symgrad.codegen.loops.language import Binding, For, Ref, Stmt, Store
from symgrad.codegen.loops.rewrite import buffers_used, index_names, statements
from symgrad.records import replace


def store_early(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return the statements of a kernel with each store as early as it can be."""
    loaded, _ = buffers_used(body)
    stores = Counter(s.buffer for s in statements(body) if isinstance(s, Store))
    movable = {buffer for buffer, count in stores.items() if count == 1 and buffer not in loaded}
    return _moved(body, movable)


def _moved(body: Sequence[Stmt], movable: set[str]) -> tuple[Stmt, ...]:
    bound = {s.name: at for at, s in enumerate(body) if isinstance(s, Binding)}
    behind: dict[int, list[Stmt]] = defaultdict(list)
    for at, statement in enumerate(body):
        moved = statement
        place = at
        if isinstance(statement, For):
            moved = replace(statement, body=_moved(statement.body, movable))
        elif isinstance(statement, Store) and statement.buffer in movable:
            place = _earliest(statement, bound, at)
        behind[place].append(moved)
    return tuple(s for at in sorted(behind) for s in behind[at])


def _earliest(store: Store, bound: Mapping[str, int], at: int) -> int:
    """Return which statement binds what a store needs, the last one; where it is `at` if none."""
    if not isinstance(store.value, Ref) or store.value.name not in bound:
        return at
    names = {store.value.name, *index_names(store.index)}
    return max(bound[name] for name in names if name in bound)
