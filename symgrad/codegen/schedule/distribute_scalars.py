"""Loop distribution: what is costly, and computed once a row, is computed for many rows at a time.

    for i in 0..8192 {
      fold s: f32 = ... x[128*i + j] ...
      sums[i] = s
      t0: f32 = log(s)
      t1: f32 = x[128*i + label]
      t2: f32 = sub(t0, t1)
      loss[i] = t2
      for k in 0..128 vector(16) { ... }
    }

becomes

    for i in 0..8192 {
      fold s: f32 = ... x[128*i + j] ...
      sums[i] = s
      t1: f32 = x[128*i + label]
      loss[i] = t1
      for k in 0..128 vector(16) { ... }
    }
    for l in 0..8192 vector(16) {
      s.late: f32 = sums[l]
      t1.late: f32 = loss[l]
      t0: f32 = log(s.late)
      t2: f32 = sub(t0, t1.late)
      loss[l] = t2
    }

A logarithm of one number takes as many instructions as that of a vector: of rows of a hundred
elements it was a seventh of the time. What only results need leaves the loop so; what that is made
of is read where it is stored anyway, or waits where the result will be. No result changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.access import body_flops, names_used
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Atom,
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Plain,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    accesses,
    arguments,
    buffers_used,
    free_values,
    index_names,
    map_indices,
    substitute_variable,
)
from symgrad.codegen.schedule.distribute_rows import rows_in_stages
from symgrad.codegen.schedule.long_loops import with_names
from symgrad.codegen.schedule.pipeline_rows import rows_in_pipeline
from symgrad.codegen.target import Target
from symgrad.cost_model import LEAST_DISTRIBUTED_FLOPS, LEAST_SPLIT_CYCLES
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.records import dataclass, replace


def distribute_scalars(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with what is costly in a row, and for results alone, in loops of vectors."""
    return replace(kernel, body=tuple(_in_all(kernel.body, target)))


def _in_all(body: Sequence[Stmt], target: Target) -> Iterator[Stmt]:
    for statement in body:
        if not isinstance(statement, For) or statement.vector > 1:
            yield statement
            continue
        loop = replace(statement, body=tuple(_in_all(statement.body, target)))
        has_rows = any(isinstance(s, Loop) for s in loop.body)
        if has_rows and not loop.parallel and statement_cycles(loop) >= LEAST_SPLIT_CYCLES:
            yield from _distributed(loop, target)
        else:
            yield loop


def late_flops(first: Stmt, second: Stmt) -> int:
    """Return the operations that are costly in a loop behind one over rows, 0 if it is none."""
    if not isinstance(first, For) or not isinstance(second, For):
        return 0
    rows, _, _ = rows_in_pipeline(first)
    if (rows or first.extent * (rows_in_stages(first) or 1)) != second.extent:
        return 0
    is_behind = any(isinstance(s, Loop) for s in first.body) and first.vector == 1 < second.vector
    costly = [s for s in second.body if isinstance(s, Let) and _is_costly(s)]
    return body_flops(costly) if is_behind else 0


@dataclass(frozen=True, slots=True)
class _Late:
    """What leaves a loop over rows: values, and the stores of results that need them."""

    values: tuple[Let, ...]
    stores: tuple[Store, ...]


def _distributed(loop: For, target: Target) -> tuple[For, ...]:
    """Return a loop, and one behind it for what is late in it."""
    late = _late_in(loop)
    if late is None:
        return (loop,)
    reloaded = _Reloads(loop, late)
    if not reloaded.are_found:
        return (loop,)
    width = target.vector_bytes // max(s.value.dtype.itemsize for s in late.stores)
    if loop.extent < width:
        return (loop,)
    gone = set(map(id, (*late.values, *late.stores)))
    kept = [statement for statement in loop.body if id(statement) not in gone]
    return replace(loop, body=(*kept, *reloaded.waiting)), reloaded.loop(width)


def _late_in(loop: For) -> _Late | None:
    """Return what costly values of a row are for, of those that only results need."""
    needed = set().union(*(_needed_by(s) for s in loop.body))
    late: set[str] = set()
    for statement in loop.body:
        if isinstance(statement, Let) and _is_costly(statement):
            users = _users(loop.body, statement.name)
            late |= users if users.isdisjoint(needed) else set()
    values = tuple(s for s in loop.body if isinstance(s, Let) and s.name in late)
    stores = tuple(s for s in loop.body if isinstance(s, Store) and _names({s.value}) & late)
    places = [buffer for buffer, _ in accesses(loop.body)]
    is_alone = all(places.count(s.buffer) == 1 and _is_row_of(s.index, loop) for s in stores)
    return _Late(values, stores) if stores and is_alone else None


