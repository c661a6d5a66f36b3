"""From a program in the loop language to a module of LLVM IR with one native function.

    i32 @step(ptr inputs, ptr outputs, ptr state)

`inputs` and `outputs` are tables of pointers to elements. `state` is a table too: the arena, an
int64 that receives an index found out of range, then the variables, then the constants. The
result is 0, or the status of the op that failed. The function calls functions of its own module
and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from llvmlite import ir

from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.program import Call, Program
from symgrad.passes.buffers import Buffer

STEP = "step"
ARENA_SLOT, FAILURE_SLOT, FIRST_VARIABLE_SLOT = 0, 1, 2

# The time LLVM takes grows faster than a function that does nothing but call: a long step is cut
# into parts, and the parts are not optimized. That costs them a nanosecond a call.
CALLS_IN_FUNCTION = 32

_I32, _I64, _PTR, _BYTE = ir.IntType(32), ir.IntType(64), ir.PointerType(), ir.IntType(8)


def emit_module(program: Program, target: Target, *, timed: bool = False) -> ir.Module:
    """Emit all kernels of `program` and the function that calls them.

    With `timed`, the function takes a fourth parameter, a table of one float64 for each call, to
    which it adds the seconds the call took; it then needs the C library's clock.
    """
    module = ir.Module(program.partition.graph.name)
    module.triple = target.triple
    kernels = {k.name: emit_kernel(module, k, k.name, target) for k in program.kernels}
    step = ir.Function(module, ir.FunctionType(_I32, [_PTR] * (4 if timed else 3)), STEP)
    clock = _declare_clock(module) if timed else None
    calls = list(enumerate(program.calls))
    if len(calls) <= CALLS_IN_FUNCTION:
        _CallsEmitter(program, kernels, step, clock).emit(calls)
    else:
        parts = [
            _emit_part(program, kernels, step, clock, calls[start : start + CALLS_IN_FUNCTION])
            for start in range(0, len(calls), CALLS_IN_FUNCTION)
        ]
        _emit_sequence(step, parts)
    return module


def _emit_part(
    program: Program,
    kernels: Mapping[str, ir.Function],
    step: ir.Function,
    clock: ir.Function | None,
    calls: Sequence[tuple[int, Call]],
) -> ir.Function:
    """Emit a function like `step` that makes some of its calls."""
    first, _ = calls[0]
    part = ir.Function(step.module, step.function_type, f"{STEP}.{first}")
    part.linkage = "internal"
    part.attributes.add("noinline")
    part.attributes.add("optnone")
    _CallsEmitter(program, kernels, part, clock).emit(calls)
    return part


def _emit_sequence(step: ir.Function, parts: Sequence[ir.Function]) -> None:
    """Make `step` call `parts` one after another, up to one that fails."""
    builder = ir.IRBuilder(step.append_basic_block("entry"))
    for part in parts:
        _return_failure(builder, builder.call(part, step.args))
    builder.ret(_I32(0))


def _return_failure(builder: ir.IRBuilder, status: ir.Value) -> None:
    """Return `status` if it is a failure, go on otherwise."""
    failed = builder.append_basic_block("failed")
    passed = builder.append_basic_block("passed")
    builder.cbranch(builder.icmp_signed("==", status, _I32(0)), passed, failed)
    builder.position_at_end(failed)
    builder.ret(status)
    builder.position_at_end(passed)


class _CallsEmitter:
    """Emits calls of kernels into a function of the type of the step."""

    def __init__(
        self,
        program: Program,
        kernels: Mapping[str, ir.Function],
        function: ir.Function,
        clock: ir.Function | None,
    ) -> None:
        self._program = program
        self._kernels = kernels
        self._function = function
        self._inputs, self._outputs, self._state = function.args[:3]
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._clock = None if clock is None else _Clock(clock, self._builder)
        self._pointers: dict[tuple[Buffer, int], ir.Value] = {}
        self._failure = self._slot(self._state, FAILURE_SLOT)
        self._arena = self._slot(self._state, ARENA_SLOT)

    def _slot(self, table: ir.Value, number: int) -> ir.Value:
        place = self._builder.gep(table, [_I64(number)], inbounds=True, source_etype=_PTR)
        return self._builder.load(place, align=8, typ=_PTR)

    def emit(self, calls: Sequence[tuple[int, Call]]) -> None:
        """Emit numbered calls and the return."""
        # All pointers are read once, at the start: no call changes a table.
        for _, call in calls:
            for place in zip(call.arguments, call.starts, strict=True):
                if place not in self._pointers:
                    self._pointers[place] = self._locate(*place)
        for number, call in calls:
            if self._clock is None:
                self._emit_call(call)
            else:
                table = self._function.args[3]
                self._clock.measure(table, number, partial(self._emit_call, call))
        self._builder.ret(_I32(0))

    def _locate(self, buffer: Buffer, start: int) -> ir.Value:
        """Return the address of element `start` of `buffer`."""
        offset = start * buffer.type.dtype.itemsize
        if buffer.place == "temporary":
            return self._offset(self._arena, self._program.offsets[buffer] + offset)
        base = self._base(buffer)
        return self._offset(base, offset) if offset else base

    def _offset(self, base: ir.Value, count: int) -> ir.Value:
        return self._builder.gep(base, [_I64(count)], inbounds=True, source_etype=_BYTE)

    def _base(self, buffer: Buffer) -> ir.Value:
        match buffer.place:
            case "input":
                return self._slot(self._inputs, buffer.number)
            case "output":
                return self._slot(self._outputs, buffer.number)
            case "variable":
                return self._slot(self._state, FIRST_VARIABLE_SLOT + buffer.number)
            case "constant":
                first = FIRST_VARIABLE_SLOT + len(self._program.buffers.variables)
                return self._slot(self._state, first + buffer.number)
            case "temporary":
                return self._arena

    def _emit_call(self, call: Call) -> None:
        places = zip(call.arguments, call.starts, strict=True)
        arguments = [self._pointers[place] for place in places]
        kernel = self._kernels[call.kernel.name]
        if not call.kernel.can_fail:
            self._builder.call(kernel, arguments)
            return
        own = self._builder.call(kernel, [*arguments, self._failure])
        status: ir.Value = _I32(0)
        for number, of_program in enumerate(call.statuses, 1):
            is_it = self._builder.icmp_signed("==", own, _I32(number))
            status = self._builder.select(is_it, _I32(of_program), status)
        _return_failure(self._builder, status)


def _declare_clock(module: ir.Module) -> ir.Function:
    return ir.Function(module, ir.FunctionType(_I32, [_I32, _PTR]), "clock_gettime")


class _Clock:
    """Reads the C library's monotonic clock around calls."""

    def __init__(self, read: ir.Function, builder: ir.IRBuilder) -> None:
        self._read = read
        self._builder = builder
        self._time = builder.alloca(ir.ArrayType(_I64, 2))

    def _seconds(self) -> ir.Value:
        builder = self._builder
        builder.call(self._read, [_I32(1), self._time])  # 1 is CLOCK_MONOTONIC on Linux
        whole, part = (
            builder.load(
                builder.gep(self._time, [_I64(i)], inbounds=True, source_etype=_I64),
                align=8,
                typ=_I64,
            )
            for i in range(2)
        )
        nanoseconds = builder.add(builder.mul(whole, _I64(10**9)), part)
        return builder.fmul(
            builder.sitofp(nanoseconds, ir.DoubleType()), ir.Constant(ir.DoubleType(), 1e-9)
        )

    def measure(self, table: ir.Value, number: int, emit: Callable[[], None]) -> None:
        before = self._seconds()
        emit()
        spent = self._builder.fsub(self._seconds(), before)
        place = self._builder.gep(
            table, [_I64(number)], inbounds=True, source_etype=ir.DoubleType()
        )
        old = self._builder.load(place, align=8, typ=ir.DoubleType())
        self._builder.store(self._builder.fadd(old, spent), place, align=8)
