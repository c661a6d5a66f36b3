"""Algebraic rewriting of concatenations: parts of a tensor that come together again.

    %1 = slice %x {size = [8, 1], start = [0, 0], step = [1, 1]} : f32[8, 1]
    %2 = slice %x {size = [8, 1], start = [0, 1], step = [1, 1]} : f32[8, 1]
    %3 = concat %1, %2 {axis = 1} : f32[8, 2]
->
    %x

The parts of complex numbers are such slices, of what an op gives and of what is in memory.
"""

from __future__ import annotations

import math

from symgrad.cost_model import LONGEST_JOINED, MOST_SCALAR_FLOPS
from symgrad.graph.bodies import flops_of_map
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.slicing import concat, concat_op, slice_axes, slice_op
from symgrad.graph.ops.structure import reshape, reshape_op
from symgrad.passes.rewrites.structure import ints, structural

_MOST_LOOKED_AT = 64  # tensors that a column is made of


@structural(
    "concat(x, y) -> x, if y has no elements",
    concat_op,
    examples=(
        lambda x: concat([x, x[:, :, :0]], axis=2),
        lambda x, y: concat([x[:, 1:1], x, y[:, :0], y], axis=1),
    ),
)
def _concat_of_nothing(node: Node) -> Tensor | None:
    axis = node.attrs["axis"]
    assert isinstance(axis, int), "concat joins one axis"
    kept = [part for part in node.inputs if part.shape[axis] != 0]
    if len(kept) == len(node.inputs) or not node.output.type.is_static:
        return None
    return concat(kept or node.inputs[:1], axis=axis)


@structural(
    "concat(slice(x), slice(x)) -> slice(x), if one lies behind the other",
    concat_op,
    operands=slice_op,
    examples=(
        lambda x: concat([x[:, :, :1], x[:, :, 1:2], x[:, :, 2:]], axis=2),
        lambda x: concat([x[:, 1:2, ::2], x[:, 2:, ::2]], axis=1),
        lambda x: concat([x[:, :, :2:-1], x[:, :, 2::-1]], axis=2),
    ),
)
def _concat_of_slices(node: Node) -> Tensor | None:
    axis = node.attrs["axis"]
    assert isinstance(axis, int), "concat joins one axis"
    first, *others = (t.node for t in node.inputs)
    start, step = ints(first, "start"), ints(first, "step")
    (x,) = first.inputs
    if start is None or step is None or not node.output.type.is_static:
        return None
    follows = [*start]
    follows[axis] += step[axis] * first.output.type.static_shape[axis]
    for part in others:
        if part.inputs[0] is not x or part.attrs["step"] != step:
            return None
        if ints(part, "start") != tuple(follows):
            return None
        follows[axis] += step[axis] * part.output.type.static_shape[axis]
    return slice_axes(x, start, node.output.shape, step)


@structural(
    "concat(reshape(x), reshape(y)) -> reshape(concat(x, y)), if both join the axes before it",
    concat_op,
    operands=reshape_op,
    examples=(
        lambda x: concat([reshape(x, (6, 4)), reshape(x + x, (6, 4))], axis=1),
        lambda x, y: concat([reshape(x, (6, 4, 1)), reshape(y, (6, 2, 2))[:, :, :1]], axis=2),
    ),
)
def _concat_of_joined_axes(node: Node) -> Tensor | None:
    axis = node.attrs["axis"]
    assert isinstance(axis, int), "concat joins one axis"
    if not node.output.type.is_static:
        return None
    before = math.prod(node.output.type.static_shape[:axis])
    lead = _lead(node.inputs[0].node.inputs[0], before)
    if lead is None or len(lead) <= axis:
        return None
    sources = [part.node.inputs[0] for part in node.inputs]
    if any(_lead(x, before) != lead for x in sources):
        return None
    parts = [
        reshape(x, (*lead, *part.shape[axis:]))
        for x, part in zip(sources, node.inputs, strict=True)
    ]
    return reshape(concat(parts, axis=len(lead)), node.output.shape)


def _lead(x: Tensor, count: int) -> tuple[int, ...] | None:
    """Return the sizes of the first axes of `x`, which have `count` elements in all."""
    sizes = x.type.static_shape
    ends = (end for end in range(x.ndim + 1) if math.prod(sizes[:end]) == count)
    end = next(ends, None)
    return None if end is None else sizes[:end]


@structural(
    "concat(concat(x, y), z) -> concat(x, y, z), if x and y are single columns beside a row",
    concat_op,
    examples=(
        lambda x: concat([concat([x[:, :, :1], x[:, :, 2:3]], axis=2), x], axis=2),
        lambda x, y: concat([concat([x[:, :, :1] * y[:, :, 1:2], y[:, :, :1]], axis=2), x], axis=2),
    ),
    needs_sole_use=True,
)
def _concat_of_columns_first(node: Node) -> Tensor | None:
    return _with_columns(node, 0)


@structural(
    "concat(x, concat(y, z)) -> concat(x, y, z), if y and z are single columns beside a row",
    concat_op,
    examples=(lambda x, y: concat([x, concat([x[:, :, 3:], y[:, :, 1:2]], axis=2)], axis=2),),
    needs_sole_use=True,
    sole=-1,
)
def _concat_of_columns_last(node: Node) -> Tensor | None:
    return _with_columns(node, len(node.inputs) - 1)


def _with_columns(node: Node, number: int) -> Tensor | None:
    """Return `node` with the columns that its operand `number` joins, None if that is no such.

    A kernel then writes whole rows (`codegen/lower/places.py`), and columns have none of their own.
    """
    inner, axis = node.inputs[number].node, node.attrs["axis"]
    if inner.definition is not concat_op or inner.attrs["axis"] != axis:
        return None
    if axis != node.output.ndim - 1 or not node.output.type.is_static:
        return None
    row, columns = node.output.type.static_shape[-1], len(inner.inputs)
    are_few = inner.output.shape[-1] == columns and 2 * columns <= row <= LONGEST_JOINED
    if not are_few or not all(map(_is_cheap, inner.inputs)):
        return None
    before, behind = node.inputs[:number], node.inputs[number + 1 :]
    return concat([*before, *inner.inputs, *behind], axis=node.output.ndim - 1)


def _is_cheap(column: Tensor) -> bool:
    """Return whether an element takes few flops by itself, from what is certainly in memory."""
    flops, found, waiting = 0, {column}, [column]
    while waiting and flops <= MOST_SCALAR_FLOPS and len(found) <= _MOST_LOOKED_AT:
        node = waiting.pop().node
        if node.definition.is_elementwise:
            flops += flops_of_map(node)
        elif not node.definition.is_view:
            continue
        waiting += [t for t in node.inputs if t not in found]
        found.update(node.inputs)
    return not waiting and flops <= MOST_SCALAR_FLOPS


JOINS = (
    _concat_of_nothing,
    _concat_of_slices,
    _concat_of_joined_axes,
    _concat_of_columns_first,
    _concat_of_columns_last,
)
