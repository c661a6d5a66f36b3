"""Interleaved accesses: elements of short rows, such as coordinates, that vectors of a loop reach.

    for i in 0..4096 vector(16) {
      x: f32 = p[3*i]
      y: f32 = p[3*i + 1]
      z: f32 = p[3*i + 2]

The three loads together read memory without a gap: three vectors, of which shuffles make those of
x, of y and of z. Stores are the same the other way round.

Of longer rows, such as small matrices, a run is a power of two of elements side by side, no more
than a vector has lanes. Each iteration's is a piece of memory, and they are transposed in squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.codegen.loops.language import (
    Index,
    Let,
    Load,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import buffers_used, index_names, mentions, statements
from symgrad.cost_model import LONGEST_ROW
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class RowAccess:
    """The loads, or the stores, of all elements of a row: `members[j]` are those of element j.

    `start` is the index of the first element. Rows follow one another without a gap, or they are
    runs of longer ones.
    """

    start: Index
    members: tuple[tuple[Let | Store, ...], ...]
    is_run: bool = False

    def __iter__(self) -> Iterator[Let | Store]:
        """Yield every statement of the group."""
        return (statement for members in self.members for statement in members)


def row_accesses(
    body: Sequence[Stmt], variable: str, width: int, looked_up: frozenset[str] = frozenset()
) -> list[RowAccess]:
    """Return the groups of accesses in `body` that reach elements of rows side by side.

    The loop of `variable` takes vectors of `width` iterations. Rows of which an index is one of
    those `looked_up`, which differ between lanes, lie anywhere.

    What is loaded is not stored to in the body, and no element is stored to twice: so all loads of
    a group can be where the first one is, and all stores where the last one is.
    """
    loaded, stored = buffers_used(body)
    both = loaded & stored
    stores = [s for s in statements(body) if isinstance(s, Store)]
    found: dict[tuple[bool, str, Index], dict[int, list[Let | Store]]] = {}
    for statement, buffer, index in _accesses(body):
        step = index.coefficient(variable)
        rest = Index(0, tuple(term for term in index.terms if term[0] != variable))
        is_apart = step >= 2 or not looked_up.isdisjoint(index_names(index))
        if is_apart and buffer not in both and not mentions(rest, variable):
            key = isinstance(statement, Store), buffer, Index(0, index.terms)
            found.setdefault(key, {}).setdefault(index.const, []).append(statement)
    groups: list[RowAccess] = []
    for (is_store, buffer, terms), places in found.items():
        if not is_store or len(places) == sum(s.buffer == buffer for s in stores):
            step = terms.coefficient(variable)
            is_short = step <= LONGEST_ROW and looked_up.isdisjoint(index_names(terms))
            groups += _rows(terms, step, places) if is_short else _runs(terms, width, places)
    return groups


def _accesses(body: Sequence[Stmt]) -> Iterator[tuple[Let | Store, str, Index]]:
    """Yield the loads and the stores of a body, but for those in loops inside of it."""
    for statement in body:
        if isinstance(statement, Let) and isinstance(statement.value, Load):
            yield statement, statement.value.buffer, statement.value.index
        elif isinstance(statement, Store):
            yield statement, statement.buffer, statement.index


def _rows(terms: Index, step: int, places: dict[int, list[Let | Store]]) -> Iterator[RowAccess]:
    """Yield rows of `step` elements side by side, of which all are there."""
    left = sorted(places)
    while len(left) >= step:
        row = left[:step]
        if row[-1] - row[0] == step - 1:
            yield RowAccess(Index(row[0], terms.terms), tuple(tuple(places[c]) for c in row))
            left = left[step:]
        else:
            left = left[1:]


def _runs(terms: Index, width: int, places: dict[int, list[Let | Store]]) -> Iterator[RowAccess]:
    """Yield runs of elements side by side: of each stretch of them powers of two, falling ones."""
    left = sorted(places)
    while len(left) > 1:
        size = 1 << (min(width, len(left)).bit_length() - 1)
        while left[size - 1] - left[0] != size - 1:
            size //= 2
        if size > 1:
            members = tuple(tuple(places[c]) for c in left[:size])
            yield RowAccess(Index(left[0], terms.terms), members, is_run=True)
        left = left[size:]
