"""Vectorisation, loop interchange and loop coalescing: plain loops in a good order, marked.

Each step is a function from loops to loops; what it decides is written in the kernel (`vector`,
`lanes`) and can be read there. Merging and marking never change what is computed; the order in
which a fold combines is chosen from the shape alone, so that it is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.codegen.loops.access import Accesses, dependents, walks_on
from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    Fold,
    For,
    Generated,
    Index,
    Kernel,
    Let,
    Loop,
    Prefix,
    Reduction,
    Ref,
    SortRows,
    Stmt,
    inside,
)
from symgrad.codegen.loops.rewrite import drop_unused, indices, map_indices, substitute_variable
from symgrad.codegen.target import Target
from symgrad.cost_model import LANE_BYTES, LIGHT_FOLD, MOST_CARRIED, OUTER_VECTORS, VECTOR_BYTES
from symgrad.records import replace


def simplify_loops(kernel: Kernel) -> Kernel:
    """Return `kernel` without values that nobody uses and without loops that run once or never.

    A sort of no rows, or that keeps no element, is one that never runs.
    """
    return replace(kernel, body=_without_trivial_loops(drop_unused(kernel.body, set())))


def coalesce(kernel: Kernel) -> Kernel:
    """Return `kernel` with its loops and folds merged where one can count for several."""
    return replace(kernel, body=tuple(map(_coalesced, kernel.body)))


def _coalesced(statement: Stmt) -> Stmt:
    if isinstance(statement, Fold):
        return merge_folds(statement)
    if not isinstance(statement, For):
        return statement
    loops, body = perfect_nest(merge_loops(statement))
    return nested(loops, tuple(map(_coalesced, body)))


def vectorize(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with its loops ordered and marked for the vectors of a target."""
    return replace(kernel, body=tuple(_vectorized(s, target) for s in kernel.body))


def _vectorized(statement: Stmt, target: Target) -> Stmt:
    if isinstance(statement, Reduction):
        return _in_lanes(statement)
    if not isinstance(statement, For):
        return statement
    loops, body = perfect_nest(statement)
    if any(isinstance(s, For) for s in body):
        return nested(loops, tuple(_vectorized(s, target) for s in body))
    return _vectorized_nest(loops, body, target)


# ---------------------------------------------------------------------- loops of extent 0 and 1


