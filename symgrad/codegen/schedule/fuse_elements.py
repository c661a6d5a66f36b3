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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from symgrad.codegen.loops.access import Accesses
from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Cast,
    Check,
    Const,
    Expr,
    For,
    Index,
    IndexValue,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Plain,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    ReplaceIndex,
    buffers_used,
    drop_unused,
    map_indices,
    substitute_variable,
)
from symgrad.codegen.target import Target
from symgrad.cost_model import LEAST_FUSED_ROWS, MOST_FUSED, MOST_INSIDE, MOST_ROWS_AROUND
from symgrad.records import dataclass

# Statements that are one after another: no loop.
_Straight = tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class LongLoop:
    """A kernel as one loop over a long axis, of which iterations are lanes.

    `before` are values for all of them, and single elements. `vector` is 1 if the axis had no
    vectors before short loops inside of it were written out.
    """

    before: _Straight
    var: str
    extent: int
    vector: int
    parallel: int | None
    body: _Straight


def long_loop_of(kernel: Kernel) -> LongLoop | None:
    """Return a kernel as a loop of straight code over a long axis, None if it is none."""
    loops = [s for s in kernel.body if isinstance(s, For) and not _is_of_elements(s)]
    before = _elements(kernel)
    if before is None or len(loops) != 1 or loops[0].ordered:
        return None
    (loop,) = loops
    if (body := _straight(loop.body)) is not None:
        found = LongLoop(before, loop.var, loop.extent, loop.vector, loop.parallel, body)
        return found if loop.vector > 1 and _is_long(found) else None
    if loop.vector > 1 or (loop.parallel is not None and loop.extent <= MOST_ROWS_AROUND):
        return None
    if loop.extent <= MOST_ROWS_AROUND:
        return _with_rows_inside(before, loop)
    inside = _all_written_out(loop.body, MOST_INSIDE)
    if inside is None:
        return None
    found = LongLoop(before, loop.var, loop.extent, 1, loop.parallel, inside)
    return found if _is_long(found) else None


def _elements(kernel: Kernel) -> _Straight | None:
    """Return what of a kernel is in no loop, None if it needs anything that the kernel stores."""
    apart = [s for s in kernel.body if not isinstance(s, For) or _is_of_elements(s)]
    alone = _all_written_out(apart, MOST_ROWS_AROUND)
    if alone is None or any(isinstance(s, Check) for s in alone):
        return None
    needs_stored = not buffers_used(alone)[0].isdisjoint(buffers_used(kernel.body)[1])
    return None if needs_stored else alone


def _is_of_elements(loop: For) -> bool:
    """Return whether a loop is a few elements, such as the ends of rows that a pad fills."""
    return loop.extent <= MOST_ROWS_AROUND and _straight(loop.body) is not None


def _with_rows_inside(before: _Straight, loop: For) -> LongLoop | None:
    """Return a short loop around a long one as the long one, in which the short is written out."""
    *shared, inner = loop.body
    lets = _lets(shared)
    if lets is None or not isinstance(inner, For) or inner.ordered or inner.vector == 1:
        return None
    inside = _straight(inner.body)
    if inside is None:
        return None
    body = _written_out((*lets, *inside), loop.var, range(loop.extent))
    found = LongLoop(before, inner.var, inner.extent, inner.vector, inner.parallel, body)
    return found if _is_long(found) else None


