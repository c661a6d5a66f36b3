"""Algebraic rewriting of slices of convolutions, of pads and of what is interleaved.

What a slice leaves out is not computed. So the gradient to the input of a padded convolution, which
is a slice of a convolution of a padded gradient, is one of a gradient that is padded less.
"""

from __future__ import annotations

from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.convolution import conv_general, convolution_op, slice_of_convolution
from symgrad.graph.ops.interleaving import interleave, interleave_op, starts_of
from symgrad.graph.ops.slicing import place, place_op, slice_axes, slice_op
from symgrad.graph.ops.structure import reshape
from symgrad.passes.rewrites.rules import Holds
from symgrad.passes.rewrites.structure import ints, structural


def _image(x: Tensor) -> Tensor:
    return reshape(x, (1, 4, 6, 1))


def _convolved(x: Tensor, y: Tensor, stride: int, dilation: int) -> Tensor:
    kernel = reshape(slice_axes(y, (0, 0, 0), (1, 2, 2), (1, 1, 1)), (2, 2, 1, 1))
    return conv_general(
        _image(x),
        kernel,
        strides=(stride, stride),
        dilation=(1, dilation),
        groups=1,
        layout="NHWC",
    )


@structural(
    "slice(convolution(x, y)) -> convolution(slice(x), y)",
    slice_op,
    holds=Holds.CLOSE,
    needs_sole_use=True,
    examples=(
        lambda x, y: slice_axes(_convolved(x, y, 1, 2), (0, 1, 1, 0), (1, 2, 3, 1), (1, 1, 1, 1)),
        lambda x, y: slice_axes(_convolved(x, y, 2, 1), (0, 1, 0, 0), (1, 1, 2, 1), (1, 1, 1, 1)),
    ),
)
def _slice_of_convolution(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    start = ints(node, "start")
    if inner.definition is not convolution_op or start is None or not _has_step_1(node):
        return None
    return slice_of_convolution(inner, start, node.output.shape)


def _has_step_1(node: Node) -> bool:
    return all(by == 1 for by in ints(node, "step") or (0,))


@structural(
    "slice(pad(x)) -> pad(x), if all of x is taken",
    slice_op,
    needs_sole_use=True,  # what several slices are parts of is copied once
    examples=(
        lambda x: slice_axes(
            place(x, (9, 9, 9), (1, 2, 3), (1, 2, 1)), (0, 1, 3), (4, 8, 5), (1, 1, 1)
        ),
    ),
)
def _slice_of_padding(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    if inner.definition is not place_op or not _has_step_1(node):
        return None
    low, step, start = ints(inner, "low"), ints(inner, "step"), ints(node, "start")
    if low is None or step is None or start is None:
        return None
    (x,) = inner.inputs
    moved = tuple(a - b for a, b in zip(low, start, strict=True))
    ends = [a + by * (n - 1) for a, by, n in zip(moved, step, x.type.static_shape, strict=True)]
    shape = node.output.type.static_shape
    if min(moved, default=0) < 0 or any(e >= n for e, n in zip(ends, shape, strict=True)):
        return None
    value = inner.attrs["value"]
    assert isinstance(value, int | float), "a pad has a number as its fill"
    return place(x, shape, moved, step, value)


@structural(
    "slice(interleave(x, y)) -> interleave(slice(x), slice(y))",
    slice_op,
    needs_sole_use=True,
    examples=(
        lambda x, y: slice_axes(
            interleave([x, y], (2, 3, 8), ((0, 0, 0), (0, 0, 1)), (1, 1, 2)),
            (0, 1, 1), (2, 2, 6), (1, 1, 1),
        ),
    ),
)  # fmt: skip
def _slice_of_interleaved(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    start = ints(node, "start")
    if inner.definition is not interleave_op or start is None or not _has_step_1(node):
        return None
    by = ints(inner, "step") or ()
    shape = node.output.type.static_shape
    parts: list[Tensor] = []
    starts: list[tuple[int, ...]] = []
    for part, first in zip(inner.inputs, starts_of(inner), strict=True):
        axes = list(zip(first, by, start, shape, strict=True))
        skipped = [max(0, -((f - begin) // s)) for f, s, begin, _ in axes]
        lows = [f + s * q - begin for (f, s, begin, _), q in zip(axes, skipped, strict=True)]
        sizes = [-((low - n) // s) for low, (_, s, _, n) in zip(lows, axes, strict=True)]
        parts.append(slice_axes(part, skipped, sizes, [1] * part.ndim))
        starts.append(tuple(lows))
    return interleave(parts, shape, tuple(starts), by)


WINDOWS = (_slice_of_convolution, _slice_of_padding, _slice_of_interleaved)
