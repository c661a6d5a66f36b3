"""Algebraic rewriting of slices of convolutions, of pads and of what is interleaved.

What a slice leaves out is not computed. So the gradient to the input of a padded convolution, which
is a slice of a convolution of a padded gradient, is one of a gradient that is padded less.

Where filters, or channels of a gradient, are too few to fill vectors, positions are last instead:

    %2 = convolution %1, %w {spec = "n(2o+i)(2p+j)c,ijcf->nopf"}
->
    %2 = permute_dims %1 {axes = [0, 3, 1, 2]}
    %3 = convolution %2, %w {spec = "nc(2o+i)(2p+j),ijcf->nfop"}
    %4 = permute_dims %3 {axes = [0, 2, 3, 1]}
"""

from __future__ import annotations

import math

from symgrad.cost_model import LEAST_CHANNELS_LAST
from symgrad.graph.build import apply
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.convolution import conv_general, convolution_op, slice_of_convolution
from symgrad.graph.ops.convolution_spec import ConvolutionSpec, Window, parsed_spec
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.interleaving import interleave, interleave_op, starts_of
from symgrad.graph.ops.slicing import place, place_op, slice_axes, slice_op
from symgrad.graph.ops.structure import (
    broadcast_to,
    permute_dims,
    permute_dims_op,
    reshape,
    reshape_op,
)
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
    operands=convolution_op,
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
    if start is None or not _has_step_1(node):
        return None
    return slice_of_convolution(inner, start, node.output.shape)


