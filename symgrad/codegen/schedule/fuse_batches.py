"""Loop fusion over a batch: what several kernels do with each matrix of it, one matrix at a time.

    for i in 0..32 { product s: f32 ... q[16384*i] ... { x[4096*i + ...] = s } }
    for j in 0..131072 vector(16) { ... x[j] ... y[j] = t }

becomes, where `x` is read by the second in the same part of the batch only,

    for b in 0..32 ordered {
      product s: f32 ... q[16384*b] ... { x[...] = s }
      for j in 0..4096 vector(16) { ... x[j] ... y[4096*b + j] = t }
    }

so that what one statement makes of a matrix, and what several read, is in a near cache when the
next one comes to it. What nothing else reads is in memory for one matrix; for one of each part,
where threads share the batch. No element is computed otherwise than before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from symgrad.codegen.loops.footprints import Access, counted_extents, touched
from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Param,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import (
    is_free_of,
    map_indices,
    mentions,
    statements,
    substitute_variable,
)
from symgrad.codegen.schedule.fuse_products import PART, in_parts, shared_loop
from symgrad.codegen.schedule.parallelize import scratch_of_parts
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.schedule.transpose_once import transpose_once
from symgrad.codegen.schedule.vectorize import perfect_nest
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class MatrixBatch:
    """So many matrices: the extents of the loops over them, and the names these have."""

    extents: tuple[int, ...]

    @property
    def axes(self) -> list[tuple[str, int]]:
        return [(f"batch{number}", extent) for number, extent in enumerate(self.extents)]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.axes]

    @property
    def count(self) -> int:
        return math.prod(self.extents)


@dataclass(frozen=True, slots=True)
class OfMatrix:
    """How much of a buffer belongs to a matrix of a batch, and how far apart that is by its axes.

    The `size` is 0 where parts of several matrices lie among one another.
    """

    steps: tuple[int, ...]
    size: int


def of_matrix(statement: Stmt, batch: MatrixBatch, *, in_order: bool) -> tuple[Stmt, ...] | None:
    """Return what a statement does with one matrix, None if it is no loop over the batch.

    Its outermost loops go through the axes of the batch, or through several of them and what is
    beside each other of a matrix. Where they do so `in_order`, nothing is handed on by it.
    """
    if not isinstance(statement, For):
        return None
    loops, body = perfect_nest(statement)
    places: dict[str, Index] = {}
    left = batch.axes
    for number, loop in enumerate(loops):
        if loop.parallel is not None or (loop.ordered and not in_order):
            return None
        if loop.extent == 1:
            places[loop.var] = Index()
            continue
        taken: list[tuple[str, int]] = []
        while left and math.prod(n for _, n in taken) < loop.extent:
            taken.append(left.pop(0))
        count = math.prod(n for _, n in taken)
        rest, beyond = divmod(loop.extent, count)
        if beyond or (left and rest > 1) or rest % loop.vector:
            return None
        own = [(loop.var, 1)] if rest > 1 else []
        places[loop.var] = index_of(*_row_major(taken, rest), *own)
        if left:
            continue
        inside = loops[number + 1 :]
        if rest > 1:
            inside = [replace(loop, extent=rest), *inside]
        return _substituted(_nested(inside, body), places)
    return None


def _row_major(axes: Sequence[tuple[str, int]], unit: int) -> list[tuple[str, int]]:
    return [
        (name, unit * math.prod(n for _, n in axes[number + 1 :]))
        for number, (name, _) in enumerate(axes)
    ]


def _nested(loops: Sequence[For], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for loop in reversed(loops):
        body = (replace(loop, body=body),)
    return body


def _substituted(body: tuple[Stmt, ...], places: Mapping[str, Index]) -> tuple[Stmt, ...]:
    def change(index: Index) -> Index:
        for variable, place in places.items():
            index = substitute_variable(index, variable, place)
        return index

    return map_indices(body, change)


# ----------------------------------------------------------------------------------- dependences


def can_be_fused(body: Sequence[Stmt]) -> bool:
    """Return whether all that statements touch is seen by `touched`."""
    return is_free_of(body, Check | SortRows | Prefix) and all(
        isinstance(s.value, Load) or not hasattr(s.value, "buffer")
        for s in statements(body)
        if isinstance(s, Let)
    )


def parts_of_matrices(body: Sequence[Stmt], batch: MatrixBatch) -> dict[str, OfMatrix | None]:
    """Return what of each buffer belongs to a matrix, None where some of it is of several."""
    extents = counted_extents(body)
    found: dict[str, OfMatrix | None] = {}
    for access in touched(body):
        own = _part_of_matrix(access, batch, extents)
        known = found.setdefault(access.buffer, own)
        found[access.buffer] = _common(known, own)
    return found


def _common(first: OfMatrix | None, second: OfMatrix | None) -> OfMatrix | None:
    if first is None or second is None or first.steps != second.steps:
        return None
    return first if first.size <= second.size else second


def _part_of_matrix(
    access: Access, batch: MatrixBatch, extents: Mapping[str, int]
) -> OfMatrix | None:
    """Return what of a buffer belongs to the matrix that an access is for, by its index alone."""
    names = batch.names
    steps = tuple(access.index.coefficient(name) for name in names)
    terms = [(atom, c) for atom, c in access.index.terms if atom not in names]
    rest = index_of(*terms, const=access.index.const)
    is_plain = rest.const >= 0 and all(a in extents and c > 0 for a, c in terms)
    if any(mentions(rest, name) for name in names):
        return None
    if not any(steps):
        return OfMatrix(steps, 0)
    if min(steps) <= 0 or not is_plain:
        return None
    size = min(steps)
    dense = tuple(size * math.prod(batch.extents[n + 1 :]) for n in range(len(steps)))
    _, high = bounds(rest, dict(extents))
    if steps == dense and high + access.reach <= size:
        return OfMatrix(steps, size)
    is_apart = access.reach == 1 and _is_apart(rest, steps, batch.extents, extents)
    return OfMatrix(steps, 0) if is_apart else None


def _is_apart(
    rest: Index, steps: Sequence[int], counts: Sequence[int], extents: Mapping[str, int]
) -> bool:
    """Return whether no two matrices have an element in common, whatever the `rest` of an index is.

    As of numbers with digits: what is less than a step stays so, and else is of whole rounds of it.
    """
    reached = 0
    terms = [(c, extents[a]) for a, c in rest.terms if isinstance(a, str)]
    const = rest.const
    for step, count in sorted(zip(steps, counts, strict=True)):
        low = const % step
        reached += low + sum(c * (n - 1) for c, n in terms if c < step)
        terms = [(c, n) for c, n in terms if c >= step]
        const -= low
        is_whole = all(c % (step * count) == 0 for c, _ in terms) and const % (step * count) == 0
        if reached >= step or not is_whole:
            return False
        reached += step * (count - 1)
    return True


# ----------------------------------------------------------------------------------- the kernel


def fuse_batches(
    batch: MatrixBatch,
    bodies: Sequence[Stmt],
    params: Sequence[Param],
    own: Mapping[str, OfMatrix],
    machine: Machine,
) -> Kernel:
    """Return the kernel that does all of `bodies` for one matrix after the other.

    Of the buffers in `own`, which nothing else reads, it has what is of one matrix, where others
    are not needed any more; of scratch memory each part that threads share has some.
    """
    shared, parts = shared_loop(batch.axes, machine.threads.count)
    sizes = {p.name: p for p in params if p.mode == "scratch" or p.name in own}
    places, kept = _kept(bodies, sizes, own, machine.target.memory.line_bytes)

    def change(buffer: str, index: Index) -> tuple[str, Index]:
        if buffer not in places:
            return buffer, index
        if buffer in own:
            terms = ((a, c) for a, c in index.terms if a not in batch.names)
            index = index_of(*terms, const=index.const)
        place = places[buffer]
        return place, index_of(*index.terms, (PART, kept[place].count), const=index.const)

    around = [*batch.names, PART]
    inside, rows = transpose_once(moved(bodies, change), params, around, machine.target)
    kept |= {p.name: p for p in rows}
    inside, scratch = _in_one_scratch(inside, params)
    nest = in_parts(batch.axes, shared, parts, inside)
    left = [p for p in params if p.name not in places and p.mode != "scratch"]
    times = dict(scratch_of_parts((nest,), 1))
    counted = [*left, *(replace(p, count=p.count * times[p.name]) for p in scratch)]
    counted += [replace(p, count=p.count * parts) for p in kept.values()]
    return Kernel("fused", tuple(counted), (nest,))


def _in_one_scratch(
    body: tuple[Stmt, ...], params: Sequence[Param]
) -> tuple[tuple[Stmt, ...], list[Param]]:
    """Return statements whose products work in the same memory, one after another, and that.

    It is for products of one size, since where each part of it begins is of the size of a product.
    """
    used = {s.scratch for s in statements(body) if isinstance(s, Product)}
    of_size: dict[int, Param] = {}
    first = {p.name: of_size.setdefault(p.count, p).name for p in params if p.name in used}

    def shared(statement: Stmt) -> Stmt:
        if isinstance(statement, Product) and statement.scratch is not None:
            return replace(statement, scratch=first[statement.scratch])
        if isinstance(statement, For):
            return replace(statement, body=tuple(map(shared, statement.body)))
        return statement

    return tuple(map(shared, body)), list(of_size.values())


def _kept(
    bodies: Sequence[Stmt], params: Mapping[str, Param], own: Mapping[str, OfMatrix], line: int
) -> tuple[dict[str, str], dict[str, Param]]:
    """Return in which scratch memory each buffer is, and this memory as it is for one part.

    What a statement writes takes the place of what none reads any more.
    """
    spans: dict[str, tuple[int, int]] = {}
    for number, statement in enumerate(bodies):
        for access in touched((statement,)):
            spans[access.buffer] = spans.get(access.buffer, (number, number))[0], number
    places: dict[str, str] = {}
    kept: dict[str, Param] = {}
    ends: dict[str, int] = {}
    for name in sorted(params.keys() & spans.keys(), key=lambda n: (spans[n], n)):
        param, (first, last) = params[name], spans[name]
        unit = max(1, line // param.dtype.itemsize)
        size = own[name].size if name in own else param.count
        count = -(-size // unit) * unit
        free = [p for p in kept.values() if p.dtype == param.dtype and ends[p.name] < first]
        place = min(free, key=lambda p: abs(p.count - count), default=None)
        place = place or Param(name, param.dtype, 0, "scratch")
        kept[place.name] = replace(place, count=max(place.count, count))
        places[name], ends[place.name] = place.name, last
    return places, kept


# What a place in a buffer becomes.
_Change = Callable[[str, Index], tuple[str, Index]]


def moved(body: Sequence[Stmt], change: _Change) -> tuple[Stmt, ...]:
    """Return statements with each place in a buffer changed."""
    return tuple(_moved(statement, change) for statement in body)


def _moved(statement: Stmt, change: _Change) -> Stmt:
    match statement:
        case Let(name, Load(buffer, index) as load):
            buffer, index = change(buffer, index)
            return Let(name, replace(load, buffer=buffer, index=index))
        case Store(buffer, index):
            buffer, index = change(buffer, index)
            return replace(statement, buffer=buffer, index=index)
        case Product(lhs=lhs, rhs=rhs):
            lhs, rhs = _moved_operand(lhs, change), _moved_operand(rhs, change)
            return replace(statement, lhs=lhs, rhs=rhs, body=moved(statement.body, change))
        case For() | Fold():
            return replace(statement, body=moved(statement.body, change))
        case Let() | Check() | Prefix() | SortRows():
            return statement


def _moved_operand(operand: StridedOperand, change: _Change) -> StridedOperand:
    buffer, index = change(operand.buffer, operand.index)
    return replace(operand, buffer=buffer, index=index)
