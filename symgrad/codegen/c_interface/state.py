r"""Serialisation in the C interface: make an instance, save its variables and restore them.

A saved state is a head and the values of the variables in order, each filled up with zeros to
words of 8 bytes, all little-endian:

    8 bytes     b"SYMGRAD\0"
    4 bytes     the version of the format
    4 bytes     0
    8 bytes     the signature: a hash of the names, dtypes and shapes
    8 bytes     the bytes that follow the head
    8 bytes     their checksum: FNV-1a (Fowler, Noll and Vo) with words of 8 bytes in place of bytes

Each step of the checksum is a bijection of the sum and of the word, so that a change within one
word is always found. Nothing depends on the machine: a state moves between architectures.
"""

from __future__ import annotations

import numpy as np

from symgrad.codegen import ir
from symgrad.codegen.c_interface.abi import (
    CHOICE_OFFSET,
    DAMAGED,
    FINGERPRINT_OFFSET,
    MISALIGNED,
    NOT_A_STATE,
    OTHER_VARIABLES,
    OTHER_VERSION,
    STATE_HEAD_BYTES,
    STATE_MAGIC,
    STATE_VERSION,
    UNSUPPORTED_CPU,
    WRONG_SIZE,
    Interface,
)
from symgrad.codegen.c_interface.code import (
    I32,
    I64,
    NULL,
    PTR,
    VOID,
    at,
    counting,
    define,
    load_at,
    of_c,
    require_instance,
    require_pointers,
    return_unless,
    return_unless_instance,
    store_at,
)
from symgrad.codegen.c_interface.variables import BYTES_AT, OFFSET_AT, VariableTable
from symgrad.codegen.ir.read_only import read_only, read_only_bytes
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.types import Array, read_states

_FNV_START, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_MAGIC = int.from_bytes(STATE_MAGIC, "little")
_VERSION_AT, _SIGNATURE_AT, _BYTES_AT, _CHECKSUM_AT = 8, 16, 24, 32


def emit_state_functions(
    module: ir.Module, interface: Interface, table: VariableTable, choose: ir.LLVMFunction
) -> None:
    """Emit `init`, `init_from`, `release`, `state_size`, `save` and `restore`.

    `choose` returns the number of the implementation for this machine, -1 if there is none.
    """
    _, builder = define(module, f"{interface.name}_state_size", I64, [], is_public=True)
    builder.ret(I64(interface.state_bytes))
    checksum = _emit_checksum(module, interface.name)
    check = _emit_check(module, interface, checksum)
    begin = _emit_begin(module, interface, choose)
    load = _emit_walk(module, interface, table, is_save=False)
    _emit_init(module, interface, table, begin)
    _emit_init_from(module, interface, begin, check, load)
    _emit_release(module, interface)
    _emit_save(module, interface, checksum, _emit_walk(module, interface, table, is_save=True))
    _emit_restore(module, interface, check, load)


# ---------------------------------------------------------------------------------- beginnings


def _emit_begin(
    module: ir.Module, interface: Interface, choose: ir.LLVMFunction
) -> ir.LLVMFunction:
    """Emit what makes memory an instance, but for the variables; the mark is for the caller."""
    name = f"{interface.name}.begin"
    function, builder = define(module, name, I32, [PTR], is_public=False)
    (instance,) = function.args
    require_pointers(builder, [instance])
    low_bits = builder.and_(builder.ptrtoint(instance, I64), I64(ALIGNMENT - 1))
    return_unless(builder, builder.icmp_unsigned("==", low_bits, I64(0)), I32(MISALIGNED))
    chosen = builder.call(choose, [])
    return_unless(builder, builder.icmp_signed(">=", chosen, I32(0)), I32(UNSUPPORTED_CPU))
    _call_memset(builder, instance, I64(interface.head_bytes))
    store_at(builder, chosen, instance, CHOICE_OFFSET, 4)
    builder.ret(I32(0))
    return function


def _call_memset(builder: ir.IRBuilder, place: ir.Value, size: ir.Value) -> None:
    clear = of_c(builder.module, "memset", PTR, PTR, I32, I64)
    builder.call(clear, [place, I32(0), size])


