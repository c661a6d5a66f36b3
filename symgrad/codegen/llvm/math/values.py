"""Operator overloading for SIMD values: floats, integers and truth values as expressions.

The algorithms of this package are formulas, and are written as such: `x * y + 1.0` emits a
multiplication and an addition at the builder's position. Nothing is rewritten on the way: one
operator is one instruction, without fast-math flags, so error-free transformations stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from symgrad.codegen import ir
from symgrad.records import dataclass

Chosen = TypeVar("Chosen", "Real", "Word", "LaneMask")


_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


def type_suffix(kind: ir.Type) -> str:
    """Return the name LLVM gives `kind` in an overloaded intrinsic: f32, v8f64, i1."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{type_suffix(kind.element)}"
    return _SUFFIXES.get(kind.text, kind.text)


def call_intrinsic(
    builder: ir.IRBuilder,
    name: str,
    overload: Sequence[ir.Type],
    args: Sequence[ir.Value],
    result: ir.Type,
) -> ir.Value:
    """Call the LLVM intrinsic `name` as overloaded for the types `overload`."""
    full = ".".join([name, *map(type_suffix, overload)])
    function = builder.module.globals.get(full)
    if function is None:
        kind = ir.FunctionType(result, [arg.type for arg in args])
        function = ir.LLVMFunction(builder.module, kind, full)
    return builder.call(function, args)


def any_lane(builder: ir.IRBuilder, condition: ir.Value) -> ir.Value:
    """Return one i1: whether `condition` holds in at least one lane."""
    kind = condition.type
    if not isinstance(kind, ir.VectorType):
        return condition
    packed = ir.IntType(kind.count)
    return builder.icmp_unsigned("!=", builder.bitcast(condition, packed), ir.Constant(packed, 0))


@dataclass(frozen=True, slots=True)
class LaneMask:
    """Lanes that are true or false."""

    builder: ir.IRBuilder
    value: ir.Value

    def __and__(self, other: LaneMask) -> LaneMask:
        return LaneMask(self.builder, self.builder.and_(self.value, other.value))

    def __or__(self, other: LaneMask) -> LaneMask:
        return LaneMask(self.builder, self.builder.or_(self.value, other.value))

    def __xor__(self, other: LaneMask) -> LaneMask:
        return LaneMask(self.builder, self.builder.xor(self.value, other.value))

    def __invert__(self) -> LaneMask:
        return LaneMask(self.builder, self.builder.not_(self.value))

    def choose(self, chosen: Chosen, otherwise: Chosen) -> Chosen:
        """Take `chosen` in the lanes that are true and `otherwise` in the others."""
        picked = self.builder.select(self.value, chosen.value, otherwise.value)
        return type(chosen)(self.builder, picked)


@dataclass(frozen=True, slots=True)
class Word:
    """Lanes of integers, taken as unsigned by shifts and as two's complement by `less`."""

    builder: ir.IRBuilder
    value: ir.Value

    def _same(self, other: Word | int) -> ir.Value:
        return other.value if isinstance(other, Word) else ir.Constant(self.value.type, other)

    def __add__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.add(self.value, self._same(other)))

    def __sub__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.sub(self.value, self._same(other)))

    def __mul__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.mul(self.value, self._same(other)))

    def __and__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.and_(self.value, self._same(other)))

    def __or__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.or_(self.value, self._same(other)))

    def __xor__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.xor(self.value, self._same(other)))

    def __lshift__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.shl(self.value, self._same(other)))

    def floor_shifted(self, bits: int) -> Word:
        """Divide by 2**bits and round down, negative words too."""
        return Word(self.builder, self.builder.ashr(self.value, self._same(bits)))

    def __rshift__(self, other: Word | int) -> Word:
        return Word(self.builder, self.builder.lshr(self.value, self._same(other)))

    def equals(self, other: Word | int) -> LaneMask:
        return LaneMask(
            self.builder, self.builder.icmp_unsigned("==", self.value, self._same(other))
        )

    def less(self, other: Word | int) -> LaneMask:
        return LaneMask(self.builder, self.builder.icmp_signed("<", self.value, self._same(other)))

    def above(self, other: Word | int) -> LaneMask:
        """Return where this is greater, both taken as unsigned."""
        return LaneMask(
            self.builder, self.builder.icmp_unsigned(">", self.value, self._same(other))
        )


@dataclass(frozen=True, slots=True)
class Real:
    """Lanes of floats. Comparisons are false where a side is nan."""

    builder: ir.IRBuilder
    value: ir.Value

    def _same(self, other: Real | float) -> ir.Value:
        return (
            other.value if isinstance(other, Real) else ir.Constant(self.value.type, float(other))
        )

    def __add__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fadd(self.value, self._same(other)))

    def __sub__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fsub(self.value, self._same(other)))

    def __mul__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fmul(self.value, self._same(other)))

    def __truediv__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fdiv(self.value, self._same(other)))

    def __rsub__(self, other: float) -> Real:
        return Real(self.builder, self.builder.fsub(self._same(other), self.value))

    def __rtruediv__(self, other: float) -> Real:
        return Real(self.builder, self.builder.fdiv(self._same(other), self.value))

    def __neg__(self) -> Real:
        return Real(self.builder, self.builder.fneg(self.value))

    def _compare(self, relation: str, other: Real | float) -> LaneMask:
        return LaneMask(
            self.builder, self.builder.fcmp_ordered(relation, self.value, self._same(other))
        )

    def __lt__(self, other: Real | float) -> LaneMask:
        return self._compare("<", other)

    def __le__(self, other: Real | float) -> LaneMask:
        return self._compare("<=", other)

    def __gt__(self, other: Real | float) -> LaneMask:
        return self._compare(">", other)

    def __ge__(self, other: Real | float) -> LaneMask:
        return self._compare(">=", other)

    def equals(self, other: Real | float) -> LaneMask:
        return self._compare("==", other)

    def is_nan(self) -> LaneMask:
        return LaneMask(self.builder, self.builder.fcmp_unordered("uno", self.value, self.value))
