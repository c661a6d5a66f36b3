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

becomes the same with `t4: f32 = decay(t3)`, some operations less in each vector: a float less one
that is not below it is not above 0, also rounded, or it is nan, where either is or both are the
same infinity. So is its product by a positive constant, and what is chosen of it and of a constant
that is not above 0, by the mask if the greatest is that of a mask (`row_maxima.py`). No result
changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.loops.formulas import ValueFormula
from symgrad.codegen.loops.language import (
    Atom,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Op,
    Reduction,
    Ref,
    Select,
    Stmt,
)
from symgrad.codegen.loops.rewrite import buffers_used, statements
from symgrad.codegen.schedule.row_maxima import RowMaxima
from symgrad.records import replace


def bound_exponentials(kernel: Kernel) -> Kernel:
    """Return `kernel` with exponentials that cannot overflow as such."""
    has_any = any(
        isinstance(s, Let) and isinstance(s.value, Op) and s.value.name == "exp"
        for s in statements(kernel.body)
    )
    if not has_any:
        return kernel
    _, stored = buffers_used(kernel.body)
    constant = frozenset(p.name for p in kernel.params) - stored
    return replace(kernel, body=_in_body(kernel.body, RowMaxima(constant)))


def _in_body(
    body: Sequence[Stmt], known: RowMaxima, differences: _Differences | None = None
) -> tuple[Stmt, ...]:
    """Return a body with what is `known` before it, which is then what is known behind it."""
    result: list[Stmt] = []
    for statement in body:
        changed, inner = statement, None
        if isinstance(statement, For | Reduction):
            inner = known.inside(statement)
            within = _in_body(statement.body, inner, _Differences(statement, inner))
            changed = replace(statement, body=within)
        elif differences is not None:
            changed = differences.bounded(statement)
        result.append(changed)
        known.meet(changed, inner)
        if differences is not None:
            differences.meet(changed)
    return tuple(result)


class _Differences:
    """Values in a loop that are nan or not above 0: all of them, or those that a mask leaves."""

    def __init__(self, loop: For | Reduction, known: RowMaxima) -> None:
        self._loop, self._known = loop, known
        self._loads: dict[str, Load] = {}
        self._masks: dict[str, ValueFormula | None] = {}

    def bounded(self, statement: Stmt) -> Stmt:
        if not isinstance(statement, Let) or not isinstance(value := statement.value, Op):
            return statement
        is_bounded = value.name == "exp" and self._is_never_above(value.args[0])
        return replace(statement, value=replace(value, name="decay")) if is_bounded else statement

    def meet(self, statement: Stmt) -> None:
        _, stored = buffers_used((statement,))
        self._loads = {n: load for n, load in self._loads.items() if load.buffer not in stored}
        if isinstance(statement, Let):
            self._learn(statement.name, statement.value)

    def _learn(self, name: str, value: Expr) -> None:
        match value:
            case Load():
                self._loads[name] = value
            case Op("sub", (Ref() as left, Ref() as right)):
                load, greatest = self._loads.get(left.name), self._known.values.get(right.name)
                if load is not None and greatest is not None and greatest.bounds(load, self._loop):
                    self._masks[name] = greatest.mask_along(self._loop)
            case Op("mul" | "div", (Ref() as scaled, Const() as by)) if by.value > 0:
                self._copy(name, scaled)
            case Op("mul", (Const() as by, Ref() as scaled)) if by.value > 0:
                self._copy(name, scaled)
            case Select(condition, Ref() as chosen, otherwise) if self._is_never_above(otherwise):
                self._copy(name, chosen)
                mask = self._masks.get(name)
                if mask is not None and mask == self._known.formula(condition):
                    self._masks[name] = None

    def _copy(self, name: str, of: Ref) -> None:
        if of.name in self._masks:
            self._masks[name] = self._masks[of.name]

    def _is_never_above(self, atom: Atom) -> bool:
        if isinstance(atom, Const):
            return atom.value <= 0
        return atom.name in self._masks and self._masks[atom.name] is None
