"""Counted loops: they carry values from iteration to iteration, are written out, or overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.lifting import Lifting
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.records import replace

_I64 = ir.IntType(64)

# What a body of a loop becomes: it is given its scope and what is carried, and gives the next.
Carry = Callable[[KernelScope, Sequence[ir.Value]], Sequence[ir.Value]]


def emit_carrying(
    scope: KernelScope,
    variable: str,
    bounds: tuple[int, int, int],
    initial: Sequence[ir.Value],
    body: Carry,
    lifting: Lifting | None = None,
) -> Sequence[ir.Value]:
    """Emit a loop that carries values from iteration to iteration; return the last ones.

    With `lifting` calls pass where it begins and ends.
    """
    if scope.written_out is not None:
        return emit_unrolled(scope, variable, bounds, initial, body)
    start, stop, step = bounds
    if start >= stop:
        return initial
    if start + step >= stop:
        return body(scope.inside(variable, _I64(start)), initial)
    first, last = (_I64(at) if lifting is None else lifting.bound(at) for at in (start, stop))
    builder = scope.builder
    before = builder.block
    head = scope.function.append_basic_block(f"for.{variable}")
    after = scope.function.append_basic_block(f"end.{variable}")
    builder.branch(head)
    builder.position_at_end(head)
    counter = builder.phi(_I64, variable)
    counter.add_incoming(first, before)
    carried = [builder.phi(v.type) for v in initial]
    for phi, value in zip(carried, initial, strict=True):
        phi.add_incoming(value, before)
    results = body(scope.inside(variable, counter), carried)
    following = builder.add(counter, _I64(step), flags=("nuw", "nsw"))
    counter.add_incoming(following, builder.block)
    for phi, value in zip(carried, results, strict=True):
        phi.add_incoming(value, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, last), head, after)
    builder.position_at_end(after)
    return results


def emit_unrolled(
    scope: KernelScope,
    variable: str,
    bounds: tuple[int, int, int],
    initial: Sequence[ir.Value],
    body: Carry,
) -> Sequence[ir.Value]:
    """Emit the iterations of a loop one after another, each with the number that it has."""
    values = initial
    for number in range(*bounds):
        known = replace(scope, numbers={**scope.numbers, variable: number})
        values = body(known.inside(variable, _I64(number)), values)
    return values


def emit_overlapping(
    scope: KernelScope,
    variable: str,
    bounds: tuple[int, int, int],
    body: Callable[[KernelScope], None],
) -> None:
    """Emit a loop of steps of which the last begins earlier where it would go past the end."""
    start, stop, step = bounds
    last = _I64(stop - step)
    if start + step >= stop:
        body(scope.inside(variable, last))
        return
    builder = scope.builder
    before = builder.block
    head = scope.function.append_basic_block(f"for.{variable}")
    after = scope.function.append_basic_block(f"end.{variable}")
    builder.branch(head)
    builder.position_at_end(head)
    counter = builder.phi(_I64, variable)
    counter.add_incoming(_I64(start), before)
    body(scope.inside(variable, counter))
    following = builder.add(counter, _I64(step), flags=("nuw", "nsw"))
    is_whole = builder.icmp_signed("<", following, last)
    counter.add_incoming(builder.select(is_whole, following, last), builder.block)
    builder.cbranch(builder.icmp_signed("<", counter, last), head, after)
    builder.position_at_end(after)
