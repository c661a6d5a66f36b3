"""Range analysis of rows: which values are not below the elements of a row that are in memory.

    fold m: f32 = -inf for k in 0..512 lanes(32) {
      t0: bool = mask[512*i + k]
      t1: f32 = x[512*i + k]
      t2: f32 = select(t0, t1, -inf)
      yield t2
    } combine (a) (b) { ... the greater ... }
    most[i] = m

Here m is the greatest of those elements of x that the mask leaves, and so is the element of most
until something is stored to x or to most. Behind a loop over i that is true of every row, and in
the next loop over rows, whatever its variable is called, of the row of an iteration: iterations of
a loop that is not ordered read nothing that another one writes. What a row that is all -inf has
instead of its greatest, any number, makes -inf or nan of its elements less that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from symgrad.codegen.loops.formulas import ValueFormula, formula_of
from symgrad.codegen.loops.language import (
    Atom,
    Check,
    Const,
    Expr,
    Fold,
    For,
    Index,
    Let,
    Load,
    Op,
    Reduction,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    buffers_used,
    mentions,
    statements,
    substitute_variable,
)
from symgrad.graph.dtypes import bool_
from symgrad.records import dataclass, replace

_ELEMENT, _ROW = "*element", "*row"  # variables of what is known, which no loop has


@dataclass(frozen=True, slots=True)
class RowMaximum:
    """That a value is not below any of the first `extent` elements of `buffer` at `index`.

    If there is a `mask`, that is known of elements where it is true.
    """

    buffer: str
    index: Index
    extent: int
    mask: ValueFormula | None

    def bounds(self, load: Load, loop: For | Reduction) -> bool:
        """Return whether what `loop` loads is one of these elements, if the mask leaves it."""
        same = substitute_variable(self.index, _ELEMENT, _along(loop))
        is_same = (load.buffer, load.index) == (self.buffer, same)
        return is_same and loop.extent <= self.extent

    def mask_along(self, loop: For | Reduction) -> ValueFormula | None:
        """Return the mask of what `loop` loads."""
        return None if self.mask is None else self.mask.substituted(_ELEMENT, _along(loop))

    def substituted(self, variable: str, by: Index) -> RowMaximum:
        mask = None if self.mask is None else self.mask.substituted(variable, by)
        return replace(self, index=substitute_variable(self.index, variable, by), mask=mask)

    def mentions(self, variable: str) -> bool:
        in_mask = self.mask is not None and self.mask.mentions(variable)
        return in_mask or mentions(self.index, variable)


def _along(loop: For | Reduction) -> Index:
    return Index(0, ((loop.var, 1),))


_RowPlace = tuple[str, Index]


class RowMaxima:
    """What is known between the statements of a body: of values, and of elements in memory.

    Masks are known that are computed of indices and of what is in `constant` buffers, to which
    nothing stores.
    """

    def __init__(self, constant: frozenset[str]) -> None:
        self._constant = constant
        self.values: dict[str, RowMaximum] = {}
        self.formulas: dict[str, Expr] = {}
        self._elements: dict[_RowPlace, RowMaximum] = {}
        self._rows: dict[_RowPlace, tuple[int, RowMaximum]] = {}

    def formula(self, atom: Atom) -> ValueFormula | None:
        """Return how a value is computed, None if that is not known or may change."""
        return formula_of(atom, self.formulas, self._constant)

    def inside(self, loop: For | Reduction) -> RowMaxima:
        """Return what is known where the body of a loop begins, in each iteration."""
        inner = RowMaxima(self._constant)
        inner.formulas = dict(self.formulas)
        inner.values, inner._elements = dict(self.values), dict(self._elements)
        along = _along(loop)
        for (buffer, index), (extent, greatest) in self._rows.items():
            if loop.extent <= extent:
                place = buffer, substitute_variable(index, _ROW, along)
                inner._elements[place] = greatest.substituted(_ROW, along)
        if not isinstance(loop, For) or loop.ordered:
            inner._forget(loop)
        return inner

    def meet(self, statement: Stmt, inner: RowMaxima | None = None) -> None:
        """Learn from a statement, and of a loop what is known at the end of its body."""
        self._forget(statement)
        if isinstance(statement, Fold):
            self.values.update(self._maxima_of(statement))
        elif isinstance(statement, For) and inner is not None and not statement.ordered:
            self._learn_rows(statement, inner)
        elif isinstance(statement, Store) and isinstance(statement.value, Ref):
            if (greatest := self.values.get(statement.value.name)) is not None:
                self._elements[statement.buffer, statement.index] = greatest
        elif isinstance(statement, Let):
            self.formulas[statement.name] = statement.value
            if (greatest := self._greatest(statement.value)) is not None:
                self.values[statement.name] = greatest

    def _forget(self, statement: Stmt) -> None:
        _, stored = buffers_used((statement,))
        if not stored:
            return
        self.values = {n: g for n, g in self.values.items() if g.buffer not in stored}
        self._elements = {
            place: greatest
            for place, greatest in self._elements.items()
            if stored.isdisjoint((place[0], greatest.buffer))
        }
        self._rows = {
            place: (extent, greatest)
            for place, (extent, greatest) in self._rows.items()
            if stored.isdisjoint((place[0], greatest.buffer))
        }

    def _learn_rows(self, loop: For, inner: RowMaxima) -> None:
        row, bound = Index(0, ((_ROW, 1),)), _bound_in(loop)
        for (buffer, index), greatest in inner._elements.items():
            ends = any(mentions(index, name) or greatest.mentions(name) for name in bound)
            if mentions(index, loop.var) and not ends:
                place = buffer, substitute_variable(index, loop.var, row)
                self._rows[place] = loop.extent, greatest.substituted(loop.var, row)

    def _greatest(self, value: Expr) -> RowMaximum | None:
        """Return what is known of a value that is read, or put in place of the greatest."""
        if isinstance(value, Load):
            return self._elements.get((value.buffer, value.index))
        if not isinstance(value, Select) or not isinstance(value.otherwise, Ref):
            return None
        relation = formula = self.formulas.get(_name(value.condition))
        nothing = Const(-math.inf, value.dtype)
        is_empty = relation == Op("eq", (value.otherwise, nothing), bool_)
        if formula is None or not is_empty or not isinstance(value.chosen, Const):
            return None
        return self.values.get(value.otherwise.name)

    def _maxima_of(self, fold: Fold) -> Iterator[tuple[str, RowMaximum]]:
        """Yield the results of a fold that are the greatest of elements in memory."""
        values = {s.name: s.value for s in fold.body if isinstance(s, Let)}
        inner = self.inside(fold)
        inner.formulas.update(values)
        bound = _bound_in(fold)
        rows = zip(fold.accumulators, fold.items, fold.left, fold.right, fold.combined, strict=True)
        for accumulator, item, left, right, combined in rows:
            if accumulator.identity.value != -math.inf:
                continue
            load, mask = values.get(_name(item)), None
            if isinstance(load, Select) and load.otherwise == Const(-math.inf, load.dtype):
                mask = inner.formula(load.condition)
                load = values.get(_name(load.chosen)) if mask is not None else None
            if isinstance(load, Load) and _is_maximum(fold, left, right, combined):
                greatest = RowMaximum(load.buffer, load.index, fold.extent, mask)
                element = Index(0, ((_ELEMENT, 1),))
                if not any(map(greatest.mentions, bound)):
                    yield accumulator.name, greatest.substituted(fold.var, element)


def _bound_in(loop: For | Fold) -> set[str]:
    """Return the names of checked indices in a loop, which behind it may be those of others."""
    return {s.name for s in statements(loop.body) if isinstance(s, Check)}


def _name(atom: Atom) -> str:
    return atom.name if isinstance(atom, Ref) else ""


def _is_maximum(fold: Fold, left: str, right: str, combined: Atom) -> bool:
    """Return whether partial results are combined to the greater, and none is lost to a nan.

    Where the right one was chosen if it is not below, a nan would be chosen, and then whatever is
    next. A maximum that is nan beside nan stays so.
    """
    values: Mapping[str, Expr] = {s.name: s.value for s in fold.combine}
    value = values.get(_name(combined))
    sides = [Ref(name, combined.dtype) for name in (right, left)]
    if isinstance(value, Select):
        relation = values.get(_name(value.condition))
        is_right = [value.chosen, value.otherwise] == sides
        return is_right and relation == Op("gt", tuple(sides), bool_)
    if isinstance(value, Op) and value.name == "max":
        return list(value.args) in (sides, sides[::-1])
    return False
