"""Scalar replacement: the buffers of a loop as `alloca`s that LLVM's mem2reg makes SSA values.

A buffer is a few vectors, and single elements for what is left over. Each is an `alloca` that is
only ever read and written as a whole, so LLVM's SSA construction, mem2reg, makes values of all of
them, with phis where the loops and branches are. Which buffers these are is decided in
`codegen/program/registers.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.lanes import Lanes
from symgrad.codegen.llvm.math.conversions import register_type
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import gathered, shuffled, vector_type
from symgrad.graph.dtypes import DType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass

_I32, _I64, _BYTE = ir.IntType(32), ir.IntType(64), ir.IntType(8)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the values of a buffer are: vectors of `width` elements first, then single ones."""

    width: int
    vectors: Sequence[ir.Value]
    singles: Sequence[ir.Value]

    def holding(self, element: int) -> tuple[ir.Value, int, int]:
        """Return the place that holds `element`, how many lanes it has, and which one it is."""
        number, lane = divmod(element, self.width)
        if number < len(self.vectors):
            return self.vectors[number], self.width, lane
        return self.singles[element - len(self.vectors) * self.width], 1, 0

    def in_order(self) -> Iterator[tuple[int, int, ir.Value]]:
        """Yield the first element and the lanes of each place, and the place."""
        for number, place in enumerate(self.vectors):
            yield number * self.width, self.width, place
        for number, place in enumerate(self.singles, len(self.vectors) * self.width):
            yield number, 1, place


class RegisterFile:
    """Promoted buffers, as values. `builder` must stand in the first block of its function."""

    def __init__(self, builder: ir.IRBuilder, target: Target, buffers: Iterable[Buffer]) -> None:
        self._builder = builder
        self._target = target
        self._places = {buffer: self._allocate(buffer) for buffer in buffers}

    def __contains__(self, buffer: object) -> bool:
        return buffer in self._places

    def _allocate(self, buffer: Buffer) -> _Places:
        dtype, count = buffer.type.dtype, buffer.type.count
        width = self._target.lanes(dtype.itemsize)
        while width > max(count, 1):
            width //= 2
        kind = register_type(dtype)
        vectors, singles = divmod(count, width)
        return _Places(
            width,
            [self._builder.alloca(vector_type(kind, width)) for _ in range(vectors)],
            [self._builder.alloca(kind) for _ in range(singles)],
        )

    def with_new(self, buffer: Buffer) -> RegisterFile:
        """Return a file of the same registers but for those of `buffer`, which are others."""
        other = copy.copy(self)
        with self._builder.goto_entry_block():
            other._places = {**self._places, buffer: self._allocate(buffer)}
        return other

    # ------------------------------------------------------------------------ from and to memory

    def fill(self, buffer: Buffer, memory: ir.Value) -> None:
        """Read all of `buffer` from `memory`."""
        dtype = buffer.type.dtype
        for element, width, place in self._places[buffer].in_order():
            address = self._address(memory, element, dtype)
            value = Lanes(self._builder, self._target, width).load(address, dtype, dtype.itemsize)
            self._builder.store(value, place)

    def spill(self, buffer: Buffer, memory: ir.Value) -> None:
        """Write all of `buffer` to `memory`."""
        dtype = buffer.type.dtype
        for element, width, place in self._places[buffer].in_order():
            address = self._address(memory, element, dtype)
            value = self._read(place, dtype, width)
            lanes = Lanes(self._builder, self._target, width)
            lanes.store(value, address, dtype, dtype.itemsize)

    def _address(self, memory: ir.Value, element: int, dtype: DType) -> ir.Value:
        offset = _I64(element * dtype.itemsize)
        return self._builder.gep(memory, [offset], inbounds=True, source_etype=_BYTE)

    # ------------------------------------------------------------------------------------ values

    def load(self, buffer: Buffer, elements: Sequence[int]) -> ir.Value:
        """Return the given elements as lanes; a scalar for one."""
        places, dtype = self._places[buffer], buffer.type.dtype
        if len(elements) == 1:
            return self._element(buffer, elements[0])
        if (whole := self._whole(places, elements)) is not None:
            vectors = [self._read(place, dtype, places.width) for place in whole]
            while len(vectors) > 1:
                pairs = zip(vectors[::2], vectors[1::2], strict=True)
                vectors = [self._joined(low, high) for low, high in pairs]
            return vectors[0]
        first, *second = dict.fromkeys(place for place, _, _ in map(places.holding, elements))
        if len(second) <= 1 and places.width > 1 and not places.singles:
            vectors = [self._read(place, dtype, places.width) for place in (first, *second)]
            return shuffled(
                self._builder, vectors, [self._lane(places, first, e) for e in elements]
            )
        return gathered(self._builder, [self._element(buffer, element) for element in elements])

    @staticmethod
    def _lane(places: _Places, first: ir.Value, element: int) -> int:
        """Return which lane `element` is of the vector `first` and another one behind it."""
        place, width, lane = places.holding(element)
        return lane if place is first else width + lane

    def store(self, buffer: Buffer, elements: Sequence[int], value: ir.Value) -> None:
        """Write the lanes of `value` to the given elements."""
        places = self._places[buffer]
        if len(elements) == 1:
            self._set_element(buffer, elements[0], value)
            return
        if (whole := self._whole(places, elements)) is None:
            for lane, element in enumerate(elements):
                single = self._builder.extract_element(value, _I32(lane))
                self._set_element(buffer, element, single)
            return
        for number, place in enumerate(whole):
            lanes = range(number * places.width, (number + 1) * places.width)
            part = value if len(whole) == 1 else shuffled(self._builder, [value], lanes)
            self._builder.store(part, place)

    def _whole(self, places: _Places, elements: Sequence[int]) -> Sequence[ir.Value] | None:
        """Return the vectors that `elements` are all of, in order; None if they are not."""
        first, count = elements[0], len(elements)
        number, lane = divmod(first, places.width)
        is_in_row = list(elements) == list(range(first, first + count))
        if not is_in_row or lane or count % places.width:
            return None
        vectors = places.vectors[number : number + count // places.width]
        return vectors if len(vectors) * places.width == count else None

    def _element(self, buffer: Buffer, element: int) -> ir.Value:
        place, width, lane = self._places[buffer].holding(element)
        value = self._read(place, buffer.type.dtype, width)
        return value if width == 1 else self._builder.extract_element(value, _I32(lane))

    def _set_element(self, buffer: Buffer, element: int, value: ir.Value) -> None:
        place, width, lane = self._places[buffer].holding(element)
        if width > 1:
            old = self._read(place, buffer.type.dtype, width)
            value = self._builder.insert_element(old, value, _I32(lane))
        self._builder.store(value, place)

    def _read(self, place: ir.Value, dtype: DType, width: int) -> ir.Value:
        return self._builder.load(place, typ=vector_type(register_type(dtype), width))

    def _joined(self, low: ir.Value, high: ir.Value) -> ir.Value:
        return shuffled(self._builder, [low, high], range(2 * low.type.count))
