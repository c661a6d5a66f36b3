"""Random networks on images and sequences: convolutions, pools, norms, attention, cells, losses.

`networks.random_network` has the layers that are products and sums of rows. Here operands have axes
of space, windows lie over one another with strides, gaps, padding and groups, some of them so short
that a tile of a product goes over many, and the layers stand alone, in one another's results, and
in functions, branches and loops, seen through views. Weights are inputs, so that each gets a
gradient, of second order in some.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from tests.support.drawing import Drawing, Layer, Tensor, sizes_of, within

_MAX_ELEMENTS = 3000  # of what a layer is given
_MAX_WORK = 300_000  # multiplications of a layer
_LABELLED = (2, 5)  # of eight seeds: programs that end in losses of labels

Padding = str | list[tuple[int, int]]
Layout = Literal["NHWC", "NCHW"]


# ---------------------------------------------------------------------------------- windows


class _Windows:
    """Random windows over the axes of space of an image."""

    def __init__(self, net: Drawing, x: Tensor, layout: Layout) -> None:
        shape = sizes_of(x)
        self.space = shape[1:-1] if layout == "NHWC" else shape[2:]
        self.dilation = [net.integer(1, 2) if net.chance(3) else 1 for _ in self.space]
        self.strides = [net.integer(1, 3) if net.chance() else 1 for _ in self.space]
        self.window = [
            net.integer(1, max(1, min(4, (n - 1) // d + 1)))
            for n, d in zip(self.space, self.dilation, strict=True)
        ]
        self.padding = self._padding(net)

    def _padding(self, net: Drawing) -> Padding:
        kind = net.integer(0, 2)
        if kind < 2:
            return ("VALID", "SAME")[kind]
        # Narrower than a window reaches: no window is padding only.
        reach = [(w - 1) * d for w, d in zip(self.window, self.dilation, strict=True)]
        return [(net.integer(0, r // 2), net.integer(0, r // 2)) for r in reach]


def _convolution(net: Drawing, x: Tensor) -> Tensor:
    x, layout = _in_a_layout(net, x)
    windows = _Windows(net, x, layout)
    channels = sizes_of(x)[-1 if layout == "NHWC" else 1]
    groups = _divisor(net, channels) if net.chance(3) else channels if net.chance(4) else 1
    area = math.prod(windows.window)
    most = max(1, _MAX_WORK // (math.prod(sizes_of(x)) * area))
    filters = groups * max(1, net.size(min(40, most)) // groups)
    taken = (channels // groups, filters)
    shape = (*windows.window, *taken) if layout == "NHWC" else (*taken[::-1], *windows.window)
    bias = net.input(filters) if net.chance(3) else None
    y = sg.nn.conv(
        x, net.weight(area * taken[0], *shape), bias, strides=windows.strides,
        padding=windows.padding, dilation=windows.dilation, groups=groups, layout=layout,
    )  # fmt: skip
    return _in_order(y, layout)


def _transposed(net: Drawing, x: Tensor) -> Tensor:
    x, layout = _in_a_layout(net, x)
    windows = _Windows(net, x, layout)
    channels = sizes_of(x)[-1 if layout == "NHWC" else 1]
    groups = _divisor(net, channels) if net.chance(3) else 1
    given = (net.integer(1, 4), channels)
    shape = (*windows.window, *given) if layout == "NHWC" else (*given[::-1], *windows.window)
    y = sg.nn.conv_transpose(
        x, net.weight(channels, *shape), strides=windows.strides,
        padding="SAME" if net.chance() else "VALID",
        dilation=windows.dilation, groups=groups, layout=layout,
    )  # fmt: skip
    return _in_order(y, layout)


def _pool(net: Drawing, x: Tensor) -> Tensor:
    x, layout = _in_a_layout(net, x)
    windows = _Windows(net, x, layout)
    given: dict[str, Any] = {"strides": windows.strides, "dilation": windows.dilation}
    given |= {"padding": windows.padding, "layout": layout}
    if net.chance():
        y = sg.nn.max_pool(x, windows.window, **given)
    else:
        y = sg.nn.avg_pool(x, windows.window, count_padding=net.chance(), **given)
    return _in_order(y, layout)


def _adaptive(net: Drawing, x: Tensor) -> Tensor:
    function = sg.nn.adaptive_max_pool if net.chance() else sg.nn.adaptive_avg_pool
    return function(x, [net.integer(1, n) for n in sizes_of(x)[1:-1]])


def _unfolded(net: Drawing, x: Tensor) -> Tensor:
    windows = _Windows(net, x, "NHWC")
    given: dict[str, Any] = {"strides": windows.strides, "dilation": windows.dilation}
    columns = sg.nn.unfold(x, windows.window, padding=windows.padding, **given)
    if windows.padding == "VALID" and net.chance():
        return sg.nn.fold(sg.tanh(columns), windows.space, windows.window, **given)
    return columns


def _in_a_layout(net: Drawing, x: Tensor) -> tuple[Tensor, Layout]:
    """Return an image with channels last or first: by a view, or by reading it as another."""
    if net.chance():
        return x, "NHWC"
    if net.chance():
        return sg.moveaxis(x, -1, 1), "NCHW"
    n, *space, channels = sizes_of(x)
    return sg.reshape(x, (n, channels, *space)), "NCHW"


def _in_order(y: Tensor, layout: Layout) -> Tensor:
    return y if layout == "NHWC" else sg.moveaxis(y, 1, -1)


def _divisor(net: Drawing, number: int) -> int:
    fitting = [n for n in range(1, number + 1) if number % n == 0]
    return fitting[net.integer(0, len(fitting) - 1)]


# ---------------------------------------------------------------------------- other layers


def _norm(net: Drawing, x: Tensor) -> Tensor:
    channels = sizes_of(x)[-1]
    factor = net.input(channels) if net.chance() else None
    kind = net.integer(0, 3)
    if kind == 0:
        return sg.nn.layer_norm(x, factor, epsilon=0.1)
    if kind == 1:
        return sg.nn.rms_norm(x, factor, epsilon=0.1)
    if kind == 2 or math.prod(sizes_of(x)) == channels:  # one element a channel has no deviation
        return sg.nn.group_norm(x, _divisor(net, channels), factor, epsilon=0.1)
    return sg.nn.batch_norm(x, factor, None, training=True, epsilon=0.1)[0]


def _activation(net: Drawing, x: Tensor) -> Tensor:
    functions = (sg.tanh, sg.nn.gelu, sg.nn.silu, sg.nn.mish, sg.nn.softplus, sg.nn.softmax)
    return functions[net.integer(0, len(functions) - 1)](x)


def _dense(net: Drawing, x: Tensor) -> Tensor:
    channels = sizes_of(x)[-1]
    return sg.matmul(x, net.weight(channels, channels, net.size(24)))


def _residual(net: Drawing, x: Tensor) -> Tensor:
    channels = sizes_of(x)[-1]
    window = [net.integer(1, 3) for _ in sizes_of(x)[1:-1]]
    kernel = net.weight(math.prod(window) * channels, *window, 1, channels)
    return x + sg.nn.conv(sg.nn.silu(x), kernel, padding="SAME", groups=channels)


def _attention(net: Drawing, x: Tensor) -> Tensor:
    rows = _rows(x)
    key = sg.flip(rows, axis=1) if net.chance() else rows * 0.5
    y = sg.nn.scaled_dot_product_attention(rows, key, rows, causal=net.chance())
    return sg.reshape(y, x.shape)


def _cell(net: Drawing, x: Tensor) -> Tensor:
    rows = sg.permute_dims(_rows(x)[:, :6], (1, 0, 2))
    _, batch, channels = sizes_of(rows)
    hidden, is_gru = net.size(12), net.chance()
    width = hidden * (3 if is_gru else 4)
    w, u = net.weight(channels, channels, width), net.weight(hidden, hidden, width)
    h = sg.zeros((batch, hidden), net.dtype)
    weights = (w, u, net.input(width), net.input(width))
    y = sg.nn.gru(rows, h, weights)[0] if is_gru else sg.nn.lstm(rows, (h, h), weights)[0]
    return sg.permute_dims(y, (1, 0, 2))


def _labelled(net: Drawing, x: Tensor) -> Tensor:
    """Return an image and the loss of each pixel, whose channels are scores of a random label."""
    *pixels, channels = sizes_of(x)
    labels = sg.constant(net.rng.integers(0, channels, pixels))
    loss = sg.nn.cross_entropy(
        x, labels,
        label_smoothing=0.1 if net.chance(3) else 0.0,
        ignore_index=0 if net.chance(3) else None,
        reduction="none",
    )  # fmt: skip
    return x + sg.expand_dims(loss, axis=-1)


def _rows(x: Tensor) -> Tensor:
    """Return the image as a batch of sequences, of at most 24 rows."""
    n, *_, channels = sizes_of(x)
    return sg.reshape(x, (n, -1, channels)) if math.prod(sizes_of(x)[1:-1]) else x


def _view(net: Drawing, x: Tensor) -> Tensor:
    kind = net.integer(0, 3)
    axis = net.integer(0, x.ndim - 1)
    if kind == 0:
        return sg.flip(x, axis=axis)
    if kind == 1:
        return x[:, :: net.integer(1, 2)]
    if kind == 2 and x.ndim > 3:
        return sg.permute_dims(x, (0, *range(2, x.ndim - 1), 1, x.ndim - 1))
    return sg.concat([x, sg.flip(x, axis=1)], axis=-1)


_LAYERS: tuple[Layer, ...] = (
    _convolution, _convolution, _convolution, _transposed, _pool, _pool, _adaptive, _unfolded,
    _norm, _activation, _dense, _residual, _attention, _cell, _view,
)  # fmt: skip


def _layer(net: Drawing, x: Tensor) -> Tensor:
    """Return what a random layer makes of an image, made small again."""
    n, *middle, channels = sizes_of(x)
    if x.ndim < 3 or x.ndim > 5:
        x = sg.reshape(x, (n, math.prod(middle), channels))
    while math.prod(sizes_of(x)) > _MAX_ELEMENTS:
        longest = int(np.argmax(sizes_of(x)))
        x = x[(*[slice(None)] * longest, slice(0, (sizes_of(x)[longest] + 1) // 2))]
    return _LAYERS[net.integer(0, len(_LAYERS) - 1)](net, x)


def random_layers(seed: int, dtype: DType) -> tuple[sg.Graph, list[Array]]:
    """Return a network with the gradients of a loss, in one of four of second order, and inputs."""
    net = Drawing(np.random.default_rng(seed), dtype)
    space = [net.size((48, 12, 5)[ndim]) for ndim in [net.integer(0, 2)] for _ in range(ndim + 1)]
    y = net.input(net.size(4), *space, net.size(24))
    for _ in range(net.integer(1, 3)):
        y = within(net, y, _layer)
    if seed % 8 in _LABELLED:
        y = _labelled(net, y)
    loss = sg.mean(sg.square(y))
    found = [g for g in sg.gradients(loss, net.inputs) if g is not None]
    outputs = [y, loss, *found]
    if net.chance(4) and found:
        total = sum((sg.sum(sg.square(g)) for g in found[1:]), sg.sum(sg.square(found[0])))
        outputs += [g for g in sg.gradients(total, net.inputs[:2]) if g is not None]
    return sg.Graph(outputs, net.inputs, name="layers"), net.arrays
