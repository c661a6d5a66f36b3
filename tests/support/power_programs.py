"""Random powers: special bases to special exponents, known and not, beside what rules match.

A seed is a program: operands are 0, -0, infinities, nan, negative and ordinary numbers, exponents
are constants, arrays of them or inputs, and around powers are the sums, products, roots and
quotients that rules of algebra turn powers into, or join with them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from tests.support.drawing import Drawing, Tensor

_BASES = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, np.inf, -np.inf, np.nan)
_EXPONENTS = (
    *(0, 1, 2, 3, 4, -1, -2, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5),
    *(-3.0, 5.0, 1 / 3, np.inf, -np.inf, np.nan),
)
_WHOLE = (0, 1, 2, 3, 4, 7)
_SIZES = (1, 2, 3, 7, 8, 17, 33)


class _Powers(Drawing):
    """A program in the making."""

    def __init__(self, seed: int, dtype: DType) -> None:
        super().__init__(np.random.default_rng(seed), dtype)
        ndim = self.integer(0, 2)
        self.shape = tuple(_SIZES[self.integer(0, len(_SIZES) - 1)] for _ in range(ndim))

    def one_of(self, choices: tuple[int | float, ...]) -> int | float:
        return choices[self.integer(0, len(choices) - 1)]

    def values(self, choices: tuple[int | float, ...]) -> Array:
        """Return an array of special values, or in one of two of ordinary ones beside them."""
        special = self.rng.choice(np.array(choices, np.float64), self.shape)
        ordinary = self.rng.uniform(-3.0, 3.0, self.shape)
        is_special = self.rng.random(self.shape) < (0.3 if self.chance() else 1.0)
        found = np.asarray(np.where(is_special, special, ordinary))
        return found if self.dtype.is_float else np.trunc(np.nan_to_num(found, posinf=7, neginf=-7))

    def base(self) -> Tensor:
        return self.given(self.values(_BASES))

    def exponent(self) -> Tensor | Array | int | float:
        """Return an exponent that fits: of integers none that is known to be negative."""
        known = _EXPONENTS if self.dtype.is_float else _WHOLE
        kind = self.integer(0, 5)
        if kind > 2:
            return self.one_of(known)
        if kind == 2:
            return self.given(np.abs(self.values(known)) if self.chance() else self.values(known))
        array = self.values(known) if self.dtype.is_float else np.abs(self.values(known))
        return array.astype(self.dtype.numpy)

    def step(self, x: Tensor) -> Tensor:
        """Return a power of `x`, or what stands around powers."""
        ways: list[Callable[[], Tensor]] = [
            lambda: x ** self.exponent(), lambda: x ** self.exponent(),
            lambda: x ** self.exponent(), lambda: x ** self.exponent() * x,
            lambda: x * x, lambda: x * x * x, lambda: -x,
            lambda: self.one_of((0, 1, 2, 3)) ** sg.abs(x),
            lambda: (x**0 + self.integer(1, 3)) + self.integer(1, 3),
            lambda: x ** self.exponent() + x ** self.exponent(),
            lambda: (x * 2) ** self.exponent(), lambda: sg.abs(x) ** self.exponent(),
            lambda: sg.where(x > 0, x ** self.exponent(), x),
            lambda: (x ** self.exponent()) ** self.exponent(),
        ]  # fmt: skip
        if self.dtype.is_float:
            ways += [
                lambda: sg.sqrt(x), lambda: 1 / x, lambda: x / (x * x), lambda: 1 / sg.sqrt(x),
                lambda: sg.exp(x ** self.exponent()), lambda: sg.log(x ** self.exponent()),
            ]  # fmt: skip
        return ways[self.integer(0, len(ways) - 1)]()


def random_powers(seed: int, dtype: DType) -> tuple[sg.Graph, list[Array]]:
    """Return powers of special numbers, of floats with first and with second gradients."""
    net = _Powers(seed, dtype)
    outputs = [net.base()]
    for _ in range(net.integer(1, 3)):
        outputs.append(net.step(outputs[-1]))
    outputs = outputs[-2:]
    if dtype.is_float and not net.chance(3):
        first = [g for g in sg.gradients(outputs[-1], net.inputs) if g is not None]
        outputs += first
        if first and net.chance():
            outputs += [g for g in sg.gradients(first, net.inputs) if g is not None]
    return sg.Graph(outputs, net.inputs, name="powers"), net.arrays
