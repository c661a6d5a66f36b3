"""IR builders for the C interface: the pieces of LLVM IR that its functions are made of.

What the functions do is in the other files of this folder. All of it is scalar code for the oldest
CPU of an architecture, since it also runs where a step could not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from symgrad.codegen import ir
from symgrad.codegen.c_interface.abi import (
    FINGERPRINT_OFFSET,
    NOT_INITIALIZED,
    NULL_POINTER,
    Interface,
)
from symgrad.codegen.ir.read_only import read_only_bytes

I8, I32, I64, PTR = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.PointerType()
VOID = ir.VoidType()
NULL = ir.Constant(PTR, None)


def define(
    module: ir.Module, name: str, result: ir.Type, takes: Sequence[ir.Type], *, is_public: bool
) -> tuple[ir.LLVMFunction, ir.IRBuilder]:
    """Start a function; the builder stands in its first block."""
    function = ir.LLVMFunction(module, ir.FunctionType(result, takes), name)
    function.attributes.add("nounwind")
    if not is_public:
        function.linkage = "internal"
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def of_c(module: ir.Module, name: str, result: ir.Type, *takes: ir.Type) -> ir.LLVMFunction:
    """Declare a function of the C library, once."""
    known: ir.LLVMFunction | None = module.globals.get(name)
    return known or ir.LLVMFunction(module, ir.FunctionType(result, takes), name)


def text(module: ir.Module, content: str) -> ir.GlobalVariable:
    """Return where `content` lies as a string of C."""
    return read_only_bytes(module, content.encode("utf-8", "surrogatepass") + b"\0")


def at(builder: ir.IRBuilder, pointer: ir.Value, offset: int | ir.Value) -> ir.Value:
    """Return the address that is `offset` bytes after `pointer`."""
    distance = I64(offset) if isinstance(offset, int) else offset
    return builder.gep(pointer, [distance], inbounds=True, source_etype=I8)


def load_at(
    builder: ir.IRBuilder, pointer: ir.Value, offset: int | ir.Value, kind: ir.Type, align: int = 8
) -> ir.Value:
    """Load a value that is `offset` bytes after `pointer`."""
    return builder.load(at(builder, pointer, offset), align=align, typ=kind)


def store_at(
    builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, offset: int, align: int = 8
) -> None:
    """Store a value `offset` bytes after `pointer`."""
    builder.store(value, at(builder, pointer, offset), align=align)


def return_unless(builder: ir.IRBuilder, condition: ir.Value, result: ir.Value | None) -> None:
    """Return `result`, or nothing, where `condition` does not hold; go on where it does."""
    holds = builder.append_basic_block("holds")
    fails = builder.append_basic_block("fails")
    builder.cbranch(condition, holds, fails)
    builder.position_at_end(fails)
    if result is None:
        builder.ret_void()
    else:
        builder.ret(result)
    builder.position_at_end(holds)


def require_pointers(builder: ir.IRBuilder, pointers: Sequence[ir.Value]) -> None:
    """Return `NULL_POINTER` where one of `pointers` is null."""
    for pointer in pointers:
        return_unless(builder, builder.icmp_unsigned("!=", pointer, NULL), I32(NULL_POINTER))


def return_unless_instance(
    builder: ir.IRBuilder, pointer: ir.Value, interface: Interface, result: ir.Value | None
) -> None:
    """Return `result`, or nothing, where `pointer` does not point at an instance of the library."""
    return_unless(builder, builder.icmp_unsigned("!=", pointer, NULL), result)
    mark = load_at(builder, pointer, FINGERPRINT_OFFSET, I64)
    is_own = builder.icmp_unsigned("==", mark, I64(interface.fingerprint))
    return_unless(builder, is_own, result)


def require_instance(builder: ir.IRBuilder, pointer: ir.Value, interface: Interface) -> None:
    """Return a status where `pointer` does not point at an instance of the library."""
    require_pointers(builder, [pointer])
    return_unless_instance(builder, pointer, interface, I32(NOT_INITIALIZED))


@contextmanager
def counting(builder: ir.IRBuilder, stop: ir.Value) -> Iterator[ir.Value]:
    """Emit what the `with` block emits as the body of a loop over 0 to `stop` - 1."""
    before = builder.block
    head, body, after = (builder.append_basic_block(n) for n in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    number = builder.phi(I64)
    number.add_incoming(I64(0), before)
    builder.cbranch(builder.icmp_unsigned("<", number, stop), body, after)
    builder.position_at_end(body)
    yield number
    number.add_incoming(builder.add(number, I64(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)
