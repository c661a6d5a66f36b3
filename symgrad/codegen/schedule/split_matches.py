"""Index-set splitting: the one iteration in which an index is a certain number is taken apart.

    t0: i64 = labels[i]
    for j in 0..1024 vector(16) {
      t1: i64 = index(j)
      t2: bool = eq(t1, t0)
      t3: f32 = select(t2, t9, 0.0)
      t4: f32 = e[j]
      t5: f32 = add(t3, t4)
      y[1024*i + j] = t5
    }

becomes

    t0: i64 = labels[i]
    clamp t2.place = t0 in 1024
    t1.match: i64 = index(t2.place)
    t2.match: bool = eq(t1.match, t0)
    ...
    for j in 0..1024 vector(16) {
      t4: f32 = e[j]
      t5: f32 = add(0.0, t4)
      y[1024*i + j] = t5
    }
    y[1024*i + t2.place] = t5.match

The gradient of what is picked from each row, as the score of a label, is a one hot row: a register
of indices is made and compared for each vector, for one element in all of them. What that comes to
is computed before the loop, since the loop may write over what it reads, and stored behind it. A
number that is no index of the loop has the nearest one in its place, where the comparison says so.
No result changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.index_arithmetic import bounds, index_of
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
    IndexValue,
    Kernel,
    Let,
    Loop,
    Op,
    Plain,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    buffers_used,
    drop_unused,
    index_extents,
    index_names,
    map_indices,
    substitute_variable,
)
from symgrad.codegen.schedule.long_loops import with_names
from symgrad.cost_model import LEAST_SPLIT_CYCLES, OPERATIONS_OF_A_MATCH
from symgrad.graph.dtypes import bool_, int32, int64
from symgrad.records import dataclass, replace

_ELSEWHERE = {"eq": False, "ne": True}  # what a comparison is in all other iterations
_BEYOND_INT32 = 1 << 31

_Extents = dict[str, int]


@dataclass(frozen=True, slots=True)
class _Match:
    """A comparison of an index of a loop with a number that is the same in all iterations.

    The index is `origin` where the variable of the loop is 0; `elsewhere` is what comes of it in
    iterations in which they are not equal.
    """

    name: str
    number: Atom
    origin: Index
    elsewhere: bool


def split_matches(kernel: Kernel) -> Kernel:
    """Return `kernel` with loops of vectors split where one iteration matches, if that pays."""
    long = [s for s in kernel.body if isinstance(s, For) and _is_long(s)]
    if not long:
        return kernel
    extents = index_extents(kernel.body)
    split = {id(s): replace(s, body=tuple(_in_rows(s.body, extents))) for s in long}
    return replace(kernel, body=tuple(split.get(id(s), s) for s in kernel.body))


def matches_apart(body: Sequence[Stmt]) -> Iterator[tuple[str, For | Fold, Store]]:
    """Yield the places of iterations that were split off, with the loop of the others, and stores.

    Where rows are pipelined that loop is a fold, and has more behind it.
    """
    places = {s.name for s in body if isinstance(s, Check) and s.bound == "clamp"}
    loop: For | Fold | None = None
    for statement in body:
        if isinstance(statement, Loop):
            loop = _in_vectors(statement)
        elif isinstance(statement, Store) and loop is not None:
            is_same = statement.buffer in buffers_used((loop,))[1]
            names = index_names(statement.index) if is_same else ()
            yield from ((name, loop, statement) for name in names if name in places)


def _in_vectors(loop: Loop) -> For | Fold | None:
    """Return a loop if it is one of vectors that store or become partial results."""
    if isinstance(loop, For) and loop.vector > 1:
        return loop
    return loop if isinstance(loop, Fold) and loop.lanes > 1 else None


def _is_long(loop: For) -> bool:
    return loop.vector == 1 and statement_cycles(loop) >= LEAST_SPLIT_CYCLES


def _in_rows(body: Sequence[Stmt], extents: _Extents) -> Iterator[Stmt]:
    for statement in body:
        if not isinstance(statement, For):
            yield statement
        elif statement.vector == 1:
            yield replace(statement, body=tuple(_in_rows(statement.body, extents)))
        elif (match := _match_of(statement, extents)) is not None and _pays(statement):
            yield from _split(statement, match)
        else:
            yield statement


def _pays(loop: For) -> bool:
    """Return whether one iteration more costs less than the comparison in each vector."""
    vectors = loop.extent // loop.vector
    return vectors * OPERATIONS_OF_A_MATCH > len(loop.body)


def _match_of(loop: For, extents: _Extents) -> _Match | None:
    """Return the one comparison in straight code of which one iteration is split off."""
    if loop.parallel or not all(_is_straight(statement) for statement in loop.body):
        return None
    lets = [statement for statement in loop.body if isinstance(statement, Let)]
    own = {statement.name for statement in lets}
    places: dict[str, Index] = {}  # the values that are an index, cast or not
    found: list[_Match] = []
    for statement in lets:
        index = _index_of(statement.value, places, extents)
        if index is not None:
            places[statement.name] = index
        match = _compared(statement, places, own, loop.var)
        if match is not None:
            found.append(match)
    return found[0] if len(found) == 1 else None


def _is_straight(statement: Stmt) -> bool:
    if isinstance(statement, Let):
        return not isinstance(statement.value, BinarySearch)
    return isinstance(statement, Store)


def _index_of(value: Expr, places: Mapping[str, Index], extents: _Extents) -> Index | None:
    """Return the index that a value is, None if it is none, or not in all iterations."""
    match value:
        case IndexValue(index):
            return index
        case Cast(Ref(name), dtype) if dtype == int32 and name in places:
            low, high = bounds(places[name], extents)
            return places[name] if 0 <= low <= high < _BEYOND_INT32 else None
    return None


def _compared(
    statement: Let, places: Mapping[str, Index], own: set[str], variable: str
) -> _Match | None:
    """Return what is compared, None if it is no index that goes by ones, or with no invariant."""
    value = statement.value
    if not isinstance(value, Op) or value.name not in _ELSEWHERE:
        return None
    for place, number in (value.args, value.args[::-1]):
        index = places.get(place.name) if isinstance(place, Ref) else None
        if index is None or (isinstance(number, Ref) and number.name in own):
            continue
        origin = substitute_variable(index, variable, Index())
        if index == index_of(*origin.terms, (variable, 1), const=origin.const):
            return _Match(statement.name, number, origin, _ELSEWHERE[value.name])
    return None


def _split(loop: For, match: _Match) -> Iterator[Stmt]:
    """Yield what the matching iteration computes, the others, and what that one stores."""
    place = f"{match.name}.place"
    yield from _place_of(match, place, loop.extent)
    at = Index(0, ((place, 1),))
    names: dict[str, Atom] = {}
    stores: list[Stmt] = []
    for statement in map_indices(loop.body, lambda index: substitute_variable(index, loop.var, at)):
        assert isinstance(statement, Plain), "a loop of straight code"
        changed = with_names(statement, names)
        if not isinstance(changed, Let):
            stores.append(changed)
            continue
        name = f"{changed.name}.match"
        names[changed.name] = Ref(name, changed.value.dtype)
        yield replace(changed, name=name)
    yield replace(loop, body=_elsewhere(loop.body, match))
    yield from stores


def _place_of(match: _Match, place: str, extent: int) -> Iterator[Stmt]:
    """Yield what names the iteration that matches, or the nearest one if none does."""
    number = match.number
    if number.dtype != int64:
        wide = Let(f"{match.name}.wide", Cast(number, int64))
        yield wide
        number = Ref(wide.name, int64)
    if match.origin != Index():
        origin = Let(f"{match.name}.origin", IndexValue(match.origin, int64))
        offset = Op("sub", (number, Ref(origin.name, int64)), int64)
        yield from (origin, Let(f"{match.name}.offset", offset))
        number = Ref(f"{match.name}.offset", int64)
    yield Check(place, number, extent, 0, "clamp")


def _elsewhere(body: Sequence[Stmt], match: _Match) -> tuple[Stmt, ...]:
    """Return the statements of the iterations that do not match."""
    names: dict[str, Atom] = {}
    kept: list[Stmt] = []
    for statement in body:
        assert isinstance(statement, Plain), "a loop of straight code"
        changed = with_names(statement, names)
        if isinstance(changed, Let) and changed.name == match.name:
            names[match.name] = Const(match.elsewhere, bool_)
            continue
        if isinstance(changed, Let) and isinstance(changed.value, Select):
            selected = changed.value
            if isinstance(selected.condition, Const):
                chosen = selected.chosen if selected.condition.value else selected.otherwise
                names[changed.name] = chosen
                continue
        kept.append(changed)
    return drop_unused(kept, set())
