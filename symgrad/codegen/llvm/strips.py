"""Loop strip mining, emission: how long a strip of iterations is, and what it leaves of the cycles.

Which loops run in strips, and why that is right, is in `codegen/program/strips.py`.
"""

from __future__ import annotations

from symgrad.codegen import ir

_I64 = ir.IntType(64)


def affordable(builder: ir.IRBuilder, cycles_left: ir.Value, cycles: int) -> ir.Value:
    """Emit how many iterations of `cycles` each the cycles left are enough for, 1 at least."""
    left = builder.load(cycles_left, align=8, typ=_I64)
    return _call(builder, "llvm.umax.i64", builder.udiv(left, _I64(cycles)), _I64(1))


def strip_limit(
    builder: ir.IRBuilder, counter: ir.Value, bound: ir.Value, iterations: ir.Value, step: int
) -> ir.Value:
    """Emit the lower of `bound` and what `counter` is after as many iterations."""
    gain = builder.mul(iterations, _I64(step))
    reached = _call(builder, "llvm.sadd.sat.i64", counter, gain)
    return _call(builder, "llvm.smin.i64", bound, reached)


def spend(builder: ir.IRBuilder, cycles_left: ir.Value, cycles: ir.Value) -> None:
    """Emit the subtraction of `cycles` from those left, of which at least none remain."""
    left = builder.load(cycles_left, align=8, typ=_I64)
    builder.store(_call(builder, "llvm.usub.sat.i64", left, cycles), cycles_left, align=8)


def _call(builder: ir.IRBuilder, name: str, first: ir.Value, second: ir.Value) -> ir.Value:
    kind = ir.FunctionType(_I64, [_I64, _I64])
    function = builder.module.globals.get(name) or ir.LLVMFunction(builder.module, kind, name)
    return builder.call(function, [first, second])
