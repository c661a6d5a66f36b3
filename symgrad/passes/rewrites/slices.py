"""Peephole rules about slices: of another slice, and of what pads and concats put together.

Each is a row as in `rewrites/structure.py`, and holds bit for bit.
"""

from __future__ import annotations

from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.slicing import concat, concat_op, flip, place, place_op, slice_axes, slice_op
from symgrad.graph.types import static
from symgrad.passes.rewrites.structure import ints, structural


@structural(
    "slice(slice(x)) -> slice(x)",
    slice_op,
    operands=slice_op,
    examples=(
        lambda x: flip(slice_axes(x, (0, 1, 0), (2, 2, 2), (1, 1, 2))),
        lambda x: flip(flip(x, (0, 2)), (0, 2)),
    ),
)
def _slice_of_slice(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    attributes = (
        ints(inner, "start"),
        ints(inner, "step"),
        ints(node, "start"),
        ints(node, "step"),
    )
    if None in attributes:
        return None
    first, stride, start, step = (a or () for a in attributes)
    starts = [f + d * s for f, d, s in zip(first, stride, start, strict=True)]
    steps = [d * e for d, e in zip(stride, step, strict=True)]
    return slice_axes(inner.inputs[0], starts, node.output.shape, steps)


@structural(
    "slice(pad(x)) -> x, if what is taken is what was put there",
    slice_op,
    operands=place_op,
    examples=(
        lambda x: slice_axes(
            place(x, (9, 9, 9), (1, 2, 3), (1, 2, 1)), (1, 2, 3), x.shape, (1, 2, 1)
        ),
    ),
)
def _slice_of_pad(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    if inner.inputs[0].type != node.output.type:
        return None
    same_place = inner.attrs["low"] == node.attrs["start"]
    same_steps = inner.attrs["step"] == node.attrs["step"]
    return inner.inputs[0] if same_place and same_steps else None


@structural(
    "slice(concat(x, y)) -> slice(x), if it lies within x",
    slice_op,
    operands=concat_op,
    examples=(
        lambda x, y: slice_axes(concat([x, y], axis=1), (0, 4, 0), (2, 2, 4), (1, 1, 1)),
        lambda x, y: slice_axes(concat([x, y], axis=0), (0, 0, 0), (2, 3, 4), (1, 1, 1)),
        lambda x, y: slice_axes(concat([x, y], axis=2), (0, 0, 7), (2, 3, 2), (1, 1, -2)),
    ),
)
def _slice_of_concat(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    starts, steps = ints(node, "start"), ints(node, "step")
    if starts is None or steps is None or not node.output.type.is_static:
        return None
    axis = inner.attrs["axis"]
    assert isinstance(axis, int), "concat joins one axis"
    first = starts[axis]
    last = first + steps[axis] * (static(node.output.shape[axis]) - 1)
    offset = 0
    for part in inner.inputs:
        size = part.shape[axis]
        if not isinstance(size, int):
            return None
        if offset <= min(first, last) and max(first, last) < offset + size:
            within = [s - offset if a == axis else s for a, s in enumerate(starts)]
            return slice_axes(part, within, node.output.shape, steps)
        offset += size
    return None


SLICES = (_slice_of_slice, _slice_of_pad, _slice_of_concat)
