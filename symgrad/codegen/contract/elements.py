"""SIMD loads, conversions, broadcasts and multiply-adds on the elements of a contraction.

Memory holds elements of the operands' dtype, registers hold the computing dtype. Nothing here
knows of matrices or of the order in which they are walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from symgrad.codegen import ir
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import shuffled, vector_type
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass

INDEX = ir.IntType(64)
POINTER = ir.PointerType()
_LANE = ir.IntType(32)


def index(value: int) -> ir.Value:
    """Return the 64-bit constant `value`."""
    return ir.Constant(INDEX, value)


@cache
def scalar_type(dtype: DType) -> ir.Type:
    """Return the LLVM type a register holds an element of `dtype` in."""
    if dtype.is_integer:
        return ir.IntType(dtype.bits)
    if dtype.name == "float16":
        return ir.HalfType()
    return {"float32": ir.FloatType(), "float64": ir.DoubleType()}[dtype.name]


@contextmanager
def counted_loop(
    builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: int = 1, *, is_final: bool = False
) -> Iterator[ir.Value]:
    """Emit a loop around the body of the `with` and yield its index; the body may add blocks.

    There is no loop where it is known to run once. See `final_loop` for one that `is_final`.
    """
    first, last = (
        int(bound.ref) if isinstance(bound, ir.Constant) else None for bound in (start, stop)
    )
    if first is not None and last is not None and first < last <= first + step:
        yield start
        return
    before = builder.block
    body = builder.append_basic_block("loop")
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", start, stop), body, after)
    builder.position_at_end(body)
    at = builder.phi(INDEX, "i")
    at.add_incoming(start, before)
    yield at
    following = builder.add(at, index(step), flags=("nuw", "nsw"))
    following = as_it_is(builder, following) if is_final else following
    at.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, stop), body, after)
    builder.position_at_end(after)


def final_loop(
    builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: int = 1
) -> AbstractContextManager[ir.Value]:
    """Strength reduction left out: emit a loop whose addresses are to stay as they are written.

    LLVM would weigh all ways to find them by what goes on with the index, which takes a third of
    the time of a kernel that calls microkernels. These do the work, so it gains nothing there.
    """
    return counted_loop(builder, start, stop, step, is_final=True)


def as_it_is(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a value of which LLVM is to know nothing but that it is in a register."""
    same = ir.FunctionType(value.type, [value.type])
    return builder.asm(same, "", "=r,0", [value], side_effect=False)


