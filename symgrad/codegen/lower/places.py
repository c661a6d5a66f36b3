"""Lowering of a Place: loops that fill the result, and loops that write each operand into it.

Where elements meet they are added, as the adjoint of a view of windows does it:

    for i in 0..9 { y[i] = 0.0 }
    for o in 0..4 ordered { for w in 0..3 ordered { y[2*o + w] += x[3*o + w] } }

What lies side by side in the result is free to be a vector, see `_passes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from symgrad.codegen.loops.access import body_flops
from symgrad.codegen.loops.index_arithmetic import scaled_sum
from symgrad.codegen.loops.language import Atom, For, Index, Let, Load, Ref, Stmt, Store, has_check
from symgrad.codegen.loops.rewrite import mentions, statements
from symgrad.codegen.lower.borders import around
from symgrad.codegen.lower.scope import Names, Scope
from symgrad.codegen.lower.values import GroupValues
from symgrad.cost_model import (
    LEAST_ROWS,
    LONGEST_JOINED,
    LONGEST_STACKED,
    MAX_STREAMS,
    MOST_SCALAR_FLOPS,
    MOST_WRITTEN_OUT,
)
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import AxisMap, Number, Place
from symgrad.records import dataclass

Write = Callable[[Scope, tuple[Index, ...]], None]


class LoopNest(Protocol):
    """Makes loops over a shape around what is written, in a scope of its own or within another."""

    def __call__(
        self, shape: Sequence[int], write: Write, *, outer: Scope | None = None
    ) -> tuple[Stmt, ...]: ...


_WRITTEN_OUT = 16  # places in a window, each of which has loops of its own


def lower_place(
    values: GroupValues, names: Names, nest: LoopNest, anchor: Node, spec: Place
) -> tuple[Stmt, ...]:
    """Return the loops of a Place; `nest` makes loops over a shape around what is written."""
    is_whole = not any(map(values.is_placed, anchor.inputs))
    rows = _lower_by_rows(values, nest, anchor, spec) if is_whole else None
    if rows is not None:
        return rows
    body: list[Stmt] = []
    output = anchor.output
    if spec.fill is not None:
        for start, sizes in around(spec, anchor, is_placed=not is_whole):
            body += _fill(values, nest, output, spec.fill, start, sizes)
    for operand, maps in zip(anchor.inputs, spec.operands, strict=True):
        if values.is_placed(operand):
            continue
        if spec.adds:
            body += _lower_sum(values, names, output, operand, maps)
            continue

        def write(
            scope: Scope,
            index: tuple[Index, ...],
            operand: Tensor = operand,
            maps: tuple[AxisMap, ...] = maps,
        ) -> None:
            value = values.value(scope, operand, index)
            values.store(scope, output, values.mapped(maps, index), value)

        body += nest(operand.type.static_shape, write)
    return tuple(body)


def _lower_by_rows(
    values: GroupValues, nest: LoopNest, anchor: Node, spec: Place
) -> tuple[Stmt, ...] | None:
    """Return loops that write all operands together, None where each has loops of its own."""
    if _has_joined_rows(anchor, spec, LONGEST_STACKED):
        rows = _lower_short_rows(values, nest, anchor, spec)
        # What lies side by side where an index that is data says is loaded at once along the row.
        are_columns = all(t.type.static_shape[-1] == 1 for t in anchor.inputs)
        is_even = are_columns or not has_check(rows)
        if is_even and len(list(statements(rows))) <= MOST_WRITTEN_OUT:
            return rows
    if _has_joined_rows(anchor, spec, LONGEST_JOINED):
        joined = _lower_joined_rows(values, nest, anchor, spec)
        if joined is not None:
            return joined
    return _lower_equal_pieces(values, nest, anchor, spec)


def _has_joined_rows(anchor: Node, spec: Place, longest: int) -> bool:
    """Return whether pieces of short rows are put beside each other, as stacked coordinates are."""
    *outside, row = anchor.output.type.static_shape or (0,)
    axes = range(len(outside))
    return (
        not spec.adds
        and spec.fill is None
        and 2 <= row <= longest
        and math.prod(outside) >= LEAST_ROWS
        and all(
            m.terms == ((axis, 1),) and not m.offset
            for maps in spec.operands
            for axis, m in zip(axes, maps, strict=False)
        )
        and all(t.ndim == anchor.output.ndim for t in anchor.inputs)
        and all(maps[-1].terms in (((len(outside), 1),), ()) for maps in spec.operands)
    )


def _lower_short_rows(
    values: GroupValues, nest: LoopNest, anchor: Node, spec: Place
) -> tuple[Stmt, ...]:
    """Return loops over rows in which each element is written out: what they share is once there.

    for i in 0..4096 { y[2*i] = cos(x[i]) }  for i in 0..4096 { y[2*i + 1] = sin(x[i]) }
        ->  for i in 0..4096 { y[2*i] = cos(x[i])  y[2*i + 1] = sin(x[i]) }
    """
    *outside, _ = anchor.output.type.static_shape

    def write(scope: Scope, index: tuple[Index, ...]) -> None:
        found: list[tuple[tuple[Index, ...], Atom]] = []
        for operand, maps in zip(anchor.inputs, spec.operands, strict=True):
            for number in range(operand.type.static_shape[-1]):
                element = (*index, Index(number))
                place = values.mapped(maps, element)
                found.append((place, values.value(scope, operand, element)))
        for place, value in found:
            values.store(scope, anchor.output, place, value)

    return nest(outside, write)


def _lower_joined_rows(
    values: GroupValues, nest: LoopNest, anchor: Node, spec: Place
) -> tuple[Stmt, ...] | None:
    """Return loops over rows in which each operand has a loop: a line of the result is met once.

    for i in 0..900 { y[28*i] = c[i] }
    for i in 0..900 { for j in 0..27 { y[28*i + j + 1] = b[27*i + j] } }
        ->  for i in 0..900 { y[28*i] = c[i]  for j in 0..27 { ... } }

    None where vectors would not lie along the rows: single columns are computed one by one.
    """
    *outside, row = anchor.output.type.static_shape
    pieces: list[Stmt] = []
    columns: list[Stmt] = []

    def write(scope: Scope, index: tuple[Index, ...]) -> None:
        # What single columns are made of comes first, and loops share it.
        for operand, maps in sorted(
            zip(anchor.inputs, spec.operands, strict=True),
            key=lambda pair: pair[0].type.static_shape[-1] > 1,
        ):
            width = operand.type.static_shape[-1]

            def write_element(
                inner: Scope,
                within: tuple[Index, ...],
                operand: Tensor = operand,
                maps: tuple[AxisMap, ...] = maps,
            ) -> None:
                element = (*index, *within)
                value = values.value(inner, operand, element)
                values.store(inner, anchor.output, values.mapped(maps, element), value)

            if width == 1:
                write_element(scope, (Index(),))
                columns[:] = scope.statements
                continue
            piece = nest((width,), write_element, outer=scope)
            pieces.extend(piece)
            scope.statements.extend(piece)

    rows = nest(outside, write)
    singles = sum(t.type.static_shape[-1] == 1 for t in anchor.inputs)
    are_few = 2 * singles <= row and body_flops(columns) <= singles * MOST_SCALAR_FLOPS
    return rows if are_few and all(map(_goes_along, pieces)) else None


def _lower_equal_pieces(
    values: GroupValues, nest: LoopNest, anchor: Node, spec: Place
) -> tuple[Stmt, ...] | None:
    """Return loops that write an element of each operand: what they share is read once.

    for i in 0..32 { for j in 0..256 { y[512*i + j] = a[256*i + j] * g[256*i + j] } }
    for i in 0..32 { for j in 0..256 { y[512*i + j + 256] = b[256*i + j] * g[256*i + j] } }
        ->  for i in 0..32 { for j in 0..256 { y[...] = a[...] * t  y[... + 256] = b[...] * t } }

    None where operands differ in shape, share nothing, or where vectors would not lie along rows.
    """
    shapes = {operand.type.static_shape for operand in anchor.inputs}
    if spec.adds or spec.fill is not None or len(shapes) > 1 or not _read_the_same(values, anchor):
        return None
    alone: list[int] = []
    bodies: list[Scope] = []

    def write_alone(scope: Scope, index: tuple[Index, ...], operand: Tensor) -> None:
        values.value(scope, operand, index)
        alone.append(_loads(scope))

    def write(scope: Scope, index: tuple[Index, ...]) -> None:
        for operand, maps in zip(anchor.inputs, spec.operands, strict=True):
            place = values.mapped(maps, index)
            values.store(scope, anchor.output, place, values.value(scope, operand, index))
        bodies.append(scope)

    (shape,) = shapes
    for operand in dict.fromkeys(anchor.inputs):
        nest(shape, partial(write_alone, operand=operand))
    pieces = nest(shape, write)
    (body,) = bodies
    streams = _loads(body) + len(anchor.inputs)
    shares = _loads(body) < sum(alone) and streams <= MAX_STREAMS
    has_vectors = not has_check(pieces) and _goes_along(_innermost(pieces))
    return pieces if shares and has_vectors else None


def _read_the_same(values: GroupValues, anchor: Node) -> bool:
    """Return whether several operands are made of one tensor in memory."""
    read = [_sources(values, operand) for operand in dict.fromkeys(anchor.inputs)]
    return len(set[Tensor]().union(*read)) < sum(map(len, read))


def _sources(values: GroupValues, tensor: Tensor) -> set[Tensor]:
    """Return the tensors in memory that one is computed of."""
    found, waiting = {tensor}, [tensor]
    while waiting:
        last = waiting.pop()
        if not values.is_in_memory(last):
            new = {t for t in last.node.inputs if t not in found}
            found |= new
            waiting += new
    return {t for t in found if values.is_in_memory(t)}


def _innermost(nest: tuple[Stmt, ...]) -> Stmt:
    loop = nest[0]
    while isinstance(loop, For) and isinstance(loop.body[0], For):
        loop = loop.body[0]
    return loop


def _loads(scope: Scope) -> int:
    return sum(isinstance(s, Let) and isinstance(s.value, Load) for s in scope.statements)


def _goes_along(piece: Stmt) -> bool:
    """Return whether a loop over some elements of a row reads such as lie side by side."""
    if not isinstance(piece, For) or piece.extent < 2:
        return False
    values = (s.value for s in statements((piece,)) if isinstance(s, Let))
    places = [value.index for value in values if isinstance(value, Load)]
    steps = [(place.coefficient(piece.var), place) for place in places]
    return all(
        step in (0, 1) and not mentions(scaled_sum([(place, 1), (_along(piece), -step)]), piece.var)
        for step, place in steps
    )


def _along(loop: For) -> Index:
    return Index(0, ((loop.var, 1),))


def _fill(
    values: GroupValues,
    nest: LoopNest,
    output: Tensor,
    value: Number,
    start: Sequence[int],
    sizes: Sequence[int],
) -> tuple[Stmt, ...]:
    """Return loops that write a value to a block of the result."""

    def write(scope: Scope, index: tuple[Index, ...]) -> None:
        place = [scaled_sum([(i, 1)], low) for i, low in zip(index, start, strict=True)]
        values.store(scope, output, place, scope.const(value, output.dtype))

    return nest(sizes, write)


def load_anew(scope: Scope, name: str, offset: Index, dtype: DType) -> Ref:
    """Load what other iterations may have written: `scope.load` would give what it was."""
    old = Ref(scope.names.value(), dtype)
    scope.statements.append(Let(old.name, Load(name, offset, dtype)))
    return old


@dataclass(frozen=True, slots=True)
class _Pass:
    """Loops over an operand, outermost first, with some of its axes `fixed` at an index."""

    order: tuple[int, ...]
    ordered: frozenset[int]
    fixed: tuple[tuple[int, int], ...]


def _passes(maps: Sequence[AxisMap], shape: Sequence[int]) -> list[_Pass]:
    """Return the passes over an operand of `shape` whose elements are added up.

    Those that meet differ in axes that count windows and in axes within windows, which are the last
    ones: loops over these are ordered, and keep to the order of the sum. The axis before those
    within windows goes innermost: channels, which do not meet, or an axis that counts windows.
    Elements at one place within a window do not meet along that either, so each place has a pass
    of its own in which it is free.
    """
    inner = {m.terms[1][0]: m.terms[0][0] for m in maps if len(m.terms) == 2}
    last = min(inner) - 1
    order = (*range(last), *sorted(inner), last)
    ordered = frozenset({*inner, *inner.values()})
    beside = next((axis for axis, counts in inner.items() if counts == last), None)
    if beside is None or shape[beside] > _WRITTEN_OUT:
        return [_Pass(order, ordered, ())]
    rest = tuple(axis for axis in order if axis != beside)
    free = ordered - {last, beside}
    return [_Pass(rest, free, ((beside, place),)) for place in range(shape[beside])]


def _lower_sum(
    values: GroupValues, names: Names, output: Tensor, operand: Tensor, maps: Sequence[AxisMap]
) -> list[Stmt]:
    """Return the passes over an operand that add it to the result."""
    shape = operand.type.static_shape
    passes = _passes(maps, shape)
    return [_lower_pass(values, names, output, operand, maps, one) for one in passes]


def _lower_pass(
    values: GroupValues,
    names: Names,
    output: Tensor,
    operand: Tensor,
    maps: Sequence[AxisMap],
    one: _Pass,
) -> Stmt:
    shape = operand.type.static_shape
    loops = {axis: values.loop(shape[axis]) for axis in one.order}
    fixed = dict(one.fixed)
    index = tuple(
        Index(fixed.get(axis, 0))
        if axis in fixed or shape[axis] == 1
        else Index(0, ((loops[axis], 1),))
        for axis in range(len(shape))
    )
    scope = Scope(names)
    value = values.value(scope, operand, index)
    offset = values.linear(values.mapped(maps, index), output.type.static_shape)
    for name in values.destinations(output):
        old = load_anew(scope, name, offset, output.dtype)
        scope.statements.append(Store(name, offset, scope.call("add", old, value)))
    body = tuple(scope.statements)
    for axis in reversed(one.order):
        body = (For(loops[axis], shape[axis], body, ordered=axis in one.ordered),)
    return body[0]
