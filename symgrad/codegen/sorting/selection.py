"""Partial sorting: the first few elements in order of a row that is much longer.

The array of keys holds the first of all elements met so far, sorted, and behind them those of the
elements since then whose key is less than the last of these: no other can be among the first, since
of equal keys the earlier position wins. When the array is full it is sorted again. Of random
elements few are met that come before what is kept already, so that nearly all are only compared.
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, index
from symgrad.codegen.sorting.elements import I64, Item
from symgrad.codegen.sorting.matrix import Matrix
from symgrad.codegen.vectors import splat

# Vectors that are compared before it is asked whether any of them has an element to keep.
TOGETHER = 4


class Selection:
    """What is kept of a row in `buffer`, whose keys `sort` sorts."""

    def __init__(
        self, matrix: Matrix, buffer: Item, row: ir.Value, sort: Callable[[], object]
    ) -> None:
        self._matrix = matrix
        self._buffer = buffer
        self._row = row
        self._sort = sort
        with matrix.builder.goto_entry_block():
            self._place = matrix.builder.alloca(I64)
            self._limit = matrix.builder.alloca(matrix.keys.own)

    def emit(self) -> None:
        """Go through the elements behind those that fill the array, which is sorted."""
        matrix, builder, plan = self._matrix, self._matrix.builder, self._matrix.plan
        length, first = matrix.sort.length, plan.padded
        self._cut()
        if matrix.sort.source.columns == 1:
            step = TOGETHER * plan.lanes
            whole = first + (length - first) // step * step
            with counted_loop(builder, index(first), index(whole), step) as at:
                self._meet_vectors(at)
            first = whole
        with counted_loop(builder, index(first), index(length)) as at:
            self._meet(at)
        self._sort_again()

    def _meet_vectors(self, at: ir.Value) -> None:
        matrix, builder, lanes = self._matrix, self._matrix.builder, self._matrix.plan.lanes
        limit = splat(builder, builder.load(self._limit, typ=matrix.keys.own), lanes)
        found: ir.Value = ir.Constant(ir.VectorType(ir.IntType(1), lanes), 0)
        for number in range(TOGETHER):
            start = builder.add(at, index(number * lanes))
            given = matrix.read(matrix.source_at(self._row, start), lanes)
            is_less = builder.icmp_signed("<", matrix.keys.ordered(given), limit)
            found = builder.or_(found, is_less)
        packed = ir.IntType(lanes)
        has_any = builder.icmp_unsigned("!=", builder.bitcast(found, packed), packed(0))
        stop = builder.add(at, index(TOGETHER * lanes))
        with builder.if_then(has_any, likely=False), counted_loop(builder, at, stop) as one:
            self._meet(one)

    def _meet(self, at: ir.Value) -> None:
        """Keep an element if it may be among the first."""
        matrix, builder, items = self._matrix, self._matrix.builder, self._matrix.items
        given = matrix.read(matrix.source_at(self._row, at), 1)
        limit = builder.load(self._limit, typ=matrix.keys.own)
        is_less = builder.icmp_signed("<", matrix.keys.ordered(given), limit)
        with builder.if_then(is_less):
            place = builder.load(self._place, typ=I64)
            items.store(matrix.encode(given, matrix.position(at)), self._buffer, place)
            following = builder.add(place, index(1))
            builder.store(following, self._place)
            is_full = builder.icmp_signed("==", following, index(matrix.plan.padded))
            with builder.if_then(is_full, likely=False):
                self._sort_again()

    def _sort_again(self) -> None:
        builder, items, plan = self._matrix.builder, self._matrix.items, self._matrix.plan
        place = builder.load(self._place, typ=I64)
        with counted_loop(builder, place, index(plan.padded)) as at:
            items.store(items.greatest(single=True), self._buffer, at)
        self._sort()
        self._cut()

    def _cut(self) -> None:
        """Keep no more of the sorted array than is wanted."""
        matrix, builder, count = self._matrix, self._matrix.builder, self._matrix.sort.count
        builder.store(index(count), self._place)
        last = matrix.items.load(self._buffer, index(count - 1), single=True)
        builder.store(matrix.keys.key_of(last), self._limit)