def add_elements(builder: ir.IRBuilder, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return `a + b`."""
    return builder.fadd(a, b) if dtype.is_float else builder.add(a, b)


def multiply_add(
    builder: ir.IRBuilder, dtype: DType, a: ir.Value, b: ir.Value, total: ir.Value
) -> ir.Value:
    """Return `a * b + total`: fused where the machine has the instruction, never a library call."""
    if not dtype.is_float:
        return builder.add(builder.mul(a, b), total)
    kind, width = a.type, 1
    suffix = "f32" if dtype.bits == 32 else "f64"
    if isinstance(kind, ir.VectorType):
        width = kind.count
        suffix = f"v{width}{suffix}"
    fmuladd = declare(builder.module, f"llvm.fmuladd.{suffix}", kind, [kind, kind, kind])
    return builder.call(fmuladd, [a, b, total])


def declare(
    module: ir.Module, name: str, result: ir.Type, arguments: list[ir.Type]
) -> ir.LLVMFunction:
    """Return the function `name` of `module`, declared if it is not there."""
    known = module.globals.get(name)
    return known or ir.LLVMFunction(module, ir.FunctionType(result, arguments), name)


def prefetch(
    builder: ir.IRBuilder, pointer: ir.Value, *, is_write: bool, is_near: bool = True
) -> None:
    """Software prefetch of the line at an address, into the nearest cache or the next one."""
    word = ir.IntType(32)
    kinds = [POINTER, word, word, word]
    function = declare(builder.module, "llvm.prefetch.p0", ir.VoidType(), kinds)
    builder.call(function, [pointer, word(int(is_write)), word(3 if is_near else 2), word(1)])


def emit_streamed(builder: ir.IRBuilder, target: Target) -> None:
    """Let what was stored past the caches be seen before anything that is stored from now on."""
    assert target.architecture == "x86_64", "nothing is stored past the caches elsewhere"
    builder.call(declare(builder.module, "llvm.x86.sse.sfence", ir.VoidType(), []), [])


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of `stored` in memory, read as elements of `compute` on `target`."""

    stored: DType
    compute: DType
    target: Target

    @property
    def memory_type(self) -> ir.Type:
        """The type an element is loaded as; 16-bit floats without a conversion are integers."""
        if self.stored.name == "bfloat16" or (self.stored.is_half and not self.target.has_half):
            return ir.IntType(16)
        return scalar_type(self.stored)

    def address(self, builder: ir.IRBuilder, base: ir.Value, offset: ir.Value) -> ir.Value:
        """Return the address of the element `offset` elements after `base`."""
        return builder.gep(base, [offset], source_etype=self.memory_type)

    def load(self, builder: ir.IRBuilder, pointer: ir.Value, count: int, width: int) -> ir.Value:
        """Load `count` adjacent elements into `width` lanes; the lanes beyond them are zero.

        Not a byte beyond the elements is read.
        """
        if count == width:
            kind = vector_type(self.memory_type, width)
            read = builder.load(pointer, typ=kind, align=self.stored.itemsize)
        elif self._has_masked_load(width):
            read = self._load_masked(builder, pointer, count, width)
        else:
            read = self._load_pieces(builder, pointer, count, width)
        return self._convert(builder, read, width)

    def gather(
        self, builder: ir.IRBuilder, pointer: ir.Value, stride: int, count: int, width: int
    ) -> ir.Value:
        """Load `count` elements that lie `stride` apart, as `load` does."""
        read: ir.Value = ir.Constant(ir.VectorType(self.memory_type, width), None)
        for lane in range(count):
            place = self.address(builder, pointer, index(lane * stride))
            item = builder.load(place, typ=self.memory_type, align=self.stored.itemsize)
            read = builder.insert_element(read, item, ir.Constant(_LANE, lane))
        return self._convert(builder, read, width)

    def store(self, builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, count: int) -> None:
        """Store the first `count` lanes, which are elements as they are in memory.

        Not a byte beyond the elements is written.
        """
        kind, align = value.type, self.stored.itemsize
        if count == kind.count:
            builder.store(value, pointer, align=align)
            return
        masks = ir.VectorType(ir.IntType(1), kind.count)
        name = f"llvm.masked.store.v{kind.count}f{self.stored.bits}.p0"
        masked = declare(builder.module, name, ir.VoidType(), [kind, POINTER, masks])
        mask = ir.Constant(masks, [lane < count for lane in range(kind.count)])
        builder.call(masked, [value, pointer, mask])

    def prefetch(self, builder: ir.IRBuilder, pointer: ir.Value, count: int) -> None:
        """Prefetch the lines of `count` adjacent elements into the second-level cache."""
        for start in range(0, count, self.target.memory.line_bytes // self.stored.itemsize):
            line = self.address(builder, pointer, index(start))
            prefetch(builder, line, is_write=False, is_near=False)

    def _has_masked_load(self, width: int) -> bool:
        if "x86_64" not in self.target.triple or width * self.stored.itemsize < 16:
            return False
        narrowest = {64: 1, 32: 4}.get(self.target.vector_bytes, 16)
        return self.stored.itemsize >= narrowest

    def _load_masked(
        self, builder: ir.IRBuilder, pointer: ir.Value, count: int, width: int
    ) -> ir.Value:
        kind = ir.VectorType(self.memory_type, width)
        masks = ir.VectorType(ir.IntType(1), width)
        bits = self.stored.bits
        letter = "i" if isinstance(self.memory_type, ir.IntType) else "f"
        name = f"llvm.masked.load.v{width}{letter}{bits}.p0"
        masked = declare(builder.module, name, kind, [POINTER, masks, kind])
        mask = ir.Constant(masks, [lane < count for lane in range(width)])
        return builder.call(masked, [pointer, mask, ir.Constant(kind, None)])

    def _load_pieces(
        self, builder: ir.IRBuilder, pointer: ir.Value, count: int, width: int
    ) -> ir.Value:
        read: ir.Value = ir.Constant(ir.VectorType(self.memory_type, width), None)
        start = 0
        while start < count:
            # The largest power of two that is left: 7 elements are read as 4, 2 and 1.
            piece = 1 << ((count - start).bit_length() - 1)
            place = self.address(builder, pointer, index(start))
            kind = ir.VectorType(self.memory_type, piece)
            part = builder.load(place, typ=kind, align=self.stored.itemsize)
            nothing = ir.Constant(kind, ir.Undefined)
            widened = shuffled(builder, [part, nothing], [min(i, piece) for i in range(width)])
            chosen = [width + i - start if start <= i < start + piece else i for i in range(width)]
            read = shuffled(builder, [read, widened], chosen)
            start += piece
        return read

    def _convert(self, builder: ir.IRBuilder, read: ir.Value, width: int) -> ir.Value:
        kind = vector_type(scalar_type(self.compute), width)
        if self.stored == self.compute:
            return read
        if self.stored.is_integer:
            # The product is taken modulo 2**bits in the end, so either extension serves.
            return builder.zext(read, kind)
        if self.stored.name == "bfloat16":
            bits = vector_type(ir.IntType(32), width)
            wide = builder.zext(read, bits)
            return builder.bitcast(builder.shl(wide, ir.Constant(bits, 16)), kind)
        if self.target.has_half:
            return builder.fpext(read, kind)
        return _half_to_float(builder, read, width)


def _half_to_float(builder: ir.IRBuilder, read: ir.Value, width: int) -> ir.Value:
    """Convert the bits of float16 exactly, without an instruction for it.

    The exponent and the fraction, moved to their places in a float32, are the number divided by
    2**112, denormals included. Only inf and nan need their exponent set.
    """
    bits = vector_type(ir.IntType(32), width)
    kind = vector_type(ir.FloatType(), width)
    wide = builder.zext(read, bits)
    magnitude = builder.shl(builder.and_(wide, ir.Constant(bits, 0x7FFF)), ir.Constant(bits, 13))
    sign = builder.shl(builder.and_(wide, ir.Constant(bits, 0x8000)), ir.Constant(bits, 16))
    scaled = builder.fmul(builder.bitcast(magnitude, kind), ir.Constant(kind, 2.0**112))
    finite = builder.bitcast(scaled, bits)
    special = builder.icmp_unsigned(">=", magnitude, ir.Constant(bits, 31 << 23))
    exponent = builder.select(special, ir.Constant(bits, 0x7F800000), ir.Constant(bits, 0))
    return builder.bitcast(builder.or_(builder.or_(finite, exponent), sign), kind)
