"""SIMD compare-exchange: vectors of keys, alone or with positions, and how lanes move.

An `Item` is what is sorted: one vector of keys or, in pairs, one of keys and one of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import POINTER
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.sorting.plan import SortPlan
from symgrad.codegen.vectors import shuffled

Item = tuple[ir.Value, ...]
I64 = ir.IntType(64)
# What a shuffle of two vectors moves about at the least cost stays within so many bits.
_NEAR_BITS = 128


class Items:
    """The operations on items of a plan, emitted at the end of `builder`'s block."""

    def __init__(self, builder: ir.IRBuilder, plan: SortPlan) -> None:
        self.builder = builder
        self.plan = plan
        self.word = ir.IntType(plan.bits)
        self.words = ir.VectorType(self.word, plan.lanes)
        self.scalar = plan.key_type
        self.vector = ir.VectorType(self.scalar, plan.lanes)

    @property
    def name(self) -> str:
        """What tells functions that are generated for these items from others."""
        return f"{self.plan.form}.{self.lanes_name}"

    @property
    def lanes_name(self) -> str:
        """What LLVM calls a vector of keys in the name of an intrinsic function."""
        letter = "f" if self.plan.has_floats else "i"
        return f"v{self.plan.lanes}{letter}{self.plan.bits}"

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
        most = float("inf") if self.plan.has_floats else (1 << (self.plan.bits - 1)) - 1
        lanes = ir.Constant(self.vector, most)
        return (self.scalar(most) if single else lanes,) * self.plan.planes

    def is_less(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Return whether a key is less than another."""
        compare = self.builder.fcmp_ordered if self.plan.has_floats else self.builder.icmp_signed
        return compare("<", a, b)

    def is_equal(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Return whether keys are equal."""
        compare = self.builder.fcmp_ordered if self.plan.has_floats else self.builder.icmp_signed
        return compare("==", a, b)

    def next_above(self, key: ir.Value) -> ir.Value:
        """Return the key that follows next; there is one."""
        builder, kind = self.builder, self.word
        one = kind(1)
        if not self.plan.has_floats:
            return builder.add(key, one)
        # Below zero it is the one whose magnitude is less. Both zeros are equal.
        bits = builder.bitcast(key, kind)
        is_negative = builder.icmp_signed("<", bits, kind(0))
        found = builder.select(is_negative, builder.sub(bits, one), builder.add(bits, one))
        is_zero = self.is_equal(key, self.scalar(0.0))
        return builder.bitcast(builder.select(is_zero, one, found), self.scalar)

    def is_before(self, a: Item, b: Item) -> ir.Value:
        """Return whether `a` comes before `b`: of equal keys the first position does."""
        builder = self.builder
        before = self.is_less(a[0], b[0])
        if len(a) == 1:
            return before
        ties = builder.icmp_signed("==", a[0], b[0])
        earlier = builder.icmp_signed("<", a[1], b[1])
        return builder.or_(before, builder.and_(ties, earlier))

    def exchange(self, a: Item, b: Item) -> tuple[Item, Item]:
        """Return the lesser and the greater of each lane."""
        if self.plan.has_floats:
            # Both are `b` where they are equal: zeros, whose signs are put in order later.
            is_less, is_greater = self.is_before(a, b), self.is_before(b, a)
            return self.choose(is_less, a, b), self.choose(is_greater, a, b)
        if len(a) == 1:
            return (self._extreme("smin", a[0], b[0]),), (self._extreme("smax", a[0], b[0]),)
        swap = self.is_before(b, a)
        return self.choose(swap, b, a), self.choose(swap, a, b)

    def _extreme(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        full = f"llvm.{name}.v{self.plan.lanes}i{self.plan.bits}"
        function = self.builder.module.globals.get(full)
        if function is None:
            kind = ir.FunctionType(self.vector, [self.vector, self.vector])
            function = ir.LLVMFunction(self.builder.module, kind, full)
        return self.builder.call(function, [a, b])

    def choose(self, condition: ir.Value, a: Item, b: Item) -> Item:
        """Return `a` where the condition holds, else `b`."""
        return tuple(self.builder.select(condition, x, y) for x, y in zip(a, b, strict=True))

    def shuffle(self, a: Item, b: Item, lanes: Sequence[int]) -> Item:
        """Return lanes of `a` followed by `b`."""
        return tuple(shuffled(self.builder, [x, y], list(lanes)) for x, y in zip(a, b, strict=True))

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
    full = f"{name}.{items.name}"
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
        result += [
            shuffled(builder, [a, b], order[:width]),
            shuffled(builder, [a, b], order[width:]),
        ]
    return result


def unzipped(builder: ir.IRBuilder, vectors: Sequence[ir.Value]) -> list[ir.Value]:
    """Undo `zipped`: put elements with an even index first."""
    width = vectors[0].type.count
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    even = [shuffled(builder, [a, b], list(range(0, 2 * width, 2))) for a, b in pairs]
    return even + [shuffled(builder, [a, b], list(range(1, 2 * width, 2))) for a, b in pairs]


# --------------------------------------------------------------------------------- two vectors


def cleaned(items: Items, x: Item, y: Item, distance: int) -> tuple[Item, Item, list[int]]:
    """Exchange the lanes of two vectors that are `distance` apart, then half of that, down to 1.

    Return the vectors, and which lane of `x` and then of `y` each of their lanes belongs into.
    """
    held = [*range(2 * items.plan.lanes)]
    while distance:
        lower = _lower_of_pairs(held, distance, _NEAR_BITS // items.plan.bits)
        upper = [number + distance for number in lower]
        x, y = items.exchange(*(arranged(items, x, y, held, part) for part in (lower, upper)))
        held = [*lower, *upper]
        distance //= 2
    return x, y, held


def arranged(items: Items, x: Item, y: Item, held: list[int], wanted: Sequence[int]) -> Item:
    """Return the lanes `wanted` of two vectors that hold `held`."""
    return items.shuffle(x, y, [held.index(number) for number in wanted])


def _lower_of_pairs(held: list[int], distance: int, near: int) -> list[int]:
    """Return the numbers that are compared with those `distance` above, in the lanes they take.

    They stay in their block of `near` lanes where that holds both of a pair.
    """
    half = len(held) // 2
    sides = (held[:half], held[half:])
    if distance >= near:
        return [n for side in sides for n in side if not n & distance]
    starts = range(0, half, near)
    blocks = (side[start : start + near] for start in starts for side in sides)
    return [n for block in blocks for n in block if not n & distance]
