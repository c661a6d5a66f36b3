"""Random chains of functions of rows: softmax, norms and losses of labels, of few rows and many.

A seed is a program: rows are as long as some elements or as some thousand, lie along the last axis
or another one, hold infinities and nan now and then, and labels are ignored or out of range.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from tests.support.drawing import Drawing, Tensor, sizes_of

_WIDTHS = (
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    17,
    31,
    33,
    48,
    64,
    65,
    100,
    127,
    130,
    255,
    256,
    512,
    1000,
    4096,
)
_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100)
_MOST = 6_000  # elements


class _Rows(Drawing):
    """A program in the making."""

    def __init__(self, seed: int, dtype: DType) -> None:
        super().__init__(np.random.default_rng(seed), dtype)
        self.width = _WIDTHS[self.integer(0, len(_WIDTHS) - 1)]
        rows = min(_ROWS[self.integer(0, len(_ROWS) - 1)], max(1, _MOST // self.width))
        self.batch: tuple[int, ...] = (0,) if self.chance(24) else (rows,)
        if self.chance(4) and rows > 1:
            self.batch = (self.integer(1, 3), rows)
        self.is_spoiled = self.chance(3)

    def first(self) -> Tensor:
        """Return rows, which may be columns of what is given."""
        shape = (*self.batch, self.width)
        if self.chance(4):
            return sg.moveaxis(self.input(self.width, *self.batch, scale=3.0), 0, -1)
        if self.chance(4):
            return self.input(*shape, scale=3.0)[..., ::-1]
        return self.input(*shape, scale=3.0)

    def labels(self) -> Tensor:
        """Return a label for each row, -1 for some."""
        values = self.rng.integers(0, self.width, self.batch)
        return sg.constant(np.where(self.rng.random(self.batch) < 0.2, -1, values))

    def step(self, x: Tensor) -> Tensor:
        """Return rows made of rows, as many and as long."""
        ways: tuple[Callable[[Tensor], Tensor], ...] = (
            sg.nn.softmax, sg.nn.softmax, sg.nn.log_softmax, sg.nn.log_softmax, self._normed,
            self._normed, self._normed, self._masked, self._with_loss, self._scaled, self._chosen,
            lambda x: x - sg.max(x, axis=-1, keepdims=True),
            lambda x: sg.exp(x - sg.max(x, axis=-1, keepdims=True)),
            lambda x: x / (1.0 + sg.sum(sg.abs(x), axis=-1, keepdims=True)),
            sg.tanh, sg.nn.gelu,
        )  # fmt: skip
        return ways[self.integer(0, len(ways) - 1)](x)

    def _normed(self, x: Tensor) -> Tensor:
        scale = self.input(self.width) if self.chance() else None
        if self.chance(3):
            return sg.nn.rms_norm(x, scale, epsilon=0.1)
        shift = self.input(self.width) if self.chance() else None
        return sg.nn.layer_norm(x, scale, shift, epsilon=0.1)

    def _masked(self, x: Tensor) -> Tensor:
        kept = self.input(*self.batch, self.width) > 0
        return sg.where(kept, x, -math.inf if self.chance(4) else 0.0)

    def _with_loss(self, x: Tensor) -> Tensor:
        return x + sg.expand_dims(self.loss(x), -1)

    def _scaled(self, x: Tensor) -> Tensor:
        return x * self.input(*self.batch, 1) if self.chance() else x + self.input(self.width)

    def _chosen(self, x: Tensor) -> Tensor:
        """Return a row whose greatest element stays, and all others are halved."""
        greatest = sg.expand_dims(sg.argmax(x, axis=-1), -1)
        return sg.where(sg.arange(self.width) == greatest, x, x * 0.5)

    def loss(self, x: Tensor) -> Tensor:
        """Return a number for each row."""
        smoothing = 0.1 if self.chance(3) else 0.0
        match self.integer(0, 4):
            case 0 | 1:
                return sg.nn.cross_entropy(
                    x, self.labels(), label_smoothing=smoothing, ignore_index=-1, reduction="none"
                )
            case 2:
                weights = sg.abs(self.input(self.width)) + 0.1
                labels = sg.maximum(self.labels(), 0)
                return sg.nn.cross_entropy(x, labels, weights=weights, reduction="none")
            case 3:
                return sg.nn.logsumexp(x, axis=-1)
            case _:
                return sg.nn.cross_entropy(
                    x, sg.nn.softmax(self.input(self.width)), reduction="none"
                )

    def spoil(self) -> None:
        """Put what is not finite, or nearly, into some rows of what is given."""
        for array in self.arrays:
            if array.size and self.chance():
                flat = array.reshape(-1)
                for _ in range(self.integer(1, 3)):
                    start = self.integer(0, array.size - 1)
                    end = start + self.integer(1, self.width if self.chance(3) else 1)
                    kinds = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e4, -1e4)
                    flat[start:end] = kinds[self.integer(0, len(kinds) - 1)]


def random_row_chain(seed: int, dtype: DType) -> tuple[sg.Graph, list[Array]]:
    """Return a chain of functions of rows, mostly with gradients or an update, and inputs."""
    net = _Rows(seed, dtype)
    x = net.first()
    outputs = []
    for _ in range(net.integer(1, 5)):
        x = net.step(x)
        if net.chance(8):
            outputs.append(x)
    found = net.loss(x) if net.chance() else x
    outputs.append(found)
    updates = []
    if not net.chance(4):
        loss = sg.sum(found * net.input(*sizes_of(found)))
        outputs += [g for g in sg.gradients(loss, net.inputs) if g is not None]
    if net.chance(4):
        w = sg.variable(np.zeros(net.width, net.dtype.numpy))
        updates.append(sg.inplace_update(w, w + sg.sum(x, axis=tuple(range(x.ndim - 1)))))
    if net.is_spoiled:
        net.spoil()
    return sg.Graph(outputs, net.inputs, updates, name="rows"), net.arrays
