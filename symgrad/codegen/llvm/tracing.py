"""Tracing instrumentation: the program writes down when and where each call and part ran.

An event is five words: the number of the call; which of its parts, the first and the one behind the
last in the two halves of a word, or -1 for the whole call, or -2 for the loop that begins with it;
the thread by its identity; and the begin and the end in nanoseconds. What sums up times instead is
in `clock.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen import ir
from symgrad.codegen.llvm.clock import declare_clock, emit_nanoseconds

HEAD_WORDS = 2  # before the events: how many were met, and how many there is room for
EVENT_WORDS = 5
WHOLE_CALL, WHOLE_LOOP = -1, -2

_RECORD, _TABLE, _CALL, _THREAD = "trace.record", "trace.table", "trace.call", "pthread_self"
_I64, _PTR = ir.IntType(64), ir.PointerType()
_WORD_BYTES = 8


def declare_trace(module: ir.Module) -> ir.LLVMFunction:
    """Emit what writes an event down, and the words by which threads know the call they are in."""
    clock = declare_clock(module)
    for name, kind in ((_TABLE, _PTR), (_CALL, _I64)):
        word = ir.GlobalVariable(module, kind, name)
        word.linkage = "internal"
        word.initializer = ir.Literal(kind, "null" if kind is _PTR else "0")
    ir.LLVMFunction(module, ir.FunctionType(_I64, []), _THREAD)
    _emit_record(module)
    return clock


def _emit_record(module: ir.Module) -> None:
    """Emit `trace.record(table, call, part, begin, end)`; an event without room is only counted."""
    type_ = ir.FunctionType(ir.VoidType(), [_PTR, *[_I64] * 4])
    record = ir.LLVMFunction(module, type_, _RECORD)
    record.linkage = "internal"
    record.attributes |= {"noinline", "nounwind"}
    table, call, part, begin, end = record.args
    builder = ir.IRBuilder(record.append_basic_block("entry"))
    number = builder.atomic_rmw("add", table, _I64(1), "monotonic")
    room = builder.load(_word(builder, table, _I64(1)), typ=_I64, align=_WORD_BYTES)
    with builder.if_then(builder.icmp_signed("<", number, room)):
        first = builder.add(builder.mul(number, _I64(EVENT_WORDS)), _I64(HEAD_WORDS))
        thread = builder.call(module.globals[_THREAD], [])
        for place, value in enumerate((call, part, thread, begin, end)):
            to = _word(builder, table, builder.add(first, _I64(place)))
            builder.store(value, to, align=_WORD_BYTES)
    builder.ret_void()


class TraceClock:
    """Writes an event for each call that it measures.

    The clock `in_registers` is that of the function of a loop, which is handed no table of events:
    it finds it where the clock around the loop has left it.
    """

    def __init__(
        self, read: ir.LLVMFunction, builder: ir.IRBuilder, *, is_inside: bool = False
    ) -> None:
        self._read = read
        self._builder = builder
        self._is_inside = is_inside
        self._time = builder.alloca(ir.ArrayType(_I64, 2))

    def in_registers(self) -> TraceClock:
        """Return the clock for calls in a loop with registers, in the function of which this is."""
        return TraceClock(self._read, self._builder, is_inside=True)

    def measure(self, number: int, emit: Callable[[], None], *, is_loop: bool = False) -> None:
        """Emit what `emit` does, and the event of call `number`, or of the loop that it begins."""
        builder, words = self._builder, self._builder.module.globals
        table: ir.Value = builder.function.args[-1]
        if self._is_inside:
            table = builder.load(words[_TABLE], typ=_PTR, align=_WORD_BYTES)
        else:
            builder.store(table, words[_TABLE], align=_WORD_BYTES)
        builder.store(_I64(number), words[_CALL], align=_WORD_BYTES)
        begin = emit_nanoseconds(builder, self._read, self._time)
        emit()
        end = emit_nanoseconds(builder, self._read, self._time)
        what = _I64(WHOLE_LOOP if is_loop else WHOLE_CALL)
        builder.call(words[_RECORD], [table, _I64(number), what, begin, end])


def emit_traced_parts(
    builder: ir.IRBuilder, first: ir.Value, stop: ir.Value, emit: Callable[[], None]
) -> None:
    """Emit what runs the parts from `first` to before `stop`: an event, in a module so traced."""
    words = builder.module.globals
    if _RECORD not in words:
        emit()
        return
    time = builder.alloca(ir.ArrayType(_I64, 2))
    begin = emit_nanoseconds(builder, words["clock_gettime"], time)
    emit()
    end = emit_nanoseconds(builder, words["clock_gettime"], time)
    # Written before the fork, which a worker sees that sees its parts.
    table = builder.load(words[_TABLE], typ=_PTR, align=_WORD_BYTES)
    call = builder.load(words[_CALL], typ=_I64, align=_WORD_BYTES)
    parts = builder.or_(builder.shl(stop, _I64(32)), first)
    builder.call(words[_RECORD], [table, call, parts, begin, end])


def _word(builder: ir.IRBuilder, table: ir.Value, number: ir.Value) -> ir.Value:
    return builder.gep(table, [number], inbounds=True, source_etype=_I64)
