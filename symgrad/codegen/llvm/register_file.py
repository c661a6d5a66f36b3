"""Scalar replacement: the buffers of a loop as `alloca`s that LLVM's mem2reg makes SSA values.

A buffer is a few vectors, and narrower ones for what is left over. Each is an `alloca` that is
only ever read and written as a whole, so LLVM's SSA construction, mem2reg, makes values of all of
them, with phis where the loops and branches are. Which buffers these are is decided in
`codegen/program/registers.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

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
class _HeldLanes:
    """Where elements of a buffer are: `width` of them from `first` on."""

    first: int
    width: int
    value: ir.Value


class RegisterFile:
    """Promoted buffers, as values. `builder` must stand in the first block of its function."""

    def __init__(self, builder: ir.IRBuilder, target: Target, buffers: Iterable[Buffer]) -> None:
        self._builder = builder
        self._target = target
        self._places = {buffer: self._allocate(buffer) for buffer in buffers}

    def __contains__(self, buffer: object) -> bool:
        return buffer in self._places

    def _allocate(self, buffer: Buffer) -> list[_HeldLanes]:
        dtype, count = buffer.type.dtype, buffer.type.count
        kind, width = register_type(dtype), self._target.lanes(dtype.itemsize)
        places: list[_HeldLanes] = []
        first = 0
        while first < count:
            while width > count - first:
                width //= 2
            places.append(_HeldLanes(first, width, self._builder.alloca(vector_type(kind, width))))
            first += width
        return places

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
        for place in self._places[buffer]:
            address = self._address(memory, place.first, dtype)
            lanes = Lanes(self._builder, self._target, place.width)
            self._builder.store(lanes.load(address, dtype, dtype.itemsize), place.value)

    def spill(self, buffer: Buffer, memory: ir.Value) -> None:
        """Write all of `buffer` to `memory`."""
        dtype = buffer.type.dtype
        for place in self._places[buffer]:
            address = self._address(memory, place.first, dtype)
            lanes = Lanes(self._builder, self._target, place.width)
            lanes.store(self._read(place, dtype), address, dtype, dtype.itemsize)

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
            vectors = [self._read(place, dtype) for place in whole]
            while len(vectors) > 1:
                pairs = zip(vectors[::2], vectors[1::2], strict=True)
                vectors = [self._joined(low, high) for low, high in pairs]
            return vectors[0]
        held = [self._holding(places, element) for element in elements]
        first, *second = {place.first: place for place in held}.values()
        if len(second) <= 1 and first.width > 1 and all(p.width == first.width for p in second):
            vectors = [self._read(place, dtype) for place in (first, *second)]
            starts = [p.first - (0 if p is first else first.width) for p in held]
            lanes = [e - start for e, start in zip(elements, starts, strict=True)]
            return shuffled(self._builder, vectors, lanes)
        return gathered(self._builder, [self._element(buffer, element) for element in elements])

    def store(self, buffer: Buffer, elements: Sequence[int], value: ir.Value) -> None:
        """Write the lanes of `value` to the given elements."""
        if len(elements) == 1:
            self._set_element(buffer, elements[0], value)
            return
        if (whole := self._whole(self._places[buffer], elements)) is None:
            for lane, element in enumerate(elements):
                single = self._builder.extract_element(value, _I32(lane))
                self._set_element(buffer, element, single)
            return
        for number, place in enumerate(whole):
            lanes = range(number * place.width, (number + 1) * place.width)
            part = value if len(whole) == 1 else shuffled(self._builder, [value], lanes)
            self._builder.store(part, place.value)

    @staticmethod
    def _whole(places: Sequence[_HeldLanes], elements: Sequence[int]) -> list[_HeldLanes] | None:
        """Return the places that `elements` are all of, in order; None if they are not.

        They are equally wide, and as many as a power of two.
        """
        first, stop = elements[0], elements[-1] + 1
        found = [p for p in places if first <= p.first and p.first + p.width <= stop]
        are_equal = len({place.width for place in found}) == 1
        held = sum(place.width for place in found)
        is_all = held == len(elements) and list(elements) == list(range(first, stop))
        return found if are_equal and is_all and len(found) & (len(found) - 1) == 0 else None

    @staticmethod
    def _holding(places: Sequence[_HeldLanes], element: int) -> _HeldLanes:
        return next(p for p in places if p.first <= element < p.first + p.width)

    def _element(self, buffer: Buffer, element: int) -> ir.Value:
        place = self._holding(self._places[buffer], element)
        value = self._read(place, buffer.type.dtype)
        if place.width == 1:
            return value
        return self._builder.extract_element(value, _I32(element - place.first))

    def _set_element(self, buffer: Buffer, element: int, value: ir.Value) -> None:
        place = self._holding(self._places[buffer], element)
        if place.width > 1:
            old = self._read(place, buffer.type.dtype)
            value = self._builder.insert_element(old, value, _I32(element - place.first))
        self._builder.store(value, place.value)

    def _read(self, place: _HeldLanes, dtype: DType) -> ir.Value:
        return self._builder.load(place.value, typ=vector_type(register_type(dtype), place.width))

    def _joined(self, low: ir.Value, high: ir.Value) -> ir.Value:
        return shuffled(self._builder, [low, high], range(2 * low.type.count))
