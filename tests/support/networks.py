"""Random small networks with a training step.

`strategies.random_graph` takes the ops one by one on tiny arrays. Here sizes are uneven and go from
1 to some tens, so that products are products, vectors and tiles have remainders, new values go
over old ones, and the indices of an embedding are data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array


class Network:
    """A network in the making: its variables, and the random choices."""

    def __init__(self, rng: np.random.Generator, dtype: DType) -> None:
        self.rng = rng
        self.dtype = dtype
        self.weights: list[sg.Variable] = []

    def size(self, high: int = 40) -> int:
        """Return a size from 1 to `high`, odd ones and powers of two alike."""
        return int(self.rng.integers(1, high + 1))

    def chance(self) -> bool:
        return bool(self.rng.integers(0, 2))

    def array(self, *shape: int) -> Array:
        return np.asarray(self.rng.uniform(-1, 1, shape)).astype(self.dtype.numpy)

    def weight(self, *shape: int) -> sg.Variable:
        scale = 1 / np.sqrt(shape[0])
        value = (self.array(*shape) * scale).astype(self.dtype.numpy)
        self.weights.append(sg.variable(value, name=f"w{len(self.weights)}"))
        return self.weights[-1]


def _dense(net: Network, x: sg.Tensor) -> sg.Tensor:
    fan_in, fan_out = x.type.static_shape[-1], net.size()
    transpose = net.chance()
    weight = net.weight(*((fan_out, fan_in) if transpose else (fan_in, fan_out)))
    y = sg.matmul(x, weight, transpose_b=transpose)
    return y + net.weight(fan_out) if net.chance() else y


def _activation(net: Network, x: sg.Tensor) -> sg.Tensor:
    functions = (sg.tanh, sg.nn.relu, sg.sigmoid, sg.nn.silu, sg.nn.gelu, sg.nn.softplus)
    return functions[int(net.rng.integers(len(functions)))](x)


def _normalized(net: Network, x: sg.Tensor) -> sg.Tensor:
    centered = x - x.mean(-1, keepdims=True)
    scale = sg.rsqrt(sg.square(centered).mean(-1, keepdims=True) + 0.1)
    return centered * scale * net.weight(x.type.static_shape[-1])


def _softmax(net: Network, x: sg.Tensor) -> sg.Tensor:
    return sg.nn.softmax(x, axis=int(net.rng.integers(x.ndim)))


def _attention(net: Network, x: sg.Tensor) -> sg.Tensor:
    scores = sg.matmul(x, x, transpose_b=True) / float(x.type.static_shape[-1])
    return sg.matmul(sg.nn.softmax(scores), x)


def _looked_up(net: Network, x: sg.Tensor) -> sg.Tensor:
    """Add elements of a weight to a dense layer, at indices that are data."""
    y = _dense(net, x)
    axis = int(net.rng.integers(0, y.ndim))
    extent = y.type.static_shape[axis]
    rows = net.rng.integers(-extent, extent, y.type.static_shape)
    picks = sg.variable(rows, name=f"picks{len(net.weights)}")
    return y + sg.take_along_axis(net.weight(*y.type.static_shape), picks, axis=axis)


def _residual(net: Network, x: sg.Tensor) -> sg.Tensor:
    size = x.type.static_shape[-1]
    return x + sg.tanh(x @ net.weight(size, size))


def _joined(net: Network, x: sg.Tensor) -> sg.Tensor:
    half = (x.type.static_shape[-1] + 1) // 2
    return sg.concat([x[..., :half], sg.flip(x, -1), x[..., ::2]], axis=-1)


def _heads(net: Network, x: sg.Tensor) -> sg.Tensor:
    """Multiply by a weight for each of some heads, and put the results side by side."""
    heads, size = net.size(3), net.size(12)
    weight = net.weight(x.type.static_shape[-1], heads, size)
    split = sg.einsum("...i,ihs->...hs", x, weight)
    return sg.reshape(sg.tanh(split), (*x.shape[:-1], heads * size))


_LAYERS: tuple[Callable[[Network, sg.Tensor], sg.Tensor], ...] = (
    _dense, _dense, _activation, _normalized, _softmax, _attention, _residual, _joined, _heads,
    _looked_up,
)  # fmt: skip


def random_network(rng: np.random.Generator, dtype: DType) -> tuple[sg.Graph, list[Array]]:
    """Return a training step of a network with a random optimizer, and inputs for it."""
    net = Network(rng, dtype)
    inputs, arrays, x = _features(net)
    for _ in range(int(rng.integers(1, 6))):
        x = _LAYERS[int(rng.integers(len(_LAYERS)))](net, x)
    loss = sg.mean(sg.square(_dense(net, x)))
    outputs = [loss, x] if net.chance() else [loss]
    return sg.Graph(outputs, inputs, _updates(net, loss), name="network"), arrays


def _features(net: Network) -> tuple[list[sg.Tensor], list[Array], sg.Tensor]:
    """Return inputs, and the features made of them: numbers, or rows of an embedding."""
    lead = (net.size(4), net.size(16)) if net.chance() else (net.size(),)
    if net.chance():
        array = net.array(*lead, net.size())
        x = sg.placeholder(array.shape, net.dtype, name="x")
        return [x], [array], x
    rows = net.size(20)
    array = net.rng.integers(-rows, rows, lead)
    tokens = sg.placeholder(array.shape, "int64", name="tokens")
    return [tokens], [array], sg.take(net.weight(rows, net.size()), tokens, axis=0)


def _updates(net: Network, loss: sg.Tensor) -> list[sg.Update]:
    found = zip(net.weights, sg.gradients(loss, net.weights), strict=True)
    wanted = [(w, g) for w, g in found if g is not None]
    if net.chance():
        return [sg.Update(w, w - 0.1 * g) for w, g in wanted]
    updates = []
    for weight, gradient in wanted:
        slot = sg.variable(np.zeros(weight.type.static_shape, net.dtype.numpy), name="slot")
        moved = 0.9 * slot + gradient
        updates += [sg.Update(slot, moved), sg.Update(weight, weight - 0.1 * moved)]
    return updates