def _needed_by(statement: Stmt) -> set[str]:
    """Return the values that a loop or an index needs, which are in time for it."""
    if isinstance(statement, Loop):
        return set(free_values(statement))
    return _names({statement.value}) if isinstance(statement, Check) else set()


def _is_costly(let: Let) -> bool:
    value = let.value
    return isinstance(value, Op) and SCALAR_OPS[value.name].flops >= LEAST_DISTRIBUTED_FLOPS


def _users(body: Sequence[Stmt], name: str) -> set[str]:
    """Return the values that depend on one, itself among them."""
    found = {name}
    for statement in body:
        if isinstance(statement, Let) and not found.isdisjoint(names_used(statement.value)):
            found.add(statement.name)
    return found


def _names(atoms: Collection[Atom]) -> set[str]:
    return {atom.name for atom in atoms if isinstance(atom, Ref)}


def _is_row_of(index: Index, loop: For) -> bool:
    """Return whether rows have one element each there, side by side, at no place that is data."""
    checked = {s.name for s in loop.body if isinstance(s, Check)}
    origin = substitute_variable(index, loop.var, Index())
    is_even = index == index_of(*origin.terms, (loop.var, 1), const=origin.const)
    return is_even and checked.isdisjoint(index_names(index))


class _Reloads:
    """Where what late values are made of is read again: where it is stored, or where it waits.

    `waiting` are the stores of what waits in the place of a result.
    """

    def __init__(self, loop: For, late: _Late) -> None:
        self._rows = loop
        self._late = late
        self._loads: dict[Ref, Load] = {}
        self.waiting: list[Store] = []
        self.are_found = all(map(self._find, self._live()))

    def loop(self, width: int) -> For:
        """Return the loop over all rows that computes what is late."""
        rows = self._rows
        names: dict[str, Atom] = {v.name: Ref(f"{v.name}.late", v.dtype) for v in self._loads}
        body: list[Stmt] = [Let(f"{v.name}.late", load) for v, load in self._loads.items()]
        late = set(map(id, (*self._late.values, *self._late.stores)))
        for statement in rows.body:
            if id(statement) in late:
                assert isinstance(statement, Plain), "what is late is straight code"
                body.append(with_names(statement, names))
        variable = f"{rows.var}.late"
        at = Index(0, ((variable, 1),))
        moved = map_indices(body, lambda index: substitute_variable(index, rows.var, at))
        return For(variable, rows.extent, moved, width)

    def _live(self) -> list[Ref]:
        """Return the values of a row that late ones are made of, in their order."""
        late = {let.name for let in self._late.values}
        lets = (s.name for s in self._rows.body if isinstance(s, Let))
        folds = (s for s in self._rows.body if isinstance(s, Fold))
        bound = {*lets, *(a.name for fold in folds for a in fold.accumulators)}
        used = [a for let in self._late.values for a in arguments(let.value)]
        return list(dict.fromkeys(a for a in used if isinstance(a, Ref) and a.name in bound - late))

    def _find(self, value: Ref) -> bool:
        """Find where a value is read again; return whether there is such a place."""
        load = self._stored(value) or self._given(value) or self._wait(value)
        if load is not None:
            self._loads[value] = load
        return load is not None

    def _stored(self, value: Ref) -> Load | None:
        stores = [s for s in self._rows.body if isinstance(s, Store)]
        late = set(map(id, self._late.stores))
        for store in stores:
            is_once = sum(s.buffer == store.buffer for s in stores) == 1
            is_kept = is_once and id(store) not in late and _is_row_of(store.index, self._rows)
            if store.value == value and is_kept:
                return Load(store.buffer, store.index, value.dtype)
        return None

    def _given(self, value: Ref) -> Load | None:
        _, stored = buffers_used((self._rows,))
        for let in self._rows.body:
            if not isinstance(let, Let) or let.name != value.name:
                continue
            load = let.value
            if isinstance(load, Load) and load.buffer not in stored:
                return load if _is_row_of(load.index, self._rows) else None
        return None

    def _wait(self, value: Ref) -> Load | None:
        taken = {store.buffer for store in self.waiting}
        for store in self._late.stores:
            if store.buffer not in taken and store.value.dtype == value.dtype:
                self.waiting.append(replace(store, value=value))
                return Load(store.buffer, store.index, value.dtype)
        return None
