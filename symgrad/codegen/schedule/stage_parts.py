"""The part of a stage of a row in a loop of several: what it does before, inside and behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from symgrad.codegen.loops.access import names_used
from symgrad.codegen.loops.language import (
    Accumulator,
    Atom,
    Check,
    Expr,
    Fold,
    For,
    Index,
    Let,
    Load,
    Modulus,
    Plain,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.print import print_statement
from symgrad.codegen.loops.rewrite import (
    accesses,
    arguments,
    buffers_used,
    free_indices,
    free_values,
    index_names,
    map_indices,
    substitute_variable,
)
from symgrad.codegen.schedule.contract_rows import change_indices, of_row
from symgrad.codegen.schedule.long_loops import with_names
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import DType
from symgrad.records import replace

StageBody = tuple[Stmt, ...]


class StagePart:
    """A stage as a part of the loop: what is before and behind it, and what is done in it."""

    def __init__(self, stage: StageBody, column: str) -> None:
        self.before: list[Plain] = []
        self.after: list[Plain] = []
        self.inside: list[Plain] = []
        self.folds: list[Fold] = []
        self.shapes: list[tuple[int, int]] = []
        self._late: set[str] = set()
        self._stored: set[str] = set()  # by what is behind the loop
        self._column = column
        self.is_one_loop = all(map(self._add, stage)) and self._is_even()

    def _add(self, statement: Stmt) -> bool:
        if isinstance(statement, Plain):
            self._add_plain(statement)
            return True
        if isinstance(statement, For) and statement.vector > 1:
            self.shapes.append((statement.extent, 0))
            return self._add_loop(statement)
        if not isinstance(statement, Fold) or statement.lanes == 1:
            return False
        self.shapes.append((statement.extent, statement.lanes))
        is_added = self._add_loop(statement)
        self.folds.append(statement)
        self._late |= {a.name for a in statement.accumulators}
        return is_added

    def _add_loop(self, loop: For | Fold) -> bool:
        if not all(isinstance(s, Plain) and not isinstance(s, Check) for s in loop.body):
            return False
        needed = {*free_values(loop), *free_indices(loop)}
        loaded, stored = buffers_used((loop,))
        at = Index(0, ((self._column, 1),))
        body = map_indices(loop.body, lambda i: substitute_variable(i, loop.var, at))
        self.inside += _plain(body)
        return needed.isdisjoint(self._late) and (loaded | stored).isdisjoint(self._stored)

    def _add_plain(self, statement: Plain) -> None:
        """Put a statement before the loop, or behind it if it needs what the loop comes to."""
        loaded, _ = buffers_used((statement,))
        _, stored = buffers_used(self.inside)
        is_behind = isinstance(statement, Store) and bool(self.shapes)
        is_behind |= not loaded.isdisjoint(stored | self._stored)
        if not is_behind and self._late.isdisjoint(_needed(statement)):
            self.before.append(statement)
            return
        self.after.append(statement)
        if isinstance(statement, Store):
            self._stored.add(statement.buffer)
        else:
            self._late.add(statement.name)

    @property
    def given(self) -> set[str]:
        """The values that the loop needs and does not compute."""
        bound = {s.name for s in self.inside if isinstance(s, Let)}
        atoms = (a for s in self.inside for a in _atoms(s))
        return {a.name for a in atoms if isinstance(a, Ref)} - bound

    def _is_even(self) -> bool:
        """Return whether what one loop stores the next ones reach at the same place alone."""
        found = accesses(self.inside)
        stored = buffers_used(self.inside)[1]
        return bool(self.shapes) and all(
            len({i for n, i in found if n == name}) == 1 for name in stored
        )

    def move(
        self, variable: str, row: str, scratch: Mapping[str, int], count: int, *, ending: str = ""
    ) -> None:
        """Make it that of another row, with names and scratch memory of its own."""
        at = Index(0, ((row, 1),))

        def moved(body: Sequence[Plain]) -> list[Plain]:
            result: Sequence[Stmt] = map_indices(
                body, lambda i: substitute_variable(i, variable, at)
            )
            for name, size in scratch.items():
                place = partial(of_row, row=Modulus(at, count), size=size, count=count)
                result = change_indices(result, name, place)
            return _plain(result)

        names = _NamesApart(ending or row)
        self.before = names.simplified(moved(self.before))
        self.inside = names.simplified(moved(self.inside))
        self.folds = [names.fold(fold) for fold in self.folds]
        self.after = names.changed(moved(self.after))


def joined_folds(parts: Sequence[StagePart], column: str, extent: int, lanes: int) -> Fold:
    """Return the loop along rows of all parts."""
    folds = [fold for part in parts for fold in part.folds]
    return Fold(
        accumulators=tuple(a for fold in folds for a in fold.accumulators),
        var=column,
        extent=extent,
        lanes=lanes,
        body=tuple(s for part in parts for s in part.inside),
        items=tuple(item for fold in folds for item in fold.items),
        left=tuple(name for fold in folds for name in fold.left),
        right=tuple(name for fold in folds for name in fold.right),
        combine=tuple(let for fold in folds for let in fold.combine),
        combined=tuple(atom for fold in folds for atom in fold.combined),
    )


def carried_vectors(parts: Sequence[StagePart], lanes: int, target: Target) -> int:
    """Return how many vectors the loop carries, and those of values that it is given."""
    carried = [a for part in parts for fold in part.folds for a in fold.accumulators]
    vectors = sum(max(1, lanes // target.lanes(a.identity.dtype.itemsize)) for a in carried)
    return vectors + sum(len(part.given) for part in parts)


def _plain(body: Sequence[Stmt]) -> list[Plain]:
    plain = [s for s in body if isinstance(s, Plain)]
    assert len(plain) == len(body), "a part is made of straight code"
    return plain


def _needed(statement: Plain) -> set[str]:
    """Return the values and indices that a statement needs."""
    if isinstance(statement, Let):
        return names_used(statement.value)
    names = {a.name for a in _atoms(statement) if isinstance(a, Ref)}
    return names | set(index_names(statement.index)) if isinstance(statement, Store) else names


class _NamesApart:
    """New names of what a part binds, and values that stand for others that are equal."""

    def __init__(self, ending: str) -> None:
        self._ending = ending
        self._values: dict[str, Atom] = {}
        self._indices: dict[str, str] = {}

    def changed(self, body: Sequence[Plain]) -> list[Plain]:
        """Rename apart values and checked indices."""
        return [self._bound_apart(self._given(statement)) for statement in body]

    def simplified(self, body: Sequence[Plain]) -> list[Plain]:
        """Rename apart, with store-to-load forwarding and no common subexpressions.

        What is stored to a buffer is stored to one place of it.
        """
        kept: list[Plain] = []
        known: dict[str, Atom] = {}  # by the text of expressions, which tells 0.0 from -0.0
        for statement in map(self._given, body):
            if isinstance(statement, Let) and (text := _text(statement.value)) in known:
                self._values[statement.name] = known[text]
                continue
            kept.append(self._bound_apart(statement))
            if isinstance(statement, Let):
                known[text] = self._values[statement.name]
            elif isinstance(statement, Store):
                load = Load(statement.buffer, statement.index, statement.value.dtype)
                known[_text(load)] = statement.value
        return kept

    def fold(self, fold: Fold) -> Fold:
        """Rename what a fold binds."""
        inner = _NamesApart(self._ending)
        inner._values = dict(self._values)
        dtypes = [a.identity.dtype for a in fold.accumulators]
        left, right = (
            tuple(inner._bound(name, dtype) for name, dtype in zip(side, dtypes, strict=True))
            for side in (fold.left, fold.right)
        )
        combine = tuple(s for s in inner.changed(fold.combine) if isinstance(s, Let))
        combined = tuple(inner._atom(atom) for atom in fold.combined)
        items = tuple(self._atom(atom) for atom in fold.items)
        accumulators = tuple(
            Accumulator(self._bound(a.name, a.identity.dtype), a.identity)
            for a in fold.accumulators
        )
        return replace(
            fold,
            accumulators=accumulators,
            items=items,
            left=left,
            right=right,
            combine=combine,
            combined=combined,
        )

    def _bound(self, name: str, dtype: DType) -> str:
        new = f"{name}.{self._ending}"
        self._values[name] = Ref(new, dtype)
        return new

    def _atom(self, atom: Atom) -> Atom:
        return self._values.get(atom.name, atom) if isinstance(atom, Ref) else atom

    def _given(self, statement: Plain) -> Plain:
        """Return a statement with the new names in the place of those that it uses."""
        (statement,) = _plain(map_indices((statement,), self._index))
        return with_names(statement, self._values)

    def _bound_apart(self, statement: Plain) -> Plain:
        """Return a statement with a new name in the place of the one that it binds."""
        match statement:
            case Let(name, value):
                return Let(self._bound(name, value.dtype), value)
            case Check(name):
                self._indices[name] = f"{name}.{self._ending}"
                return replace(statement, name=self._indices[name])
            case Store():
                return statement

    def _index(self, index: Index) -> Index:
        for old, new in self._indices.items():
            index = substitute_variable(index, old, Index(0, ((new, 1),)))
        return index


def _atoms(statement: Plain) -> tuple[Atom, ...]:
    return arguments(statement.value) if isinstance(statement, Let) else (statement.value,)


def _text(value: Expr) -> str:
    return print_statement(Let("it", value))
