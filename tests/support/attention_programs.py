"""Random programs like attention: products of long rows that are gated, masked or normalised.

A seed is a program: rows of scores are made by a product of queries with keys of their own, shared
by heads or by all matrices, or with a weight; a few steps scale, gate, mask, flip or normalise
them, among these gates that are products again; then come products with values, or with a matrix
of the same width whose result the rows gate, and gradients of all that is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from symgrad.nn import attention_rows
from tests.support.drawing import Drawing, Tensor, sizes_of

_BATCHES: tuple[tuple[int, ...], ...] = (
    (), (), (), (1,), (1,), (2,), (4,), (5,), (2, 3), (3, 1), (4, 2),
)  # fmt: skip
_ODD = (129, 255, 257, 300, 385, 500, 640, 777, 1000, 1001, 1536, 2000)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows, columns and terms scores have at most, and multiplications a product."""

    rows: int
    columns: int
    terms: int
    work: int
    has_second: bool  # whether some gradients are of second order
    cuts: dict[str, int]  # how queries of a causal attention are cut


_CUTS = {
    **{"CAUSAL_BLOCK_ROWS": 4, "CAUSAL_BLOCKS": 3, "_LINE": 2},
    **{"MOST_SCORES_BYTES": 1 << 11, "SCORES_OF_PART_BYTES": 1 << 9},
}
SMALL = Sizes(rows=40, columns=48, terms=34, work=80_000, has_second=True, cuts=_CUTS)
# Products whose rows are in cache by blocks, and gradients of theirs by chunks of columns.
LARGE = Sizes(rows=2000, columns=2000, terms=130, work=30_000_000, has_second=False, cuts={})