def _mark(builder: ir.IRBuilder, instance: ir.Value, interface: Interface) -> None:
    store_at(builder, I64(interface.fingerprint), instance, FINGERPRINT_OFFSET)


def _emit_init(
    module: ir.Module, interface: Interface, table: VariableTable, begin: ir.LLVMFunction
) -> None:
    function, builder = define(module, f"{interface.name}_init", I32, [PTR], is_public=True)
    (instance,) = function.args
    status = builder.call(begin, [instance])
    return_unless(builder, builder.icmp_signed("==", status, I32(0)), status)
    # All of one moment: other threads may run steps while this exports one.
    found = read_states([stored.state for stored in interface.variables])
    values = [_initial_value(module, value) for value in found]
    initial = read_only(module, ir.Constant(ir.ArrayType(PTR, len(values)), values))
    copy = of_c(module, "memcpy", PTR, PTR, PTR, I64)
    with counting(builder, I64(table.count)) as number:
        row = table.row(builder, number)
        size = load_at(builder, row, BYTES_AT, I64)
        place = at(builder, instance, load_at(builder, row, OFFSET_AT, I64))
        value = load_at(builder, initial, builder.mul(number, I64(8)), PTR)
        with builder.if_else(builder.icmp_unsigned("==", value, NULL)) as (zero, other):
            with zero:
                _call_memset(builder, place, size)
            with other:
                builder.call(copy, [place, value, size])
    _mark(builder, instance, interface)
    builder.ret(I32(0))


def _initial_value(module: ir.Module, value: Array) -> ir.Value:
    """Return where the value of a variable is embedded; null for zeros, which are not stored."""
    content = value.tobytes()
    if not np.frombuffer(content, np.uint8).any():
        return NULL
    return read_only_bytes(module, content, align=ALIGNMENT)


def _emit_init_from(
    module: ir.Module,
    interface: Interface,
    begin: ir.LLVMFunction,
    check: ir.LLVMFunction,
    load: ir.LLVMFunction,
) -> None:
    name = f"{interface.name}_init_from"
    function, builder = define(module, name, I32, [PTR, PTR, I64], is_public=True)
    instance, buffer, size = function.args
    for callee, arguments in ((check, [buffer, size]), (begin, [instance])):
        status = builder.call(callee, arguments)
        return_unless(builder, builder.icmp_signed("==", status, I32(0)), status)
    builder.call(load, [instance, buffer])
    _mark(builder, instance, interface)
    builder.ret(I32(0))


def _emit_release(module: ir.Module, interface: Interface) -> None:
    """Emit what frees the tapes: the memory is no instance any more."""
    function, builder = define(module, f"{interface.name}_release", VOID, [PTR], is_public=True)
    (instance,) = function.args
    return_unless_instance(builder, instance, interface, None)
    for offset in interface.tapes:
        free = of_c(module, "free", VOID, PTR)
        builder.call(free, [load_at(builder, instance, offset, PTR)])
    store_at(builder, I64(0), instance, FINGERPRINT_OFFSET)
    builder.ret_void()


# ------------------------------------------------------------------------------- saved states


def _emit_checksum(module: ir.Module, name: str) -> ir.LLVMFunction:
    function, builder = define(module, f"{name}.checksum", I64, [PTR, I64], is_public=False)
    place, size = function.args
    total = builder.alloca(I64)
    builder.store(I64(_FNV_START), total, align=8)
    with counting(builder, builder.lshr(size, I64(3))) as number:
        word = load_at(builder, place, builder.mul(number, I64(8)), I64, align=1)
        mixed = builder.xor(builder.load(total, align=8, typ=I64), word)
        builder.store(builder.mul(mixed, I64(_FNV_PRIME)), total, align=8)
    builder.ret(builder.load(total, align=8, typ=I64))
    return function


