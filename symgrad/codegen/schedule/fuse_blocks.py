"""Loop fusion by blocks of rows, with strip-mining: what several loops do with a block, in a row.

    for i in 0..10000 { ... c[250*i + j] = t }                   // a row of c at a time
    for b in 0..78 { for k in 0..25 { product ... c[32000*b + ...] ... { s[32000*b + ...] = t } } }
    for p in 0..39 { for i in 0..256 { fold ... s[64000*p + 250*i + j] ... } ... }

becomes

    for p in 0..39 {
      for q in 0..2 ordered {
        for i in 0..128 { ... c[64000*p + 32000*q + 250*i + j] = t }
        for k in 0..25 { product ... c[64000*p + 32000*q + ...] ... }
        for i in 0..128 { fold ... }
      }
      ...
    }
    for i in 0..16 { ... c[250*i + j + 2496000] = t }            // what is left of each, and behind
    ...                                                          // it what adds up pieces

so that of a block what one loop makes is in a near cache when the next one reads it. What nothing
else reads is then in memory for one block. No element is computed otherwise than before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.codegen.loops.footprints import Access, counted_extents, touched
from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import For, Index, Product, Stmt
from symgrad.codegen.loops.rewrite import (
    bound_values,
    free_values,
    map_indices,
    mentions,
    statements,
    substitute_variable,
)
from symgrad.codegen.schedule.parallelize import scratch_of_parts
from symgrad.records import dataclass, replace

BLOCK, PIECE = "block", "piece"


@dataclass(frozen=True, slots=True)
class Fusion:
    """Loops as one: what comes before, what is done in an iteration, and what is left behind it."""

    before: tuple[Stmt, ...]
    body: tuple[Stmt, ...]
    behind: tuple[Stmt, ...]


def fuse_along(
    body: Sequence[Stmt], variable: str, count: int, outer: str | None = None
) -> Fusion | None:
    """Fuse loops of `body` in a loop over `variable` with `count` iterations, None if none are.

    Within a loop over `outer` they may be ordered, since iterations then are; and nothing is left
    of them.
    """
    found = _FusedLoops(variable, count, outer)
    for statement in body:
        found.add(statement)
    if not found.body:
        return None
    return Fusion(tuple(found.before), tuple(found.body), tuple(found.behind))


class _FusedLoops:
    """Statements in the order in which they would be, and what those in the loop touch."""

    def __init__(self, variable: str, count: int, outer: str | None) -> None:
        self.before: list[Stmt] = []
        self.body: list[Stmt] = []
        self.behind: list[Stmt] = []
        self._variable, self._count, self._outer = variable, count, outer
        self._touched: list[list[Reached]] = []
        self._all: list[Reached] = []  # in all iterations
        self._late: list[Reached] = []
        self._late_names: set[str] = set()

    def add(self, statement: Stmt) -> None:
        """Place a statement behind the others: in the loop, what is left of it behind that."""
        waits = not self._late_names.isdisjoint(free_values(statement))
        cut = None if waits else self._cut(statement)
        if cut is not None:
            inside, rest = cut
            reached = self._reached(inside)
            if not _conflict(reached, self._late) and self._goes_along(inside):
                self.body += inside
                self._all += reached
                if rest is not None:
                    self._add_behind(rest)
                return
        reached = self._reached((statement,))
        if waits or _conflict(reached, self._late) or _conflict(reached, self._all):
            self._add_behind(statement)
        else:
            self.before.append(statement)

    def _reached(self, body: Sequence[Stmt]) -> list[Reached]:
        """Return what statements touch in all iterations."""
        extents = {**counted_extents(body), self._variable: self._count}
        return [reached_by(access, extents, self._outer) for access in touched(body)]

    def _add_behind(self, statement: Stmt) -> None:
        self.behind.append(statement)
        self._late += self._reached((statement,))
        self._late_names |= set(bound_values((statement,)))

    def _cut(self, statement: Stmt) -> tuple[tuple[Stmt, ...], Stmt | None] | None:
        """Return an iteration of a loop over blocks, and what is left of it; None if it is none."""
        if not isinstance(statement, For) or statement.vector > 1:
            return None
        each, left = divmod(statement.extent, self._count)
        is_inside = self._outer is not None
        if each == 0 or (statement.ordered and not is_inside) or (left and is_inside):
            return None
        if left and scratch_of_parts((statement,), 1):
            return None  # there is some for each part of the loop
        loop = replace(statement, parallel=None)
        inside = _iterations(loop, index_of((self._variable, each)), each)
        if not left:
            return inside, None
        (rest,) = _iterations(loop, Index(each * self._count), left, keeps_loop=True)
        return inside, rest

    def _goes_along(self, body: Sequence[Stmt]) -> bool:
        """Return whether a body has of what others touch its own block only; note what it touches.

        Where none of the two writes, they may read what they like.
        """
        extents = counted_extents(body)
        own = [reached_by(a, extents, self._outer, self._variable) for a in touched(body)]
        for others in self._touched:
            for one in others:
                if any(one.conflicts(other) and not one.is_apart(other) for other in own):
                    return False
        self._touched.append(list(dict.fromkeys(own)))
        return True


@dataclass(frozen=True, slots=True)
class Reached:
    """What of a buffer is touched: from `low` to `high`, and what each iteration is further on.

    `step` is that of the loop that is fused, `pitch` that of the one around. None is unknown.
    """

    buffer: str
    span: tuple[int, int] | None
    step: int
    pitch: int
    is_written: bool

    def conflicts(self, other: Reached) -> bool:
        """Return whether one writes in a buffer of both."""
        return self.buffer == other.buffer and (self.is_written or other.is_written)

    def is_apart(self, other: Reached) -> bool:
        """Return whether no iteration of one touches what another iteration of the other does."""
        return (self.step, self.pitch) == (other.step, other.pitch) and all(
            r.span is not None and 0 <= r.span[0] <= r.span[1] < r.step for r in (self, other)
        )

    def overlaps(self, other: Reached) -> bool:
        """Return whether both may touch the same element."""
        if self.span is None or other.span is None or self.pitch != other.pitch:
            return True
        return self.span[0] <= other.span[1] and other.span[0] <= self.span[1]


def reached_by(
    access: Access, extents: Mapping[str, int], outer: str | None, variable: str | None = None
) -> Reached:
    """Return what an access reaches, of `variable` in one iteration, else in all."""
    names = [name for name in (outer, variable) if name is not None]
    step = 0 if variable is None else access.index.coefficient(variable)
    pitch = 0 if outer is None else access.index.coefficient(outer)
    terms = [(atom, c) for atom, c in access.index.terms if atom not in names]
    rest = index_of(*terms, const=access.index.const)
    is_plain = all(isinstance(atom, str) and atom in extents for atom, _ in terms)
    if not is_plain or any(mentions(rest, name) for name in names):
        return Reached(access.buffer, None, step, pitch, access.is_written)
    low, high = bounds(rest, dict(extents))
    return Reached(access.buffer, (low, high + access.reach - 1), step, pitch, access.is_written)


def _conflict(first: Sequence[Reached], second: Sequence[Reached]) -> bool:
    return any(a.conflicts(b) and a.overlaps(b) for a in first for b in second)


def _iterations(
    loop: For, start: Index, count: int, *, keeps_loop: bool = False
) -> tuple[Stmt, ...]:
    """Return `count` iterations of a loop from `start` on."""
    is_one = count == 1 and not keeps_loop
    own = () if is_one else ((loop.var, 1),)
    at = index_of(*start.terms, *own, const=start.const)
    body = map_indices(loop.body, lambda index: substitute_variable(index, loop.var, at))
    return body if is_one else (replace(loop, extent=count, body=body),)


def with_blocks(fusion: Fusion) -> Fusion:
    """Return what is done with a piece with what can be done by blocks of it in a loop of its own.

    How many blocks a piece has its shortest loop around products says.
    """
    loops = [s for s in fusion.body if isinstance(s, For) and s.vector == 1]
    blocks = min((loop.extent for loop in loops if _has_products(loop)), default=1)
    inside = fuse_along(fusion.body, BLOCK, blocks, PIECE) if blocks > 1 else None
    if inside is None or any(map(_has_products, (*inside.before, *inside.behind))):
        return fusion
    nest = For(BLOCK, blocks, inside.body, ordered=True)
    return replace(fusion, body=(*inside.before, nest, *inside.behind))


def _has_products(statement: Stmt) -> bool:
    return any(isinstance(s, Product) for s in statements((statement,)))
