"""Loop-invariant code motion (LICM) in kernels.

What is the same in every iteration of a loop is computed once, before it.

    for i in 0..320 {                t0: f64 = rate[0]
      t0: f64 = rate[0]              t1: f64 = sqrt(t0)
      t1: f64 = sqrt(t0)       ->    for i in 0..320 {
      t2: f32 = f32(t1)                ...
      ...

LLVM would do the same. Done here, it can be read, and what is counted as arithmetic of a kernel is
what it does. Loops that never run are left alone, since an index in them need not be in bounds; so
are loads from buffers that the kernel writes, and checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from symgrad.codegen.loops.access import names_used
from symgrad.codegen.loops.language import (
    BinarySearch,
    Binding,
    Check,
    Fold,
    For,
    Kernel,
    Let,
    Load,
    Loop,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    has_check,
    square_of,
)
from symgrad.records import replace


def hoist_uniform(kernel: Kernel) -> Kernel:
    """Hoist invariants: move each value out of the loops on whose variables it does not depend."""
    constant = frozenset(p.name for p in kernel.params if p.mode == "in")
    return replace(kernel, body=_hoisted(kernel.body, constant))


def _hoisted(body: tuple[Stmt, ...], constant: frozenset[str]) -> tuple[Stmt, ...]:
    """Return `body` with values moved out of its loops, the same tuple where none is."""
    result: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For) and (square := square_of(statement)) is not None:
            moved, statement = _out_of_squares(statement, square, constant)
            result += [s for s in moved if s not in result]
        elif isinstance(statement, Loop):
            inner = _hoisted(statement.body, constant)
            moved, kept = _split(inner, _bound_by(statement), constant)
            if moved and _runs(statement):
                # Loops beside each other may be copies of one: what they share is moved once.
                result += [s for s in moved if s not in result]
                inner = kept
            if inner is not statement.body:
                statement = replace(statement, body=inner)
            if isinstance(statement, Prefix):
                moved, statement = _out_of_each(statement, constant)
                result += moved
        result.append(statement)
    is_same = len(result) == len(body) and all(map(is_, result, body))
    return body if is_same else tuple(result)


def _out_of_squares(outer: For, inner: For, constant: frozenset[str]) -> tuple[list[Stmt], For]:
    """Return what is the same in all squares of two loops, between which nothing may stand."""
    moved, kept = _split(inner.body, {outer.var, inner.var}, constant)
    if not (_runs(outer) and _runs(inner)):
        return [], outer
    return moved, replace(outer, body=(replace(inner, body=kept),)) if moved else outer


def _out_of_each(prefix: Prefix, constant: frozenset[str]) -> tuple[list[Stmt], Prefix]:
    """Return what no iteration changes of what a prefix scan does with its running results."""
    if prefix.extent == 0:
        return [], prefix
    varying = {prefix.var, *(a.name for a in prefix.accumulators)}
    varying = varying.union(*map(_binds, prefix.body))
    moved, each = _split(prefix.each, varying, constant)
    return moved, replace(prefix, each=each) if moved else prefix


def _bound_by(loop: Loop) -> set[str]:
    """Return the names that differ from iteration to iteration of a loop."""
    if isinstance(loop, Product):
        return {loop.name, loop.rows[0], loop.columns[0]}
    return {loop.var}


def _runs(loop: Loop) -> bool:
    if isinstance(loop, Product):
        return loop.rows[1] > 0 and loop.columns[1] > 0
    return loop.extent > 0


def _split(
    body: Sequence[Stmt], varying: set[str], constant: frozenset[str]
) -> tuple[list[Stmt], tuple[Stmt, ...]]:
    """Return the values of `body` that depend on nothing in `varying`, and the rest.

    A check goes with them, if none that is left comes before it: the first to fail stays the first.
    """
    moved: list[Stmt] = []
    kept: list[Stmt] = []
    for statement in body:
        is_late = isinstance(statement, Check) and has_check(tuple(kept))
        if not is_late and _is_uniform(statement, varying, constant):
            moved.append(statement)
            continue
        varying |= _binds(statement)
        kept.append(statement)
    return moved, tuple(kept)


def _is_uniform(of: Stmt, varying: set[str], constant: frozenset[str]) -> bool:
    if not isinstance(of, Binding):
        return False
    match of.value:
        case Load(buffer=buffer) | BinarySearch(buffer=buffer) if buffer not in constant:
            return False
    return varying.isdisjoint(names_used(of.value))


def _binds(statement: Stmt) -> set[str]:
    """Return the names that a statement which stays in its loop gives to those after it."""
    match statement:
        case Let() | Check():
            return {statement.name}
        case Fold():
            return {a.name for a in statement.accumulators}
        case For() | Product() | SortRows() | Store() | Prefix():
            return set()
