"""Vector partition: keys less than a limit, and the others, packed lane by lane.

A vector is compared with the limit, and the lanes that are less and those that are not are each
packed and written behind what has been written before, with whatever is in the other lanes: that
is written over by the next ones (Bramas, "A Novel Hybrid Quicksort Algorithm Vectorized using
AVX-512 on Intel Skylake", 2017). There are no branches by what keys are.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import POINTER, counted_loop, declare, index, prefetch
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.sorting.elements import I64, Item, Items
from symgrad.codegen.sorting.matrix import Matrix
from symgrad.codegen.vectors import splat

# How far ahead of where keys are written lines are prefetched, in bytes.
_AHEAD = 1024
# The pivot is about the median of so many vectors, which lie evenly among the keys; 1 + 2**i.
_SAMPLED = 9


def partition_function(items: Items) -> ir.LLVMFunction:
    """Return the function that leaves the keys less than a limit at the beginning of an array.

    It takes that array, one for the other keys, how many keys there are and the limit, and returns
    how many are less. Up to a vector behind both arrays is written to as well.
    """
    plan, module = items.plan, items.builder.module
    name = f"sg.partition.{items.name}"
    function: ir.LLVMFunction | None = module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(I64, [POINTER, POINTER, I64, items.scalar])
        function = kernel_function(module, kind, name)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        _emit_partition(Items(builder, plan), *function.args)
    return function


class _Cut:
    """The two arrays that keys go to, by whether they are less than `limit`."""

    def __init__(self, items: Items, home: ir.Value, spare: ir.Value, limit: ir.Value) -> None:
        self._items = items
        self._builder = builder = items.builder
        self._arrays = home, spare
        self._limit = limit
        self._limits = splat(builder, limit, items.plan.lanes)
        with builder.goto_entry_block():
            self._lesser = builder.alloca(I64)
        builder.store(index(0), self._lesser)

    @property
    def lesser(self) -> ir.Value:
        """How many keys have been less."""
        return self._builder.load(self._lesser, typ=I64)

    def pack(self, at: ir.Value, keys: ir.Value, exists: ir.Value | None = None) -> None:
        """Write each lane of a vector, or those that exist; `at` keys have been written before."""
        builder, items = self._builder, self._items
        is_less = items.is_less(keys, self._limits)
        is_other = builder.not_(is_less)
        if exists is not None:
            is_less, is_other = builder.and_(is_less, exists), builder.and_(is_other, exists)
        places = self._places(at)
        for array, place, chosen in zip(self._arrays, places, (is_less, is_other), strict=True):
            items.store((packed(items, keys, chosen),), (array,), place)
            if exists is None:
                ahead = builder.add(place, index(_AHEAD * 8 // items.plan.bits))
                prefetch(builder, items.at((array,), ahead)[0], is_write=True)
        self._count(places[0], _count_of(builder, is_less))

    def put(self, at: ir.Value, key: ir.Value) -> None:
        """Write one key, to both arrays: one of them goes on from there."""
        for array, place in zip(self._arrays, places := self._places(at), strict=True):
            self._items.store((key,), (array,), place)
        is_less = self._items.is_less(key, self._limit)
        self._count(places[0], self._builder.zext(is_less, I64))

    def _places(self, at: ir.Value) -> tuple[ir.Value, ir.Value]:
        lesser = self.lesser
        return lesser, self._builder.sub(at, lesser)

    def _count(self, lesser: ir.Value, found: ir.Value) -> None:
        self._builder.store(self._builder.add(lesser, found), self._lesser)


def _emit_partition(
    items: Items, home: ir.Value, spare: ir.Value, count: ir.Value, limit: ir.Value
) -> None:
    builder, lanes = items.builder, items.plan.lanes
    cut = _Cut(items, home, spare, limit)
    whole = builder.and_(count, index(-lanes))
    with counted_loop(builder, index(0), whole, lanes) as at:
        cut.pack(at, items.load((home,), at)[0])
    steps = ir.Constant(items.words, list(range(lanes)))
    rest = builder.and_(_narrowed(builder, count, items.word), items.word(lanes - 1))
    with builder.if_then(builder.icmp_signed("!=", rest, items.word(0))):
        exists = builder.icmp_signed("<", steps, splat(builder, rest, lanes))
        cut.pack(whole, items.load((home,), whole)[0], exists)
    builder.ret(cut.lesser)


class FirstPartition:
    """A partition of the elements of a row as they are read: their keys are written once."""

    def __init__(self, matrix: Matrix, row: ir.Value, home: ir.Value, spare: ir.Value) -> None:
        self._matrix = matrix
        self._row = row
        self._home = home
        self._spare = spare

    def emit(self) -> tuple[ir.Value, ir.Value]:
        """Return the pivot, and how many keys are less."""
        matrix, builder, lanes = self._matrix, self._matrix.builder, self._matrix.plan.lanes
        length = matrix.sort.length
        whole = length - length % lanes if matrix.sort.source.columns == 1 else 0
        pivot = self._pivot()
        cut = _Cut(matrix.items, self._home, self._spare, pivot)
        with counted_loop(builder, index(0), index(whole), lanes) as at:
            cut.pack(at, matrix.read_keys(self._row, at, lanes)[0])
        with counted_loop(builder, index(whole), index(length)) as at:
            cut.put(at, matrix.read_keys(self._row, at, 1)[0])
        return pivot, cut.lesser

    def _pivot(self) -> ir.Value:
        """Return about the median of some of the keys, which are put into the array of keys."""
        matrix, builder, lanes = self._matrix, self._matrix.builder, self._matrix.plan.lanes
        width = lanes if matrix.sort.source.columns == 1 else 1
        parts, count = _SAMPLED * lanes // width, _SAMPLED * lanes
        step = (matrix.sort.length - width) // (parts - 1)
        with counted_loop(builder, index(0), index(parts)) as part:
            keys = matrix.read_keys(self._row, builder.mul(part, index(step)), width)
            place = builder.mul(part, index(width))
            matrix.items.store(keys, (self._home,), place)
        return builder.call(pivot_function(matrix.items), [self._home, index(count)])


def _narrowed(builder: ir.IRBuilder, number: ir.Value, kind: ir.Type) -> ir.Value:
    return number if kind == I64 else builder.trunc(number, kind)


def _bits_of(builder: ir.IRBuilder, chosen: ir.Value) -> ir.Value:
    return builder.zext(builder.bitcast(chosen, ir.IntType(chosen.type.count)), I64)


def _count_of(builder: ir.IRBuilder, chosen: ir.Value) -> ir.Value:
    """Return how many lanes are chosen."""
    count = declare(builder.module, "llvm.ctpop.i64", I64, [I64])
    return builder.call(count, [_bits_of(builder, chosen)])


def packed(items: Items, vector: ir.Value, chosen: ir.Value) -> ir.Value:
    """Return a vector that begins with the chosen lanes; there is anything in the others."""
    builder, plan = items.builder, items.plan
    if plan.packing == "compress":
        kind = vector.type
        name = f"llvm.x86.avx512.mask.compress.{items.lanes_name}"
        compress = declare(builder.module, name, kind, [kind, kind, chosen.type])
        return builder.call(compress, [vector, ir.Constant(kind, ir.Undefined), chosen])
    words = ir.VectorType(ir.IntType(32), plan.lanes * plan.bits // 32)
    table = _table_of_orders(builder.module, plan.lanes, plan.bits // 32)
    place = builder.gep(table, [_bits_of(builder, chosen)], source_etype=words)
    order = builder.load(place, align=32, typ=words)
    permute = declare(builder.module, "llvm.x86.avx2.permd", words, [words, words])
    return builder.bitcast(
        builder.call(permute, [builder.bitcast(vector, words), order]), vector.type
    )


def _table_of_orders(module: ir.Module, lanes: int, words: int) -> ir.Value:
    """Return the constant that says, for each set of lanes, in which order words pack them."""
    name = f"sg.packing.{lanes}"
    table: ir.GlobalVariable | None = module.globals.get(name)
    if table is not None:
        return table
    rows = []
    for chosen in range(1 << lanes):
        order = sorted(range(lanes), key=lambda lane: not chosen >> lane & 1)
        rows.append([words * lane + word for lane in order for word in range(words)])
    row = ir.VectorType(ir.IntType(32), lanes * words)
    kind = ir.ArrayType(row, len(rows))
    table = ir.GlobalVariable(module, kind, name)
    table.linkage, table.global_constant, table.align = "internal", True, 32
    table.initializer = ir.Constant(kind, [ir.Constant(row, order) for order in rows])
    return table


# ------------------------------------------------------------------------------------------ pivots


def pivot_function(items: Items) -> ir.LLVMFunction:
    """Return the function that takes an array and its length and returns a key of about the middle.

    It is a median of medians of three, nine in each lane and nine lanes (Tukey's ninther).
    """
    plan, module = items.plan, items.builder.module
    name = f"sg.pivot.{items.name}"
    function: ir.LLVMFunction | None = module.globals.get(name)
    if function is not None:
        return function
    function = kernel_function(module, ir.FunctionType(items.scalar, [POINTER, I64]), name)
    array, count = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    inside = Items(builder, plan)
    room = builder.sub(count, index(plan.lanes))
    shift = index((_SAMPLED - 1).bit_length() - 1)
    places = (builder.lshr(builder.mul(room, index(i)), shift) for i in range(_SAMPLED))
    found = [inside.load((array,), place) for place in places]
    while len(found) > 1:
        found = [_median(inside, found[i : i + 3]) for i in range(0, len(found), 3)]
    (middle,) = found
    lanes = range(plan.lanes)
    for step in (max(plan.lanes // 3, 1), 1):
        turned = ([(lane + step * i) % plan.lanes for lane in lanes] for i in range(3))
        middle = _median(inside, [inside.permute(middle, order) for order in turned])
    builder.ret(builder.extract_element(middle[0], ir.IntType(32)(0)))
    return function


def _median(items: Items, three: Sequence[Item]) -> Item:
    a, b, c = three
    low, high = items.exchange(a, b)
    below, _ = items.exchange(high, c)
    _, median = items.exchange(low, below)
    return median
