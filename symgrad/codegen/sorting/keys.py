"""Order-preserving keys: elements as integers, or floats, in the order in which they are sorted.

The bits of a float, read as an integer, are in order where it is positive, and in reverse order
where it is negative. There, all bits but the sign are flipped. Both zeros have the key 0 where it
is sorted with a position, so they are equal; alone, that of -0.0 is just below, which says that
they are to be put in order. nan has one key, above that of infinity. In descending order all bits
are flipped, but for nan.

Where floats are compared as such, they are their own keys, with the sign flipped in descending
order; nans are infinities, and are put back behind these.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.loops.language import SortRows
from symgrad.codegen.sorting.plan import SortPlan
from symgrad.graph.dtypes import DType

_NUMBERS: dict[str, ir.Type] = {"float32": ir.FloatType(), "float64": ir.DoubleType()}
_EXPONENT_BITS: dict[str, int] = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def memory_type(dtype: DType) -> ir.IntType:
    """Return the integer type that the bits of an element in memory are."""
    return ir.IntType(dtype.itemsize * 8)


class Keys:
    """Conversions between the elements of a sort and its keys, in a scalar or in lanes."""

    def __init__(self, builder: ir.IRBuilder, sort: SortRows, plan: SortPlan) -> None:
        self.builder = builder
        self.dtype = sort.element
        self.plan = plan
        self.is_descending = sort.descending
        self.own = memory_type(sort.element)
        self.bits: int = self.own.width

    def encode(self, given: ir.Value, position: ir.Value | None) -> tuple[ir.Value, ...]:
        """Return the key of elements, whose bits are `given`, at a position of their row."""
        key = self.ordered(given)
        wide = _like(given, ir.IntType(self.plan.bits))
        if self.bits < self.plan.bits:
            key = self.builder.sext(key, wide)
        if self.plan.form == "alone":
            return (self.builder.bitcast(key, _like(key, self.plan.key_type)),)
        assert position is not None, "positions are sorted with their keys"
        if self.plan.form == "pairs":
            return key, position
        shifted = self.builder.shl(key, ir.Constant(wide, self.plan.position_bits))
        return (self.builder.or_(shifted, position),)

    def decode(self, item: tuple[ir.Value, ...]) -> ir.Value:
        """Return what is stored of an item: the bits of an element, or its position."""
        builder, plan = self.builder, self.plan
        wide = ir.IntType(64)
        if plan.form == "pairs":
            return item[1]
        if plan.form == "packed":
            mask = ir.Constant(item[0].type, (1 << plan.position_bits) - 1)
            position = builder.and_(item[0], mask)
            return position if plan.bits == 64 else builder.zext(position, _like(position, wide))
        return self._element(self.key_of(item))

    def is_negative_zero(self, given: ir.Value) -> ir.Value:
        """Return where the bits are those of -0.0."""
        return self.builder.icmp_signed("==", given, self._sign(given.type))

    def is_zero(self, given: ir.Value) -> ir.Value:
        """Return where the bits are those of a zero of either sign."""
        return self.builder.icmp_signed("==", self.magnitude(given), ir.Constant(given.type, 0))

    def magnitude(self, given: ir.Value) -> ir.Value:
        """Return the bits but for the sign."""
        return self.builder.and_(given, self._magnitude(given.type))

    @property
    def loses_nans(self) -> bool:
        """Whether the key of nan is that of infinity, and nans have to be put back."""
        return self.plan.has_floats

    @property
    def nan(self) -> ir.Value:
        """The bits of the nan that is in results."""
        return self.own(self._nan)

    @property
    def loses_zeros(self) -> bool:
        """Whether keys do not tell in which order zeros, which differ in sign, were given."""
        return self.dtype.is_float and self.plan.form == "alone"

    def _sign(self, kind: ir.Type) -> ir.Value:
        return ir.Constant(kind, 1 << (self.bits - 1))

    def _magnitude(self, kind: ir.Type) -> ir.Value:
        return ir.Constant(kind, (1 << (self.bits - 1)) - 1)

    def _flipped_below_zero(self, value: ir.Value) -> ir.Value:
        """Flip all bits but the sign where the sign is set; its own inverse."""
        builder, kind = self.builder, value.type
        signs = builder.ashr(value, ir.Constant(kind, self.bits - 1))
        return builder.xor(value, builder.and_(signs, self._magnitude(kind)))

    def key_of(self, item: tuple[ir.Value, ...]) -> ir.Value:
        """Return the key in an item, as wide as an element."""
        key = self.builder.bitcast(item[0], _like(item[0], ir.IntType(self.plan.bits)))
        if self.plan.form == "packed":
            key = self.builder.ashr(key, ir.Constant(key.type, self.plan.position_bits))
        return key if self.bits == self.plan.bits else self.builder.trunc(key, _like(key, self.own))

    def ordered(self, given: ir.Value) -> ir.Value:
        """Return the keys of elements, whose bits are `given`."""
        builder, kind = self.builder, given.type
        if self.dtype.kind == "unsigned":
            given = builder.xor(given, self._sign(kind))
        if not self.dtype.is_float:
            return builder.not_(given) if self.is_descending else given
        if self.plan.has_floats:
            key = builder.xor(given, self._sign(kind)) if self.is_descending else given
            return self._least_number(key)
        key = given
        if self.plan.form != "alone":
            key = builder.select(self.is_negative_zero(given), ir.Constant(kind, 0), given)
        key = self._flipped_below_zero(key)
        if self.is_descending:
            key = builder.not_(key)
        return builder.select(self.is_nan(given), ir.Constant(kind, self._nan), key)

    def _least_number(self, key: ir.Value) -> ir.Value:
        """Return the bits of floats, of infinity for a nan: an instruction on x86-64."""
        builder, kind = self.builder, key.type
        number = builder.bitcast(key, _like(key, _NUMBERS[self.dtype.name]))
        infinity = builder.bitcast(ir.Constant(kind, self._infinity), number.type)
        is_less = builder.fcmp_ordered("<", number, infinity)
        return builder.bitcast(builder.select(is_less, number, infinity), kind)

    def is_nan(self, given: ir.Value) -> ir.Value:
        """Return where the bits are those of a nan."""
        builder, kind = self.builder, given.type
        if self.dtype.name in _NUMBERS:
            number = builder.bitcast(given, _like(given, _NUMBERS[self.dtype.name]))
            return builder.fcmp_unordered("uno", number, number)
        size = builder.and_(given, self._magnitude(kind))
        return builder.icmp_signed(">", size, ir.Constant(kind, self._infinity))

    def _element(self, key: ir.Value) -> ir.Value:
        builder, kind = self.builder, key.type
        if self.plan.has_floats:
            return builder.xor(key, self._sign(kind)) if self.is_descending else key
        if self.is_descending:
            key = builder.not_(key)
        if self.dtype.kind == "unsigned":
            key = builder.xor(key, self._sign(kind))
        return self._flipped_below_zero(key) if self.dtype.is_float else key

    @property
    def _infinity(self) -> int:
        exponent = _EXPONENT_BITS[self.dtype.name]
        return ((1 << exponent) - 1) << (self.bits - 1 - exponent)

    @property
    def _nan(self) -> int:
        """The key of every nan: the bits of a quiet one."""
        return self._infinity | 1 << (self.bits - 2 - _EXPONENT_BITS[self.dtype.name])


def _like(value: ir.Value, element: ir.Type) -> ir.Type:
    """Return the type of so many lanes of `element` as `value` has."""
    kind = value.type
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element
