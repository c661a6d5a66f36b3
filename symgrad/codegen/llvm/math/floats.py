"""Floating-point building blocks: bit fields, polynomials, error-free transformations.

`Floats` knows the format (float32 or float64), the width and whether the target fuses. It holds
the building blocks the functions share, not the functions themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from symgrad.codegen import ir
from symgrad.codegen.llvm.math.values import LaneMask, Real, Word, call_intrinsic
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import vector_type
from symgrad.graph.dtypes import DType, float32, float64


class Floats:
    """Arithmetic on lanes of one float format.

    `digits` are the explicit bits of the significand, `bias` is that of the exponent.
    """

    def __init__(self, builder: ir.IRBuilder, target: Target, width: int, dtype: DType) -> None:
        assert dtype in (float32, float64), f"{dtype} is not computed in"
        self.builder: Final = builder
        self.target: Final = target
        self.width: Final = width
        self.dtype: Final = dtype
        self.is_single: Final = dtype == float32
        self.digits: Final = 23 if self.is_single else 52
        self.bias: Final = 127 if self.is_single else 1023
        scalar = ir.FloatType() if self.is_single else ir.DoubleType()
        self.type: Final = vector_type(scalar, width)
        self.word_type: Final = vector_type(ir.IntType(dtype.bits), width)
        self._shifter, self._shifter_bits = self._shifter_of(1)

    def real(self, value: ir.Value) -> Real:
        return Real(self.builder, value)

    def const(self, value: float) -> Real:
        return Real(self.builder, ir.Constant(self.type, value))

    def word(self, value: int) -> Word:
        return Word(self.builder, ir.Constant(self.word_type, value))

    def bits(self, x: Real) -> Word:
        return Word(self.builder, self.builder.bitcast(x.value, self.word_type))

    def from_bits(self, bits: Word) -> Real:
        return Real(self.builder, self.builder.bitcast(bits.value, self.type))

    def mul_add(self, a: Real, b: Real | float, c: Real | float) -> Real:
        """Return a * b + c: rounded once where the target fuses, twice elsewhere."""
        if not self.target.has_fma:
            return a * b + c
        args = [term.value if isinstance(term, Real) else self.const(term).value
                for term in (a, b, c)]  # fmt: skip
        return self.real(call_intrinsic(self.builder, "llvm.fma", [self.type], args, self.type))

    def sqrt(self, x: Real) -> Real:
        return self.real(
            call_intrinsic(self.builder, "llvm.sqrt", [self.type], [x.value], self.type)
        )

    def absolute(self, x: Real) -> Real:
        return self.from_bits(self.bits(x) & ((1 << (self.dtype.bits - 1)) - 1))

    def sign_bit(self, x: Real) -> Word:
        return self.bits(x) & (1 << (self.dtype.bits - 1))

    def is_negative(self, x: Real) -> LaneMask:
        """Return where the sign bit of `x` is set: also for -0.0."""
        return self.bits(x).less(0)

    def copy_sign(self, magnitude: Real, sign: Real) -> Real:
        return self.from_bits(self.bits(self.absolute(magnitude)) | self.sign_bit(sign))

    def polynomial(self, x: Real, coefficients: Sequence[float]) -> Real:
        """Evaluate by Horner's rule; coefficients in order of rising powers."""
        total = self.const(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.mul_add(total, x, coefficient)
        return total

    def polynomial_by_pairs(self, x: Real, square: Real, coefficients: Sequence[float]) -> Real:
        """Evaluate by Estrin's scheme of one level: Horner's rule in the `square` of x, of pairs.

        About as many operations as Horner's rule takes, but a chain of half as many: what waits
        for others takes the room in which a core looks for what does not.
        """
        pairs = [coefficients[at : at + 2] for at in range(0, len(coefficients), 2)]
        total = self.polynomial(x, pairs[-1])
        for pair in reversed(pairs[:-1]):
            total = self.mul_add(total, square, self.polynomial(x, pair))
        return total

    def clamp(self, x: Real, low: float, high: float) -> Real:
        """Limit `x` to [low, high]; nan stays."""
        x = (x > high).choose(self.const(high), x)
        return (x < low).choose(self.const(low), x)

    def nearest_multiple(self, x: Real, reciprocal: float) -> tuple[Real, Word]:
        """Return the integer nearest to x * reciprocal as a float and as a word.

        Right for |x * reciprocal| < 2**(digits - 1), to within the rounding of the product. The
        shift is by a constant and not by a conversion, which would be undefined for nan and which
        SSE2 has not for 64-bit integers.
        """
        n, _, word = self.nearest_piece(x, reciprocal, 1)
        return n, word

    def nearest_piece(self, x: Real, reciprocal: float, pieces: int) -> tuple[Real, Word, Word]:
        """Return the multiple of 1 / pieces nearest to x * reciprocal, and how many pieces it has.

        `pieces` is a power of 2. Right for |x * reciprocal| < 2**(digits - 1) / pieces. Between
        the two is a word whose low bits, but for the upper two of the digits, are those of the
        count: one operation less for what needs no others.
        """
        shifter, shifter_bits = self._shifter_of(pieces)
        shifted = self.mul_add(x, reciprocal, shifter)
        word = self.bits(shifted)
        return shifted - shifter, word, word - shifter_bits

    def _shifter_of(self, pieces: int) -> tuple[float, int]:
        """Return what leaves in the low bits, added to a small number, how many pieces it has.

        Its unit in the last place is one, and the half above a power of 2 keeps negative sums in
        the binade.
        """
        exponent = self.digits - pieces.bit_length() + 1
        half = 1 << (self.digits - 1)
        return 1.5 * 2.0**exponent, ((self.bias + exponent) << self.digits) | half

    def small_integer(self, n: Word) -> Real:
        """Convert a word of less than digits - 1 bits, negative ones too."""
        return self.from_bits(n + self._shifter_bits) - self._shifter

    def power_of_two(self, k: Word) -> Real:
        """Return 2**k; k must be the exponent of a normal number."""
        return self.from_bits((k + self.bias) << self.digits)

    def scale(self, x: Real, k: Word) -> Real:
        """Return x * 2**k for |k| < 2 * bias and x about 1: rounds once, also below the normals."""
        # Halving a shifted word is an unsigned shift: AVX2 has no signed one for 64 bits.
        half = ((k + 4 * self.bias) >> 1) - 2 * self.bias
        return x * self.power_of_two(half) * self.power_of_two(k - half)

    def scale_down(self, x: Real, k: Word) -> Real:
        """Return x * 2**k as `scale` does, bit for bit, for a k that is less than half the bias.

        The first step is to where all are normal numbers, so the second one rounds, by a constant.
        """
        raised = self.bias // 2
        return x * self.power_of_two(k + raised) * 2.0**-raised

    def is_infinite(self, x: Real) -> LaneMask:
        return self.absolute(x).equals(float("inf"))

    def fast_two_sum(self, a: Real, b: Real) -> tuple[Real, Real]:
        """Return the rounded sum and its error, exactly, if |a| >= |b| (Dekker 1971)."""
        total = a + b
        return total, b - (total - a)

    def two_sum(self, a: Real, b: Real) -> tuple[Real, Real]:
        """Return the rounded sum and its error, exactly (Knuth)."""
        total = a + b
        back = total - a
        return total, (a - (total - back)) + (b - back)

    def split(self, x: Real) -> tuple[Real, Real]:
        """Return two halves of the significand with x = high + low (Veltkamp's splitting)."""
        # float64 has 53 bits: 26 and 26, the last one being in the sign of the low half.
        scaled = x * (2.0 ** ((self.digits + 2) // 2) + 1.0)
        high = scaled - (scaled - x)
        return high, x - high

    def two_product(self, a: Real, b: Real) -> tuple[Real, Real]:
        """Return the rounded product and its error, exactly barring underflow (Dekker 1971)."""
        product = a * b
        if self.target.has_fma:
            return product, self.mul_add(a, b, -product)
        (a_high, a_low), (b_high, b_low) = self.split(a), self.split(b)
        error = a_high * b_high - product
        error = error + a_high * b_low
        error = error + a_low * b_high
        return product, error + a_low * b_low

    def widened(self) -> Floats:
        """Return float64 at the same place and width."""
        return Floats(self.builder, self.target, self.width, float64)

    def widen(self, x: Real) -> Real:
        return self.real(self.builder.fpext(x.value, self.widened().type))

    def narrow(self, x: Real) -> Real:
        """Round a float64 to this format."""
        return self.real(self.builder.fptrunc(x.value, self.type))
