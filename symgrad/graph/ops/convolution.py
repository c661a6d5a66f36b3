"""Convolution: products of sliding windows and an operand, summed over labels.

The op `convolution` is `einsum` whose left operand is read through windows: an axis of it may be
walked through by two labels at once, as in

    n(2o+i)(2p+j)c,ijcf->nopf

which is a convolution over two axes with stride 2. The array of windows (im2col) is nowhere in
memory. The gradient to the right operand is the op with roles exchanged; that to the left one is
the op on padded gradients and a flipped kernel, once for each residue of the stride. So the op is
closed under differentiation. What users call, with its ways of padding, lies above this.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import require_dtype
from symgrad.graph.ops.contraction import LABELS
from symgrad.graph.ops.convolution_spec import (
    ConvolutionAxis,
    ConvolutionSpec,
    Window,
    parsed_spec,
)
from symgrad.graph.ops.elementwise import is_number, rounded_once
from symgrad.graph.ops.interleaving import interleave
from symgrad.graph.ops.slicing import place, slice_axes
from symgrad.graph.ops.structure import Axes, accumulator_dtype, reshape
from symgrad.graph.sizes import Dim, at_least, divide
from symgrad.graph.structures import AxisMap, Contract, Windows
from symgrad.graph.types import Array, Shape, TensorType, static

# A gradient by residues is a node for each; no network has a stride of as many pixels.
_MOST_RESIDUES = 4096


def _convolve(lhs: Tensor, rhs: Tensor, spec: ConvolutionSpec, sizes: Sequence[Dim]) -> Tensor:
    """Multiply windows of `lhs` with `rhs`; `sizes` are those of the labels of windows in order."""
    # Labels are renamed by first appearance, so that equal convolutions are equal nodes.
    seen = dict.fromkeys(spec.lhs_labels + spec.rhs)
    names = str.maketrans(dict(zip(seen, LABELS, strict=False)))
    return apply(convolution_op, lhs, rhs, spec=str(spec).translate(names), sizes=tuple(sizes))


def _label_sizes(
    lhs: TensorType, rhs: TensorType, spec: ConvolutionSpec, sizes: Shape
) -> dict[str, list[Dim]]:
    """Return all that is said about the size of each label."""
    found: dict[str, list[Dim]] = {}
    given = iter(sizes)
    for axis, size in zip(spec.lhs, lhs.shape, strict=True):
        if isinstance(axis, str):
            found.setdefault(axis, []).append(size)
        else:
            found.setdefault(axis.outer, []).append(next(given))
            found.setdefault(axis.inner, []).append(next(given))
    for label, size in zip(spec.rhs, rhs.shape, strict=True):
        found.setdefault(label, []).append(size)
    return found


def _convolution_infer(lhs: TensorType, rhs: TensorType, *, spec: str, sizes: Shape) -> TensorType:
    parsed = parsed_spec(spec)
    require_dtype("convolution", "lhs", lhs, is_number)
    if lhs.dtype != rhs.dtype:
        raise DTypeError("convolution", f"dtypes differ: lhs: {lhs}, rhs: {rhs}", hint="use astype")
    if (lhs.ndim, rhs.ndim) != (len(parsed.lhs), len(parsed.rhs)):
        raise ShapeError("convolution", f"{spec!r} does not fit lhs: {lhs}, rhs: {rhs}")
    if len(sizes) != 2 * len(parsed.windows):
        raise ShapeError("convolution", f"{len(sizes)} sizes for the windows of {spec!r}")
    chosen: dict[str, Dim] = {}
    for label, said in _label_sizes(lhs, rhs, parsed, sizes).items():
        known = {n for n in said if isinstance(n, int)}
        if len(known) > 1:
            raise ShapeError(
                "convolution", f"sizes of {label!r} differ in {spec!r}: lhs: {lhs}, rhs: {rhs}"
            )
        chosen[label] = known.pop() if known else said[0]
    _check_windows(lhs, parsed, chosen)
    return TensorType(lhs.dtype, tuple(chosen[label] for label in parsed.out))


def _check_windows(lhs: TensorType, spec: ConvolutionSpec, sizes: dict[str, Dim]) -> None:
    for axis, size in zip(spec.lhs, lhs.shape, strict=True):
        if isinstance(axis, str):
            continue
        outer, inner = sizes[axis.outer], sizes[axis.inner]
        if not (isinstance(outer, int) and isinstance(inner, int) and isinstance(size, int)):
            continue
        last = axis.stride * (outer - 1) + axis.dilation * (inner - 1)
        if outer < 0 or inner < 0 or (outer and inner and last >= size):
            raise ShapeError(
                "convolution", f"{outer} windows {axis} of {inner} elements leave lhs: {lhs}"
            )


def _convolution_reference(lhs: Array, rhs: Array, *, spec: str, sizes: Shape) -> Array:
    parsed = parsed_spec(spec)
    given = iter(map(static, sizes))
    opened, number = lhs, 0
    for axis in parsed.lhs:
        if isinstance(axis, str):
            number += 1
            continue
        outer, inner = np.arange(next(given)), np.arange(next(given))
        places = axis.stride * outer[:, np.newaxis] + axis.dilation * inner
        opened = np.take(opened, places, axis=number)
        number += 2
    product = f"{parsed.lhs_labels},{parsed.rhs}->{parsed.out}"
    return rounded_once(lambda a, b: np.einsum(product, a, b, optimize=True))(opened, rhs)


def _convolution_grad(node: Node, g: Tensor, *, spec: str, sizes: Shape) -> Grads:
    lhs, rhs = node.inputs
    parsed = parsed_spec(spec)
    to_rhs = _convolve(lhs, g, ConvolutionSpec(parsed.lhs, parsed.out, parsed.rhs), sizes)
    # What has the labels of where windows are is walked through by new windows, the other is the
    # kernel of those: which is which depends on the roles this node has.
    walked, kernel = (g, parsed.out), (rhs, parsed.rhs)
    if parsed.windows[0].outer in parsed.rhs:
        walked, kernel = kernel, walked
    return _lhs_gradient(lhs.shape, parsed, walked, kernel), to_rhs


def _lhs_gradient(
    shape: Shape, spec: ConvolutionSpec, walked: tuple[Tensor, str], kernel: tuple[Tensor, str]
) -> Tensor:
    """Return the sums, over outer and inner, of walked[outer] * kernel[inner] where they meet.

    Element h of an axis gets those with h = stride * outer + dilation * inner. With the stride 1
    that is a convolution with the flipped kernel. With the dilation 1 each residue r of h modulo
    the stride is, with every stride-th element of the kernel from r on. With neither, and where
    there are too many residues to make a node of each, zeros are put between the elements that are
    walked through.
    """
    strides = [w.stride if w.dilation == 1 else 1 for w in spec.windows]
    if math.prod(strides) > _MOST_RESIDUES:
        strides = [1] * len(strides)
    residues = list(itertools.product(*map(range, strides)))
    padded = _padded(shape, spec, walked, kernel, strides)
    parts = [_phase(shape, spec, padded, kernel, strides, residue) for residue in residues]
    if len(parts) == 1:
        return parts[0]
    step = [1] * len(spec.lhs)
    starts = [[0] * len(spec.lhs) for _ in residues]
    windowed = [a for a, axis in enumerate(spec.lhs) if isinstance(axis, Window)]
    for number, axis in enumerate(windowed):
        step[axis] = strides[number]
        for start, residue in zip(starts, residues, strict=True):
            start[axis] = residue[number]
    return interleave(parts, shape, tuple(map(tuple, starts)), tuple(step))


class _Span(NamedTuple):
    """Along an axis, what the elements of a residue modulo `by` are made of."""

    by: int
    inside: Dim  # elements of the kernel
    results: Dim
    reach: Dim  # elements before the first one that is walked through


def _span(axis: Window, by: int, size: Dim, taps: Dim, residue: int) -> _Span:
    inside = divide(taps - residue + (by - 1), by)
    results = divide(size - residue + (by - 1), by)
    return _Span(by, inside, results, at_least(axis.dilation * (inside - 1), 0))


def _padded(
    shape: Shape,
    spec: ConvolutionSpec,
    walked: tuple[Tensor, str],
    kernel: tuple[Tensor, str],
    strides: Sequence[int],
) -> tuple[Tensor, str]:
    """Return what is walked through with the zeros that the first residues need, the most of all.

    Those of the others are parts of it, so there is one copy for all.
    """
    (x, x_labels), (taps, tap_labels) = walked, kernel
    low: list[Dim] = [0] * x.ndim
    total, step = list(x.shape), [1] * x.ndim
    moduli = iter(strides)
    for axis, size in zip(spec.lhs, shape, strict=True):
        if isinstance(axis, str):
            continue
        along = x_labels.index(axis.outer)
        span = _span(axis, next(moduli), size, taps.shape[tap_labels.index(axis.inner)], 0)
        low[along] = span.reach
        step[along] = 1 if span.by > 1 else axis.stride
        needed = span.reach + step[along] * (x.shape[along] - 1) + 1
        total[along] = at_least(span.results + span.reach, at_least(needed, 0))
    return place(x, tuple(total), tuple(low), tuple(step)), x_labels


def _phase(
    shape: Shape,
    spec: ConvolutionSpec,
    padded: tuple[Tensor, str],
    kernel: tuple[Tensor, str],
    strides: Sequence[int],
    residue: tuple[int, ...],
) -> Tensor:
    """Return the elements of the gradient that have these residues along the windows' axes."""
    (x, x_labels), (taps, tap_labels) = padded, kernel
    first: list[Dim] = [0] * x.ndim
    walked = list(x.shape)
    start: list[Dim] = [0] * taps.ndim
    count = list(taps.shape)
    back = [1] * taps.ndim
    sizes: dict[str, tuple[Dim, Dim]] = {}
    windows: dict[str, Window] = {}
    numbers = iter(zip(strides, residue, strict=True))
    for axis, size in zip(spec.lhs, shape, strict=True):
        if isinstance(axis, str):
            continue
        along, across = x_labels.index(axis.outer), tap_labels.index(axis.inner)
        by, number = next(numbers)
        most = _span(axis, by, size, taps.shape[across], 0)
        span = _span(axis, by, size, taps.shape[across], number)
        if span.by > 1:
            first[along], walked[along] = most.reach - span.reach, span.results + span.reach
        start[across], count[across] = number + span.by * (span.inside - 1), span.inside
        back[across] = -span.by
        windows[axis.outer] = Window(axis.outer, 1, axis.inner, axis.dilation)
        sizes[axis.outer] = span.results, span.inside
    part = slice_axes(x, first, walked, [1] * x.ndim)
    flipped = slice_axes(taps, start, count, back)
    order = [axis if isinstance(axis, str) else axis.outer for axis in spec.lhs]
    lhs = tuple(windows.get(label, label) for label in x_labels)
    ordered = [n for label in x_labels if label in windows for n in sizes[label]]
    return _convolve(part, flipped, ConvolutionSpec(lhs, tap_labels, "".join(order)), ordered)