class _Scores(Drawing):
    """A program in the making, and the sizes of its scores."""

    def __init__(self, rng: np.random.Generator, dtype: DType, most: Sizes) -> None:
        super().__init__(rng, dtype)
        self.most = most
        self.batch = _BATCHES[self.integer(0, len(_BATCHES) - 1)]
        self.terms = self.size(most.terms)
        self.rows, self.columns = self._length(most.rows), self._length(most.columns)
        if self.chance():
            self.columns = self.rows
        while self.work(self.terms) > most.work:
            if len(self.batch) and self.chance():
                self.batch = self.batch[1:]
            elif self.terms > 4 and self.chance():
                self.terms = (self.terms + 1) // 2
            elif self.rows > self.columns:
                self.rows = (self.rows + 1) // 2
            else:
                self.columns = (self.columns + 1) // 2

    def _length(self, most: int) -> int:
        """Return a number of rows: a multiple of many, an odd one, or a few."""
        if most <= 64:
            return self.size(most) if self.chance(3) else self.integer(1, 5) << self.integer(1, 3)
        kind = self.integer(0, 5)
        if kind == 0:
            return self.integer(1, 5)
        if kind == 1:
            return min(most, _ODD[self.integer(0, len(_ODD) - 1)])
        return min(most, self.integer(1, 16) << self.integer(4, 7))

    def width(self) -> int:
        """Return how many columns values have: vectors of them, or any number."""
        return 1 << self.integer(1, 6) if self.chance() else self.size(self.most.terms)

    def work(self, terms: int) -> int:
        return math.prod(self.batch) * self.rows * self.columns * terms

    # ------------------------------------------------------------------------------- operands

    def matrices(self, rows: int, columns: int, scale: float = 1.0) -> Tensor:
        """Return matrices, of which a batch may share one, that are a view of an input."""
        kind, batch = self.integer(0, 7), self.batch
        if kind == 0:
            batch = ()
        elif kind == 1 and len(batch) > 1:
            batch = (*batch[:-1], 1)
        turn = self.integer(0, 9)
        if turn < 2:
            return sg.matrix_transpose(self.input(*batch, columns, rows, scale=scale))
        if turn == 2:
            return self.input(*batch, rows, columns, scale=scale)[..., ::-1, :]
        if turn == 3:
            return self.input(*batch, rows, columns, scale=scale)[..., ::-1]
        if turn == 4 and len(batch) == 1:
            together = self.input(rows, batch[0] * columns, scale=scale)
            return sg.moveaxis(sg.reshape(together, (rows, batch[0], columns)), 1, 0)
        if turn == 5:
            return self.input(*batch, rows + 3, columns, scale=scale)[..., 2 : rows + 2, :]
        return self.input(*batch, rows, columns, scale=scale)

    def scores(self) -> Tensor:
        """Return the first product, which has the whole batch."""
        d, scale = self.terms, 2.0 / math.sqrt(self.terms)
        q = self.input(*self.batch, self.rows, d) if self.chance(3) else self.matrices(self.rows, d)
        if self.chance(8):
            q = sg.tanh(q)
        y = q @ self.matrices(d, self.columns, scale)
        if sizes_of(y)[:-2] != self.batch:
            y = y + self.input(*self.batch, 1, 1)
        return y

    # ---------------------------------------------------------------------------------- masks

    def mask(self, columns: int) -> Any:
        """Return where scores are kept: a mask of indices, of data, or of both."""
        i: Any = sg.expand_dims(sg.arange(self.rows), -1)
        j: Any = sg.arange(columns)
        apart, width = self.integer(-8, 8), self.integer(0, max(1, columns // 3))
        if self.chance():
            apart = columns - self.rows
        kind = self.integer(0, 9)
        if kind <= 1:
            return j <= i + apart
        if kind == 2:
            return sg.logical_and(j <= i + apart, j > i + apart - width - 1)
        if kind == 3:
            return sg.abs(i + apart - j) <= width
        if kind == 4:
            return i // (width + 1) >= j // (width + 1)
        if kind == 5:
            return (i + j) % self.integer(2, 4) != 0
        if kind == 6:
            return j < self.integer(0, columns)
        if kind == 7:
            lengths = self.rng.integers(0, columns + 1, (*self.batch, 1, 1))
            return j < sg.constant(lengths)
        if kind == 8:
            return sg.constant(np.tri(self.rows, columns, apart, dtype=bool))
        shape = (*self.batch, self.rows, columns) if self.chance() else (self.rows, columns)
        return self.input(*shape) > self.integer(-1, 1) * 0.6

    # ---------------------------------------------------------------------------------- steps

    def step(self, y: Tensor) -> Tensor:
        """Return what one step makes of rows."""
        return self._pick(
            self._scaled, self._added, self._gated, self._masked, self._masked, self._masked_out,
            self._bent, self._flipped, self._normalised, self._normalised, self._normalised,
            self._masked_weights, self._masked_weights, self._gated_by_product, self._squared,
            self._chosen,
        )(y)  # fmt: skip

    def _pick(self, *ways: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return ways[self.integer(0, len(ways) - 1)]

    def _scaled(self, y: Tensor) -> Tensor:
        return y * self.input() if self.chance() else y * 0.25

    def _added(self, y: Tensor) -> Tensor:
        columns = sizes_of(y)[-1]
        kinds = ((columns,), (self.rows, 1), (self.rows, columns), (*self.batch, 1, columns))
        return y + self.input(*kinds[self.integer(0, 3)])

    def _gated(self, y: Tensor) -> Tensor:
        columns = sizes_of(y)[-1]
        kinds = ((columns,), (self.rows, 1), (*self.batch, self.rows, columns), (*self.batch, 1, 1))
        return y * self.input(*kinds[self.integer(0, 3)])

    def _masked(self, y: Tensor) -> Tensor:
        fills = (-math.inf, -math.inf, -1e4, 0.0, -1.5)
        return sg.where(self.mask(sizes_of(y)[-1]), y, fills[self.integer(0, 4)])

    def _masked_out(self, y: Tensor) -> Tensor:
        return sg.where(self.mask(sizes_of(y)[-1]), y, 0.0)

    def _bent(self, y: Tensor) -> Tensor:
        functions = (sg.tanh, sg.nn.sigmoid, sg.nn.relu, sg.nn.gelu, sg.nn.softplus, sg.nn.silu)
        return functions[self.integer(0, len(functions) - 1)](y)

    def _flipped(self, y: Tensor) -> Tensor:
        way = self.integer(0, 3)
        if way == 0:
            return y + y[..., ::-1]
        return sg.flip(y, axis=-1 if way < 3 else -2)

    def _normalised(self, y: Tensor) -> Tensor:
        kind = self.integer(0, 7)
        if kind <= 1:
            return sg.nn.softmax(y)
        if kind == 2:
            weights = sg.exp(y - sg.max(y, axis=-1, keepdims=True))
            return weights / sg.sum(weights, axis=-1, keepdims=True)
        if kind == 3:
            return sg.exp(y - sg.stop_gradient(sg.max(y, axis=-1, keepdims=True)))
        if kind == 4:
            return sg.nn.layer_norm(y, epsilon=0.1)
        if kind == 5:
            return sg.nn.rms_norm(y, epsilon=0.1)
        if kind == 6:
            return y / (1.0 + sg.sum(sg.abs(y), axis=-1, keepdims=True))
        return y - sg.mean(y, axis=-1, keepdims=True)

    def _masked_weights(self, y: Tensor) -> Tensor:
        """Return exponentials that are 0 where a mask holds nowhere, as a softmax has them."""
        seen = self.mask(sizes_of(y)[-1])
        greatest = sg.max(sg.where(seen, y, -math.inf), axis=-1, keepdims=True)
        apart = y - sg.where(greatest == -math.inf, 0, greatest)
        weights = sg.exp(sg.where(seen, apart, -math.inf))
        if self.chance():
            return weights
        total = sg.sum(weights, axis=-1, keepdims=True)
        return weights / sg.where(total == 0, 1, total)

    def _gated_by_product(self, y: Tensor) -> Tensor:
        """Return rows gated by a product, of rows that may be made of these, as long as a chunk."""
        columns, terms = sizes_of(y)[-1], self.integer(1, self.terms)
        if self.chance():
            terms = 8 if self.most is SMALL else 128
        if self.work(terms) > self.most.work:
            terms = 1
        rows = self.matrices(self.rows, terms)
        if self.chance():
            rows = rows / (1.0 + sg.sum(sg.abs(y), axis=-1, keepdims=True))
        made = rows @ self.matrices(terms, columns, 1 / math.sqrt(terms))
        return made * y if self.chance() else y + made

    def _squared(self, y: Tensor) -> Tensor:
        return y * sg.tanh(y)

    def _chosen(self, y: Tensor) -> Tensor:
        return sg.where(y > 0.1, y, self.input(sizes_of(y)[-1]))

    # ------------------------------------------------------------------------------- products

    def product(self, y: Tensor) -> Tensor:
        """Return a product with rows: with values, or with a matrix that they gate again."""
        columns = sizes_of(y)[-1]
        if self.work(columns) <= self.most.work and self.chance():
            made = y @ self.matrices(columns, columns, 2 / math.sqrt(columns))
            return made * y if self.chance() else made * self.input(columns) + y
        width = self.width()
        return y @ self.matrices(columns, width, 2 / math.sqrt(columns))


def _attended(net: _Scores) -> Tensor:
    """Return the layer itself, of queries, keys and values, heads of which may be grouped."""
    *batch, heads = net.batch if net.batch else (1,)
    groups = heads if net.chance() else 1
    d, width = net.terms, net.width()
    q = net.input(*batch, heads, net.rows, d)
    k, v = (net.input(*batch, groups, net.columns, n) for n in (d, width))
    mask = net.mask(net.columns) if net.chance() else None
    if mask is not None and mask.ndim > 2:
        mask = sg.reshape(mask, (*batch, heads, *sizes_of(mask)[-2:]))
    if net.chance(4):
        mask = net.input(net.rows, net.columns)
    scale = net.input() if net.chance(4) else None
    causal = net.chance()
    return sg.nn.scaled_dot_product_attention(q, k, v, mask=mask, causal=causal, scale=scale)


def random_attention(seed: int, dtype: DType, most: Sizes) -> tuple[sg.Graph, list[Array]]:
    """Return products with what is done with their rows, mostly with gradients, and inputs."""
    net = _Scores(np.random.default_rng(seed), dtype, most)
    outputs: list[Tensor] = []
    if net.chance(3):
        with ExitStack() as stack:
            for name, number in most.cuts.items():
                stack.enter_context(mock.patch.object(attention_rows, name, number))
            y = _attended(net)
    else:
        y = net.scores()
        for _ in range(net.integer(1, 2)):
            for _ in range(net.integer(1, 4)):
                y = net.step(y)
            if net.chance(8):
                outputs.append(y if net.chance() else sg.sum(y, axis=net.integer(-2, -1)))
            y = net.product(y)
        if net.chance(3):
            y = net.step(y)
    outputs.append(y)
    if net.chance(6):
        _spoil(net)
    if not net.chance(5):
        outputs += _gradients(net, y)
    return sg.Graph(outputs, net.inputs, name="attention"), net.arrays


def _spoil(net: _Scores) -> None:
    """Put an infinity or a nan somewhere in what is given."""
    array = net.arrays[net.integer(0, len(net.arrays) - 1)]
    if array.size:
        place = net.integer(0, array.size - 1)
        array.reshape(-1)[place] = (np.nan, np.inf, -np.inf)[net.integer(0, 2)]


def _gradients(net: _Scores, y: Tensor) -> list[Tensor]:
    """Return gradients of what is given, some of second order."""
    xs = list(net.inputs)
    loss = sg.sum(y * net.input(*sizes_of(y)))
    found = [g for g in sg.gradients(loss, xs) if g is not None]
    if net.most.has_second and net.chance(5) and found:
        total = sum((sg.sum(sg.square(g)) for g in found[1:]), sg.sum(sg.square(found[0])))
        found += [g for g in sg.gradients(total, xs[:2]) if g is not None]
    return found
