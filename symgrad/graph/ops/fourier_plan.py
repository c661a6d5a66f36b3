"""Plans of Fourier transforms: passes of short ones, for tensors of known sizes.

A transform of n = r * m numbers is m transforms of r, a multiplication by roots of unity, and r
transforms of m (Cooley and Tukey, 1965). Each pass writes its results where the next one reads them
side by side, so no pass reorders anything (Stockham's autosort; Cochran et al., 1967). A length
with a large prime factor is a convolution with a chirp (Bluestein, 1970), of another length.

Complex tensors are pairs of real ones here, of three axes: the second one is transformed, and what
lies side by side along the third is in the lanes of vectors. No op is declared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.butterflies import least_factor, roots_of_unity
from symgrad.graph.ops.fourier_columns import fourier_columns
from symgrad.graph.ops.slicing import place, stack
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.types import Array, Shape
from symgrad.records import dataclass

LONGEST = 16  # numbers of a transform that is written out, unless their number is prime
LARGEST_PRIME = 31  # factor of a length that is cut into its factors
LANES = 8  # numbers side by side that fill a vector
LARGEST_TABLE = 1 << 14  # of roots of unity; larger ones are made of two


@dataclass(frozen=True, slots=True)
class ComplexPair:
    """A complex tensor: its real and its imaginary part."""

    re: Tensor
    im: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self.re.type.static_shape

    @property
    def dtype(self) -> DType:
        return self.re.dtype

    @property
    def swapped(self) -> ComplexPair:
        """Exchange the parts: the transform of that is the inverse transform, swapped again."""
        return ComplexPair(self.im, self.re)

    def reshaped(self, *shape: int) -> ComplexPair:
        return ComplexPair(reshape(self.re, shape), reshape(self.im, shape))

    def permuted(self, *order: int) -> ComplexPair:
        return ComplexPair(permute_dims(self.re, order), permute_dims(self.im, order))

    def scaled(self, factor: float) -> ComplexPair:
        if factor == 1.0:
            return self
        return ComplexPair(multiply(self.re, factor), multiply(self.im, factor))

    def times(self, factor: ComplexPair) -> ComplexPair:
        re = subtract(multiply(self.re, factor.re), multiply(self.im, factor.im))
        im = add(multiply(self.re, factor.im), multiply(self.im, factor.re))
        return ComplexPair(re, im)


def parts_of(z: Tensor, axis: int) -> ComplexPair:
    """Return the two halves along an axis of size 2, which disappears."""
    shape = z.shape[:axis] + z.shape[axis + 1 :]
    re, im = (reshape(narrow(z, axis, part, 1), shape) for part in (0, 1))
    return ComplexPair(re, im)


def table(parts: Sequence[Array], own: Shape, dtype: DType, shape: Shape) -> ComplexPair:
    """Return constants of shape `own`, repeated along its axes of size 1."""
    re, im = (constant(np.asarray(part).reshape(own), dtype) for part in parts)
    return ComplexPair(broadcast_to(re, shape), broadcast_to(im, shape))


@dataclass(frozen=True, slots=True)
class SpectrumLayout:
    """Where a result (outer, n, inner) has the axis of its parts: 0, 2 or 3; by what it is scaled.

    If it `is_swapped`, imaginary parts come first: of swapped operands, that is the inverse.
    """

    parts_axis: int
    scale: float = 1.0
    is_swapped: bool = False


def spectrum(x: ComplexPair, layout: SpectrumLayout) -> Tensor:
    """Return the forward transform of (outer, n, inner), with one more axis for its parts."""
    _, n, inner = x.shape
    if largest_factor(n) > LARGEST_PRIME:
        return _by_chirp(x, layout)
    if n > 1 and inner >= LANES:
        return _across(x, layout)
    return _within(x, layout)


# ----------------------------------------------------------------------------------- the passes


def _across(x: ComplexPair, layout: SpectrumLayout) -> Tensor:
    """Transform with lanes along the third axis."""
    outer, n, inner = x.shape
    *before, last = radices(n)
    x, _ = _passes(x, before)
    columns = x.reshaped(outer, last, n // last, inner).permuted(1, 0, 2, 3)
    return _last_pass(columns.scaled(layout.scale), layout)


def _within(x: ComplexPair, layout: SpectrumLayout) -> Tensor:
    """Transform with lanes along a part of the second axis, which is transformed in the last pass.

    An index of x is low + first * high. The passes transform along `high`, the last one along
    `low`, with lanes along what the others have found: it reads columns and writes rows.
    """
    outer, n, inner = x.shape
    first = _first_lanes(n)
    rest = n // first
    x, _ = _passes(x.reshaped(outer, rest, first * inner), radices(rest))
    columns = x.reshaped(outer, rest, first, inner).permuted(2, 0, 1, 3)
    turned = columns.scaled(layout.scale) if rest == 1 else _turned(columns, n, layout.scale)
    return _last_pass(turned, layout)


def _last_pass(columns: ComplexPair, layout: SpectrumLayout) -> Tensor:
    """Transform (last, outer, before, inner) along its first axis, which goes before `before`."""
    last, outer, before, inner = columns.shape
    shape = [outer, last * before, inner]
    at = layout.parts_axis
    shape.insert(at, 2)
    axes = (at + 1, 1) if at else (0, 2)
    z = fourier_columns(columns.re, columns.im, axes=axes, is_swapped=layout.is_swapped)
    return reshape(z, tuple(shape))


def _passes(x: ComplexPair, factors: list[int]) -> tuple[ComplexPair, int]:
    """Transform along the product of `factors`, as which the second axis begins.

    What is left of the second axis comes first in the result: (outer, left, factors * inner).
    """
    outer, left, width = x.shape
    for r in factors:
        left //= r
        columns = x.reshaped(outer, r, left, width).permuted(1, 0, 2, 3)
        turns: tuple[Tensor, ...] = ()
        if left > 1:
            roots = roots_of_unity(np.outer(np.arange(1, r), np.arange(left)), r * left)
            found = table(roots, (r - 1, 1, left, 1), x.dtype, (r - 1, outer, left, width))
            turns = found.re, found.im
        z = fourier_columns(columns.re, columns.im, *turns, axes=(2, 3))
        width *= r
        x = parts_of(reshape(z, (outer, left, 2, width)), 2)
    return x, width


def _turned(columns: ComplexPair, n: int, scale: float) -> ComplexPair:
    """Multiply the numbers (low, outer, high, inner) by the roots low * high of n, and `scale`."""
    low, outer, high, inner = columns.shape
    # high = fine + step * coarse: of a large table, the cache keeps one of each.
    step = high if n <= LARGEST_TABLE else _largest_step(high, LARGEST_TABLE // (2 * low))
    step = high if step == 1 else step
    cut = columns.reshaped(low, outer, high // step, step, inner)
    for count, by, shape in (
        (step, 1, (low, 1, 1, step, 1)),
        (high // step, step, (low, 1, high // step, 1, 1)),
    ):
        if count == 1:
            continue
        re, im = roots_of_unity(np.outer(np.arange(low), by * np.arange(count)), n)
        factor = scale if by == 1 else 1.0
        cut = cut.times(table((re * factor, im * factor), shape, columns.dtype, cut.shape))
    return cut.reshaped(*columns.shape)


def _largest_step(size: int, most: int) -> int:
    """Return the largest divisor of `size` up to `most`, 1 at the least."""
    return next((d for d in range(min(size, most), 1, -1) if size % d == 0), 1)


def _first_lanes(n: int) -> int:
    """Return the factor of `n` whose numbers lie side by side in the first pass.

    It fills vectors best: what is left over of them is one narrower one, or single numbers.
    """
    if n <= LONGEST or least_factor(n) == n:
        return n

    def filled(size: int) -> float:
        rest = size % LANES
        return size / (size // LANES + (1 if rest & (rest - 1) == 0 and rest else rest))

    factors = [d for d in range(2, LARGEST_PRIME + 1) if n % d == 0 and d < n]
    return max(factors, key=lambda d: (filled(d), -d))


# ------------------------------------------------------------------------------------ the lengths


def radices(n: int) -> list[int]:
    """Return the lengths of the passes of a transform, whose product is `n` above 1."""
    primes: list[int] = []
    rest = n
    while rest > 1:
        primes.append(least_factor(rest))
        rest //= primes[-1]
    twos = primes.count(2)
    found = [p for p in primes if p > 5]
    found += _powers(3, primes.count(3), 2) + _powers(5, primes.count(5), 1)
    if twos % 3 == 1 and twos > 1:
        return sorted([*found, *[8] * ((twos - 4) // 3), 16])
    pieces = sorted([*found, *[8] * (twos // 3), *([2 ** (twos % 3)] if twos % 3 else [])])
    while len(pieces) > 1 and pieces[0] * pieces[1] <= 10:
        pieces = sorted([pieces[0] * pieces[1], *pieces[2:]])
    return pieces


def _powers(prime: int, count: int, most: int) -> list[int]:
    rest = count % most
    return [prime**most] * (count // most) + ([prime**rest] if rest else [])


def largest_factor(n: int) -> int:
    """Return the largest prime factor of `n`, 1 for 1."""
    largest = 1
    while n > 1:
        largest = least_factor(n)
        n //= largest
    return largest


# -------------------------------------------------------------------------------------- the chirp


def _by_chirp(x: ComplexPair, layout: SpectrumLayout) -> Tensor:
    """Return the transform as a convolution: j * k = (j^2 + k^2 - (j - k)^2) / 2."""
    n = x.shape[1]
    size = padded_size(n)
    chirp = roots_of_unity(np.arange(n, dtype=np.int64) ** 2 % (2 * n), 2 * n)
    factor = table(chirp, (n, 1), x.dtype, x.shape)
    response = np.zeros(size, np.complex128)
    response[:n] = chirp[0] - 1j * chirp[1]
    response[size - n + 1 :] = response[n - 1 : 0 : -1]
    found = np.fft.fft(response) * (layout.scale / size)
    padded = _padded(x.times(factor), size)
    weights = table((found.real, found.imag), (size, 1), x.dtype, padded.shape)
    turned = parts_of(spectrum(padded, SpectrumLayout(0)), 0).times(weights)
    back = parts_of(spectrum(turned.swapped, SpectrumLayout(0)), 0).swapped
    kept = ComplexPair(narrow(back.re, 1, 0, n), narrow(back.im, 1, 0, n)).times(factor)
    kept = kept.swapped if layout.is_swapped else kept
    return stack([kept.re, kept.im], axis=layout.parts_axis)


def _padded(x: ComplexPair, size: int) -> ComplexPair:
    outer, _, inner = x.shape
    re, im = (place(t, (outer, size, inner), (0, 0, 0), (1, 1, 1)) for t in (x.re, x.im))
    return ComplexPair(re, im)


def padded_size(n: int) -> int:
    """Return the length of the convolution by which `n` numbers are transformed."""
    least = 2 * n - 1
    power = 1 << max(least - 1, 1).bit_length()
    sizes = [power * k // d for k, d in ((1, 1), (15, 16), (9, 16), (5, 8), (3, 4), (25, 32))]
    fitting = [s for s in sizes if s >= least and s % LANES == 0]
    return min(fitting, default=math.ceil(least / LANES) * LANES)
