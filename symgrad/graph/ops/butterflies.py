"""Butterflies: short Fourier transforms written out, of complex numbers as pairs of expressions.

A composite length is cut into shorter ones (Cooley and Tukey, 1965), a prime one adds up the terms
k and n - k together, which share their cosines and, but for a sign, their sines. All are forward
and unscaled: y[j] = sum over k of x[k] exp(-2 pi i j k / n). No op is declared here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from symgrad.graph.formulas import FloatExpr
from symgrad.graph.types import Array
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A complex scalar expression."""

    re: FloatExpr
    im: FloatExpr

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.re - other.re, self.im - other.im)

    def turned(self) -> Complex:
        """Return this times -i."""
        return Complex(self.im, -self.re)

    def times(self, re: FloatExpr | float, im: FloatExpr | float) -> Complex:
        """Return the product with re + i im."""
        return Complex(self.re * re - self.im * im, self.re * im + self.im * re)

    def rotated(self, number: int, n: int) -> Complex:
        """Return this times exp(-2 pi i number / n), by the fewest operations."""
        eighths, is_odd = divmod(8 * (number % n), n)
        if is_odd:
            return self.times(*root_of_unity(number, n))
        result = self
        if eighths % 2:
            scale = math.sqrt(0.5)
            result = Complex((self.re + self.im) * scale, (self.im - self.re) * scale)
        quarters = eighths // 2
        if quarters == 1:
            return result.turned()
        if quarters == 2:
            return Complex(-result.re, -result.im)
        return Complex(-result.im, result.re) if quarters == 3 else result


def roots_of_unity(numbers: Array, n: int) -> tuple[Array, Array]:
    """Return real and imaginary parts of exp(-2 pi i number / n), right to rounding.

    Angles are reduced as integers, to an eighth of a turn from one of the axes.
    """
    eighths, rest = np.divmod(8 * (np.asarray(numbers, np.int64) % n), n)
    is_upper = eighths % 2 == 1
    angle = np.pi / 4 * np.where(is_upper, n - rest, rest) / n
    cosine, sine = np.cos(angle), np.sin(angle)
    cosine, sine = np.where(is_upper, sine, cosine), np.where(is_upper, cosine, sine)
    quarters = eighths // 2
    is_odd, is_second_half = quarters % 2 == 1, quarters >= 2
    cosine, sine = np.where(is_odd, -sine, cosine), np.where(is_odd, cosine, sine)
    sign = np.where(is_second_half, -1.0, 1.0)
    return sign * cosine, -sign * sine


def root_of_unity(number: int, n: int) -> tuple[float, float]:
    """Return real and imaginary part of exp(-2 pi i number / n)."""
    re, im = roots_of_unity(np.asarray(number), n)
    return float(re), float(im)


def transform(x: Sequence[Complex]) -> list[Complex]:
    """Return the Fourier transform of a few numbers."""
    n = len(x)
    if n == 1:
        return list(x)
    if n == 2:
        return [x[0] + x[1], x[0] - x[1]]
    if n == 4:
        return _of_four(*x)
    first = _first_factor(n)
    return _of_prime(x) if first == n else _of_product(x, first, n // first)


def flops_of_transform(n: int) -> int:
    """Return about how many flops `transform` of `n` numbers takes."""
    total, rest = 0, n
    while rest > 1:
        prime = least_factor(rest)
        total += n // prime * (4 if prime == 2 else 2 * prime * (prime + 1)) + 3 * n
        rest //= prime
    return total


def _first_factor(n: int) -> int:
    """Return by what a length is cut first, the length itself if it is prime."""
    return next((r for r in (4, 2, 3, 5, 7) if n % r == 0), least_factor(n))


def least_factor(n: int) -> int:
    """Return the least prime factor of a number above 1."""
    return next((r for r in range(2, math.isqrt(n) + 1) if n % r == 0), n)


def _of_four(a: Complex, b: Complex, c: Complex, d: Complex) -> list[Complex]:
    even, odd = a + c, b + d
    low, high = a - c, (b - d).turned()
    return [even + odd, low + high, even - odd, low - high]


def _of_product(x: Sequence[Complex], r: int, m: int) -> list[Complex]:
    """Decimate in time: the transforms of every r-th number, turned and transformed across."""
    parts = [transform(x[k::r]) for k in range(r)]
    result: list[Complex] = list(x)
    for j in range(m):
        across = transform([parts[k][j].rotated(j * k, r * m) for k in range(r)])
        result[j::m] = across
    return result


def _of_prime(x: Sequence[Complex]) -> list[Complex]:
    n = len(x)
    sums = [x[k] + x[n - k] for k in range(1, (n + 1) // 2)]
    differences = [x[k] - x[n - k] for k in range(1, (n + 1) // 2)]
    total = x[0]
    for pair in sums:
        total = total + pair
    result = [total] * n
    for j in range(1, (n + 1) // 2):
        even, odd = x[0], None
        for k, (plus, minus) in enumerate(zip(sums, differences, strict=True), start=1):
            cosine, sine = root_of_unity(j * k, n)
            even = Complex(even.re + plus.re * cosine, even.im + plus.im * cosine)
            # sine is that of -2 pi j k / n: what comes of it is i times the differences.
            turn = Complex(minus.im * -sine, minus.re * sine)
            odd = turn if odd is None else odd + turn
        assert odd is not None, "a prime above 2 has pairs"
        result[j], result[n - j] = even + odd, even - odd
    return result
