"""Access to the rows of a sort: elements and vectors of its strided operands, as keys."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, index
from symgrad.codegen.loops.language import SortRows
from symgrad.codegen.sorting.elements import I64, Item, Items
from symgrad.codegen.sorting.keys import Keys, memory_type
from symgrad.codegen.sorting.plan import SortPlan
from symgrad.codegen.vectors import splat
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Matrix:
    """The operands of `sort` at the addresses `source` and `result`, and how it is computed.

    `has_lost` is the address of a byte that says whether there was an element that its key does not
    tell: a -0.0, or a nan.
    """

    builder: ir.IRBuilder
    sort: SortRows
    plan: SortPlan
    source: ir.Value
    result: ir.Value
    has_lost: ir.Value

    @property
    def items(self) -> Items:
        return Items(self.builder, self.plan)

    @property
    def keys(self) -> Keys:
        return Keys(self.builder, self.sort, self.plan)

    @property
    def stored_type(self) -> ir.IntType:
        """The type of an element of the result in memory."""
        return memory_type(self.sort.element) if self.sort.gives == "values" else I64

    def source_at(self, row: ir.Value, column: ir.Value) -> ir.Value:
        """Return the address of an element that is sorted."""
        operand = self.sort.source
        return self._at(self.source, self.keys.own, row, operand.rows, column, operand.columns)

    def result_at(self, row: ir.Value, column: ir.Value) -> ir.Value:
        """Return the address of an element of the result."""
        operand = self.sort.result
        return self._at(self.result, self.stored_type, row, operand.rows, column, operand.columns)

    def _at(
        self,
        base: ir.Value,
        kind: ir.Type,
        row: ir.Value,
        rows: int,
        column: ir.Value,
        columns: int,
    ) -> ir.Value:
        builder = self.builder
        place = builder.add(builder.mul(row, index(rows)), builder.mul(column, index(columns)))
        return builder.gep(base, [place], inbounds=True, source_etype=kind)

    def read(self, pointer: ir.Value, width: int) -> ir.Value:
        """Load `width` elements as their bits; 1 is a scalar."""
        own = self.keys.own
        kind = own if width == 1 else ir.VectorType(own, width)
        return self.builder.load(pointer, align=own.width // 8, typ=kind)

    def read_keys(self, row: ir.Value, column: ir.Value, width: int) -> Item:
        """Load `width` elements of a row, from a column on, as items."""
        given = self.read(self.source_at(row, column), width)
        position = self.position(column)
        if width > 1:
            steps = ir.Constant(self.items.words, list(range(width)))
            position = self.builder.add(splat(self.builder, position, width), steps)
        return self.encode(given, position)

    def write(self, value: ir.Value, pointer: ir.Value) -> None:
        self.builder.store(value, pointer, align=self.stored_type.width // 8)

    def encode(self, given: ir.Value, position: ir.Value | None) -> Item:
        """Return the items of elements, and note what keys do not tell."""
        self.note([given])
        return self.keys.encode(given, position if self.plan.form != "alone" else None)

    def note(self, vectors: Sequence[ir.Value]) -> None:
        """Note what the keys of elements do not tell: once for all of some vectors."""
        builder, keys = self.builder, self.keys
        if not keys.loses_zeros:
            return
        found = keys.is_negative_zero(extreme(builder, "smin", vectors))
        if keys.loses_nans:
            sizes = [keys.magnitude(vector) for vector in vectors]
            found = builder.or_(found, keys.is_nan(extreme(builder, "smax", sizes)))
        self._note(found)

    def _note(self, found: ir.Value) -> None:
        builder = self.builder
        if isinstance(found.type, ir.VectorType):
            packed = ir.IntType(found.type.count)
            found = builder.icmp_unsigned("!=", builder.bitcast(found, packed), packed(0))
        byte = builder.zext(found, ir.IntType(8))
        builder.store(builder.or_(builder.load(self.has_lost, typ=byte.type), byte), self.has_lost)

    def position(self, column: ir.Value) -> ir.Value:
        """Return a position as wide as a key."""
        kind = self.items.word
        return column if kind == I64 else self.builder.trunc(column, kind)


def extreme(builder: ir.IRBuilder, name: str, vectors: Sequence[ir.Value]) -> ir.Value:
    """Return the least or the greatest of each lane of some vectors; `smin` or `smax`."""
    found = vectors[0]
    relation = "<" if name == "smin" else ">"
    for vector in vectors[1:]:
        found = builder.select(builder.icmp_signed(relation, found, vector), found, vector)
    return found


def least(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the lesser of two numbers."""
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def restore(matrix: Matrix, start: ir.Value, stop: ir.Value) -> None:
    """Put zeros and nans into the results of rows, if there were some that keys do not tell.

    A sorted row has zeros of either sign side by side, which belong in the order in which they were
    given. It may have infinities for nans.
    """
    if not matrix.keys.loses_zeros:
        return
    builder, byte = matrix.builder, ir.IntType(8)
    with builder.goto_entry_block():
        place = builder.alloca(I64)
    is_lost = builder.icmp_unsigned("!=", builder.load(matrix.has_lost, typ=byte), byte(0))
    with (
        builder.if_then(is_lost, likely=False),
        counted_loop(builder, start, stop) as row,
    ):
        if matrix.keys.loses_nans:
            _restore_nans(matrix, row, place)
        _restore_zeros(matrix, row, place)


def _restore_nans(matrix: Matrix, row: ir.Value, place: ir.Value) -> None:
    """Write nan at the end of a row, as often as it was given."""
    builder, sort, keys = matrix.builder, matrix.sort, matrix.keys
    builder.store(index(sort.length), place)
    with counted_loop(builder, index(0), index(sort.length)) as column:
        given = matrix.read(matrix.source_at(row, column), 1)
        found = builder.zext(keys.is_nan(given), I64)
        builder.store(builder.sub(builder.load(place, typ=I64), found), place)
    with counted_loop(builder, builder.load(place, typ=I64), index(sort.count)) as column:
        matrix.write(keys.nan, matrix.result_at(row, column))


def _restore_zeros(matrix: Matrix, row: ir.Value, place: ir.Value) -> None:
    """Write the zeros of a row; `place` is memory for the position of the next one."""
    builder, sort, keys = matrix.builder, matrix.sort, matrix.keys
    builder.store(index(sort.count), place)
    with counted_loop(builder, index(0), index(sort.count)) as at:
        column = builder.sub(index(sort.count - 1), at)
        found = builder.load(matrix.result_at(row, column), align=1, typ=keys.own)
        with builder.if_then(keys.is_zero(found)):
            builder.store(column, place)
    with counted_loop(builder, index(0), index(sort.length)) as column:
        given = matrix.read(matrix.source_at(row, column), 1)
        following = builder.load(place, typ=I64)
        fits = builder.icmp_signed("<", following, index(sort.count))
        with builder.if_then(builder.and_(keys.is_zero(given), fits)):
            matrix.write(given, matrix.result_at(row, following))
            builder.store(builder.add(following, index(1)), place)
