"""Calls of the microkernel that a tile asks for, of those that a plan has.

A kernel knows its own by name, and chooses among them by branches. Addresses that calls pass to a
kernel are selected, and one call has what is selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index


def call_one(
    builder: ir.IRBuilder,
    functions: tuple[ir.Value, ...],
    is_second: ir.Value,
    arguments: tuple[ir.Value, ...],
) -> None:
    """Call the second of `functions` if `is_second`, else the first; there may be one only."""
    if len(functions) == 1:
        builder.call(functions[0], arguments)
        return
    with builder.if_else(is_second) as (second, first):
        with second:
            builder.call(functions[1], arguments)
        with first:
            builder.call(functions[0], arguments)


def are_passed(functions: Sequence[ir.Value]) -> bool:
    """Return whether functions are addresses that calls pass.

    These are selected, and what is selected is called once: each call has all its arguments on the
    stack or in registers, which would be a tenth of LLVM's time for the loops of a small product.
    """
    return not any(isinstance(function, ir.LLVMFunction) for function in functions)


def selected(builder: ir.IRBuilder, functions: Sequence[ir.Value], is_second: ir.Value) -> ir.Value:
    """Return the second of `functions` if `is_second`, else the first; there may be one only."""
    if len(functions) == 1:
        return functions[0]
    return builder.select(is_second, functions[1], functions[0])


def call_of_vectors(
    builder: ir.IRBuilder,
    widths: Sequence[Sequence[ir.Value]],
    is_second: ir.Value,
    vectors: ir.Value,
    arguments: tuple[ir.Value, ...],
) -> None:
    """Call the microkernel of so many vectors, of those for the second width if `is_second`."""
    if len(widths) > 1:
        first, second = ([row] for row in widths)
        with builder.if_else(is_second) as (edge, full):
            with edge:
                call_of_vectors(builder, second, is_second, vectors, arguments)
            with full:
                call_of_vectors(builder, first, is_second, vectors, arguments)
        return
    for count, function in enumerate(widths[0], 1):
        with builder.if_then(builder.icmp_signed("==", vectors, index(count))):
            builder.call(function, arguments)