def _all_written_out(body: Sequence[Stmt], most: int) -> _Straight | None:
    """Return statements with the loops among them written out, None if some are not that short.

    They run `most` times in all at the most.
    """
    result: list[Plain] = []
    for statement in body:
        if isinstance(statement, For):
            is_short = not statement.ordered and 0 < statement.extent <= most
            inside = (
                _all_written_out(statement.body, most // statement.extent) if is_short else None
            )
            if inside is None or len(inside) * statement.extent > MOST_FUSED:
                return None
            result += _written_out(inside, statement.var, range(statement.extent))
        elif (own := _straight((statement,))) is not None:
            result += own
        else:
            return None
    return tuple(result)


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
    a, b = _alike(_in_lanes(a, target), _in_lanes(b, target))
    if a is None or b is None or not _have_lanes(a, b):
        return None
    at = Index(0, ((a.var, 1),))
    moved = _mapped(b.body, partial(substitute_variable, variable=b.var, by=at))
    names: dict[str, Atom] = {}  # what is loaded before both loops is read inside of the second
    before = _forwarded(a.before, b.before, stored, names)
    body = _forwarded(a.body, moved, stored, names)
    if before is None or body is None or len(body) > MOST_FUSED or not _reads(moved, stored):
        return None
    before, body = _without(before, unread), _without(body, unread)
    parallel = b.parallel if a.parallel is None else a.parallel
    if parallel is not None and parallel % a.vector:
        return None
    loop = For(a.var, a.extent, body, a.vector, parallel=parallel)
    statements = drop_unused((*before, loop), set())
    return replace(first, params=_params(first, second, statements), body=statements)


def _reads(body: _Straight, stored: set[str]) -> bool:
    return not buffers_used(body)[0].isdisjoint(stored)


def _without(body: _Straight, unread: Collection[str]) -> _Straight:
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
    body = _mapped(lanes.body, partial(substitute_variable, variable=lanes.var, by=at))
    alone = _written_out(lanes.body, lanes.var, places)
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
    body = _mapped(lanes.body, partial(substitute_variable, variable=lanes.var, by=at))
    return replace(lanes, extent=rows, body=_written_out(body, inner, range(count)))


def _is_long(lanes: LongLoop) -> bool:
    return lanes.extent >= LEAST_FUSED_ROWS and len(lanes.body) <= MOST_FUSED


def _in_lanes(lanes: LongLoop, target: Target) -> LongLoop:
    """Return a loop with vectors: of what is the widest in it, if it had none."""
    if lanes.vector > 1:
        return lanes
    return replace(lanes, vector=target.vector_bytes // Accesses(lanes.body).itemsize)


def _have_lanes(a: LongLoop, b: LongLoop) -> bool:
    """Return whether vectors of both are as wide, and so are parts of threads, if there are any."""
    parts = {lanes.parallel for lanes in (a, b)} - {None}
    return a.vector == b.vector and len(parts) <= 1


def _lets(body: Sequence[Stmt]) -> tuple[Let, ...] | None:
    found = tuple(s for s in _straight(body) or () if isinstance(s, Let))
    return found if len(found) == len(body) else None


def _straight(body: Sequence[Stmt]) -> _Straight | None:
    found = tuple(s for s in body if isinstance(s, Plain))
    has_search = any(isinstance(s, Let) and isinstance(s.value, BinarySearch) for s in found)
    return found if len(found) == len(body) and not has_search else None


def _mapped(body: _Straight, change: ReplaceIndex) -> _Straight:
    found = _straight(map_indices(body, change))
    assert found is not None, "it was straight before"
    return found


def _written_out(body: _Straight, variable: str, places: Iterable[int]) -> _Straight:
    """Return the statements of some iterations of a loop, one iteration after another."""
    result: list[Plain] = []
    checked = [s.name for s in body if isinstance(s, Check)]
    for place in places:
        names: dict[str, Atom] = {}
        here = _mapped(body, partial(substitute_variable, variable=variable, by=Index(place)))
        for name in checked:
            by = Index(0, ((f"{name}.{place}", 1),))
            here = _mapped(here, partial(substitute_variable, variable=name, by=by))
        for statement in here:
            changed = _with_names(statement, names)
            if isinstance(changed, Store):
                result.append(changed)
                continue
            name = f"{changed.name}.{place}"
            if isinstance(changed, Let):
                names[changed.name] = Ref(name, changed.value.dtype)
            result.append(replace(changed, name=name))
    return tuple(result)


def _forwarded(
    first: _Straight, second: _Straight, stored: set[str], names: dict[str, Atom]
) -> _Straight | None:
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
        result.append(_with_names(statement, names))
    return tuple(result)


def _with_names(statement: Plain, names: Mapping[str, Atom]) -> Plain:
    """Return a statement that reads other values by some names."""
    if isinstance(statement, Let):
        return Let(statement.name, _expression(statement.value, names))
    return replace(statement, value=_renamed(statement.value, names))


def _renamed(atom: Atom, names: Mapping[str, Atom]) -> Atom:
    return names.get(atom.name, atom) if isinstance(atom, Ref) else atom


def _expression(value: Expr, names: Mapping[str, Atom]) -> Expr:
    match value:
        case Ref():
            return _renamed(value, names)
        case Op():
            return replace(value, args=tuple(_renamed(a, names) for a in value.args))
        case Select():
            parts = (value.condition, value.chosen, value.otherwise)
            condition, chosen, otherwise = (_renamed(a, names) for a in parts)
            return Select(condition, chosen, otherwise, value.dtype)
        case Cast():
            return replace(value, value=_renamed(value.value, names))
        case Const() | Load() | IndexValue() | BinarySearch():
            return value


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
