"""Profiling instrumentation: the program itself measures the times of its calls."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen import ir

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()


def declare_clock(module: ir.Module) -> ir.LLVMFunction:
    """Declare the C library's clock in a module."""
    return ir.LLVMFunction(module, ir.FunctionType(_I32, [_I32, _PTR]), "clock_gettime")


def emit_nanoseconds(builder: ir.IRBuilder, read: ir.LLVMFunction, place: ir.Value) -> ir.Value:
    """Return what the monotonic clock `read` says, by way of two words at `place`."""
    builder.call(read, [_I32(1), place])  # 1 is CLOCK_MONOTONIC on Linux
    whole, part = (
        builder.load(
            builder.gep(place, [_I64(i)], inbounds=True, source_etype=_I64), align=8, typ=_I64
        )
        for i in range(2)
    )
    return builder.add(builder.mul(whole, _I64(10**9)), part)


class LaunchClock:
    """Reads the C library's monotonic clock around calls."""

    def __init__(self, read: ir.LLVMFunction, builder: ir.IRBuilder) -> None:
        self._read = read
        self._builder = builder
        self._time = builder.alloca(ir.ArrayType(_I64, 2))

    def _seconds(self) -> ir.Value:
        nanoseconds = emit_nanoseconds(self._builder, self._read, self._time)
        return self._builder.fmul(
            self._builder.sitofp(nanoseconds, ir.DoubleType()), ir.Constant(ir.DoubleType(), 1e-9)
        )

    def in_registers(self) -> None:
        """Return no clock: what is in registers is timed from outside."""

    def measure(self, number: int, emit: Callable[[], None], *, is_loop: bool = False) -> None:
        """Emit what `emit` does, and add its time and one run to those of call `number`.

        A loop, which `is_loop` says it is, is timed in the place of its first call.
        """
        table = self._builder.function.args[-1]
        before = self._seconds()
        emit()
        self._add(table, 2 * number, self._builder.fsub(self._seconds(), before))
        self._add(table, 2 * number + 1, ir.Constant(ir.DoubleType(), 1.0))

    def _add(self, table: ir.Value, number: int, value: ir.Value) -> None:
        builder, double = self._builder, ir.DoubleType()
        place = builder.gep(table, [_I64(number)], inbounds=True, source_etype=double)
        old = builder.load(place, align=8, typ=double)
        builder.store(builder.fadd(old, value), place, align=8)
