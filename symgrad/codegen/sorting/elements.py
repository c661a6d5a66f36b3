"""SIMD compare-exchange: vectors of keys, alone or with positions, and how lanes move.

An `Item` is what is sorted: one vector of keys or, in pairs, one of keys and one of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from symgrad.codegen.contract.elements import POINTER, shuffle
from symgrad.codegen.contract.kernel_function import kernel_function
from symgrad.codegen.sorting.plan import SortPlan

Item = tuple[ir.Value, ...]
I64 = ir.IntType(64)


class Items:
    """The operations on items of a plan, emitted at the end of `builder`'s block."""

    def __init__(self, builder: ir.IRBuilder, plan: SortPlan) -> None:
        self.builder = builder
        self.plan = plan
        self.scalar = ir.IntType(plan.bits)
        self.vector = ir.VectorType(self.scalar, plan.lanes)

    # ------------------------------------------------------------------------------- in memory

    def at(self, planes: Item, index: ir.Value) -> Item:
        """Return the addresses of the element `index` of the arrays `planes`."""
        builder = self.builder
        return tuple(
            builder.gep(p, [index], inbounds=True, source_etype=self.scalar) for p in planes
        )

    def load(self, planes: Item, index: ir.Value, *, single: bool = False) -> Item:
        """Load a vector, or one element, from `index` on."""
        kind = self.scalar if single else self.vector
        align = self.plan.bits // 8
        return tuple(self.builder.load(p, align=align, typ=kind) for p in self.at(planes, index))

    def store(self, item: Item, planes: Item, index: ir.Value) -> None:
        for value, pointer in zip(item, self.at(planes, index), strict=True):
            self.builder.store(value, pointer, align=self.plan.bits // 8)

    # ------------------------------------------------------------------------------- in lanes

    def greatest(self, *, single: bool = False) -> Item:
        """Return what no key comes after, in all lanes or alone."""
        most = (1 << (self.plan.bits - 1)) - 1
        lanes = ir.Constant(self.vector, [most] * self.plan.lanes)
        return (self.scalar(most) if single else lanes,) * self.plan.planes

    def is_before(self, a: Item, b: Item) -> ir.Value:
        """Return whether `a` comes before `b`: of equal keys the first position does."""
        builder = self.builder
        before = builder.icmp_signed("<", a[0], b[0])
        if len(a) == 1:
            return before
        ties = builder.icmp_signed("==", a[0], b[0])
        earlier = builder.icmp_signed("<", a[1], b[1])
        return builder.or_(before, builder.and_(ties, earlier))

    def exchange(self, a: Item, b: Item) -> tuple[Item, Item]:
        """Return the lesser and the greater of each lane."""
        if len(a) == 1:
            return (self._extreme("smin", a[0], b[0]),), (self._extreme("smax", a[0], b[0]),)
        swap = self.is_before(b, a)
        return self.choose(swap, b, a), self.choose(swap, a, b)

    def _extreme(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        full = f"llvm.{name}.v{self.plan.lanes}i{self.plan.bits}"
        function = self.builder.module.globals.get(full)
        if function is None:
            kind = ir.FunctionType(self.vector, [self.vector, self.vector])
            function = ir.Function(self.builder.module, kind, full)
        return self.builder.call(function, [a, b])

    def choose(self, condition: ir.Value, a: Item, b: Item) -> Item:
        """Return `a` where the condition holds, else `b`."""
        return tuple(self.builder.select(condition, x, y) for x, y in zip(a, b, strict=True))

    def shuffle(self, a: Item, b: Item, lanes: Sequence[int]) -> Item:
        """Return lanes of `a` followed by `b`."""
        return tuple(shuffle(self.builder, x, y, list(lanes)) for x, y in zip(a, b, strict=True))

    def permute(self, a: Item, lanes: Sequence[int]) -> Item:
        """Return lanes of `a` in another order."""
        return self.shuffle(a, a, lanes)

    def reversed(self, a: Item) -> Item:
        return self.permute(a, range(self.plan.lanes)[::-1])


def call_generated(
    name: str, items: Items, place: Item, emit: Callable[[Items, Item], None]
) -> None:
    """Call the function that does what `emit` emits to what lies at `place`; it is emitted once."""
    plan, module = items.plan, items.builder.module
    full = f"{name}.{plan.form}.v{plan.lanes}i{plan.bits}"
    function = module.globals.get(full)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [POINTER] * plan.planes)
        function = kernel_function(module, kind, full)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        emit(Items(builder, plan), tuple(function.args))
        builder.ret_void()
    items.builder.call(function, place)


def zipped(builder: ir.IRBuilder, vectors: Sequence[ir.Value]) -> list[ir.Value]:
    """Interleave the elements of the first half of `vectors` with those of the second.

    As one array in row-major order, its index has its first bit moved to the end.
    """
    half = len(vectors) // 2
    width = vectors[0].type.count
    order = [lane + width * side for lane in range(width) for side in (0, 1)]
    result = []
    for a, b in zip(vectors[:half], vectors[half:], strict=True):
        result += [shuffle(builder, a, b, order[:width]), shuffle(builder, a, b, order[width:])]
    return result


def unzipped(builder: ir.IRBuilder, vectors: Sequence[ir.Value]) -> list[ir.Value]:
    """Undo `zipped`: put elements with an even index first."""
    width = vectors[0].type.count
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    even = [shuffle(builder, a, b, list(range(0, 2 * width, 2))) for a, b in pairs]
    return even + [shuffle(builder, a, b, list(range(1, 2 * width, 2))) for a, b in pairs]
