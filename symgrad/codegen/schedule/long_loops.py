"""Long loops: a kernel as straight code that is repeated along one axis, and single elements.

    for r in 0..2 { for i in 0..4096 vector(8) { z[2*i + r] = a } }    y[4096] = 0.0

is one loop over i, in which the short one is written out, with what is in no loop before it. Two
kernels that are such loops may become one (`fuse_elements.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

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
    Plain,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    ReplaceIndex,
    buffers_used,
    map_indices,
    statements,
    substitute_variable,
)
from symgrad.cost_model import (
    LEAST_FUSED_ROWS,
    MOST_FUSED,
    MOST_INSIDE,
    MOST_ROWS_AROUND,
    VECTOR_BYTES,
)
from symgrad.records import dataclass, replace

# Statements that are one after another: no loop.
Straight = tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class LongLoop:
    """A kernel as one loop over a long axis, of which iterations are lanes.

    `before` are values for all of them, and single elements. `vector` is 1 if the axis had no
    vectors before short loops inside of it were written out; `had_rows` says that vectors lay along
    these, which were longer. Of long `rows` that cannot be one axis it is the loop along a row,
    which runs in one over so many of them: threads share that.
    """

    before: Straight
    var: str
    extent: int
    vector: int
    parallel: int | None
    body: Straight
    rows: tuple[str, int] | None = None
    had_rows: bool = False


def long_loop_of(kernel: Kernel) -> LongLoop | None:
    """Return a kernel as a loop of straight code over a long axis, None if it is none.

    What is in no loop is put before it, wherever it was.
    """
    found = _long_loop_of(kernel)
    return found if found is not None and _may_stand_before(found.before, found) else None


def _may_stand_before(alone: Straight, loop: LongLoop) -> bool:
    """Return whether single elements are the same before and behind a loop.

    So it is if the loop neither loads nor stores them, as where all of a row is filled and one
    element of it written over.
    """
    stored = [s for s in alone if isinstance(s, Store)]
    if not stored:
        return True
    if not buffers_used(loop.body)[0].isdisjoint(s.buffer for s in stored):
        return False
    return not any(
        _is_reached(element.index, s.index, loop)
        for element in stored
        for s in loop.body
        if isinstance(s, Store) and s.buffer == element.buffer
    )


def _is_reached(element: Index, index: Index, loop: LongLoop) -> bool:
    """Return whether an index may be that of a single element in some iteration of a loop."""
    if element.terms or [atom for atom, _ in index.terms] != [loop.var]:
        return True
    ((_, step),) = index.terms
    times, left = divmod(element.const - index.const, step)
    return left == 0 and 0 <= times < loop.extent


def _long_loop_of(kernel: Kernel) -> LongLoop | None:
    loops = [s for s in kernel.body if isinstance(s, For) and not _is_of_elements(s)]
    before = _elements(kernel)
    if before is None or len(loops) != 1 or loops[0].ordered:
        return None
    (loop,) = loops
    if (body := straight(loop.body)) is not None:
        found = LongLoop(before, loop.var, loop.extent, loop.vector, loop.parallel, body)
        return found if loop.vector > 1 and is_long(found) else None
    if loop.vector > 1 or (loop.parallel is not None and loop.extent <= MOST_ROWS_AROUND):
        return None
    if loop.extent <= MOST_ROWS_AROUND:
        return _with_rows_inside(before, loop)
    inside = _all_written_out(loop.body, MOST_INSIDE)
    if inside is None:
        return _of_rows(before, loop)
    had_rows = _has_rows_of_vectors(loop)
    found = LongLoop(before, loop.var, loop.extent, 1, loop.parallel, inside, had_rows=had_rows)
    return found if is_long(found) else None


def _has_rows_of_vectors(loop: For) -> bool:
    """Return whether vectors lie along rows, one for each iteration, that are longer than a vector.

    Lanes along the long axis would reach each element of these in a cache line of its own.
    """
    return any(
        isinstance(row, For) and row.vector > 2 and _steps_beyond_vectors(row, loop.var)
        for row in statements(loop.body)
    )


def _steps_beyond_vectors(row: For, variable: str) -> bool:
    stores = (s for s in row.body if isinstance(s, Store))
    return any(
        s.index.coefficient(variable) * s.value.dtype.itemsize > VECTOR_BYTES for s in stores
    )


def _of_rows(before: Straight, loop: For) -> LongLoop | None:
    """Return a loop over rows, each of some whole vectors, as the loop along a row."""
    inner = loop.body[0]
    if len(loop.body) > 1 or not isinstance(inner, For) or inner.ordered or inner.vector == 1:
        return None
    body = straight(inner.body)
    if body is None or inner.parallel is not None or inner.extent % inner.vector:
        return None
    rows = loop.var, loop.extent
    found = LongLoop(before, inner.var, inner.extent, inner.vector, loop.parallel, body, rows)
    return found if is_long(found) else None


def _elements(kernel: Kernel) -> Straight | None:
    """Return what of a kernel is in no loop, None if it needs anything that the kernel stores."""
    apart = [s for s in kernel.body if not isinstance(s, For) or _is_of_elements(s)]
    if not apart:
        return ()
    alone = _all_written_out(apart, MOST_ROWS_AROUND)
    if alone is None or any(isinstance(s, Check) for s in alone):
        return None
    stored = {param.name for param in kernel.params if param.mode != "in"}
    return alone if buffers_used(alone)[0].isdisjoint(stored) else None


def _is_of_elements(loop: For) -> bool:
    """Return whether a loop is a few elements, such as the ends of rows that a pad fills."""
    return loop.extent <= MOST_ROWS_AROUND and straight(loop.body) is not None


def _with_rows_inside(before: Straight, loop: For) -> LongLoop | None:
    """Return a short loop around a long one as the long one, in which the short is written out."""
    *shared, inner = loop.body
    lets = _lets(shared)
    if lets is None or not isinstance(inner, For) or inner.ordered or inner.vector == 1:
        return None
    inside = straight(inner.body)
    if inside is None:
        return None
    body = written_out((*lets, *inside), loop.var, range(loop.extent))
    found = LongLoop(before, inner.var, inner.extent, inner.vector, inner.parallel, body)
    return found if is_long(found) else None


def _all_written_out(body: Sequence[Stmt], most: int) -> Straight | None:
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
            result += written_out(inside, statement.var, range(statement.extent))
        elif (own := straight((statement,))) is not None:
            result += own
        else:
            return None
    return tuple(result)


def is_long(lanes: LongLoop) -> bool:
    """Return whether a loop has enough iterations, and not too much in each."""
    count = lanes.extent if lanes.rows is None else lanes.extent * lanes.rows[1]
    return count >= LEAST_FUSED_ROWS and len(lanes.body) <= MOST_FUSED


def _lets(body: Sequence[Stmt]) -> tuple[Let, ...] | None:
    found = tuple(s for s in straight(body) or () if isinstance(s, Let))
    return found if len(found) == len(body) else None


def straight(body: Sequence[Stmt]) -> Straight | None:
    """Return a body without loops, and without searches; None of another one."""
    found = tuple(s for s in body if isinstance(s, Plain))
    has_search = any(isinstance(s, Let) and isinstance(s.value, BinarySearch) for s in found)
    return found if len(found) == len(body) and not has_search else None


def mapped(body: Straight, change: ReplaceIndex) -> Straight:
    """Return straight code with other indices."""
    found = straight(map_indices(body, change))
    assert found is not None, "it was straight before"
    return found


def written_out(body: Straight, variable: str, places: Iterable[int]) -> Straight:
    """Return the statements of some iterations of a loop, one iteration after another."""
    result: list[Plain] = []
    checked = [s.name for s in body if isinstance(s, Check)]
    for place in places:
        names: dict[str, Atom] = {}
        here = mapped(body, partial(substitute_variable, variable=variable, by=Index(place)))
        for name in checked:
            by = Index(0, ((f"{name}.{place}", 1),))
            here = mapped(here, partial(substitute_variable, variable=name, by=by))
        for statement in here:
            changed = with_names(statement, names)
            if isinstance(changed, Store):
                result.append(changed)
                continue
            name = f"{changed.name}.{place}"
            if isinstance(changed, Let):
                names[changed.name] = Ref(name, changed.value.dtype)
            result.append(replace(changed, name=name))
    return tuple(result)


def with_names(statement: Plain, names: Mapping[str, Atom]) -> Plain:
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
