"""What random graphs grow from: a pool of tensors of one dtype, and random choices among them.

A row of a table takes some tensors and adds one. Rows keep values small, so that a long chain
neither overflows nor amplifies rounding beyond what comparing two evaluations can bear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops import arithmetic, conversion, reduction, transcendental
from symgrad.graph.types import Array

MAX_ELEMENTS = 200
MAX_OF_LONG = 20_000  # where an axis may be long
MAX_DEPTH = 2  # of branches, loops and functions within one another
# Repeated, scoped, illegal and absent names, and one that looks like a suffix.
_NAMES = ("x", "x", "layer/w", "layer/w", "my x", "7", "x_1", None, None)


class Pool:
    """The tensors a graph has grown so far, and the random choices among them.

    With `long`, an axis in three has that many elements, and others few.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        dtype: DType,
        rows: Sequence[Row] = (),
        depth: int = 0,
        long: int | None = None,
    ) -> None:
        self.rng = rng
        self.dtype = dtype
        self.rows = rows
        self.depth = depth
        self.long = long
        self.most = MAX_ELEMENTS if long is None else MAX_OF_LONG
        self.tensors: list[Tensor] = []

    def integer(self, low: int, high: int) -> int:
        """Return an int from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, ndim: int | None = None) -> tuple[int, ...]:
        count = self.integer(0, 3) if ndim is None else ndim
        sizes = [self.integer(1, 3) for _ in range(count)]
        if self.long is not None:
            lengthened = [self.long if self.integer(0, 2) == 0 else n for n in sizes]
            sizes = lengthened if math.prod(lengthened) <= self.most else sizes
        return tuple(sizes)

    def array(self, shape: tuple[int, ...]) -> Array:
        """Return small values: between -2 and 2, of one decimal for floats and for parts."""
        if self.dtype.is_bool:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        low = 0 if self.dtype.kind == "unsigned" else -2
        values = self.rng.integers(10 * low, 21, shape) / 10
        if self.dtype.is_complex:
            values = values + 1j * self.rng.integers(-20, 21, shape) / 10
        return np.asarray(values).astype(self.dtype.numpy)

    def name(self) -> str | None:
        return _NAMES[self.integer(0, len(_NAMES) - 1)]

    def any(self, min_ndim: int = 0) -> Tensor:
        """Return a tensor of at least `min_ndim` axes, later ones more often."""
        fitting = [t for t in self.tensors if t.ndim >= min_ndim]
        if not fitting:
            shape = self.shape(ndim=min_ndim)
            return constant(self.array(shape), name=self.name())
        at = max(self.integer(0, len(fitting) - 1), self.integer(0, len(fitting) - 1))
        return fitting[at]

    def axis(self, x: Tensor) -> int:
        return self.integer(-x.ndim, x.ndim - 1)

    def axes(self, x: Tensor) -> tuple[int, ...]:
        """Return some axes of `x`, perhaps none or all."""
        return tuple(a for a in range(x.ndim) if self.integer(0, 1))

    def like(self, x: Tensor) -> Tensor:
        """Return a tensor that broadcasts with `x`."""
        same = [t for t in self.tensors if t.shape in (x.shape, x.shape[1:], ())]
        if same and self.integer(0, 3):
            return same[self.integer(0, len(same) - 1)]
        return constant(self.array(x.type.static_shape[self.integer(0, x.ndim) :]))

    def indices(self, size: int, *, is_known: bool = False) -> Tensor:
        """Return positions in an axis of `size`, as a constant or computed from the pool."""
        if is_known or self.chance():
            shape = self.shape(self.integer(0, 2))
            return constant(self.rng.integers(-size, size, shape))
        computed = conversion.astype(self.any(), "int64")
        return arithmetic.remainder(computed, constant(np.int64(size)))

    def chance(self) -> bool:
        return bool(self.integer(0, 1))

    # ----------------------------------------------------------------------------- growing

    def grow(self, size: int) -> None:
        """Add a tensor by each of `size` rows, drawn from those that may be this deep."""
        rows = [r for r in self.rows if self.depth < MAX_DEPTH or not r.is_nested]
        for _ in range(size):
            row = rows[self.integer(0, len(rows) - 1)]
            self.tensors.append(bounded(row.recipe(self), self.most))

    def inside(self, *given: Tensor) -> Pool:
        """Return the pool of a graph within the one that grows, with what it captures."""
        rows = [r for r in self.rows if r.is_smooth]
        inner = Pool(self.rng, self.dtype, rows, self.depth + 1)
        inner.tensors += [*self.tensors[-2:], *given]
        return inner


Recipe = Callable[[Pool], Tensor]


@dataclass(frozen=True, slots=True)
class Row:
    """A way to grow a graph.

    `is_smooth`: rounding of the operands moves the result but little. `is_nested`: what it adds has
    graphs of its own.
    """

    name: str
    recipe: Recipe
    is_float_only: bool
    is_smooth: bool
    is_nested: bool = False


def bounded(x: Tensor, most: int = MAX_ELEMENTS) -> Tensor:
    """Return `x` made small again: in number of elements, and in values."""
    if x.type.count > most:
        x = reduction.mean(x, axis=0) if x.dtype.is_complex else reduction.max(x, axis=0)
    if x.dtype.is_complex:
        size = arithmetic.add(1, arithmetic.square(arithmetic.abs(x)))
        return arithmetic.multiply(x, transcendental.rsqrt(size))
    if x.dtype.is_float:
        # Smooth, moves no more than x does, and is a few instructions.
        return arithmetic.multiply(x, transcendental.rsqrt(1 + arithmetic.square(x)))
    return x if x.dtype.kind == "unsigned" else arithmetic.remainder(x, 7)
