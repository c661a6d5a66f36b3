"""Drawing of a random graph: inputs with values, choices, and where a part of it stands."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array

Tensor = sg.Tensor


class Drawing:
    """A graph in the making: its inputs with their values, and the random choices."""

    def __init__(self, rng: np.random.Generator, dtype: DType) -> None:
        self.rng = rng
        self.dtype = dtype
        self.inputs: list[Tensor] = []
        self.arrays: list[Array] = []
        self.made: list[Tensor] = []  # inputs to take in place of new ones

    def integer(self, low: int, high: int) -> int:
        """Return an int from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, one_in: int = 2) -> bool:
        return self.integer(1, one_in) == 1

    def size(self, high: int) -> int:
        """Return a size up to `high`: any, a small one, or one beside a power of two."""
        kind = self.integer(0, 3)
        if kind == 0:
            return self.integer(1, min(3, high))
        if kind == 1:
            return min(high, max(1, (1 << self.integer(0, 6)) + self.integer(-1, 1)))
        return self.integer(1, high)

    def input(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Return a new input of the graph, with values between -`scale` and `scale`."""
        return self.given(self.rng.uniform(-scale, scale, shape))

    def given(self, values: Array | float) -> Tensor:
        """Return a new input of the graph, with these values."""
        if self.made:
            return self.made.pop(0)
        array = np.asarray(values).astype(self.dtype.numpy)
        self.arrays.append(array)
        name = f"p{len(self.inputs)}"
        self.inputs.append(sg.placeholder(array.shape, self.dtype, name=name))
        return self.inputs[-1]

    def weight(self, fan_in: int, *shape: int) -> Tensor:
        return self.input(*shape, scale=2 / math.sqrt(max(fan_in, 1)))


def sizes_of(x: Tensor) -> tuple[int, ...]:
    return x.type.static_shape


Layer = Callable[[Drawing, Tensor], Tensor]


def _chosen(net: Drawing, x: Tensor, layer: Layer) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the result of a random layer, and the same layer: a function of such tensors.

    Its weights are inputs of the graph, and so are not made in the graphs that it is called in.
    """
    seed, before = net.integer(0, 2**31), len(net.inputs)
    rng, net.rng = net.rng, np.random.default_rng(seed)
    y = layer(net, x)
    net.rng = rng

    def again(given: Tensor) -> Tensor:
        drawing = Drawing(np.random.default_rng(seed), net.dtype)
        drawing.made = net.inputs[before:after]
        return layer(drawing, given)

    after = len(net.inputs)
    return y, again


def within(net: Drawing, x: Tensor, layer: Layer) -> Tensor:
    """Return the result of a layer that stands in the graph, or in a graph of its own."""
    y, chosen = _chosen(net, x, layer)
    kind = net.integer(0, 7)
    if kind == 0:
        y = sg.function(chosen)(x)
    if kind == 1:
        y = sg.map(chosen, sg.stack([x, x * 0.5]))[1]
    if kind == 2:
        weighed = sg.function(chosen)
        # Of inputs: the sum of what has been normalized is 0, up to what rounds.
        is_first = sg.sum(net.inputs[0]) > 0
        y = sg.cond(is_first, lambda: weighed(x), lambda: weighed(x * 0.5))
    if kind == 3:
        mean = sg.while_loop(
            lambda i, _: i < 2,
            lambda i, total: (i + 1, sg.tanh(total + sg.mean(chosen(x + total)))),
            (sg.constant(0), sg.zeros((), net.dtype)),
        )[1]
        y = x * (1 + mean)
    return y