def slice_of_convolution(node: Node, start: Axes, size: Shape) -> Tensor | None:
    """Return a part of a convolution as one of a part of its left operand.

    `start` and `size` say which, along the axes of the result; None if it is cut along others than
    those of where windows are. Sizes are known.
    """
    lhs, rhs = node.inputs
    parsed = parsed_spec(str(node.attrs["spec"]))
    given: Any = node.attrs["sizes"]
    sizes: list[Dim] = []
    cut, taken = [0] * lhs.ndim, list(lhs.shape)
    moved = {
        label for label, n, m in zip(parsed.out, size, node.output.shape, strict=True) if n != m
    }
    for axis, walked in enumerate(parsed.lhs):
        if isinstance(walked, str):
            continue
        outer, inner = given[len(sizes) : len(sizes) + 2]
        if walked.outer in moved:
            at = parsed.out.index(walked.outer)
            outer, cut[axis] = static(size[at]), walked.stride * start[at]
            reach = walked.dilation * (static(inner) - 1)
            taken[axis] = max(walked.stride * (outer - 1) + reach + 1, 0)
            moved.remove(walked.outer)
        sizes += [outer, inner]
    if moved or not all(sizes):
        return None
    return _convolve(slice_axes(lhs, cut, taken, [1] * lhs.ndim), rhs, parsed, sizes)


