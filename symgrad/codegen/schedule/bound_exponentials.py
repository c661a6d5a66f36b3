"""Range analysis of exponentials: of what is less the greatest of its row, none overflows.

    fold m: f32 = -inf for k in 0..1024 lanes(32) {
      t0: f32 = x[1024*i + k]
      yield t0
    } combine (a) (b) {
      c: bool = gt(b, a)
      d: f32 = select(c, b, a)
      yield d
    }
    most[i] = m
    t1: f32 = most[i]
    for j in 0..1024 vector(16) {
      t2: f32 = x[1024*i + j]
      t3: f32 = sub(t2, t1)
      t4: f32 = exp(t3)
      ...

becomes the same with `t4: f32 = decay(t3)`, an operation less in each vector: a float less one that
is not below it is not above 0, also rounded, or it is nan, where either is or both are the same
infinity. Elements of x and what has been found are known as long as nothing stores to their
buffers. No result changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from symgrad.codegen.loops.language import (
    Atom,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Reduction,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import buffers_used, statements, substitute_variable
from symgrad.graph.dtypes import bool_
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Greatest:
    """That a value is not below any element of `buffer` at `index`, `variable` below `extent`."""

    buffer: str
    index: Index
    variable: str
    extent: int

    def bounds(self, load: Load, loop: For | Reduction) -> bool:
        """Return whether what `loop` loads is one of these elements."""
        along = Index(0, ((loop.var, 1),))
        same = substitute_variable(self.index, self.variable, along)
        return (load.buffer, load.index) == (self.buffer, same) and loop.extent <= self.extent


class _KnownGreatest:
    """What is known between the statements of a body: of values, and of elements in memory."""

    def __init__(self, known: Mapping[str, _Greatest]) -> None:
        self.values = dict(known)
        self._elements: dict[tuple[str, Index], _Greatest] = {}

    def meet(self, statement: Stmt) -> None:
        """Learn from a statement, and forget what it stores to."""
        _, stored = buffers_used((statement,))
        self.values = {n: g for n, g in self.values.items() if g.buffer not in stored}
        self._elements = {
            place: greatest
            for place, greatest in self._elements.items()
            if stored.isdisjoint((place[0], greatest.buffer))
        }
        if isinstance(statement, Fold):
            self.values.update(_greatest_of(statement))
        elif isinstance(statement, Store) and isinstance(statement.value, Ref):
            if (greatest := self.values.get(statement.value.name)) is not None:
                self._elements[statement.buffer, statement.index] = greatest
        elif isinstance(statement, Let) and isinstance(statement.value, Load):
            load = statement.value
            if (greatest := self._elements.get((load.buffer, load.index))) is not None:
                self.values[statement.name] = greatest


def bound_exponentials(kernel: Kernel) -> Kernel:
    """Return `kernel` with exponentials that cannot overflow as such."""
    has_any = any(
        isinstance(s, Let) and isinstance(s.value, Op) and s.value.name == "exp"
        for s in statements(kernel.body)
    )
    return replace(kernel, body=_in_body(kernel.body, {})) if has_any else kernel


def _in_body(body: Sequence[Stmt], known: Mapping[str, _Greatest]) -> tuple[Stmt, ...]:
    row = _KnownGreatest(known)
    result: list[Stmt] = []
    for statement in body:
        changed = statement
        if isinstance(statement, For | Reduction):
            _, stored = buffers_used((statement,))
            kept = {n: g for n, g in row.values.items() if g.buffer not in stored}
            changed = replace(statement, body=_in_body(_along(statement, kept), kept))
        result.append(changed)
        row.meet(changed)
    return tuple(result)


def _along(loop: For | Reduction, known: Mapping[str, _Greatest]) -> tuple[Stmt, ...]:
    """Return the body of a loop with the exponentials of differences to what is `known`."""
    values = {s.name: s.value for s in loop.body if isinstance(s, Let)}

    def is_below(atom: Atom) -> bool:
        value = values.get(atom.name) if isinstance(atom, Ref) else None
        if not isinstance(value, Op) or value.name != "sub":
            return False
        names = [argument.name for argument in value.args if isinstance(argument, Ref)]
        load = values.get(names[0]) if len(names) == 2 and names[1] in known else None
        return isinstance(load, Load) and known[names[1]].bounds(load, loop)

    def changed(statement: Stmt) -> Stmt:
        if not isinstance(statement, Let) or not isinstance(statement.value, Op):
            return statement
        is_bounded = statement.value.name == "exp" and is_below(statement.value.args[0])
        return (
            replace(statement, value=replace(statement.value, name="decay"))
            if is_bounded
            else statement
        )

    return tuple(map(changed, loop.body))


def _greatest_of(fold: Fold) -> Iterator[tuple[str, _Greatest]]:
    """Yield the results of a fold that are the greatest of elements in memory."""
    values = {s.name: s.value for s in fold.body if isinstance(s, Let)}
    rows = zip(fold.accumulators, fold.items, fold.left, fold.right, fold.combined, strict=True)
    for accumulator, item, left, right, combined in rows:
        load = values.get(item.name) if isinstance(item, Ref) else None
        if accumulator.identity.value != -math.inf or not isinstance(load, Load):
            continue
        if _is_maximum(fold, left, right, combined):
            greatest = _Greatest(load.buffer, load.index, fold.var, fold.extent)
            yield accumulator.name, greatest


def _is_maximum(fold: Fold, left: str, right: str, combined: Atom) -> bool:
    """Return whether partial results are combined to the greater, and none is lost to a nan.

    Where the right one was chosen if it is not below, a nan would be chosen, and then whatever is
    next. A maximum that is nan beside nan stays so.
    """
    values = {s.name: s.value for s in fold.combine}
    value = values.get(combined.name) if isinstance(combined, Ref) else None
    sides = [Ref(name, combined.dtype) for name in (right, left)]
    if isinstance(value, Select):
        condition = value.condition
        relation = values.get(condition.name) if isinstance(condition, Ref) else None
        is_right = [value.chosen, value.otherwise] == sides
        return is_right and relation == Op("gt", tuple(sides), bool_)
    if isinstance(value, Op) and value.name == "max":
        return list(value.args) in (sides, sides[::-1])
    return False
