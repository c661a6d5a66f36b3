"""Array contraction in loops over blocks of rows: what only such a loop uses is one block of it.

    for p in 0..39 { for q in 0..2 ordered { ... c[64000*p + 32000*q + 250*i + j] ... } }
    for i in 0..16 { ... c[250*i + j + 2496000] ... }            // what is left of the rows

becomes, where nothing else reads `c`,

    for p in 0..39 ordered { for q in 0..2 ordered { ... c[250*i + j] ... } }
    for i in 0..16 { ... c[250*i + j] ... }

so that `c` stays in a near cache, where others are written over it that are not needed before.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from symgrad.codegen.loops.footprints import counted_extents, touched
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import For, Index, Kernel, Param, Stmt
from symgrad.codegen.schedule.fuse_batches import moved
from symgrad.codegen.schedule.fuse_blocks import (
    BLOCK,
    PIECE,
    Fusion,
    Reached,
    reached_by,
    with_blocks,
)
from symgrad.codegen.schedule.fuse_products import PART, in_parts
from symgrad.codegen.schedule.parallelize import scratch_of_parts
from symgrad.codegen.schedule.passes import Machine
from symgrad.cost_model import EVEN
from symgrad.records import dataclass, replace


def block_kernel(
    fusion: Fusion, count: int, params: Sequence[Param], own: Container[str], machine: Machine
) -> Kernel:
    """Return the kernel that does all of a fusion for one block after the other.

    Of the buffers in `own`, which nothing else reads, it has what is of one block, or of one piece,
    where others are not needed any more; of scratch memory each part that threads share has some.
    """
    fusion = with_blocks(fusion)
    parts = _parts(count, machine.threads.count)
    contracted = _contracted(fusion, count, own)
    places, kept = _kept(fusion, contracted, params, machine.target.memory.line_bytes)

    def within(buffer: str, index: Index) -> tuple[str, Index]:
        if buffer not in places:
            return buffer, index
        dropped = (PIECE, BLOCK) if contracted[buffer].is_block else (PIECE,)
        terms = [(a, c) for a, c in index.terms if a not in dropped]
        place = places[buffer]
        return place, index_of(*terms, (PART, kept[place].count), const=index.const)

    def behind(buffer: str, index: Index) -> tuple[str, Index]:
        if buffer not in places:
            return buffer, index
        return places[buffer], replace(index, const=index.const - contracted[buffer].whole * count)

    nest = in_parts([(PIECE, count)], PIECE, parts, moved(fusion.body, within))
    body = (*fusion.before, nest, *moved(fusion.behind, behind))
    times = dict(scratch_of_parts((nest,), 1))
    left = [p for p in params if p.name not in places]
    counted = [replace(p, count=p.count * times.get(p.name, 1)) for p in left]
    counted += [replace(p, count=p.count * parts) for p in kept.values()]
    return Kernel("fused", tuple(counted), body)


def _parts(count: int, threads: int) -> int:
    """Return into how many equal parts threads cut pieces: few, since each has memory of its own.

    So many as keep all threads busy, or one for each piece.
    """
    ways = [parts for parts in range(1, count + 1) if count % parts == 0]
    busy = [parts for parts in ways if parts / -(-parts // threads) >= EVEN * threads]
    return min(busy, default=count)


@dataclass(frozen=True, slots=True)
class _Contracted:
    """A buffer of which a block is enough, or a piece: how much that is, and how much a piece."""

    size: int
    whole: int
    is_block: bool


def _contracted(fusion: Fusion, count: int, own: Container[str]) -> dict[str, _Contracted]:
    """Return of which buffers one block is enough, or one piece."""
    in_blocks = [s for s in fusion.body if isinstance(s, For) and s.var == BLOCK]
    outside = [s for s in fusion.body if s not in in_blocks]
    extents = {**counted_extents((*fusion.body, *fusion.behind)), PIECE: count}
    pieces = [reached_by(a, extents, None, PIECE) for a in touched(fusion.body)]
    inside = [reached_by(a, extents, PIECE, BLOCK) for a in touched(in_blocks)]
    beside = {a.buffer for a in touched(outside)}
    early = {a.buffer for a in touched(fusion.before)}
    late = [reached_by(a, extents, None) for a in touched(fusion.behind)]
    found: dict[str, _Contracted] = {}
    for name in sorted({r.buffer for r in pieces if r.buffer in own} - early):
        whole = _step(pieces, name)
        block = 0 if name in beside else _step(inside, name)
        size = block or whole
        spans = [r.span for r in late if r.buffer == name]
        end = whole * count
        if size and all(s and end <= s[0] and s[1] < end + size for s in spans):
            found[name] = _Contracted(size, whole, block > 0)
    return found


def _step(reached: Sequence[Reached], name: str) -> int:
    """Return what each iteration has of a buffer for itself, 0 if that is not known."""
    own = [r for r in reached if r.buffer == name]
    return own[0].step if own and all(r.is_apart(own[0]) for r in own) else 0


def _kept(
    fusion: Fusion, contracted: dict[str, _Contracted], params: Sequence[Param], line: int
) -> tuple[dict[str, str], dict[str, Param]]:
    """Return in which scratch memory each buffer is, and this memory as it is for one part.

    What a statement writes takes the place of what none reads any more.
    """
    in_blocks = [s.body for s in fusion.body if isinstance(s, For) and s.var == BLOCK]
    spans = [_spans(body) for body in (*in_blocks, fusion.behind)]
    places: dict[str, str] = {}
    kept: dict[str, Param] = {}
    users: dict[str, list[str]] = {}
    of_name = {p.name: p for p in params}
    first = _spans(in_blocks[0]) if in_blocks else {}
    for name in sorted(contracted, key=lambda n: (first.get(n, (0, 0)), n)):
        param, own = of_name[name], contracted[name]
        unit = max(1, line // param.dtype.itemsize)
        size = -(-own.size // unit) * unit
        free = [
            place
            for place, others in users.items()
            if own.is_block and kept[place].dtype == param.dtype
            if all(contracted[o].is_block and _is_before(o, name, spans) for o in others)
        ]
        place = min(free, key=lambda p: abs(kept[p].count - size), default=name)
        known = kept.get(place, Param(place, param.dtype, 0, "scratch"))
        kept[place] = replace(known, count=max(known.count, size))
        places[name] = place
        users.setdefault(place, []).append(name)
    return places, kept


_Spans = dict[str, tuple[int, int]]


def _spans(body: Sequence[Stmt]) -> _Spans:
    """Return between which statements each buffer is used."""
    spans: _Spans = {}
    for number, statement in enumerate(body):
        for access in touched((statement,)):
            spans[access.buffer] = spans.get(access.buffer, (number, number))[0], number
    return spans


def _is_before(first: str, second: str, spans: Sequence[_Spans]) -> bool:
    """Return whether one buffer is not used any more where another one is first."""
    return all(
        first not in used or second not in used or used[first][1] < used[second][0]
        for used in spans
    )
