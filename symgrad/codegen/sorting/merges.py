"""Merges of sorted runs, a vector at a time, from both ends at once.

Two sorted vectors are merged by a bitonic network (Batcher; Knuth, The Art of Computer Programming,
volume 3, section 5.3.4): one of the halves is finished, the other goes on and meets the next vector
of the run whose next element comes first. From the front that gives the lesser half of the result,
and from the back the greater one. The first run is the longer one, so neither way comes to its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, index
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.sorting.elements import I64, Item, Items, arranged, cleaned

_POINTER = ir.PointerType()


def merge_function(items: Items) -> ir.LLVMFunction:
    """Return the function that merges two runs, which follow each other, of so many elements.

    The first has as many as the second at least.
    """
    plan, module = items.plan, items.builder.module
    name = f"sg.merge.{items.name}"
    function: ir.LLVMFunction | None = module.globals.get(name)
    if function is not None:
        return function
    kinds = [*[_POINTER] * (2 * plan.planes), I64, I64]
    function = kernel_function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    *pointers, length, other_length = function.args
    given, into = tuple(pointers[: plan.planes]), tuple(pointers[plan.planes :])
    _Merge(Items(builder, plan), given, into, length, other_length).emit()
    builder.ret_void()
    return function


class _Merge:
    """A merge of two runs at `given`, of `length` and `other_length`, from both ends."""

    def __init__(
        self,
        items: Items,
        given: Item,
        into: Item,
        length: ir.Value,
        other_length: ir.Value,
    ) -> None:
        self._items = items
        self._builder = items.builder
        self._given = given
        self._into = into
        self._length = length
        self._whole = items.builder.add(length, other_length)
        self._lanes = index(items.plan.lanes)

    def emit(self) -> None:
        builder, lanes, items = self._builder, self._lanes, self._items
        last, behind = builder.sub(self._length, lanes), builder.sub(self._whole, lanes)
        second, end = (items.reversed(self._load(at)) for at in (self._length, behind))
        low, _, _, front = self._merged(self._load(index(0)), second)
        _, back, high, _ = self._merged(self._load(last), end)
        self._store(low, index(0))
        self._store(high, behind)
        # Of an odd number of vectors the front has one more.
        half = builder.and_(builder.lshr(self._whole, index(1)), index(-items.plan.lanes))
        after_first = builder.add(self._length, lanes)
        places: list[ir.Value] = [lanes, after_first, last, behind]
        results = self._both_ways(half, [*places, *front, *back], behind)
        is_odd = builder.icmp_signed("!=", builder.add(half, half), self._whole)
        with builder.if_then(is_odd):
            front = tuple(results[4 : 4 + items.plan.planes])
            block, _, _ = self._next_of_front(results[0], results[1])
            low, _, _, _ = self._merged(block, front)
            self._store(low, half)

    def _both_ways(
        self, half: ir.Value, initial: list[ir.Value], behind: ir.Value
    ) -> list[ir.Value]:
        """Go on from both ends until each has given `half`; return where the front then is."""
        builder, planes = self._builder, self._items.plan.planes
        before = builder.block
        with counted_loop(builder, self._lanes, half, self._items.plan.lanes) as done:
            phis = self._carried(initial)
            carried: list[ir.Value] = list(phis)
            a, b, c, d = carried[:4]
            front, back = tuple(carried[4 : 4 + planes]), tuple(carried[4 + planes :])
            block, a, b = self._next_of_front(a, b)
            low, _, _, front = self._merged(block, front)
            self._store(low, done)
            block, c, d = self._next_of_back(c, d)
            _, back, high, _ = self._merged(block, back)
            self._store(high, builder.sub(behind, done))
            following = [a, b, c, d, *front, *back]
            for phi, value in zip(phis, following, strict=True):
                phi.add_incoming(value, builder.block)
            inside = builder.block
        results = [builder.phi(value.type) for value in initial]
        for phi, value, first in zip(results, following, initial, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(value, inside)
        return [*results]

    def _carried(self, initial: Sequence[ir.Value]) -> list[ir.Phi]:
        """Return a phi for each value that the loop, which has just begun, carries on."""
        block = self._builder.block
        counter = block.instructions[0]
        assert isinstance(counter, ir.Phi), "a counted loop begins with its counter"
        before = counter.incoming[0][1]
        phis = [self._builder.phi(value.type) for value in initial]
        for phi, value in zip(phis, initial, strict=True):
            phi.add_incoming(value, before)
        return phis

    def _load(self, at: ir.Value) -> Item:
        return self._items.load(self._given, at)

    def _store(self, item: Item, at: ir.Value) -> None:
        self._items.store(item, self._into, at)

    def _next_of_front(self, a: ir.Value, b: ir.Value) -> tuple[Item, ir.Value, ir.Value]:
        """Return the vector of the run whose next element comes first, and where both go on."""
        builder, items = self._builder, self._items
        heads = (items.load(self._given, at, single=True) for at in (b, a))
        is_left = builder.icmp_signed("<", b, self._whole)
        is_second = builder.and_(is_left, items.is_before(*heads))
        block = self._load(builder.select(is_second, b, a))
        after_a, after_b = builder.add(a, self._lanes), builder.add(b, self._lanes)
        return block, builder.select(is_second, a, after_a), builder.select(is_second, after_b, b)

    def _next_of_back(self, c: ir.Value, d: ir.Value) -> tuple[Item, ir.Value, ir.Value]:
        """Return the vector of the run whose last element left comes last, and where both end."""
        builder, items = self._builder, self._items
        tails = (items.load(self._given, builder.sub(at, index(1)), single=True) for at in (c, d))
        is_left = builder.icmp_signed(">", d, self._length)
        is_second = builder.and_(is_left, items.is_before(*tails))
        before_c, before_d = builder.sub(c, self._lanes), builder.sub(d, self._lanes)
        block = self._load(builder.select(is_second, before_d, before_c))
        return block, builder.select(is_second, c, before_c), builder.select(is_second, before_d, d)

    def _merged(self, a: Item, falling: Item) -> tuple[Item, Item, Item, Item]:
        """Merge a sorted vector and one that falls.

        Return the lesser half and the greater half, each rising and falling.
        """
        items, lanes = self._items, self._items.plan.lanes
        x, y = items.exchange(a, falling)
        x, y, held = cleaned(items, x, y, lanes // 2)
        low, high = range(lanes), range(lanes, 2 * lanes)
        ways = (low, low[::-1], high, high[::-1])
        rising, falling, above, above_falling = (arranged(items, x, y, held, way) for way in ways)
        return rising, falling, above, above_falling
