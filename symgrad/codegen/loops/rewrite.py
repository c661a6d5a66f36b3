"""Substitution and free variables in the loop IR, and the removal of unused values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    For,
    Index,
    IndexAtom,
    Indexed,
    IndexValue,
    Let,
    Load,
    Loop,
    Modulus,
    Op,
    Prefix,
    Product,
    Quotient,
    Reduction,
    Ref,
    Select,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
    inside,
)
from symgrad.records import replace

ReplaceIndex = Callable[[Index], Index]


def substitute_variable(index: Index, variable: str, by: Index) -> Index:
    """Return `index` with `variable` replaced by the index `by`, inside divisions too."""
    if not mentions(index, variable):
        return index
    terms: list[tuple[IndexAtom, int]] = []
    const = index.const
    for atom, coefficient in index.terms:
        if atom == variable:
            terms += [(a, c * coefficient) for a, c in by.terms]
            const += by.const * coefficient
        elif isinstance(atom, str):
            terms.append((atom, coefficient))
        else:
            inner = substitute_variable(atom.index, variable, by)
            terms.append((replace(atom, index=inner), coefficient))
    return index_of(*terms, const=const)


def mentions(index: Index, variable: str) -> bool:
    """Return whether `variable` occurs in `index`, inside divisions too."""
    return any(
        atom == variable
        or (isinstance(atom, Quotient | Modulus) and mentions(atom.index, variable))
        for atom, _ in index.terms
    )


def map_indices(body: Sequence[Stmt], change: ReplaceIndex) -> tuple[Stmt, ...]:
    """Return `body` with every index replaced by what `change` makes of it."""
    return tuple(_map_statement(statement, change) for statement in body)


def _map_statement(statement: Stmt, change: ReplaceIndex) -> Stmt:
    match statement:
        case Let(name, Load() | IndexValue() | BinarySearch() as value):
            return Let(name, replace(value, index=change(value.index)))
        case Store():
            return replace(statement, index=change(statement.index))
        case For() | Fold():
            return replace(statement, body=map_indices(statement.body, change))
        case Prefix():
            body, each = (map_indices(part, change) for part in (statement.body, statement.each))
            return replace(statement, body=body, each=each)
        case Product(lhs=lhs, rhs=rhs):
            return replace(
                statement,
                lhs=replace(lhs, index=change(lhs.index)),
                rhs=replace(rhs, index=change(rhs.index)),
                shift=change(statement.shift),
                body=map_indices(statement.body, change),
            )
        case SortRows(result=result, source=source):
            return replace(
                statement,
                result=replace(result, index=change(result.index)),
                source=replace(source, index=change(source.index)),
            )
        case Let() | Check():
            return statement


def indices(body: Sequence[Stmt]) -> Iterator[Index]:
    """Yield every index in `body`, at any depth."""
    for statement in body:
        match statement:
            case Let(_, Load() | IndexValue() | BinarySearch() as value):
                yield value.index
            case Store():
                yield statement.index
            case For() | Fold() | Prefix():
                yield from indices(inside(statement))
            case Product():
                yield statement.lhs.index
                yield statement.rhs.index
                yield statement.shift
                yield from indices(statement.body)
            case SortRows():
                yield statement.result.index
                yield statement.source.index
            case Let() | Check():
                pass


def arguments(value: Expr) -> tuple[Atom, ...]:
    """Return the atoms that an expression is computed from."""
    match value:
        case Const() | Ref():
            return (value,)
        case Op():
            return value.args
        case Select():
            return (value.condition, value.chosen, value.otherwise)
        case Cast() | BinarySearch():
            return (value.value,)
        case Load() | IndexValue():
            return ()


def index_names(index: Index) -> Iterator[str]:
    """Yield the variables and names in `index`, inside divisions too."""
    for atom, _ in index.terms:
        if isinstance(atom, str):
            yield atom
        else:
            yield from index_names(atom.index)


def free_indices(statement: Stmt) -> list[str]:
    """Return the variables and checked indices that a statement uses and does not bind."""
    used = {name for index in indices((statement,)) for name in index_names(index)}
    return sorted(used - set(_bound_indices((statement,))))


def free_values(statement: Stmt) -> list[str]:
    """Return the names of the values that a statement uses and does not bind."""
    used: set[str] = set()
    drop_unused((statement,), used)
    variables = {name for index in indices((statement,)) for name in index_names(index)}
    return sorted(used - variables - set(bound_values((statement,))))


def bound_values(body: Sequence[Stmt]) -> Iterator[str]:
    """Yield the names of the values that statements bind, those inside of loops as well."""
    for statement in body:
        match statement:
            case Let():
                yield statement.name
            case For():
                yield from bound_values(statement.body)
            case Fold() | Prefix():
                yield from (a.name for a in statement.accumulators)
                yield from bound_values(inside(statement))
            case Product():
                yield statement.name
                yield from bound_values(statement.body)
            case Check() | Store() | SortRows():
                pass


def _bound_indices(body: Sequence[Stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case For() | Fold() | Prefix():
                yield statement.var
                yield from _bound_indices(inside(statement))
            case Product():
                yield from (var for var, _ in (statement.rows, statement.columns, statement.inner))
                yield from _bound_indices(statement.body)
            case Check():
                yield statement.name
            case Let() | Store() | SortRows():
                pass


def drop_unused(body: Sequence[Stmt], needed: set[str]) -> tuple[Stmt, ...]:
    """Eliminate dead code: return `body` without unused values; `needed` grows by what is used.

    A `Check` stays: that an index out of range stops the program must not depend on its use.
    """
    kept: list[Stmt] = []
    for statement in reversed(body):
        match statement:
            case Let(name, value):
                if name not in needed:
                    continue
                needed.update(_names_in(value))
                kept.append(statement)
            case Store(_, index, value):
                needed.update(index_names(index))
                needed.update(_names((value,)))
                kept.append(statement)
            case Check(_, value, _, _):
                needed.update(_names((value,)))
                kept.append(statement)
            case SortRows():
                needed.update(_operand_names(statement.result, statement.source))
                kept.append(statement)
            case Fold() | Prefix():
                kept.append(_without_unused(statement, needed))
            case Product():
                needed.update(_operand_names(statement.lhs, statement.rhs))
                needed.update(index_names(statement.shift))
                kept.append(replace(statement, body=drop_unused(statement.body, needed)))
            case For():
                kept.append(replace(statement, body=drop_unused(statement.body, needed)))
    return tuple(reversed(kept))


def _without_unused(loop: Reduction, needed: set[str]) -> Reduction:
    if isinstance(loop, Prefix):
        loop = replace(loop, each=drop_unused(loop.each, needed))
    needed.update(_names(loop.items))
    return replace(loop, body=drop_unused(loop.body, needed))


def _operand_names(*operands: StridedOperand) -> set[str]:
    return {name for operand in operands for name in index_names(operand.index)}


def _names_in(value: Expr) -> set[str]:
    names = _names(arguments(value))
    return names | set(index_names(value.index)) if isinstance(value, Indexed) else names


def _names(atoms: Sequence[Atom]) -> set[str]:
    return {atom.name for atom in atoms if isinstance(atom, Ref)}


def statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Yield every statement, those inside of loops after the loop."""
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, Loop):
            pending.extend(reversed(inside(statement)))


