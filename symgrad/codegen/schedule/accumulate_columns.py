"""Loop fusion of sums down columns with the loop over rows, which adds each row up as it goes.

    for i in 0..256 {                                for k in 0..1024 vector(16) { sums[k] = 0.0 }
      ... x[1024*i + j] ...                          for i in 0..256 ordered {
    }                                                  ... x[1024*i + j] ...
    for k in 0..1024 vector(64) {                      t0: i64 = index(i)
      fold s: f32 = 0.0 for l in 0..256 {      ->      t1: bool = eq(t0, 0)
        ... x[1024*l + k] ...                          for k in 0..1024 vector(16) {
      } ...                                              t2: f32 = sums[k]
      sums[k] = s                                        t3: f32 = select(t1, 0.0, t2)
    }                                                    ... x[1024*i + k] ...
                                                         sums[k] = add(t3, ...)
                                                       }
                                                     }

The gradients of a scale and of a shift are such sums of a block of rows, whose operands a loop over
rows has read before. A row is in the nearest cache then, and a block of rows is not: to read it
again, one row after another as columns do, takes as long as to compute the rest of a norm. The sums
are read and written once a row instead, where they fit in that cache beside the row. The first row
adds to the identity each time it is done, so a pipeline may begin with it early. Terms are added in
the same order, and no result changes. Where no pipeline has come of it, the first row may add to
what has been stored (`begin_with_cleared`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from symgrad.codegen.loops.access import dependents, names_used
from symgrad.codegen.loops.language import (
    Atom,
    Check,
    Const,
    Fold,
    For,
    Index,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Param,
    Plain,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    accesses,
    buffers_used,
    drop_unused,
    free_values,
    index_extents,
    map_indices,
    substitute_variable,
)
from symgrad.codegen.schedule.contract_rows import own_row
from symgrad.codegen.schedule.long_loops import with_names
from symgrad.codegen.target import Target
from symgrad.cost_model import SHARE_OF_COLUMN_SUMS
from symgrad.graph.dtypes import bool_, int64
from symgrad.records import replace


def accumulate_columns(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with sums down columns in the loop over rows before them, where it pays."""
    params = {param.name: param for param in kernel.params}
    return replace(kernel, body=tuple(_in_all(kernel.body, (), params, target)))


def begin_with_cleared(kernel: Kernel) -> Kernel:
    """Return `kernel` with first rows that add to what is stored before the loop over rows.

    That is the identity. A choice of it for the first row is for pipelines alone, which do that row
    several times: each vector would choose between it and what is in memory.
    """
    if not any([isinstance(s, For) and s.vector == 1 for s in kernel.body]):
        return kernel
    return replace(kernel, body=_begun(kernel.body))


