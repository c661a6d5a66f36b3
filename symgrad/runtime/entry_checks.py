"""Checks of a vectorcall entry in LLVM IR: whether arguments are the arrays that a step takes.

A call spends here what depends on how many arguments there are, so this is optimized, and a module
of its own: the rest of an entry (`entry_code`) mostly calls others.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.runtime.entry_access import (
    address_range,
    element,
    field,
    load_at,
    loop,
    return_false_unless,
)
from symgrad.runtime.entry_layout import EntryLayout
from symgrad.runtime.entry_lock import OWNER
from symgrad.runtime.entry_record import SPEC_FIELDS, llvm_struct

_I1, _I32, _I64 = (ir.IntType(bits) for bits in (1, 32, 64))
_PTR = ir.PointerType()
_SPEC = llvm_struct(SPEC_FIELDS)

# The functions that check.
BIND, OVERLAP = "bind_arguments", "arguments_overlap"
_SIGNATURES = {
    BIND: ir.FunctionType(_I1, [_PTR, _PTR, _PTR, _I64, _I64]),
    OVERLAP: ir.FunctionType(_I1, [_PTR, _PTR, _I64, _I64]),
}


def declare_bind(module: ir.Module) -> ir.LLVMFunction:
    """Declare `bind(specs, pointers, args, count, owner)`: check `args`, take pointers.

    False if they do not fit, or if another thread than `owner` has the lock of steps, 0 for none.
    """
    return _declared(module, BIND)


def declare_overlap(module: ir.Module) -> ir.LLVMFunction:
    """Declare `overlap(specs, pointers, first, count)`: whether one from `first` on meets another.

    That is one before it.
    """
    return _declared(module, OVERLAP)


def emit_checks_module(layout: EntryLayout, names: Sequence[str]) -> ir.Module:
    """Emit functions that check arguments, named, for objects laid out as `layout` says."""
    module = ir.Module("checks")
    if BIND in names:
        _emit_bind(module, layout)
    if OVERLAP in names:
        _emit_overlap(module)
    return module


def _declared(module: ir.Module, name: str) -> ir.LLVMFunction:
    function = ir.LLVMFunction(module, _SIGNATURES[name], name)
    function.attributes.add("nounwind")
    return function


def _emit_bind(module: ir.Module, layout: EntryLayout) -> None:
    array_type = ir.GlobalVariable(module, ir.IntType(8), "PyArray_Type")
    function = declare_bind(module)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    specs, pointers, args, count, owner = function.args
    word = ir.GlobalVariable(module, _I64, OWNER)
    found = builder.load_atomic(word, "acquire", 8, typ=_I64)
    return_false_unless(builder, builder.icmp_signed("==", found, owner))
    with loop(builder, count) as index:
        spec = element(builder, _SPEC, specs, index)
        array = builder.load(element(builder, _PTR, args, index), typ=_PTR)
        kind = load_at(builder, _PTR, array, layout.object_type)
        # An object that is not exactly an array has no other field that could be read.
        return_false_unless(builder, builder.icmp_unsigned("==", kind, array_type))
        descr = load_at(builder, _PTR, array, layout.array_descr)
        return_false_unless(
            builder,
            builder.icmp_unsigned("==", descr, field(builder, SPEC_FIELDS, spec, "descr")),
        )
        flags = field(builder, SPEC_FIELDS, spec, "flags")
        found = builder.zext(load_at(builder, _I32, array, layout.array_flags), _I64)
        return_false_unless(builder, builder.icmp_unsigned("==", builder.and_(found, flags), flags))
        ndim = field(builder, SPEC_FIELDS, spec, "ndim")
        found = builder.sext(load_at(builder, _I32, array, layout.array_ndim), _I64)
        return_false_unless(builder, builder.icmp_signed("==", found, ndim))
        dims = field(builder, SPEC_FIELDS, spec, "dims")
        found = load_at(builder, _PTR, array, layout.array_dims)
        with loop(builder, ndim) as axis:
            size = builder.load(element(builder, _I64, dims, axis), typ=_I64)
            actual = builder.load(element(builder, _I64, found, axis), typ=_I64)
            return_false_unless(builder, builder.icmp_signed("==", size, actual))
        pointer = load_at(builder, _PTR, array, layout.array_pointer)
        builder.store(pointer, element(builder, _PTR, pointers, index))
    builder.ret(_I1(1))


def _emit_overlap(module: ir.Module) -> None:
    # All are contiguous, so two overlap exactly if the ranges of their addresses do.
    function = declare_overlap(module)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    specs, pointers, first, count = function.args
    with loop(builder, count, start=first) as index:
        start, end = address_range(builder, specs, pointers, index)
        with loop(builder, index) as earlier:
            other_start, other_end = address_range(builder, specs, pointers, earlier)
            # max(starts) < min(ends): an empty range overlaps nothing, wherever it lies.
            is_later = builder.icmp_unsigned(">", start, other_start)
            is_shorter = builder.icmp_unsigned("<", end, other_end)
            low = builder.select(is_later, start, other_start)
            high = builder.select(is_shorter, end, other_end)
            with builder.if_then(builder.icmp_unsigned("<", low, high), likely=False):
                builder.ret(_I1(1))
    builder.ret(_I1(0))
