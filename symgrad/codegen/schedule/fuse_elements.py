"""Loop fusion of elementwise kernels over the same long axis: values go from one to the other.

    for i in 0..4096 vector(8) { ...  y[3*i] = t7   y[3*i + 1] = t8   y[3*i + 2] = t9 }
    for i in 0..4096 vector(8) { a = y[3*i]   b = y[3*i + 2]  ...  z[i] = t5 }

becomes, where nothing else reads y,

    for i in 0..4096 vector(8) { ...  z[i] = t5 }       // of t7 and t9

The graph was cut between the two because a sum over a short axis, or pieces of one, stood there;
in a kernel that is scheduled these are written out, and all that an iteration reads of y it has
computed itself. Short loops around the vectors, or inside of an iteration, are written out as well
where that makes two kernels alike. No element is computed otherwise than before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from symgrad.codegen.loops.access import Accesses
from symgrad.codegen.loops.language import (
    Atom,
    Check,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Param,
    Plain,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import buffers_used, drop_unused, substitute_variable
from symgrad.codegen.schedule.long_loops import (
    LongLoop,
    Straight,
    long_loop_of,
    mapped,
    with_names,
    written_out,
)
from symgrad.codegen.target import Target
from symgrad.cost_model import LEAST_FUSED_ROWS, MOST_FUSED, MOST_ROWS_AROUND
from symgrad.records import replace


def fuse_elements(
    first: Kernel, second: Kernel, unread: Collection[str], target: Target
) -> Kernel | None:
    """Return a kernel that does what `first` and then `second` do, None if they are not alike.

    A parameter of both has one name in both, and nothing else has; those that are `unread` need
    not be in memory.
    """
    a, b = long_loop_of(first), long_loop_of(second)
    loaded, stored = buffers_used(first.body)
    if a is None or b is None or not buffers_used(second.body)[1].isdisjoint(loaded | stored):
        return None
    if a.vector == b.vector == 1 and (a.had_rows or b.had_rows):
        return None  # vectors lie along rows in both
    a, b = _in_lanes(a, target), _in_lanes(b, target)
    a, b = _alike(a, b) if a.rows is None and b.rows is None else _alike_in_rows(a, b)
    if a is None or b is None or not _have_lanes(a, b):
        return None
    at = Index(0, ((a.var, 1),))
    moved = mapped(b.body, partial(substitute_variable, variable=b.var, by=at))
    names: dict[str, Atom] = {}  # what is loaded before both loops is read inside of the second
    before = _forwarded(a.before, b.before, stored, names)
    body = _forwarded(a.body, moved, stored, names)
    if before is None or body is None or len(body) > MOST_FUSED or not _reads(moved, stored):
        return None
    before, body = _without(before, unread), _without(body, unread)
    parallel = b.parallel if a.parallel is None else a.parallel
    loop = _loop(a, body, parallel)
    if loop is None:
        return None
    statements = drop_unused((*before, loop), set())
    return replace(first, params=_params(first, second, statements), body=statements)


def _loop(lanes: LongLoop, body: Straight, parallel: int | None) -> For | None:
    """Return the loop of a fused kernel, None if parts of it would end within a vector."""
    if lanes.rows is not None:
        along = For(lanes.var, lanes.extent, body, lanes.vector)
        return For(*lanes.rows, (along,), parallel=parallel)
    if parallel is not None and parallel % lanes.vector:
        return None
    return For(lanes.var, lanes.extent, body, lanes.vector, parallel=parallel)


def _reads(body: Straight, stored: set[str]) -> bool:
    return not buffers_used(body)[0].isdisjoint(stored)


def _without(body: Straight, unread: Collection[str]) -> Straight:
    return tuple(s for s in body if not (isinstance(s, Store) and s.buffer in unread))


def _alike(a: LongLoop, b: LongLoop) -> tuple[LongLoop | None, LongLoop | None]:
    """Return loops of as many iterations, of which each reads what the same one has computed.

    Of one that has a multiple of them, several are one; first and last ones are written out where
    an element is read at another place than the one it is computed at.
    """
    rows, shift = min(a.extent, b.extent), _shift(a, b)
    if shift == 0 and a.extent == b.extent:
        return a, b
    if shift is None:
        return _in_rows(a, rows), _in_rows(b, rows)
    first, last = max(0, -shift), min(a.extent, b.extent - shift)
    return _cut(a, first, last - first), _cut(b, first + shift, last - first)


def _alike_in_rows(a: LongLoop, b: LongLoop) -> tuple[LongLoop | None, LongLoop | None]:
    """Return loops over equal rows, by one variable of rows: one that had none is cut into them."""
    long, short = (a, b) if a.rows is not None else (b, a)
    assert long.rows is not None
    other = _cut_into_rows(short, long) if short.rows is None else _with_rows(short, *long.rows)
    if other is None or other.extent != long.extent:
        return None, None
    return (long, other) if long is a else (other, long)


def _with_rows(lanes: LongLoop, variable: str, count: int) -> LongLoop | None:
    """Return a loop along rows by another variable of these, None if rows are not as many."""
    if lanes.rows is None or lanes.rows[1] != count:
        return None
    at = Index(0, ((variable, 1),))
    body = mapped(lanes.body, partial(substitute_variable, variable=lanes.rows[0], by=at))
    return replace(lanes, rows=(variable, count), body=body)


def _cut_into_rows(lanes: LongLoop, like: LongLoop) -> LongLoop | None:
    """Return a loop over as many elements as rows have as one along these rows."""
    assert like.rows is not None
    variable, count = like.rows
    parallel, left = (None, 0) if lanes.parallel is None else divmod(lanes.parallel, like.extent)
    if lanes.extent != count * like.extent or left:
        return None
    at = Index(0, ((variable, like.extent), (lanes.var, 1)))
    body = mapped(lanes.body, partial(substitute_variable, variable=lanes.var, by=at))
    return replace(lanes, extent=like.extent, parallel=parallel, body=body, rows=like.rows)


def _shift(a: LongLoop, b: LongLoop) -> int | None:
    """Return how many iterations later `b` reads what `a` stores, None if in other steps.

    Each iteration may store and read several elements, which are rows apart.
    """
    stores: dict[str, set[int]] = {}
    for s in a.body:
        if isinstance(s, Store) and s.index.terms == ((a.var, 1),):
            stores.setdefault(s.buffer, set()).add(s.index.const)
    shifts = [
        {const - read.index.const for const in stores[read.buffer]}
        for read in (s.value for s in b.body if isinstance(s, Let))
        if isinstance(read, Load) and read.buffer in stores and read.index.terms == ((b.var, 1),)
    ]
    common = set[int]().union(*shifts[:1]).intersection(*shifts)
    return min(sorted(common), key=abs, default=None)


def _cut(lanes: LongLoop, start: int, extent: int) -> LongLoop | None:
    """Return a loop with the iterations before `start`, and `extent` behind it, written out."""
    places = [*range(start), *range(start + extent, lanes.extent)]
    if len(places) > MOST_ROWS_AROUND or extent < LEAST_FUSED_ROWS:
        return None
    at = Index(start, ((lanes.var, 1),))
    body = mapped(lanes.body, partial(substitute_variable, variable=lanes.var, by=at))
    alone = written_out(lanes.body, lanes.var, places)
    if places and any(isinstance(s, Check) for s in alone):
        return None
    return replace(lanes, before=(*lanes.before, *alone), extent=extent, body=body)


def _in_rows(lanes: LongLoop, rows: int) -> LongLoop | None:
    """Return a loop over `rows` of which each has some elements of `lanes`, written out."""
    count, left = divmod(lanes.extent, rows)
    if left or count > MOST_ROWS_AROUND or (count > 1 and lanes.parallel is not None):
        return None
    if count == 1:
        return lanes
    inner = f"{lanes.var}.place"
    at = Index(0, ((lanes.var, count), (inner, 1)))
    body = mapped(lanes.body, partial(substitute_variable, variable=lanes.var, by=at))
    return replace(lanes, extent=rows, body=written_out(body, inner, range(count)))


def _in_lanes(lanes: LongLoop, target: Target) -> LongLoop:
    """Return a loop with vectors: of what is the widest in it, if it had none."""
    if lanes.vector > 1:
        return lanes
    return replace(lanes, vector=target.vector_bytes // Accesses(lanes.body).itemsize)


def _have_lanes(a: LongLoop, b: LongLoop) -> bool:
    """Return whether vectors of both are as wide, and so are parts of threads, if there are any."""
    parts = {lanes.parallel for lanes in (a, b)} - {None}
    return a.vector == b.vector and len(parts) <= 1


def _forwarded(
    first: Straight, second: Straight, stored: set[str], names: dict[str, Atom]
) -> Straight | None:
    """Return both bodies, the second with what the first stores in the place of loads.

    None if it loads something else of what the first stores. `names` are what the second reads by
    other names; those of its loads that are left out are added.
    """
    held: dict[tuple[str, Index], Atom] = {}
    for known in first:
        match known:
            case Store():
                held[known.buffer, known.index] = known.value
            case Let(name, Load(buffer, index, dtype)) if buffer not in stored:
                held.setdefault((buffer, index), Ref(name, dtype))
    result: list[Plain] = [*first]
    for statement in second:
        if isinstance(statement, Let) and isinstance(statement.value, Load):
            load = statement.value
            atom = held.get((load.buffer, load.index))
            if atom is not None:
                names[statement.name] = atom
                continue
            if load.buffer in stored:
                return None
        result.append(with_names(statement, names))
    return tuple(result)


def _params(first: Kernel, second: Kernel, body: Sequence[Stmt]) -> tuple[Param, ...]:
    """Return the parameters that are left, as what is loaded and stored of them says."""
    loaded, stored = buffers_used(body)
    params = {param.name: param for param in (*second.params, *first.params)}
    found = []
    for name, param in params.items():
        if name in stored:
            found.append(replace(param, mode="inout" if name in loaded else "out"))
        elif name in loaded:
            found.append(replace(param, mode="in"))
    return tuple(found)