def _begun(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    cleared: dict[str, For] = {}
    found: list[Stmt] = []
    for statement in body:
        loaded, stored = buffers_used((statement,))
        new = statement
        if isinstance(statement, For) and statement.vector == 1:
            sums = accumulators(statement) if statement.ordered else set()
            known = {name: loop for name, loop in cleared.items() if name in sums}
            new = _begun_with(statement, known) if known else statement
            new = replace(new, body=_begun(new.body))
        found.append(new)
        cleared = {name: loop for name, loop in cleared.items() if name not in stored}
        if isinstance(statement, For) and not loaded:
            cleared |= dict.fromkeys(stored, statement)
    return tuple(found)


def _begun_with(rows: For, cleared: Mapping[str, For]) -> For:
    """Return a loop over rows that loads sums in the first row, too, where that is stored."""
    firsts = _firsts(rows)
    body: list[Stmt] = []
    for inner in rows.body:
        if not isinstance(inner, For):
            body.append(inner)
            continue
        loads = {s.name: s.value for s in inner.body if isinstance(s, Let)}
        begun = {
            s.name: load
            for s in inner.body
            if isinstance(s, Let)
            and isinstance(s.value, Select)
            and s.value.condition in firsts
            and isinstance(s.value.otherwise, Ref)
            and isinstance(load := loads.get(s.value.otherwise.name), Load)
            and load.buffer in cleared
            and _is_stored(s.value.chosen, inner, load, cleared[load.buffer])
        }
        lets = (
            replace(s, value=begun[s.name]) if isinstance(s, Let) and s.name in begun else s
            for s in inner.body
        )
        body.append(replace(inner, body=tuple(lets)))
    return replace(rows, body=drop_unused(body, set()))


def _is_stored(atom: Atom, loop: For, load: Load, before: For) -> bool:
    """Return whether a loop `before` has stored an atom wherever `loop` loads."""
    at = Index(0, ((before.var, 1),))
    store = Store(load.buffer, substitute_variable(load.index, loop.var, at), atom)
    return isinstance(atom, Const) and before.extent == loop.extent and store in before.body


def accumulators(loop: For) -> set[str]:
    """Return the buffers that each iteration of a loop adds to, the first one to the identity."""
    firsts = _firsts(loop)
    found: set[str] = set()
    for statement in loop.body:
        if not isinstance(statement, Loop):
            continue
        selects = [s.value for s in statement.body if isinstance(s, Let)]
        kept = {
            s.otherwise.name
            for s in selects
            if isinstance(s, Select) and s.condition in firsts and isinstance(s.otherwise, Ref)
        }
        found |= {
            s.value.buffer
            for s in statement.body
            if isinstance(s, Let) and s.name in kept and isinstance(s.value, Load)
        }
    return {name for name in found if _is_accumulated(loop.body, name, firsts)}


def _firsts(loop: For) -> set[Ref]:
    """Return the values that say whether an iteration is the first one."""
    at = IndexValue(Index(0, ((loop.var, 1),)), int64)
    places = {s.name for s in loop.body if isinstance(s, Let) and s.value == at}
    return {
        Ref(s.name, bool_)
        for s in loop.body
        if isinstance(s, Let)
        and isinstance(s.value, Op)
        and s.value.name == "eq"
        and s.value.args in {(Ref(name, int64), Const(0, int64)) for name in places}
    }


def _is_accumulated(body: Sequence[Stmt], name: str, firsts: set[Ref]) -> bool:
    """Return whether one loop alone uses a buffer, at one place, and the first row not at all."""
    users = [s for s in body if name in set().union(*buffers_used((s,)))]
    places = [index for buffer, index in accesses(users) if buffer == name]
    if len(users) != 1 or len(places) != 2 or len(set(places)) != 1:
        return False
    inner = users[0].body if isinstance(users[0], Loop) else ()
    loads = [s for s in inner if isinstance(s, Let) and _is_load(s, name)]
    stores = [n for n, s in enumerate(inner) if isinstance(s, Store) and s.buffer == name]
    if len(loads) != 1 or len(stores) != 1 or inner.index(loads[0]) > stores[0]:
        return False
    (load,) = loads
    value = Ref(load.name, load.value.dtype)
    using = [s for s in inner if isinstance(s, Let) and load.name in names_used(s.value)]
    return bool(using) and all(
        isinstance(s.value, Select)
        and s.value.condition in firsts
        and s.value.chosen != value
        and s.value.otherwise == value
        for s in using
    )


def _is_load(let: Let, name: str) -> bool:
    return isinstance(let.value, Load) and let.value.buffer == name


def _in_all(
    body: Sequence[Stmt], around: tuple[For, ...], params: Mapping[str, Param], target: Target
) -> Iterator[Stmt]:
    """Yield the statements of a body, with loops over rows that add up columns behind them."""
    rows: For | None = None
    for statement in body:
        if isinstance(statement, For) and statement.vector == 1:
            yield from () if rows is None else (rows,)
            inner = tuple(_in_all(statement.body, (*around, statement), params, target))
            rows = replace(statement, body=inner)
            continue
        if rows is not None and isinstance(statement, For):
            columns = _Columns(rows, statement, around, params)
            if columns.are_summed and columns.pay(target):
                yield columns.cleared()
                rows = columns.fused()
                continue
        yield from () if rows is None else (rows,)
        rows = None
        yield statement
    yield from () if rows is None else (rows,)


def _hoisted(body: Sequence[Stmt], column: str) -> tuple[list[Stmt], list[Stmt]]:
    """Return what is the same for all columns, and what is not."""
    varying = dependents(body, column)
    same: list[Stmt] = [s for s in body if isinstance(s, Let) and s.name not in varying]
    return same, [s for s in body if s not in same]


class _Columns:
    """A loop over columns that sums each one up, behind a loop over the same rows."""

    def __init__(
        self, rows: For, loop: For, around: tuple[For, ...], params: Mapping[str, Param]
    ) -> None:
        self._rows = rows
        self._loop = loop
        self._around = around
        self._params = params
        folds = [s for s in loop.body if isinstance(s, Fold)]
        self._fold = folds[0] if folds else None
        self._stores = [s for s in loop.body if isinstance(s, Store)]

    @property
    def are_summed(self) -> bool:
        """Whether the loop is sums of as many terms, whose rows are all there after each one."""
        rows, fold = self._rows, self._fold
        if fold is None or fold.lanes > 1 or fold.extent != rows.extent or rows.parallel:
            return False
        if self._loop.parallel or self._loop.body != (fold, *self._stores):
            return False
        if not all(isinstance(s, Plain) and not isinstance(s, Check) for s in fold.body):
            return False
        sums = {Ref(a.name, a.identity.dtype) for a in fold.accumulators}
        if {store.value for store in self._stores} != sums or len(self._stores) != len(sums):
            return False
        used = set().union(*buffers_used((rows,)))
        loaded, stored = buffers_used((self._loop,))
        if len(stored) != len(sums) or not stored.isdisjoint(used | loaded):
            return False
        defined = {s.name for s in rows.body if isinstance(s, Let)}
        if not defined.isdisjoint(free_values(self._loop)):
            return False
        return self._are_rows_done(loaded)

    def _are_rows_done(self, loaded: set[str]) -> bool:
        """Return whether what is read of a row is not written by the loop for any other row."""
        (moved,) = map_indices((self._loop,), self._at_row)
        both = replace(self._rows, body=(*self._rows.body, moved))
        written = buffers_used((self._rows,))[1]
        return all(own_row(both, self._around, name) is not None for name in loaded & written)

    def pay(self, target: Target) -> bool:
        """Return whether a block of rows is no longer in the nearest cache, and sums fit there."""
        assert self._fold is not None, "columns are summed"
        if self.width == 1:
            return False
        near = target.memory.l1_bytes
        sums = sum(a.identity.dtype.itemsize for a in self._fold.accumulators) * self._loop.extent
        if sums > SHARE_OF_COLUMN_SUMS * near:
            return False
        column = self._loop.var
        read = dict(
            (name, index) for name, index in accesses(self._fold.body) if index.coefficient(column)
        )
        at_hand = [(name, self._places(name, i)) for name, i in accesses(self._rows.body)]
        places = ((name, self._places(name, self._at_row(i))) for name, i in read.items())
        return all(place in at_hand for place in places) and self._nbytes() > near

    def _nbytes(self) -> int:
        """Return how many bytes the rows have that the loop over them reaches."""
        used = buffers_used((self._rows,))
        pitches = {name: own_row(self._rows, self._around, name) for name in set().union(*used)}
        sizes = (self._params[n].dtype.itemsize * (row or 0) for n, row in pitches.items())
        return sum(sizes) * self._rows.extent

    def _places(self, name: str, index: Index) -> Index:
        """Return a place in a buffer, whatever the name of the loop along the row is."""
        inner = {**index_extents(self._rows.body), self._loop.var: self._loop.extent}
        for variable, extent in inner.items():
            if extent == self._loop.extent and index.coefficient(variable):
                return substitute_variable(index, variable, Index(0, ((self._loop.var, 1),)))
        return index

    def _at_row(self, index: Index) -> Index:
        assert self._fold is not None, "columns are summed"
        return substitute_variable(index, self._fold.var, Index(0, ((self._rows.var, 1),)))

    @property
    def width(self) -> int:
        """Return how many elements loops along a row have in a vector, 1 if there is none."""
        widths = [s.vector for s in self._rows.body if isinstance(s, For)]
        return min((w for w in widths if self._loop.extent % w == 0), default=1)

    def cleared(self) -> For:
        """Return the loop that stores the identity, where the first row finds it."""
        assert self._fold is not None, "columns are summed"
        identities = (a.identity for a in self._fold.accumulators)
        stores = zip(self._stores_in_order(), identities, strict=True)
        body = tuple(replace(store, value=identity) for store, identity in stores)
        variable = f"{self._loop.var}.clear"
        at = Index(0, ((variable, 1),))
        moved = map_indices(body, lambda i: substitute_variable(i, self._loop.var, at))
        return replace(self._loop, var=variable, body=moved, vector=self.width, interleave=1)

    def fused(self) -> For:
        """Return the loop over rows that adds up columns."""
        fold = self._fold
        assert fold is not None, "columns are summed"
        place, first = f"{fold.var}.place", f"{fold.var}.first"
        lets: list[Stmt] = [
            Let(place, IndexValue(Index(0, ((self._rows.var, 1),)), int64)),
            Let(first, Op("eq", (Ref(place, int64), Const(0, int64)), bool_)),
        ]
        body: list[Stmt] = []
        names: dict[str, Atom] = {}
        for number, store in enumerate(self._stores_in_order()):
            identity = fold.accumulators[number].identity
            left, dtype = fold.left[number], identity.dtype
            before = Ref(f"{left}.before", dtype)
            body.append(Let(before.name, Load(store.buffer, store.index, dtype)))
            body.append(Let(left, Select(Ref(first, bool_), identity, before, dtype)))
            names[fold.right[number]] = fold.items[number]
        before_loop, each_column = _hoisted(map_indices(fold.body, self._at_row), self._loop.var)
        body += each_column
        combine = [with_names(s, names) for s in fold.combine]
        body += combine
        for store, atom in zip(self._stores_in_order(), fold.combined, strict=True):
            value = names.get(atom.name, atom) if isinstance(atom, Ref) else atom
            body.append(replace(store, value=value))
        loop = replace(self._loop, body=tuple(body), vector=self.width, interleave=1)
        return replace(self._rows, body=(*self._rows.body, *lets, *before_loop, loop), ordered=True)

    def _stores_in_order(self) -> list[Store]:
        """Return the stores in the order of the accumulators."""
        assert self._fold is not None, "columns are summed"
        by_name = {s.value.name: s for s in self._stores if isinstance(s.value, Ref)}
        return [by_name[a.name] for a in self._fold.accumulators]