@structural(
    "slice(permute(convolution(x, y))) -> permute(slice(convolution(x, y)))",
    slice_op,
    operands=permute_dims_op,
    needs_sole_use=True,
    examples=(
        lambda x, y: slice_axes(
            permute_dims(_convolved(x, y, 1, 2), (3, 1, 0, 2)), (0, 1, 0, 1), (1, 2, 1, 3),
            (1, 1, 1, 1),
        ),
    ),
)  # fmt: skip
def _slice_of_moved_convolution(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    start, step = ints(node, "start"), ints(node, "step")
    if start is None or step is None:
        return None
    (convolution,), axes = inner.inputs, ints(inner, "axes")
    if convolution.node.definition is not convolution_op or axes is None:
        return None
    back = [axes.index(a) for a in range(len(axes))]
    shape = [node.output.shape[a] for a in back]
    part = slice_axes(convolution, [start[a] for a in back], shape, [step[a] for a in back])
    return permute_dims(part, axes)


def _has_step_1(node: Node) -> bool:
    return all(by == 1 for by in ints(node, "step") or (0,))


@structural(
    "slice(pad(x)) -> pad(x), if all of x is taken",
    slice_op,
    operands=place_op,
    needs_sole_use=True,  # what several slices are parts of is copied once
    examples=(
        lambda x: slice_axes(
            place(x, (9, 9, 9), (1, 2, 3), (1, 2, 1)), (0, 1, 3), (4, 8, 5), (1, 1, 1)
        ),
    ),
)
def _slice_of_padding(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    if not _has_step_1(node):
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
    operands=interleave_op,
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
    if start is None or not _has_step_1(node):
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


@structural(
    "convolution(x, y) -> permute(convolution(permute(x), y)), positions last for few filters",
    convolution_op,
    holds=Holds.CLOSE,
    examples=(
        lambda x, y: conv_general(
            reshape(x, (1, 1, 24, 1)),
            reshape(slice_axes(y, (0, 0, 0), (2, 2, 4), (1, 1, 1)), (1, 4, 1, 4)),
            strides=(1, 1), dilation=(1, 1), groups=1, layout="NHWC",
        ),
    ),
)  # fmt: skip
def _few_filters(node: Node) -> Tensor | None:
    x, kernel = node.inputs
    text = node.attrs["spec"]
    assert isinstance(text, str), "a convolution has labels"
    spec = parsed_spec(text)
    if not _has_few_filters(node, spec):
        return None
    channels_first = sorted(spec.lhs, key=lambda axis: isinstance(axis, Window))
    positions = [w.outer for w in spec.windows]
    filters_first = "".join(sorted(spec.out, key=lambda label: label in positions))
    moved = spec._replace(lhs=tuple(channels_first), out=filters_first)
    sizes = node.attrs["sizes"]
    images = _moved(x, tuple(map(spec.lhs.index, channels_first)))
    if images is None:
        return None
    found = apply(convolution_op, images, kernel, spec=str(moved), sizes=sizes)
    return permute_dims(found, tuple(map(filters_first.index, spec.out)))


def _moved(x: Tensor, order: tuple[int, ...]) -> Tensor | None:
    """Return `x` with its axes in `order` in memory, None if that would be a copy of its own.

    A pad is in memory anyway, of which it may be a slice; an axis of one element is anywhere.
    """
    if [a for a in order if x.shape[a] != 1] == [a for a in range(x.ndim) if x.shape[a] != 1]:
        return permute_dims(x, order)
    node, shape = x.node, [x.type.static_shape[a] for a in order]
    first = {place_op: "low", slice_op: "start"}.get(node.definition)
    begins, steps = (ints(node, first), ints(node, "step")) if first else (None, None)
    if begins is None or steps is None:
        return None
    begins, steps = (tuple(of[a] for a in order) for of in (begins, steps))
    if node.definition is slice_op:
        whole = _moved(node.inputs[0], order)
        return None if whole is None else slice_axes(whole, begins, shape, steps)
    value = node.attrs["value"]
    assert isinstance(value, int | float), "a pad has a number as its fill"
    inner = permute_dims(node.inputs[0], order)
    return place(inner, tuple(shape), begins, steps, value)


def _has_few_filters(node: Node, spec: ConvolutionSpec) -> bool:
    """Return whether vectors of positions are fuller than those of filters, which are last."""
    x, kernel = node.inputs
    if not all(t.type.is_static for t in (x, kernel, node.output)):
        return False
    filters, channels = spec.out[-1], spec.lhs[-1]
    is_last = isinstance(channels, str) and channels in spec.rhs and channels not in spec.out
    is_forward = all(w.outer in spec.out and w.inner in spec.rhs for w in spec.windows)
    if not (is_last and is_forward and filters in spec.rhs):
        return False
    if set(spec.lhs_labels) & set(spec.rhs) & set(spec.out):
        return False
    *_, positions, count = node.output.type.static_shape
    reads = math.prod(kernel.type.static_shape) // max(x.type.static_shape[-1], 1)
    is_wide = positions >= LEAST_CHANNELS_LAST // 2 and reads >= LEAST_CHANNELS_LAST
    return is_wide and count < LEAST_CHANNELS_LAST


@structural(
    "reshape(pad(x)) -> where(row == column, x, y), if x becomes a diagonal",
    reshape_op,
    operands=place_op,
    needs_sole_use=True,
    examples=(
        lambda x: reshape(place(x, (2, 3, 16), (0, 0, 0), (1, 1, 5)), (2, 3, 4, 4)),
        lambda x: reshape(place(reshape(x, (6, 4)), (6, 16), (0, 0), (1, 5), 2), (6, 4, 4)),
    ),
)  # fmt: skip
def _matrix_of_diagonal(node: Node) -> Tensor | None:
    # So it is part of the kernel that uses it, where a pad is written to memory on its own.
    inner = node.inputs[0].node
    if not inner.output.ndim:
        return None
    (x,), low, step = inner.inputs, ints(inner, "low"), ints(inner, "step")
    *lead, n = x.type.static_shape
    shape = (*lead, n, n)
    if low is None or any(low) or step is None or step[-1] != n + 1 or n < 2:
        return None
    if node.output.type.static_shape != shape or inner.output.type.static_shape != (*lead, n * n):
        return None
    value = inner.attrs["value"]
    assert isinstance(value, int | float), "a pad has a number as its fill"
    is_diagonal = broadcast_to(equal(iota((n, n), 0), iota((n, n), 1)), shape)
    rows = broadcast_to(reshape(x, (*lead, n, 1)), shape)
    return where(is_diagonal, rows, filled(shape, value, x.dtype))


WINDOWS = (
    _matrix_of_diagonal,
    _few_filters,
    _slice_of_convolution,
    _slice_of_moved_convolution,
    _slice_of_padding,
    _slice_of_interleaved,
)
