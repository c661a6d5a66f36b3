"""Integer narrowing: comparisons of an index in vectors are of 32 bits.

    t0: i64 = labels[i]
    for j in 0..1024 vector(16) {
      t1: i64 = index(j)
      t2: bool = eq(t1, t0)
      ...

becomes

    t0: i64 = labels[i]
    t2.least: i64 = max(t0, -1)
    t2.near: i64 = min(t2.least, 1024)
    t2.limit: i32 = i32(t2.near)
    for j in 0..1024 vector(16) {
      t1: i64 = index(j)
      t2.at: i32 = i32(t1)
      t2: bool = eq(t2.at, t2.limit)
      ...

One hot rows and masks of lengths compare a register of indices then, where they compared two and
joined what came of it. What an index is compared with is the same in all iterations; in the place
of a number beyond all of them stands the nearest one that is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from symgrad.codegen.loops.language import (
    Atom,
    Binding,
    Cast,
    Const,
    Fold,
    For,
    Index,
    IndexValue,
    Kernel,
    Let,
    Op,
    Plain,
    Ref,
    Stmt,
)
from symgrad.codegen.loops.rewrite import index_extents
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import int32, int64
from symgrad.records import replace

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_BEYOND_INT32 = 1 << 31


def narrow_indices(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with comparisons of 32 bits in loops whose indices fill several vectors."""
    extents = index_extents(kernel.body)
    return replace(kernel, body=_in_all(kernel.body, extents, target))


def _in_all(body: Sequence[Stmt], extents: Mapping[str, int], target: Target) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for statement in body:
        loop = _wide_loop(statement, target)
        if loop is not None:
            result += _narrowed(loop, extents)
            continue
        if isinstance(statement, For):
            inside = _in_all(statement.body, extents, target)
            statement = replace(statement, body=inside)
        result.append(statement)
    return tuple(result)


def _wide_loop(statement: Stmt, target: Target) -> For | Fold | None:
    """Return a loop of straight code whose indices fill more than one register, None of others."""
    if isinstance(statement, Fold):
        lanes = statement.lanes
    elif isinstance(statement, For):
        lanes = statement.vector
    else:
        return None
    is_straight = all(isinstance(s, Plain) for s in statement.body)
    return statement if is_straight and lanes * int64.itemsize > target.vector_bytes else None


def _narrowed(loop: For | Fold, extents: Mapping[str, int]) -> list[Stmt]:
    """Return a loop behind what its comparisons need."""
    ends: dict[str, int] = {}  # of indices by name: what all of their values are below
    before: list[Let] = []
    body: list[Stmt] = []
    own = {s.name for s in loop.body if isinstance(s, Binding)}
    for statement in loop.body:
        if isinstance(statement, Let):
            if isinstance(statement.value, IndexValue):
                ends[statement.name] = _end(statement.value.index, extents)
            narrow = _comparison(statement, ends, own)
            if narrow is not None:
                before += narrow[0]
                body += narrow[1]
                continue
        body.append(statement)
    return [*before, replace(loop, body=tuple(body))]


def _comparison(
    compared: Let, ends: Mapping[str, int], own: Collection[str]
) -> tuple[list[Let], list[Let]] | None:
    """Return a comparison of an index as one of 32 bits, behind what it needs before the loop.

    None if it is no comparison of an index of the loop with what is none of the loop's `own`.
    """
    name, value = compared.name, compared.value
    if not isinstance(value, Op) or value.name not in COMPARISONS:
        return None
    found = [(atom, end) for atom in value.args if (end := _end_of(atom, ends))]
    if len(found) != 1:
        return None
    ((index, end),) = found
    (other,) = (atom for atom in value.args if atom != index)
    if isinstance(other, Ref) and other.name in own:
        return None
    least, near, limit, at = (f"{name}.{part}" for part in ("least", "near", "limit", "at"))
    before = [
        Let(least, Op("max", (other, Const(-1, int64)), int64)),
        Let(near, Op("min", (Ref(least, int64), Const(end, int64)), int64)),
        Let(limit, Cast(Ref(near, int64), int32)),
    ]
    args = tuple(Ref(at if atom == index else limit, int32) for atom in value.args)
    return before, [Let(at, Cast(index, int32)), replace(compared, value=replace(value, args=args))]


def _end_of(atom: Atom, ends: Mapping[str, int]) -> int:
    return ends.get(atom.name, 0) if isinstance(atom, Ref) else 0


def _end(index: Index, extents: Mapping[str, int]) -> int:
    """Return what all values of an index are below, 0 if that is not known or no int32."""
    end = index.const + 1
    for atom, coefficient in index.terms:
        if not isinstance(atom, str) or atom not in extents or coefficient < 0:
            return 0
        end += coefficient * (extents[atom] - 1)
    return end if index.const >= 0 and end < _BEYOND_INT32 else 0
