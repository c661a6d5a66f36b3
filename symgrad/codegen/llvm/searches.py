"""Branch-free binary search: where values stand among sorted elements in memory.

A search takes as many steps as the number of elements has bits, whatever it finds. Those of
several lanes are emitted side by side, step by step: none waits for another, so that the processor
goes on with all of them while each waits for memory. Lanes that search the same row are a vector,
and gather what they compare with.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.gathers import emit_gather
from symgrad.codegen.llvm.lanes import Lanes, emit_cast, emit_scalar_op
from symgrad.codegen.loops.language import BinarySearch
from symgrad.graph.dtypes import DType, float32

_I64 = ir.IntType(64)


def emit_searches(
    lanes: Lanes, search: BinarySearch, starts: Sequence[ir.Value], values: Sequence[ir.Value]
) -> list[ir.Value]:
    """Return for each of `values` how many elements come before it, from its one of `starts` on."""
    builder = lanes.builder
    rows = [_Row(lanes, search, *pair) for pair in zip(starts, values, strict=True)]
    counts: list[ir.Value] = [_I64(0)] * len(rows)
    left = search.length
    while left > 1:
        # The count is at least `counts`, and at most `left` more.
        half = left // 2
        probes = [builder.add(count, _I64(half - 1)) for count in counts]
        found = [row.is_before(probe) for row, probe in zip(rows, probes, strict=True)]
        after = [builder.add(count, _I64(half)) for count in counts]
        triples = zip(found, after, counts, strict=True)
        counts = [builder.select(*triple) for triple in triples]
        left -= half
    found = [row.is_before(count) for row, count in zip(rows, counts, strict=True)]
    return [builder.add(c, builder.zext(f, _I64)) for c, f in zip(counts, found, strict=True)]


def emit_common_search(
    lanes: Lanes, search: BinarySearch, start: ir.Value, values: ir.Value
) -> ir.Value:
    """Return how many of the elements from `start` on come before each lane of `values`."""
    builder = lanes.builder
    fits = search.length * search.stride < 1 << 31
    kind = ir.VectorType(ir.IntType(32) if fits else _I64, lanes.width)
    row = _Row(lanes, search, start, values)
    counts: ir.Value = ir.Constant(kind, 0)
    left = search.length
    while left > 1:
        half = left // 2
        found = row.is_before(builder.add(counts, ir.Constant(kind, half - 1)))
        after = builder.add(counts, ir.Constant(kind, half))
        counts = builder.select(found, after, counts)
        left -= half
    counts = builder.add(counts, builder.zext(row.is_before(counts), kind))
    return builder.zext(counts, ir.VectorType(_I64, lanes.width)) if fits else counts


class _Row:
    """A row of sorted elements from `start` on, and a value that is looked for."""

    def __init__(
        self, lanes: Lanes, search: BinarySearch, start: ir.Value, value: ir.Value
    ) -> None:
        self._lanes = lanes
        self._search = search
        self._start = start
        self._stored: DType = search.value.dtype
        self._dtype = float32 if self._stored.is_half else self._stored
        self._value = emit_cast(lanes, value, self._stored, self._dtype)
        self._is_nan = self._call("ne", self._value, self._value) if self._dtype.is_float else None

    def _call(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return emit_scalar_op(self._lanes, name, (a, b), self._dtype)

    def is_before(self, at: ir.Value) -> ir.Value:
        """Return whether the element `at` counts: nan is greater than every number."""
        builder, search = self._lanes.builder, self._search
        loaded = self._load(builder.mul(at, ir.Constant(at.type, search.stride)))
        element = emit_cast(self._lanes, loaded, self._stored, self._dtype)
        before = self._call("le" if search.or_equal else "lt", element, self._value)
        if self._is_nan is None:
            return before
        if search.or_equal:
            return builder.or_(before, self._is_nan)
        is_number = self._call("eq", element, element)
        return builder.or_(before, builder.and_(self._is_nan, is_number))

    def _load(self, place: ir.Value) -> ir.Value:
        """Load the element of each lane, so many behind the start."""
        return emit_gather(self._lanes, self._start, place, self._stored)
