"""Type conversion: casts between element types, float16 and bfloat16 included.

A half is in registers as the 16 bits it has in memory. It is converted by way of float32, which
holds every half exactly. Conversion to a half rounds to nearest even, once: what float32 may not
hold is first rounded to odd (Boldo and Melquiond 2008), which keeps what the second rounding has to
know.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import Real, Word, call_intrinsic
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import vector_type
from symgrad.graph.dtypes import DType, bfloat16, float16, float32, float64

_LOW = 11  # bits that a 64-bit integer has more than the significand of a float64
_SCALARS = {"f32": ir.FloatType(), "f64": ir.DoubleType()}


def register_type(dtype: DType) -> ir.Type:
    """Return the type of one element in a register."""
    if dtype.is_float and not dtype.is_half:
        return _SCALARS[dtype.short]
    return ir.IntType(dtype.bits)


class Conversions:
    """Casts at one place of a function."""

    def __init__(self, builder: ir.IRBuilder, target: Target, width: int) -> None:
        self.builder = builder
        self.target = target
        self.width = width
        self.single = Floats(builder, target, width, float32)
        self.double = Floats(builder, target, width, float64)

    def type_of(self, dtype: DType) -> ir.Type:
        return vector_type(register_type(dtype), self.width)

    def cast(self, value: ir.Value, source: DType, to: DType) -> ir.Value:
        """Convert lanes of `source` to lanes of `to`."""
        if source == to:
            return value
        if source.is_half:
            return self.cast(self._widen_half(value, source), float32, to)
        if to.is_half:
            return self._to_half(value, source, to)
        if source.is_float:
            return self._from_float(value, to)
        if to.is_float:
            return self._integer_to_float(value, source, to)
        return self._integer_to_integer(value, source, to)

    def _integer_to_integer(self, value: ir.Value, source: DType, to: DType) -> ir.Value:
        if to.is_bool:
            return self.builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
        kind = self.type_of(to)
        if to.bits == source.bits:
            return value
        if to.bits < source.bits:
            return self.builder.trunc(value, kind)
        extend = self.builder.sext if source.kind == "signed" else self.builder.zext
        return extend(value, kind)

    def _integer_to_float(self, value: ir.Value, source: DType, to: DType) -> ir.Value:
        convert = self.builder.sitofp if source.kind == "signed" else self.builder.uitofp
        return convert(value, self.type_of(to))

    def _from_float(self, value: ir.Value, to: DType) -> ir.Value:
        kind = self.type_of(to)
        if to.is_bool:
            return self.builder.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
        if to.is_float:
            convert = self.builder.fpext if to == float64 else self.builder.fptrunc
            return convert(value, kind)
        if self.width > 1 and self.target.converts_vectors(to.bits):
            return self._saturated(value, to)
        name = "llvm.fptosi.sat" if to.kind == "signed" else "llvm.fptoui.sat"
        return call_intrinsic(self.builder, name, [kind, value.type], [value], kind)

    def _saturated(self, value: ir.Value, to: DType) -> ir.Value:
        """Convert to an integer: nan to 0, what is beyond a limit to the limit.

        LLVM's intrinsic for that, one instruction on aarch64, converts on x86 one lane at a time.
        """
        b, kind, is_signed = self.builder, self.type_of(to), to.kind == "signed"
        above = 2.0 ** (to.bits - is_signed)
        low, high = (ir.Constant(value.type, n) for n in (-above if is_signed else 0.0, above))
        greatest = ir.Constant(kind, 2 ** (to.bits - is_signed) - 1)
        bounded = b.select(b.fcmp_ordered(">", value, low), value, low)
        # What is too large is converted to anything, which is not selected.
        found = (b.fptosi if is_signed else b.fptoui)(bounded, kind)
        found = b.select(b.fcmp_ordered(">=", value, high), greatest, found)
        is_nan = b.fcmp_unordered("uno", value, value)
        return b.select(is_nan, ir.Constant(kind, 0), found)

    def _to_half(self, value: ir.Value, source: DType, to: DType) -> ir.Value:
        if source.is_integer and source.bits > 16:
            value, source = self._integer_to_double(value, source), float64
        if source == float64:
            single = self._round_to_odd(self.double.real(value))
        else:
            single = self.single.real(self.cast(value, source, float32))
        if to == bfloat16:
            return self._narrow_to_bfloat(single)
        if self.target.has_half:
            half = vector_type(ir.HalfType(), self.width)
            return self.builder.bitcast(
                self.builder.fptrunc(single.value, half), self.type_of(float16)
            )
        return self._narrow_to_half(single)

    def _widen_half(self, value: ir.Value, source: DType) -> ir.Value:
        f = self.single
        if source == float16 and self.target.has_half:
            half = vector_type(ir.HalfType(), self.width)
            return self.builder.fpext(self.builder.bitcast(value, half), f.type)
        bits = Word(self.builder, self.builder.zext(value, f.word_type))
        if source == bfloat16:
            return f.from_bits(bits << 16).value
        # Shifted into place, the exponent is too small by the difference of the biases: also
        # for subnormals, which the multiplication makes normal. inf and nan need all bits set.
        magnitude = f.from_bits((bits & 0x7FFF) << 13) * 2.0**112
        special = f.from_bits(f.bits(magnitude) | 0x7F800000)
        magnitude = (bits & 0x7FFF).above(0x7BFF).choose(special, magnitude)
        return f.from_bits(f.bits(magnitude) | ((bits & 0x8000) << 16)).value

    def _round_to_odd(self, x: Real) -> Real:
        """Round to float32: to the neighbour with an odd last bit unless exact."""
        single = self.single
        nearest = single.real(self.builder.fptrunc(x.value, single.type))
        back, size = self.double.absolute(single.widen(nearest)), self.double.absolute(x)
        one, zero = single.word(1), single.word(0)
        towards_zero = single.bits(nearest) - (back > size).choose(one, zero)
        is_inexact = (back > size) | (back < size)
        return single.from_bits(towards_zero | is_inexact.choose(one, zero))

    def _integer_to_double(self, value: ir.Value, source: DType) -> ir.Value:
        """Convert to float64; one of 64 bits that does not fit is rounded to odd."""
        if source.bits == 64:
            b, low = self.builder, ir.Constant(value.type, (1 << _LOW) - 1)
            is_cut = b.icmp_unsigned("!=", b.and_(value, low), ir.Constant(value.type, 0))
            last = b.and_(b.sext(is_cut, value.type), ir.Constant(value.type, 1 << _LOW))
            odd = b.or_(b.and_(value, b.not_(low)), last)
            value = b.select(self._fits_double(value, source), value, odd)
        return self._integer_to_float(value, source, float64)

    def _fits_double(self, value: ir.Value, source: DType) -> ir.Value:
        """Return where a 64-bit integer is below 2**53 in size."""
        limit = 1 << 53
        if source.kind == "signed":
            value = self.builder.add(value, ir.Constant(value.type, limit))
            limit *= 2
        return self.builder.icmp_unsigned("<", value, ir.Constant(value.type, limit))

    def _truncate(self, bits: Word) -> ir.Value:
        return self.builder.trunc(bits.value, self.type_of(float16))

    def _narrow_to_bfloat(self, x: Real) -> ir.Value:
        bits = self.single.bits(x)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        quiet = (bits >> 16) | 0x40
        return self._truncate(x.is_nan().choose(quiet, rounded))

    def _narrow_to_half(self, x: Real) -> ir.Value:
        """Round by integer arithmetic (after F. Giesen's float_to_half_fast3_rtne)."""
        f = self.single
        size = f.absolute(x)
        bits = f.bits(size)
        # Below the normals of float16: adding 0.5 leaves the result in the low bits, rounded.
        small = f.bits(size + 0.5) - 0x3F000000
        normal = (bits - (112 << 23) + 0xFFF + ((bits >> 13) & 1)) >> 13
        result = (size < 2.0**-14).choose(small, normal)
        result = (size >= 65520.0).choose(f.word(0x7C00), result)
        quiet = ((bits >> 13) & 0x3FF) | 0x7E00
        result = x.is_nan().choose(quiet, result)
        return self._truncate(result | (f.sign_bit(x) >> 16))
