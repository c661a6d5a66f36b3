"""Tapes: memory that grows while a loop without a bound records what its gradient will read.

A tape is two words: a pointer to its memory and how many bytes that has. It at least doubles when
it grows, so a loop of n iterations copies less than n slices. It starts at a cache line, which
`realloc` would not promise: a vector across two lines takes about twice as long.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.cost_model import FIRST_TAPE_BYTES
from symgrad.graph.aligned import ALIGNMENT

TAPE_FULL = 0x7FFFFFFF  # the status of a program whose tape cannot grow
TAPE_BYTES = 16

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()
_NAME = "tape.reserve"


def tape_reserve(module: ir.Module) -> ir.LLVMFunction:
    """Return the function of `module` that grows a tape to at least so many bytes.

    It takes the tape and the size, and returns 0, or `TAPE_FULL` if there is no such memory.
    """
    function: ir.LLVMFunction | None = module.globals.get(_NAME)
    if function is not None:
        return function
    function = ir.LLVMFunction(module, ir.FunctionType(_I32, [_PTR, _I64]), _NAME)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")  # once in a program, and out of the way of its loops
    tape, size = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    capacity_place = builder.gep(tape, [_I64(1)], inbounds=True, source_etype=_I64)
    capacity = builder.load(capacity_place, align=8, typ=_I64)
    with builder.if_then(builder.icmp_signed("<=", size, capacity), likely=True):
        builder.ret(_I32(0))
    doubled = builder.mul(capacity, _I64(2))
    needed = _larger(builder, _larger(builder, size, doubled), _I64(FIRST_TAPE_BYTES))
    wanted = builder.and_(builder.add(needed, _I64(ALIGNMENT - 1)), _I64(-ALIGNMENT))
    old = builder.load(tape, align=8, typ=_PTR)
    new = builder.call(_of_c(module, "aligned_alloc", _PTR, _I64, _I64), [_I64(ALIGNMENT), wanted])
    with builder.if_then(builder.icmp_unsigned("==", new, _PTR(None)), likely=False):
        builder.ret(_I32(TAPE_FULL))
    with builder.if_then(builder.icmp_signed(">", capacity, _I64(0))):
        builder.call(_of_c(module, "memcpy", _PTR, _PTR, _PTR, _I64), [new, old, capacity])
    builder.call(_of_c(module, "free", ir.VoidType(), _PTR), [old])
    builder.store(new, tape, align=8)
    builder.store(wanted, capacity_place, align=8)
    builder.ret(_I32(0))
    return function


class TapeInRegisters:
    """The two words of a tape, kept out of memory while a loop runs that grows it.

    Made in the first block of a function; `read` again after each `tape_reserve`.
    """

    def __init__(self, builder: ir.IRBuilder, tape: ir.Value) -> None:
        self._builder = builder
        self._tape = tape
        self._memory, self._capacity = builder.alloca(_PTR), builder.alloca(_I64)
        self.read()

    def read(self) -> None:
        """Take over what is in memory."""
        builder = self._builder
        builder.store(builder.load(self._tape, align=8, typ=_PTR), self._memory)
        place = builder.gep(self._tape, [_I64(1)], inbounds=True, source_etype=_I64)
        builder.store(builder.load(place, align=8, typ=_I64), self._capacity)

    def memory(self) -> ir.Value:
        """Return where the elements are."""
        return self._builder.load(self._memory, typ=_PTR)

    def is_too_small(self, size: ir.Value) -> ir.Value:
        """Return whether the tape has less than `size` bytes."""
        capacity = self._builder.load(self._capacity, typ=_I64)
        return self._builder.icmp_signed(">", size, capacity)


def _larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def _of_c(module: ir.Module, name: str, result: ir.Type, *takes: ir.Type) -> ir.LLVMFunction:
    """Declare a function of the C library."""
    return ir.LLVMFunction(module, ir.FunctionType(result, takes), name)