def _convolution_kernel(lhs: TensorType, _rhs: TensorType, *, spec: str, sizes: Shape) -> Contract:
    parsed = parsed_spec(spec)
    shape: list[int] = []
    index: list[AxisMap] = []
    given = iter(map(static, sizes))
    for axis, size in zip(parsed.lhs, lhs.static_shape, strict=True):
        at = len(shape)
        if isinstance(axis, str):
            index.append(AxisMap.axis(at))
            shape.append(size)
        else:
            index.append(AxisMap(0, ((at, axis.stride), (at + 1, axis.dilation))))
            shape += [next(given), next(given)]
    windows = Windows(tuple(shape), tuple(index))
    accumulate = accumulator_dtype(lhs.dtype)
    return Contract(parsed.lhs_labels, parsed.rhs, parsed.out, accumulate, windows)


def _convolution_batch(operands: Operands, *, spec: str, sizes: Shape) -> Tensor:
    """Give the axis a label of its own, in the operands that have it."""
    parsed = parsed_spec(spec)
    new = next(label for label in LABELS if label not in spec)
    of_lhs, of_rhs = (entry.is_batched for entry in operands.entries)
    lhs = (new, *parsed.lhs) if of_lhs else parsed.lhs
    rhs = new + parsed.rhs if of_rhs else parsed.rhs
    first, second = operands.tensors
    return _convolve(first, second, ConvolutionSpec(lhs, rhs, new + parsed.out), sizes)


