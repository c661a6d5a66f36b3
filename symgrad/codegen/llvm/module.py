"""From a program in the loop language to a module of LLVM IR with one native function.

    i32 @step(ptr inputs, ptr outputs, ptr state)

`inputs` and `outputs` are tables of pointers to elements. `state` is a table too: the arena, an
int64 that receives an index found out of range, then the variables, then the constants. The
result is 0, or the status of the op that failed. The function calls kernels of its own module and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from llvmlite import ir

from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.program import Call, Program
from symgrad.passes.buffers import Buffer

STEP = "step"
ARENA_SLOT, FAILURE_SLOT, FIRST_VARIABLE_SLOT = 0, 1, 2

_I32, _I64, _PTR, _BYTE = ir.IntType(32), ir.IntType(64), ir.PointerType(), ir.IntType(8)
_STEP_TYPE = ir.FunctionType(_I32, [_PTR, _PTR, _PTR])


def emit_module(program: Program, target: Target, *, timed: bool = False) -> ir.Module:
    """Emit all kernels of `program` and the function that calls them.

    With `timed`, the function takes a fourth parameter, a table of one float64 for each call, to
    which it adds the seconds the call took; it then needs the C library's clock.
    """
    module = ir.Module(program.partition.graph.name)
    module.triple = target.triple
    kernels = {k.name: emit_kernel(module, k, k.name, target) for k in program.kernels}
    _StepEmitter(module, program, kernels, timed=timed).emit()
    return module


class _StepEmitter:
    def __init__(
        self,
        module: ir.Module,
        program: Program,
        kernels: Mapping[str, ir.Function],
        *,
        timed: bool,
    ) -> None:
        parameters = [_PTR] * (4 if timed else 3)
        self._module = module
        self._program = program
        self._kernels = kernels
        self._timed = timed
        self._function = ir.Function(module, ir.FunctionType(_I32, parameters), STEP)
        self._inputs, self._outputs, self._state = self._function.args[:3]
        self._builder = ir.IRBuilder(self._function.append_basic_block("entry"))
        self._pointers: dict[Buffer, ir.Value] = {}
        self._failure = self._slot(self._state, FAILURE_SLOT)
        self._arena = self._slot(self._state, ARENA_SLOT)

    def _slot(self, table: ir.Value, number: int) -> ir.Value:
        place = self._builder.gep(table, [_I64(number)], inbounds=True, source_etype=_PTR)
        return self._builder.load(place, align=8, typ=_PTR)

    def emit(self) -> None:
        # All pointers are read once, at the start: no call changes a table.
        for call in self._program.calls:
            for buffer in call.arguments:
                if buffer not in self._pointers:
                    self._pointers[buffer] = self._locate(buffer)
        clock = _Clock(self._module, self._builder) if self._timed else None
        for number, call in enumerate(self._program.calls):
            if clock is None:
                self._emit_call(call)
            else:
                clock.measure(self._function.args[3], number, partial(self._emit_call, call))
        self._builder.ret(_I32(0))

    def _locate(self, buffer: Buffer) -> ir.Value:
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
                offset = _I64(self._program.offsets[buffer])
                return self._builder.gep(self._arena, [offset], inbounds=True, source_etype=_BYTE)

    def _emit_call(self, call: Call) -> None:
        arguments = [self._pointers[b] for b in call.arguments]
        builder = self._builder
        if not call.kernel.can_fail:
            builder.call(self._kernels[call.kernel.name], arguments)
            return
        status = builder.call(self._kernels[call.kernel.name], [*arguments, self._failure])
        failed = self._function.append_basic_block("failed")
        passed = self._function.append_basic_block("passed")
        builder.cbranch(builder.icmp_signed("==", status, _I32(0)), passed, failed)
        builder.position_at_end(failed)
        builder.ret(status)
        builder.position_at_end(passed)


class _Clock:
    """Reads the C library's monotonic clock around calls."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder) -> None:
        kind = ir.FunctionType(_I32, [_I32, _PTR])
        self._read = ir.Function(module, kind, "clock_gettime")
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
