"""Emission of bounds checks: indices that are data, scalars or in the lanes of a vector.

What is loaded and stored at them is in `expressions.py`.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.llvm.expressions import emit_atom, width_of
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import Check
from symgrad.codegen.vectors import all_of, first_without
from symgrad.graph.dtypes import int64

_I32 = ir.IntType(32)


def emit_check(scope: KernelScope, check: Check) -> None:
    """Bind an index that is data, in all lanes; one that is out of range ends the kernel."""
    builder = scope.builder
    width = width_of(scope, (check.value,))
    given = emit_atom(scope, check.value, width)

    def number(value: int) -> ir.Value:
        return scope.lanes(width).const(value, int64)

    if check.bound == "known":
        scope.indices[check.name] = given
        return
    is_negative = builder.icmp_signed("<", given, number(0))
    if not check.can_fail:
        low, last = builder.select(is_negative, number(0), given), number(check.extent - 1)
        is_inside = builder.icmp_signed("<", low, last)
        scope.indices[check.name] = builder.select(is_inside, low, last)
        return
    index = given
    if check.bound == "wrap":
        from_start = builder.add(given, number(check.extent))
        index = builder.select(is_negative, from_start, given)
    fits = builder.icmp_unsigned("<", index, number(check.extent))
    passed = scope.function.append_basic_block("checked")
    failed = scope.function.append_basic_block("out_of_range")
    builder.cbranch(all_of(builder, fits), passed, failed)
    builder.position_at_end(failed)
    given = first_without(builder, fits, given)
    if scope.written_out is None:
        emit_failure(scope, given, _I32(check.status))
    else:
        builder.store(given, scope.written_out.watch, align=8)
        builder.ret(_I32(scope.written_out.statuses[check.status - 1]))
    builder.position_at_end(passed)
    scope.indices[check.name] = index


def emit_failure(scope: KernelScope, given: ir.Value, status: ir.Value) -> None:
    """Leave the kernel with `status`; `given` is the index that was out of range."""
    scope.builder.store(given, scope.function.args[-1 - len(scope.function.lifted)], align=8)
    scope.builder.ret(status)