convolution_op = define(
    "convolution",
    infer=_convolution_infer,
    reference=_convolution_reference,
    grad=_convolution_grad,
    kernel=_convolution_kernel,
    batch=_convolution_batch,
    of_pairs="rule",
)

# ----------------------------------------------------------------------------------- convolution

ChannelLayout = Literal["NHWC", "NCHW"]
_OUTER, _INNER = "opqrstuv", "ijklmabd"


def conv_general(
    x: Tensor,
    kernel: Tensor,
    *,
    strides: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    layout: ChannelLayout,
) -> Tensor:
    """Cross-correlate `x`, padded already, with `kernel`, over any number of axes.

    With the layout "NHWC" `x` is (n, *spatial, c) and `kernel` (*window, c // groups, f), and the
    result is (n, *out, f); with "NCHW" they are (n, c, *spatial), (f, c // groups, *window) and
    (n, f, *out). `out` is (spatial - dilation * (window - 1) - 1) // stride + 1 along each axis.
    """
    rank = len(strides)
    last = layout == "NHWC"
    spatial = x.shape[1:-1] if last else x.shape[2:]
    window = kernel.shape[:rank] if last else kernel.shape[2:]
    sizes: list[Dim] = []
    axes: list[ConvolutionAxis] = []
    for number in range(rank):
        stride, apart = strides[number], dilation[number]
        reach = apart * (window[number] - 1) + 1
        sizes += [divide(spatial[number] - reach, stride) + 1, window[number]]
        axes.append(Window(_OUTER[number], stride, _INNER[number], apart))
    channels, given = x.shape[-1 if last else 1], kernel.shape[rank if last else 1]
    found, inside = kernel.shape[-1 if last else 0], _INNER[:rank]
    outside = _OUTER[:rank]
    # Of groups of one channel, and of one group, one of the two labels goes.
    of_x = {"g": groups, "c": given} if groups > 1 else {"c": channels}
    of_kernel = {"g": groups, "f": divide(found, groups)} if groups > 1 else {"f": found}
    if groups > 1 and given == 1:
        of_x.pop("c")
    if groups > 1 and of_kernel["f"] == 1:
        of_kernel.pop("f")
    across, made, taken = "".join(of_x), "".join(of_kernel), "c" if "c" in of_x else ""
    in_sizes, of_sizes = tuple(of_x.values()), tuple(of_kernel.values())
    n, taps = x.shape[0], (given,) if taken else ()
    if last:
        x = _reshaped(x, (n, *spatial, *in_sizes))
        kernel = _reshaped(kernel, (*window, *taps, *of_sizes))
        spec = ConvolutionSpec(("n", *axes, *across), inside + taken + made, "n" + outside + made)
        result = _convolve(x, kernel, spec, sizes)
        return _reshaped(result, (n, *result.shape[1 : rank + 1], found))
    x = _reshaped(x, (n, *in_sizes, *spatial))
    kernel = _reshaped(kernel, (*of_sizes, *taps, *window))
    spec = ConvolutionSpec(("n", *across, *axes), made + taken + inside, "n" + made + outside)
    result = _convolve(x, kernel, spec, sizes)
    return _reshaped(result, (n, found, *result.shape[-rank:]))


def _reshaped(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else reshape(x, shape)
