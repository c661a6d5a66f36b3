"""Data layout and integer narrowing of what a kernel loads, where it is known what that is.

    for i in 0..462 vector(32) { fold ... for j in 0..5 { t: i64 = b[5*i + j] ... } }

becomes, on a buffer with rows and columns exchanged,

    for i in 0..462 vector(32) { fold ... for j in 0..5 { t: i64 = b[i + 462*j] ... } }

and, on one of numbers of 16 bits,

    ... t.near: i16 = b[i + 462*j]
        t: i64 = i64(t.near) ...

Whose buffers may be stored anew is for passes over programs to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from symgrad.codegen.loops.index_arithmetic import bounds, scaled_sum
from symgrad.codegen.loops.language import (
    BinarySearch,
    Cast,
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Prefix,
    Product,
    Ref,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import index_extents, index_names, statements
from symgrad.graph.dtypes import DType
from symgrad.records import replace


def reads_elements(kernel: Kernel) -> bool:
    """Return whether a kernel reads elements one by one, and none by steps of a statement."""
    return all(map(_is_of_elements, statements(kernel.body)))


def looks_up(kernel: Kernel, buffer: str) -> bool:
    """Return whether a kernel reads elements of `buffer` at places that are data."""
    places = {s.name for s in statements(kernel.body) if isinstance(s, Check)}
    loads = _loads(kernel.body, buffer, ())
    return any(not places.isdisjoint(index_names(load.index)) for load, _ in loads)


def columns_apart(kernel: Kernel, buffer: str) -> int | None:
    """Return how many columns a buffer has of which vectors take one at a time, row after row.

    None if there are vectors that do not. The kernel reads elements one by one.
    """
    count = _count(kernel, buffer)
    loads = [*_loads(kernel.body, buffer, ())]
    found = {step for _, steps in loads for step in steps} - {0}
    if len(found) != 1:
        return None
    (columns,) = found
    if columns < 2 or count % columns or count == columns:
        return None
    extents = index_extents(kernel.body)
    is_split = all(_split(load.index, columns, extents) is not None for load, _ in loads)
    return columns if is_split else None


def with_columns_apart(kernel: Kernel, buffer: str, columns: int) -> Kernel:
    """Return a kernel that reads the columns of `buffer` where they lie one behind another."""
    extents, rows = index_extents(kernel.body), _count(kernel, buffer) // columns

    def change(name: str, load: Load) -> tuple[Let, ...]:
        split = _split(load.index, columns, extents)
        assert split is not None, "each load is of a row and a column"
        row, column = split
        return (Let(name, replace(load, index=scaled_sum([(row, 1), (column, rows)]))),)

    return replace(kernel, body=_map_loads(kernel.body, buffer, change))


def with_narrow_loads(kernel: Kernel, buffer: str, dtype: DType) -> Kernel:
    """Return a kernel that reads elements of `buffer` where they are of a narrower `dtype`."""

    def change(name: str, load: Load) -> tuple[Let, ...]:
        near = Ref(f"{name}.near", dtype)
        return Let(near.name, replace(load, dtype=dtype)), Let(name, Cast(near, load.dtype))

    params = (replace(p, dtype=dtype) if p.name == buffer else p for p in kernel.params)
    body = _map_loads(kernel.body, buffer, change)
    return replace(kernel, params=tuple(params), body=body)


def _count(kernel: Kernel, buffer: str) -> int:
    return next(param.count for param in kernel.params if param.name == buffer)


def _is_of_elements(statement: Stmt) -> bool:
    """Return whether a statement reads elements one by one, or is a loop of such."""
    match statement:
        case Let(_, value):
            return not isinstance(value, BinarySearch)
        case Store() | Check() | For() | Fold():
            return True
        case Product() | Prefix() | SortRows():
            return False


def _split(index: Index, columns: int, extents: Mapping[str, int]) -> tuple[Index, Index] | None:
    """Return the row and the column that an index is, None if it is not known to be that."""
    if not all(isinstance(atom, str) and atom in extents for atom, _ in index.terms):
        return None
    whole = tuple((atom, c // columns) for atom, c in index.terms if c % columns == 0)
    rest = tuple((atom, c) for atom, c in index.terms if c % columns)
    column = Index(index.const % columns, rest)
    low, high = bounds(column, dict(extents))
    return (Index(index.const // columns, whole), column) if 0 <= low <= high < columns else None


def _loads(
    body: Sequence[Stmt], buffer: str, vectors: tuple[str, ...]
) -> Iterator[tuple[Load, list[int]]]:
    """Yield the loads of a buffer, and how far apart the elements of vectors around them are."""
    for statement in body:
        match statement:
            case Let(_, Load(name, index) as load) if name == buffer:
                yield load, [index.coefficient(variable) for variable in vectors]
            case For(var=variable, vector=width) | Fold(var=variable, lanes=width):
                around = (*vectors, variable) if width > 1 else vectors
                yield from _loads(statement.body, buffer, around)
            case Let() | Store() | Check() | Product() | Prefix() | SortRows():
                pass


def _map_loads(
    body: Sequence[Stmt], buffer: str, change: Callable[[str, Load], tuple[Let, ...]]
) -> tuple[Stmt, ...]:
    """Return `body` with loads of a buffer, by the names of their values, replaced."""
    found: list[Stmt] = []
    for statement in body:
        match statement:
            case Let(name, Load() as load) if load.buffer == buffer:
                found += change(name, load)
            case For() | Fold():
                inside = _map_loads(statement.body, buffer, change)
                found.append(replace(statement, body=inside))
            case Let() | Store() | Check() | Product() | Prefix() | SortRows():
                found.append(statement)
    return tuple(found)