def _without_trivial_loops(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Put the body of a loop that runs once in its place, and drop a loop that never runs.

    for i in 0..1 { y[i + j] = t }   ->   y[j] = t
    """
    result: list[Stmt] = []
    for statement in body:
        if isinstance(statement, Loop):
            statement = replace(statement, body=_without_trivial_loops(statement.body))
        if isinstance(statement, For) and (statement.extent == 0 or not statement.body):
            continue
        if isinstance(statement, SortRows) and statement.rows * statement.count == 0:
            continue
        if isinstance(statement, For) and statement.extent == 1:
            result += _at_zero(statement.body, statement.var)
        else:
            result.append(statement)
    return tuple(result)


def _at_zero(body: Sequence[Stmt], variable: str) -> tuple[Stmt, ...]:
    return map_indices(body, lambda index: substitute_variable(index, variable, Index()))


# ------------------------------------------------------------------------------- merging loops


def perfect_nest(loop: For) -> tuple[list[For], tuple[Stmt, ...]]:
    """Return the loops around each other, outermost first, and the body of the innermost."""
    loops = [loop]
    while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], For):
        loops.append(loops[-1].body[0])
    return loops, loops[-1].body


def has_nests(body: Sequence[Stmt]) -> bool:
    """Return whether a body is several nests of loops, one after another."""
    return len(body) > 1 and all(isinstance(statement, For) for statement in body)


def merge_loops(loop: For) -> For:
    """Coalesce loops that together walk through every buffer in steps of one size.

    for i in 0..8 { for j in 0..4 { y[4*i + j] = ... } }   ->   for j in 0..32 { y[j] = ... }
    """
    loops, body = perfect_nest(loop)
    merged = [loops[-1]]
    for outer in reversed(loops[:-1]):
        inner = merged[-1]
        if outer.ordered == inner.ordered and walks_on(
            indices(body), outer.var, inner.var, inner.extent
        ):
            body = _at_zero(body, outer.var)
            merged[-1] = replace(inner, extent=outer.extent * inner.extent)
        else:
            merged.append(outer)
    return nested(list(reversed(merged)), body)


def nested(loops: Sequence[For], body: tuple[Stmt, ...]) -> For:
    """Return the loops, one at least, around each other and the innermost around `body`."""
    for loop in reversed(loops):
        body = (replace(loop, body=body),)
    (outermost,) = body
    assert isinstance(outermost, For), "a nest has a loop"
    return outermost


def fold_nest(fold: Fold) -> list[Fold]:
    """Return folds around each other, outermost first; each but the last only carries on."""
    folds = [fold]
    while len(folds[-1].body) == 1 and isinstance(inner := folds[-1].body[0], Fold):
        if folds[-1].items != tuple(Ref(a.name, a.identity.dtype) for a in inner.accumulators):
            break
        folds.append(inner)
    return folds


def merge_folds(fold: Fold) -> Fold:
    """Coalesce folds as loops are, the one with the smallest steps innermost."""
    folds = fold_nest(fold)
    innermost = folds[-1]
    order = [(f.var, f.extent) for f in folds]
    merged = [order[-1]]
    body = innermost.body
    for outer in reversed(order[:-1]):
        variable, extent = merged[-1]
        if walks_on(indices(body), outer[0], variable, extent):
            body = _at_zero(body, outer[0])
            merged[-1] = (variable, outer[1] * extent)
        else:
            merged.append(outer)
    merged.reverse()
    # Of equals the innermost, where it is.
    best = min(reversed(merged), key=lambda v: Accesses(body).cost(v[0], 8))
    merged.sort(key=lambda v: v is best)  # stable: the best goes last
    items = innermost.items
    for template, (variable, extent) in zip(
        reversed(folds[: len(merged)]), reversed(merged), strict=True
    ):
        body = (replace(template, var=variable, extent=extent, body=body, items=items),)
        items = tuple(Ref(a.name, a.identity.dtype) for a in template.accumulators)
    (outermost,) = body
    assert isinstance(outermost, Fold), "a nest of folds has a fold"
    return outermost


# -------------------------------------------------------------------------------------- vectors


def _vectorized_nest(loops: list[For], body: tuple[Stmt, ...], target: Target) -> For:
    """Mark the loop, or the fold, along which the elements of most buffers lie side by side.

    for i in 0..320 { y[i] = ... }   ->   for i in 0..320 vector(16) { y[i] = ... }
    """
    if any(isinstance(s, Generated) for s in body):
        return nested(loops, body)
    accesses = Accesses(body)
    width = target.vector_bytes // accesses.itemsize
    reductions = [s for s in body if isinstance(s, Reduction)]
    choices = [(element_cost(body, None, 1), -1, 1)]  # cost an element, loop, width
    for number, loop in enumerate(loops):
        here = _power_of_two_up_to(width, loop.extent)
        if not loop.ordered and here > 1:
            choices.append((element_cost(body, loop.var, here), number, here))
    cost, number, chosen = min(choices)
    if reductions and _cost_in_lanes(reductions, body) <= cost:
        return nested(loops, tuple(_in_lanes(s) if isinstance(s, Reduction) else s for s in body))
    if number < 0:
        return nested(loops, body)
    loop = loops.pop(number)
    if reductions or _searches_one_row(body, loop.var):
        beside = _vectors_beside(reductions, target)
        chosen = _width_beside(loop.extent, chosen, beside)
    return nested([*loops, replace(loop, vector=chosen)], body)


def _vectors_beside(reductions: Sequence[Reduction], target: Target) -> int:
    """Return how many vectors carry sums beside each other at most, to hide the latency of each.

    Many accumulators do so by themselves, and so do long bodies. Where a fold does little more than
    read, half of the registers hold sums: then it reads long pieces of rows, too.
    """
    carried = max((len(s.accumulators) for s in reductions), default=1)
    is_light = bool(reductions) and all(_only_reads(s, target) for s in reductions)
    most = target.vector_registers // 2 if is_light else OUTER_VECTORS
    return min(most, _power_of_two_below(max(1, MOST_CARRIED // carried)))


def _only_reads(loop: Reduction, target: Target) -> bool:
    """Return whether a fold into one accumulator does little more than read, in steps within pages.

    From page to page a processor fetches ahead for a few walks only.
    """
    if not isinstance(loop, Fold) or len(loop.accumulators) > 1 or len(loop.body) > LIGHT_FOLD:
        return False
    step = max((abs(i.coefficient(loop.var)) for i in indices(loop.body)), default=0)
    return step * Accesses([loop]).itemsize < target.memory.page_bytes


def _width_beside(extent: int, width: int, beside: int) -> int:
    """Return the multiple of `width` up to `beside` times it that a loop of `extent` runs best by.

    What is left over runs one by one, and each of these waits for as long as a few vectors beside
    each other do.
    """
    widths = [width]
    while widths[-1] * 2 <= min(extent, width * beside):
        widths.append(widths[-1] * 2)

    def turns(chosen: int) -> float:
        vectors = chosen // width
        return extent // chosen * max(1.0, vectors / OUTER_VECTORS) + extent % chosen

    return min(reversed(widths), key=turns)


def _searches_one_row(body: Sequence[Stmt], variable: str) -> bool:
    """Return whether all lanes search the same elements: each waits for memory at each step."""
    searches = [s.value for s in body if isinstance(s, Let) and isinstance(s.value, BinarySearch)]
    return bool(searches) and not any(s.index.coefficient(variable) for s in searches)


def element_cost(body: Sequence[Stmt], variable: str | None, width: int) -> float:
    """Return what an element costs, its reductions from end to end, with vectors of `variable`."""
    rest = [s for s in body if not isinstance(s, Reduction)]
    total = Accesses(rest).cost(variable, width)
    for loop in (s for s in body if isinstance(s, Reduction)):
        total += _iterations(loop) * Accesses([loop]).cost(variable, width)
    return total / width


def _iterations(loop: Reduction) -> int:
    return loop.extent if isinstance(loop, Prefix) else math.prod(f.extent for f in fold_nest(loop))


def _cost_in_lanes(reductions: Sequence[Reduction], body: tuple[Stmt, ...]) -> float:
    """Return what an element costs with lanes along the innermost of the reductions."""
    total = Accesses([s for s in body if not isinstance(s, Reduction)]).cost(None, 1)
    for loop in reductions:
        if isinstance(loop, Prefix):
            total += prefix_cost(loop, _lanes_of_prefix(loop))
            continue
        innermost = fold_nest(loop)[-1]
        lanes = _lanes(innermost)
        if lanes == 1:
            return float("inf")
        accesses = Accesses([innermost])
        # Combining the lanes at the end is paid for by the elements of one fold.
        width = min(lanes, 8)
        tail = innermost.extent % lanes + 2 * lanes.bit_length()
        each = accesses.cost(innermost.var, width) / width * (1 + tail / innermost.extent)
        total += _iterations(loop) * each
    return total


def prefix_cost(prefix: Prefix, lanes: int) -> float:
    """Return what a prefix scan from end to end costs with so many lanes.

    A step of a block moves its lanes and combines them, and so does bringing in what came before.
    """
    if lanes == 1:
        return prefix.extent * Accesses([prefix]).cost(None, 1)
    step = len(prefix.accumulators) + len(prefix.combine)
    total = 0.0
    for start, stop, size in replace(prefix, lanes=lanes).blocks:
        block = Accesses([prefix]).cost(prefix.var, size) + step * size.bit_length()
        total += (stop - start) // size * block
    return total


def _in_lanes(loop: Reduction) -> Reduction:
    """Give a reduction lanes, as many as are best for its shape."""
    if isinstance(loop, Prefix):
        return replace(loop, lanes=_lanes_of_prefix(loop))
    return _with_lanes(loop)


def _lanes_of_prefix(prefix: Prefix) -> int:
    """Return how many elements a block of a prefix scan has: a function of its shape and dtypes."""
    if prefix.ordered or prefix.has_values_as_indices:
        return 1
    itemsize = max(a.identity.dtype.itemsize for a in prefix.accumulators)
    most = _power_of_two_up_to(VECTOR_BYTES // itemsize, prefix.extent)
    return min((1, most), key=lambda lanes: prefix_cost(prefix, lanes))


def _with_lanes(fold: Fold) -> Fold:
    """Give the innermost fold lanes, and leave the folds around it as they are."""
    folds = fold_nest(fold)
    body: tuple[Stmt, ...] = (replace(folds[-1], lanes=_lanes(folds[-1])),)
    if _has_loops(folds[-1].body):
        body = (folds[-1],)
    for outer in reversed(folds[:-1]):
        body = (replace(outer, body=body),)
    (outermost,) = body
    assert isinstance(outermost, Fold), "a nest of folds has a fold"
    return outermost


def _lanes(fold: Fold) -> int:
    """Return how many partial results a fold keeps: a function of its shape and dtypes only."""
    itemsize = max(a.identity.dtype.itemsize for a in fold.accumulators)
    most = _power_of_two_up_to(LANE_BYTES // itemsize, fold.extent)
    # Of equals the most, but for one, which takes no combining.
    ways = [1, *(most >> i for i in range(most.bit_length() - 1))]
    return min(ways, key=lambda lanes: lane_steps(fold, lanes))


def lane_steps(fold: Fold, lanes: int) -> int:
    """Return how many steps a fold with so many lanes takes, of loading a vector or adding one."""
    if lanes == 1:
        return fold.extent
    itemsize = max(a.identity.dtype.itemsize for a in fold.accumulators)
    vectors = max(1, lanes * itemsize // VECTOR_BYTES)
    return fold.extent // lanes * (1 + vectors) + fold.extent % lanes + lanes.bit_length()


def _power_of_two_up_to(most: int, extent: int) -> int:
    """Return the greatest power of two that is not above `extent` nor `most`, which is one."""
    # Of a long loop nothing else is asked, so that one template is for more symbolic sizes.
    return most if extent >= most else _power_of_two_below(extent)


def _power_of_two_below(extent: int) -> int:
    return 1 << (extent.bit_length() - 1) if extent else 1


def _has_loops(body: Sequence[Stmt]) -> bool:
    return any(isinstance(s, Loop) for s in body)


def checks_depend(body: Sequence[Stmt], variable: str) -> bool:
    """Return whether an index that is data depends on `variable`: it is then checked one by one."""
    names = dependents(body, variable)
    return any(
        isinstance(s, Check) and isinstance(s.value, Ref) and s.value.name in names
        for s in _flat(body)
    )


def _flat(body: Sequence[Stmt]) -> list[Stmt]:
    found: list[Stmt] = []
    for statement in body:
        found.append(statement)
        if isinstance(statement, Loop):
            found += _flat(inside(statement))
    return found