def _emit_check(
    module: ir.Module, interface: Interface, checksum: ir.LLVMFunction
) -> ir.LLVMFunction:
    """Emit what says whether a buffer holds a state of this library, before anything is copied."""
    name = f"{interface.name}.check"
    function, builder = define(module, name, I32, [PTR, I64], is_public=False)
    buffer, size = function.args
    require_pointers(builder, [buffer])
    has_head = builder.icmp_unsigned(">=", size, I64(STATE_HEAD_BYTES))
    return_unless(builder, has_head, I32(NOT_A_STATE))
    payload = interface.state_bytes - STATE_HEAD_BYTES
    for offset, kind, expected, status in (
        (0, I64, _MAGIC, NOT_A_STATE),
        (_VERSION_AT, I64, STATE_VERSION, OTHER_VERSION),
        (_SIGNATURE_AT, I64, interface.signature, OTHER_VARIABLES),
        (_BYTES_AT, I64, payload, DAMAGED),
    ):
        found = load_at(builder, buffer, offset, kind, align=1)
        return_unless(builder, builder.icmp_unsigned("==", found, kind(expected)), I32(status))
    fits = builder.icmp_unsigned("==", size, I64(interface.state_bytes))
    return_unless(builder, fits, I32(WRONG_SIZE))
    total = builder.call(checksum, [at(builder, buffer, STATE_HEAD_BYTES), I64(payload)])
    stated = load_at(builder, buffer, _CHECKSUM_AT, I64, align=1)
    return_unless(builder, builder.icmp_unsigned("==", total, stated), I32(DAMAGED))
    builder.ret(I32(0))
    return function


def _emit_walk(
    module: ir.Module, interface: Interface, table: VariableTable, *, is_save: bool
) -> ir.LLVMFunction:
    """Emit what copies all variables to the values in a buffer, or from them."""
    name = f"{interface.name}.{'store' if is_save else 'load'}"
    function, builder = define(module, name, VOID, [PTR, PTR], is_public=False)
    instance, buffer = function.args
    position = builder.alloca(I64)
    builder.store(I64(STATE_HEAD_BYTES), position, align=8)
    copy = of_c(module, "memcpy", PTR, PTR, PTR, I64)
    with counting(builder, I64(table.count)) as number:
        row = table.row(builder, number)
        size = load_at(builder, row, BYTES_AT, I64)
        variable = at(builder, instance, load_at(builder, row, OFFSET_AT, I64))
        start = builder.load(position, align=8, typ=I64)
        saved = at(builder, buffer, start)
        length = builder.and_(builder.add(size, I64(7)), I64(-8))
        if is_save:
            with builder.if_then(builder.icmp_unsigned(">", length, size)):
                last = at(builder, saved, builder.sub(length, I64(8)))
                builder.store(I64(0), last, align=1)
            builder.call(copy, [saved, variable, size])
        else:
            builder.call(copy, [variable, saved, size])
        builder.store(builder.add(start, length), position, align=8)
    builder.ret_void()
    return function


def _emit_save(
    module: ir.Module, interface: Interface, checksum: ir.LLVMFunction, store: ir.LLVMFunction
) -> None:
    name = f"{interface.name}_save"
    function, builder = define(module, name, I32, [PTR, PTR, I64], is_public=True)
    instance, buffer, size = function.args
    require_instance(builder, instance, interface)
    require_pointers(builder, [buffer])
    fits = builder.icmp_unsigned("==", size, I64(interface.state_bytes))
    return_unless(builder, fits, I32(WRONG_SIZE))
    builder.call(store, [instance, buffer])
    payload = interface.state_bytes - STATE_HEAD_BYTES
    total = builder.call(checksum, [at(builder, buffer, STATE_HEAD_BYTES), I64(payload)])
    for offset, value in (
        (0, I64(_MAGIC)),
        (_VERSION_AT, I64(STATE_VERSION)),
        (_SIGNATURE_AT, I64(interface.signature)),
        (_BYTES_AT, I64(payload)),
        (_CHECKSUM_AT, total),
    ):
        store_at(builder, value, buffer, offset, 1)
    builder.ret(I32(0))


def _emit_restore(
    module: ir.Module, interface: Interface, check: ir.LLVMFunction, load: ir.LLVMFunction
) -> None:
    name = f"{interface.name}_restore"
    function, builder = define(module, name, I32, [PTR, PTR, I64], is_public=True)
    instance, buffer, size = function.args
    require_instance(builder, instance, interface)
    status = builder.call(check, [buffer, size])
    return_unless(builder, builder.icmp_signed("==", status, I32(0)), status)
    builder.call(load, [instance, buffer])
    builder.ret(I32(0))
