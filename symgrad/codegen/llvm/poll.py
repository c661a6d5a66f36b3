"""Safepoint polls: what a loop does now and then to learn that its step is to stop.

A step has a few words of memory, its watch, of which the first receives an index that was out of
range. The others are for polls: cycles that are left until the next one, a word that others set to
stop the step, and the address of a function that is asked as well, if there is one:

    i32 asked()        /* 0 to go on */

Whoever sets the word may be another thread or a handler of signals.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.cost_model import POLL_PERIOD

STOPPED = 0x7FFFFFFE  # the status of a step that ended since it was to stop

# The words of a watch.
FAILURE_WORD, CYCLES_WORD, STOP_WORD, ASKED_WORD = range(4)
WATCH_WORDS = 4
WORD_BYTES = 8

POLL = "poll"

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()


def watch_word(builder: ir.IRBuilder, watch: ir.Value, word: int) -> ir.Value:
    """Return the address of a word of a watch."""
    return builder.gep(watch, [_I64(word)], inbounds=True, source_etype=_I64)


def emit_count(
    builder: ir.IRBuilder, watch: ir.Value, cycles_left: ir.Value, cycles: int
) -> ir.Value:
    """Emit a safepoint: count `cycles`, and poll if none are left; the result is 0 or `STOPPED`.

    `cycles_left` is where they are counted: the word of the watch, or a register.
    """
    left = builder.load(cycles_left, align=8, typ=_I64)
    builder.store(builder.sub(left, _I64(cycles)), cycles_left, align=8)
    before = builder.block
    # Of the operands of the subtraction: so it is one instruction with the jump.
    with builder.if_then(builder.icmp_unsigned("<", left, _I64(cycles)), likely=False):
        found = emit_poll(builder, watch, cycles_left)
        polled = builder.block
    status = builder.phi(_I32)
    status.add_incoming(_I32(0), before)
    status.add_incoming(found, polled)
    return status


def emit_poll(builder: ir.IRBuilder, watch: ir.Value, cycles_left: ir.Value) -> ir.Value:
    """Emit a poll, after which a period of cycles is left; the result is 0 or `STOPPED`."""
    found = builder.call(_poll_function(builder.module), [watch])
    builder.store(_I64(POLL_PERIOD), cycles_left, align=8)
    return found


def _poll_function(module: ir.Module) -> ir.LLVMFunction:
    """Return the function of `module` that polls a watch: 0 to go on, or `STOPPED`."""
    function: ir.LLVMFunction | None = module.globals.get(POLL)
    if function is not None:
        return function
    function = ir.LLVMFunction(module, ir.FunctionType(_I32, [_PTR]), POLL)
    function.linkage = "internal"
    for attribute in ("nounwind", "noinline", "cold"):
        function.attributes.add(attribute)
    (watch,) = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    stop = watch_word(builder, watch, STOP_WORD)
    word = builder.load_atomic(stop, "monotonic", 8, typ=_I64)
    with builder.if_then(builder.icmp_signed("!=", word, _I64(0))):
        builder.store(_I64(0), stop, align=8)
        builder.ret(_I32(STOPPED))
    # What an opaque pointer points to is said by who uses it: here, the type of the load.
    kind = ir.FunctionType(_I32, []).as_pointer()
    asked = builder.load(watch_word(builder, watch, ASKED_WORD), align=8, typ=kind)
    with builder.if_then(builder.icmp_unsigned("==", builder.ptrtoint(asked, _I64), _I64(0))):
        builder.ret(_I32(0))
    goes_on = builder.icmp_signed("==", builder.call(asked, []), _I32(0))
    builder.ret(builder.select(goes_on, _I32(0), _I32(STOPPED)))
    return function
