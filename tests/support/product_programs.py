"""Random products: operands seen through views, in batches, with what is done with their rows.

A seed is a program: matrices are transposed, strided, reversed or parts of larger ones, sizes are
at and around those of tiles, now and then 0, and what is made goes on through sums of rows,
factors, masks and activations, in every float dtype, with gradients or an update.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array

_SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 24, 31, 33, 48, 63, 64, 65, 100, 129, 200)
_DTYPES = ("float32", "float64", "float16", "bfloat16")
_BATCHES: tuple[tuple[int, ...], ...] = ((), (1,), (2,), (5,), (3, 2), (17,))
_MOST = 300_000  # multiplications of a program


class _Products:
    """What a program is given so far."""

    def __init__(self, seed: int) -> None:
        self._rng: Generator = np.random.default_rng(seed)
        self.dtype = str(self._rng.choice(_DTYPES))
        self.inputs: list[Tensor] = []
        self.arrays: list[Array] = []

    def chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def number(self, low: int, end: int) -> int:
        return int(self._rng.integers(low, end))

    def values(self, shape: tuple[int, ...]) -> Array:
        kind = sg.placeholder((), self.dtype).dtype.numpy
        return self._rng.standard_normal(shape).astype(np.float32).astype(kind)

    def given(self, *shape: int) -> Tensor:
        self.inputs.append(sg.placeholder(shape, self.dtype))
        self.arrays.append(self.values(shape))
        return self.inputs[-1]

    def sizes(self) -> tuple[tuple[int, ...], int, int, int]:
        """Return a batch, rows, terms and columns, one of which may be 0."""
        batch = _BATCHES[self.number(0, len(_BATCHES))]
        sizes = [_SIZES[self.number(0, len(_SIZES))] for _ in range(3)]
        while math.prod([*batch, *sizes]) > _MOST:
            largest = sizes.index(max(sizes))
            sizes[largest] = max(1, sizes[largest] // 2)
        if self.chance(0.06):
            sizes[self.number(0, 3)] = 0
        rows, terms, columns = sizes
        return batch, rows, terms, columns

    def matrices(self, batch: tuple[int, ...], rows: int, columns: int) -> Tensor:
        """Return matrices that are a view of an input."""
        kept = self.number(0, 8)
        batch = batch if kept > 1 else tuple(1 for _ in batch) if kept else ()
        parts = [self._part(rows), self._part(columns)]
        (height, width), count = (size for size, _ in parts), len(batch)
        match self.number(0, 4):
            case 0:
                found = sg.matrix_transpose(self.given(*batch, width, height))
            case 1:
                axes = (*range(1, count + 1), 0, count + 1)
                found = sg.permute_dims(self.given(height, *batch, width), axes)
            case 2:
                axes = (*range(2, count + 2), 0, 1)
                found = sg.permute_dims(self.given(height, width, *batch), axes)
            case _:
                found = self.given(*batch, height, width)
        found = found[(Ellipsis, *(part for _, part in parts))]
        return sg.tanh(found) if self.chance(0.15) else found

    def _part(self, size: int) -> tuple[int, slice]:
        """Return how long an axis is of which a slice has `size` elements, and the slice."""
        if not size or self.chance(0.4):
            return size, slice(None)
        if self.chance(0.4):
            step = self.number(2, 4)
            return size * step - self.number(0, step), slice(None, None, step)
        if self.chance(0.5):
            return size, slice(None, None, -1)
        low = self.number(1, 9)
        return low + size + self.number(0, 9), slice(low, low + size)

    def followed(self, y: Tensor) -> Tensor:
        """Return what one op more makes of the rows of a product."""
        *batch, rows, columns = y.type.static_shape
        match self.number(0, 10):
            case 0:
                return y + self.given(columns)
            case 1:
                return y * self.given(rows, 1)
            case 2:
                return y + self.given(*batch, rows, columns)
            case 3:
                return sg.nn.gelu(y)
            case 4:
                return sg.nn.relu(y)
            case 5:
                return sg.where(self.given(*batch, rows, columns) > 0, y, 0.125 * y)
            case 6:
                return y * sg.matrix_transpose(self.given(*batch, columns, rows))
            case 7:
                return sg.tanh(y) * self.given(*batch, rows, columns)[..., ::-1]
            case 8:
                return sg.tanh(y) @ sg.tanh(self.matrices((), columns, 8))
            case _:
                return y - sg.sum(y, axis=-1, keepdims=True) * 0.125


def random_products(seed: int) -> tuple[Graph, list[Array]]:
    """Return a product with what is done with its rows, and its inputs."""
    made = _Products(seed)
    batch, rows, terms, columns = made.sizes()
    y = made.matrices(batch, rows, terms) @ made.matrices(batch, terms, columns)
    for _ in range(made.number(0, 6)):
        y = made.followed(y)
    outputs, updates = [y], list[Any]()
    if made.chance(0.3):
        outputs.append(sg.sum(y, axis=-1))
    if made.chance(0.4):
        found = sg.gradients(sg.sum(sg.tanh(y)), made.inputs[:3])
        outputs += [g for g in found if g is not None]
    if made.chance(0.3):
        w = sg.variable(made.values(y.type.static_shape))
        updates.append(sg.inplace_update(w, w * 0.5 + y))
    return Graph(outputs, made.inputs, updates), made.arrays