def is_free_of(body: Sequence[Stmt], of: Any) -> bool:
    """Return whether no statement, however deep, is one of the classes `of`."""
    return not any(
        isinstance(s, of) or (isinstance(s, Loop) and not is_free_of(inside(s), of)) for s in body
    )


def has_loops_in_loops(body: Sequence[Stmt]) -> bool:
    """Return whether a loop is inside of another one, which is no product or fold."""
    return any([isinstance(s, For) and any([isinstance(i, Loop) for i in s.body]) for s in body])


def index_extents(body: Sequence[Stmt]) -> dict[str, int]:
    """Return how many values each index takes at most that a loop or a check in `body` binds.

    Loops beside each other may bind the same name, and go on for longer or shorter.
    """
    extents: dict[str, int] = {}
    for statement in statements(body):
        if isinstance(statement, Check | Loop) and not isinstance(statement, Product):
            name = statement.name if isinstance(statement, Check) else statement.var
            extents[name] = max(statement.extent, extents.get(name, 0))
    return extents


def accesses(body: Sequence[Stmt]) -> list[tuple[str, Index]]:
    """Return the places in buffers that statements load from and store to, one by one."""
    found = []
    for statement in statements(body):
        if isinstance(statement, Store):
            found.append((statement.buffer, statement.index))
        elif isinstance(statement, Let) and isinstance(statement.value, Load):
            found.append((statement.value.buffer, statement.value.index))
    return found


def buffers_used(body: Sequence[Stmt]) -> tuple[set[str], set[str]]:
    """Return the names of the buffers that statements load from and store to."""
    loaded: set[str] = set()
    stored: set[str] = set()
    for statement in statements(body):
        match statement:
            case Let(_, Load(buffer=buffer) | BinarySearch(buffer=buffer)):
                loaded.add(buffer)
            case Store(buffer, _, _):
                stored.add(buffer)
            case Product():
                loaded |= {statement.lhs.buffer, statement.rhs.buffer}
            case SortRows():
                loaded.add(statement.source.buffer)
                stored.add(statement.result.buffer)
            case Let() | Check() | For() | Fold() | Prefix():
                pass
    return loaded, stored
