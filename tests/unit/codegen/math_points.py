"""Arguments at which math functions are hard: near zeros, edges of formulas, over- and underflow.

Not a test file: `test_math_accuracy.py` compares results at these points with mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from symgrad.graph.dtypes import DType, float32
from tests.unit.codegen.test_scalar_ops import Array


class Points:
    """Arguments of one dtype drawn from distributions: each method gives `count` of them."""

    def __init__(self, dtype: DType, count: int, seed: int) -> None:
        self.dtype = dtype
        self.count = count
        self.random = np.random.default_rng(seed)

    def uniform(self, low: float, high: float) -> Array:
        drawn: Array = self.random.uniform(low, high, self.count)
        return drawn.astype(self.dtype.numpy)

    def exponents(self, low: float, high: float) -> Array:
        """Both signs, and sizes spread evenly over the powers of 2."""
        size: Array = np.exp2(self.random.uniform(low, high, self.count))
        signed: Array = size * self.random.choice([-1, 1], self.count)
        return signed.astype(self.dtype.numpy)

    def around(self, centre: float) -> Array:
        """Return points at all distances from `centre`, down to its neighbours."""
        distance = self.exponents(-53, -1).astype(np.float64)
        points: Array = centre * (1 + distance)
        return points.astype(self.dtype.numpy)

    def every_exponent(self) -> Array:
        """Bit patterns: both signs, all exponents, subnormals, without infinities and nan."""
        bits = self.random.integers(
            0, 2**self.dtype.bits, self.count, dtype=f"u{self.dtype.itemsize}"
        )
        x = bits.view(self.dtype.numpy)
        return np.where(np.isfinite(x), x, self.dtype.numpy.type(1.5))

    def multiples_of_half_pi(self, largest: float) -> Array:
        """Return the floats closest to multiples of pi/2, where sin or cos nearly vanishes."""
        return (np.rint(self.uniform(-largest, largest)) * (math.pi / 2)).astype(self.dtype.numpy)


# The floats that come closest to a multiple of pi/2, and some infamous ones.
HARD_ANGLES = {
    "f32": [16367173 * 2.0**72, 3.4028235e38, 2.0**100, 1e22, 2.0**20, 2.0**20 - 0.0625],
    "f64": [6381956970095103 * 2.0**797, 1.7976931348623157e308, 2.0**1000, 1e22, 2.0**20,
            math.nextafter(2.0**20, 0), 5.34e15 + 0.5],
}  # fmt: skip


def _least(points: Points) -> int:
    return -149 if points.dtype == float32 else -1074


def _most(points: Points) -> float:
    """Return the exponent of e where e**x overflows."""
    return 88.72283 if points.dtype == float32 else 709.782712893384


def _tiny(points: Points) -> Array:
    return points.exponents(_least(points), -10)


def _exp2(points: Points) -> list[Array]:
    low, high = (-149, 128) if points.dtype == float32 else (-1074, 1024)
    return [_tiny(points), points.uniform(low, high), points.uniform(-1, 1), points.around(0.5),
            points.uniform(low, low + 24), np.rint(points.uniform(low, high)),
            points.around(low - 1)]  # fmt: skip


def _log(points: Points) -> list[Array]:
    powers = 10 ** np.rint(points.uniform(-37, 37).astype(np.float64))
    return [points.around(1), points.uniform(0.5, 2), points.around(math.sqrt(0.5)),
            np.abs(_tiny(points)), np.exp2(np.rint(points.uniform(-126, 127))),
            powers.astype(points.dtype.numpy),
            np.abs(points.exponents(_least(points), 127))]  # fmt: skip


def _tan(points: Points) -> list[Array]:
    hard = np.resize(np.array(HARD_ANGLES[points.dtype.short]), points.count)
    return [_tiny(points), points.uniform(-4, 4), points.multiples_of_half_pi(100),
            points.multiples_of_half_pi(2.0**40), points.exponents(17, 23),
            points.exponents(20, 127), points.around(math.pi / 4), points.around(math.pi / 2),
            hard.astype(points.dtype.numpy)]  # fmt: skip


def _turns(points: Points) -> list[Array]:
    halves = np.rint(points.uniform(-100, 100)) / 2
    large = np.rint(points.exponents(10, 22)) + points.dtype.numpy.type(0.25)
    return [_tiny(points), points.uniform(-3, 3), points.around(0.25), points.around(0.5),
            points.around(1), points.around(37.5), halves, large]  # fmt: skip


def _arcsine(points: Points) -> list[Array]:
    return [_tiny(points), points.uniform(-1, 1), points.around(0.5), points.around(-0.5),
            points.around(1), points.around(-1), points.uniform(-1.1, -0.4)]  # fmt: skip


def _arctangent(points: Points) -> list[Array]:
    return [_tiny(points), points.uniform(-1, 1), points.around(0.5),
            points.around(1), points.around(2), points.uniform(-20, 20),
            points.exponents(1, 60)]  # fmt: skip


def _hyperbolic(points: Points) -> list[Array]:
    top = _most(points)
    return [_tiny(points), points.uniform(-1, 1), points.around(1), points.uniform(-3, 3),
            points.uniform(-top, top), points.uniform(top - 1, top + math.log(2))]  # fmt: skip


def _area_sine(points: Points) -> list[Array]:
    return [_tiny(points), points.uniform(-2, 2), points.around(0.414), points.exponents(-8, 8),
            points.exponents(10, 35), points.exponents(35, 127)]  # fmt: skip


def _area_cosine(points: Points) -> list[Array]:
    return [points.around(1), points.uniform(1, 2), points.uniform(1, 10),
            np.abs(points.exponents(1, 35)), np.abs(points.exponents(35, 127))]  # fmt: skip


def _area_tangent(points: Points) -> list[Array]:
    return [_tiny(points), points.uniform(-1, 1), points.uniform(-0.3, 0.3), points.around(1),
            points.around(-1), points.exponents(-10, 0)]  # fmt: skip


def _cube_root(points: Points) -> list[Array]:
    cubes = np.rint(points.uniform(-100, 100)) ** 3
    return [_tiny(points), points.uniform(-9, 9), points.around(math.sqrt(0.5)), cubes]


REGIONS: dict[str, Callable[[Points], list[Array]]] = {
    "exp2": _exp2,
    "log2": _log,
    "log10": _log,
    "tan": _tan,
    "sinpi": _turns,
    "cospi": _turns,
    "asin": _arcsine,
    "acos": _arcsine,
    "atan": _arctangent,
    "sinh": _hyperbolic,
    "cosh": _hyperbolic,
    "asinh": _area_sine,
    "acosh": _area_cosine,
    "atanh": _area_tangent,
    "erfinv": _area_tangent,
    "cbrt": _cube_root,
}


def pair_regions(points: Points) -> list[list[Array]]:
    """Return pairs of numbers of all sizes, of like size, and such that a quotient is awkward."""
    width = points.exponents(-30, 30)
    like = width.astype(np.float64) * points.uniform(-4, 4)
    steep = width.astype(np.float64) * points.around(0.5)
    narrow = points.dtype.numpy
    return [
        [points.every_exponent(), points.every_exponent()],
        [like.astype(narrow), width],
        [steep.astype(narrow), width],
        [points.exponents(_least(points), _least(points) + 60), points.every_exponent()],
    ]
