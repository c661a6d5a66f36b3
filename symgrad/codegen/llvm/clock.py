"""Profiling instrumentation: the program itself measures the times of its calls."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen import ir

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()


def declare_clock(module: ir.Module) -> ir.LLVMFunction:
    """Declare the C library's clock in a module."""
    return ir.LLVMFunction(module, ir.FunctionType(_I32, [_I32, _PTR]), "clock_gettime")


class LaunchClock:
    """Reads the C library's monotonic clock around calls."""

    def __init__(self, read: ir.LLVMFunction, builder: ir.IRBuilder) -> None:
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
        self._add(table, 2 * number, self._builder.fsub(self._seconds(), before))
        self._add(table, 2 * number + 1, ir.Constant(ir.DoubleType(), 1.0))

    def _add(self, table: ir.Value, number: int, value: ir.Value) -> None:
        builder, double = self._builder, ir.DoubleType()
        place = builder.gep(table, [_I64(number)], inbounds=True, source_etype=double)
        old = builder.load(place, align=8, typ=double)
        builder.store(builder.fadd(old, value), place, align=8)
