"""SIMD and scalar operations in LLVM IR: one row for each row of `SCALAR_OPS`.

What an operation means is said in `graph/scalars.py`; how the harder ones are computed, in the
package `math`. Loops, addresses of elements and the choice of a width are the kernel emitter's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.codegen import ir
from symgrad.codegen.llvm.extrema import RELATIONS, Extremum, emit_float_extremum
from symgrad.codegen.llvm.math import integers, rounding
from symgrad.codegen.llvm.math.conversions import Conversions, register_type
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.functions import FUNCTIONS, MathFunction, call_math
from symgrad.codegen.llvm.math.reciprocal_roots import emit_rsqrt
from symgrad.codegen.llvm.math.values import Real, Word
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import masked_load, masked_store, splat, vector_type
from symgrad.graph.dtypes import DType
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.scalars import SCALAR_OPS

_BYTE = ir.IntType(8)
_B = ir.IRBuilder


def memory_type(dtype: DType) -> ir.Type:
    """Return the type of one element in memory: a bool takes a byte."""
    return _BYTE if dtype.is_bool else register_type(dtype)


class Lanes:
    """Where scalar operations are emitted: a builder, a target and a width.

    Width 1 is scalars, W vectors of W lanes. With `inline_math` off, math functions stay calls:
    for kernels with so many of them that inlining would take long to compile.
    """

    def __init__(
        self, builder: ir.IRBuilder, target: Target, width: int, *, inline_math: bool = True
    ) -> None:
        self.builder = builder
        self.target = target
        self.width = width
        self.inline_math = inline_math

    def type_of(self, dtype: DType) -> ir.Type:
        """Return the type of a value in registers: a half is its 16 bits, a bool one bit."""
        return vector_type(register_type(dtype), self.width)

    def const(self, value: bool | int | float, dtype: DType) -> ir.Value:
        """Return `value`, rounded to `dtype`, in every lane."""
        if not dtype.is_float:
            return ir.Constant(self.type_of(dtype), int(value))
        with np.errstate(over="ignore"):
            rounded = convert_numbers(np.asarray(value), dtype)
        if dtype.is_half:
            return ir.Constant(self.type_of(dtype), int(rounded.view(np.uint16)))
        return ir.Constant(self.type_of(dtype), float(rounded))

    def splat(self, scalar: ir.Value) -> ir.Value:
        """Return the scalar in every lane."""
        return splat(self.builder, scalar, self.width)

    def load(
        self, pointer: ir.Value, dtype: DType, align: int, mask: ir.Value | None = None
    ) -> ir.Value:
        """Load as many contiguous elements as there are lanes, or those of a mask and zeros."""
        kind = vector_type(memory_type(dtype), self.width)
        if mask is None:
            loaded = self.builder.load(pointer, align=align, typ=kind)
        else:
            loaded = masked_load(self.builder, kind, pointer, mask)
        if not dtype.is_bool:
            return loaded
        return self.builder.icmp_unsigned("!=", loaded, ir.Constant(kind, 0))

    def store(
        self,
        value: ir.Value,
        pointer: ir.Value,
        dtype: DType,
        align: int,
        mask: ir.Value | None = None,
    ) -> None:
        """Store the lanes as contiguous elements, or those of a mask."""
        if dtype.is_bool:
            value = self.builder.zext(value, vector_type(_BYTE, self.width))
        if mask is None:
            self.builder.store(value, pointer, align=align)
        else:
            masked_store(self.builder, value, pointer, mask)


Args = Sequence[ir.Value]
Row = Callable[[Lanes, Args, DType], ir.Value]


def emit_scalar_op(lanes: Lanes, name: str, args: Args, dtype: DType) -> ir.Value:
    """Emit the operation `name` of `SCALAR_OPS` on arguments of `dtype`, never a half."""
    row = SCALAR_OPS[name]
    assert len(args) == row.arity, f"{name} takes {row.arity} arguments, not {len(args)}"
    assert not dtype.is_half, f"{name} of {dtype}: halves are computed in float32"
    if dtype.is_float and name in FUNCTIONS:
        function = MathFunction(name, dtype, lanes.width, lanes.target, lanes.inline_math)
        return call_math(lanes.builder, function, args)
    return _ROWS[name](lanes, args, dtype)


def emit_select(
    lanes: Lanes, condition: ir.Value, chosen: ir.Value, otherwise: ir.Value
) -> ir.Value:
    """Take `chosen` in the lanes where `condition` holds."""
    return lanes.builder.select(condition, chosen, otherwise)


def emit_cast(lanes: Lanes, value: ir.Value, source: DType, to: DType) -> ir.Value:
    """Convert: to float rounds to nearest even, float to integer truncates and saturates."""
    return Conversions(lanes.builder, lanes.target, lanes.width).cast(value, source, to)


def _by_kind(of_floats: Callable[..., ir.Value], of_integers: Callable[..., ir.Value]) -> Row:
    """Return the row of an operation that is one instruction for floats and one for integers."""

    def emit(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
        return (of_floats if dtype.is_float else of_integers)(lanes.builder, *args)

    return emit


def _comparison(relation: str) -> Row:
    def emit(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
        builder = lanes.builder
        if dtype.is_float:
            # != alone holds when a side is nan.
            compare = builder.fcmp_unordered if relation == "!=" else builder.fcmp_ordered
        else:
            compare = builder.icmp_signed if dtype.kind == "signed" else builder.icmp_unsigned
        return compare(relation, *args)

    return emit


def _extremum(name: Extremum) -> Row:
    """Return the row of min or max: the first argument if it wins or is nan."""

    def emit(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
        a, b = args
        if dtype.is_float:
            return emit_float_extremum(lanes.builder, lanes.target, name, a, b)
        return lanes.builder.select(_comparison(RELATIONS[name])(lanes, args, dtype), a, b)

    return emit


def _float_row(emit_on: Callable[..., Real]) -> Row:
    def emit(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
        floats = Floats(lanes.builder, lanes.target, lanes.width, dtype)
        return emit_on(floats, *map(floats.real, args)).value

    return emit


def _integer_row(emit_on: Callable[[Word, Word, bool], Word]) -> Row:
    def emit(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
        a, b = (Word(lanes.builder, arg) for arg in args)
        return emit_on(a, b, dtype.kind == "signed").value

    return emit


def _emit_abs(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
    if dtype.is_float:
        return _float_row(Floats.absolute)(lanes, args, dtype)
    if dtype.kind == "unsigned":
        return args[0]
    zero = ir.Constant(args[0].type, 0)
    is_negative = lanes.builder.icmp_signed("<", args[0], zero)
    return lanes.builder.select(is_negative, lanes.builder.sub(zero, args[0]), args[0])


def _emit_shift_left(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
    # A shift too far is poison, which a select that does not take it stops.
    a, b = args
    is_near = lanes.builder.icmp_unsigned("<", b, ir.Constant(b.type, dtype.bits))
    return lanes.builder.select(is_near, lanes.builder.shl(a, b), ir.Constant(a.type, 0))


def _emit_shift_right(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
    a, b = args
    is_near = lanes.builder.icmp_unsigned("<", b, ir.Constant(b.type, dtype.bits))
    if dtype.kind == "unsigned":
        return lanes.builder.select(is_near, lanes.builder.lshr(a, b), ir.Constant(a.type, 0))
    # The longest shift there is leaves copies of the sign, as a longer one would.
    distance = lanes.builder.select(is_near, b, ir.Constant(b.type, dtype.bits - 1))
    return lanes.builder.ashr(a, distance)


def _emit_integer_pow(lanes: Lanes, args: Args, dtype: DType) -> ir.Value:
    a, b = (Word(lanes.builder, arg) for arg in args)
    return integers.emit_pow(a, b, dtype.kind == "signed", lanes.inline_math).value


_ROWS: dict[str, Row] = {
    "add": _by_kind(_B.fadd, _B.add),
    "sub": _by_kind(_B.fsub, _B.sub),
    "mul": _by_kind(_B.fmul, _B.mul),
    "fma": _float_row(Floats.mul_add),
    "fnma": _float_row(lambda floats, a, b, c: floats.mul_add(-a, b, c)),
    "mul_error": _float_row(lambda floats, a, b: floats.two_product(a, b)[1]),
    "div": lambda lanes, args, dtype: lanes.builder.fdiv(*args),
    "floordiv": _integer_row(integers.emit_floordiv),
    "mod": _integer_row(integers.emit_mod),
    "fmod": _integer_row(integers.emit_fmod),
    "pow": _emit_integer_pow,
    "neg": _by_kind(_B.fneg, _B.neg),
    "abs": _emit_abs,
    "min": _extremum("min"),
    "max": _extremum("max"),
    "sqrt": _float_row(Floats.sqrt),
    "rsqrt": _float_row(emit_rsqrt),
    "floor": _float_row(rounding.emit_floor),
    "ceil": _float_row(rounding.emit_ceil),
    "round": _float_row(rounding.emit_round),
    "trunc": _float_row(rounding.emit_trunc),
    "copysign": _float_row(Floats.copy_sign),
    "nextafter": _float_row(rounding.emit_nextafter),
    "eq": _comparison("=="),
    "ne": _comparison("!="),
    "lt": _comparison("<"),
    "le": _comparison("<="),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "and": lambda lanes, args, dtype: lanes.builder.and_(*args),
    "or": lambda lanes, args, dtype: lanes.builder.or_(*args),
    "xor": lambda lanes, args, dtype: lanes.builder.xor(*args),
    "not": lambda lanes, args, dtype: lanes.builder.not_(*args),
    "shl": _emit_shift_left,
    "shr": _emit_shift_right,
}
