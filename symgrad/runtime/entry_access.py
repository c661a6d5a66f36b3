"""Access in LLVM IR to what the native entry reads: fields, elements, loops over them.

What is emitted of these is in `entry_code`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.codegen import ir
from symgrad.runtime.entry_record import SPEC_FIELDS, Fields, field_index, llvm_struct

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_PTR = ir.PointerType()
_NULL = ir.Constant(_PTR, None)
_ZERO = _I64(0)
_SPEC = llvm_struct(SPEC_FIELDS)


@contextmanager
def loop(builder: ir.IRBuilder, stop: ir.Value, start: ir.Value = _ZERO) -> Iterator[ir.Value]:
    """Emit `for index in range(start, stop)` around what is emitted inside; yields the index."""
    before = builder.block
    head = builder.append_basic_block("head")
    body = builder.append_basic_block("body")
    done = builder.append_basic_block("done")
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(_I64)
    index.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", index, stop), body, done)
    builder.position_at_end(body)
    yield index
    index.add_incoming(builder.add(index, _I64(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(done)


def return_false_unless(builder: ir.IRBuilder, condition: ir.Value) -> None:
    """Return false from the function that is emitted where `condition` does not hold."""
    with builder.if_then(builder.not_(condition), likely=False):
        builder.ret(_I1(0))


def field(builder: ir.IRBuilder, fields: Fields, pointer: ir.Value, name: str) -> ir.Value:
    """Load a field of a structure of `fields`."""
    kind = llvm_struct(fields).elements[field_index(fields, name)]
    return builder.load(field_place(builder, fields, pointer, name), typ=kind)


def field_place(builder: ir.IRBuilder, fields: Fields, pointer: ir.Value, name: str) -> ir.Value:
    """Return where a field of a structure of `fields` is."""
    index = _I32(field_index(fields, name))
    return builder.gep(pointer, [_I32(0), index], source_etype=llvm_struct(fields))


def element(builder: ir.IRBuilder, kind: ir.Type, pointer: ir.Value, index: ir.Value) -> ir.Value:
    """Return where an element of an array of `kind` is."""
    return builder.gep(pointer, [index], source_etype=kind)


def offset(builder: ir.IRBuilder, pointer: ir.Value, nbytes: int) -> ir.Value:
    """Return what is so many bytes behind a pointer."""
    return builder.gep(pointer, [_I64(nbytes)], source_etype=_I8)


def load_at(builder: ir.IRBuilder, kind: ir.Type, pointer: ir.Value, nbytes: int) -> ir.Value:
    """Load what is so many bytes behind a pointer."""
    return builder.load(offset(builder, pointer, nbytes), typ=kind)


def address_range(
    builder: ir.IRBuilder, specs: ir.Value, pointers: ir.Value, index: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return where an array of the tables begins and ends."""
    nbytes = field(builder, SPEC_FIELDS, element(builder, _SPEC, specs, index), "nbytes")
    start = builder.load(element(builder, _I64, pointers, index), typ=_I64)
    return start, builder.add(start, nbytes)


def is_null(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """Return whether a pointer is NULL."""
    return builder.icmp_unsigned("==", pointer, _NULL)


def is_failure(builder: ir.IRBuilder, status: ir.Value) -> ir.Value:
    """Return whether a status is one."""
    return builder.icmp_signed("!=", status, _I32(0))
