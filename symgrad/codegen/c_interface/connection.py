"""Handles of a library of processes in the C interface: what `connect` puts into an instance.

A communicator, a type or a reduction of MPI is an int in one library and a pointer in another, and
has a value at run time alone. So a step loads them from its instance, and the object is the same
for all libraries; the header, compiled by whoever knows `mpi.h`, calls `connect` with their values.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.c_interface.abi import NOT_CONNECTED, WRONG_SIZE, Interface, StepInterface
from symgrad.codegen.c_interface.code import (
    I32,
    I64,
    PTR,
    at,
    define,
    load_at,
    of_c,
    require_instance,
    require_pointers,
    return_unless,
    store_at,
)


def emit_connect(module: ir.Module, interface: Interface) -> None:
    """Emit `connect`, where steps need handles: it copies as many as there are to an instance."""
    if not interface.handles:
        return
    name = f"{interface.name}_connect"
    function, builder = define(module, name, I32, [PTR, PTR, I32], is_public=True)
    instance, values, count = function.args
    require_instance(builder, instance, interface)
    require_pointers(builder, [values])
    fits = builder.icmp_signed("==", count, I32(len(interface.handles)))
    return_unless(builder, fits, I32(WRONG_SIZE))
    copy = of_c(module, "memcpy", PTR, PTR, PTR, I64)
    first = at(builder, instance, interface.handles[0].offset)
    builder.call(copy, [first, values, I64(8 * len(interface.handles))])
    store_at(builder, I64(1), instance, interface.connected_offset)
    builder.ret(I32(0))


def require_connection(
    builder: ir.IRBuilder, instance: ir.Value, interface: Interface, step: StepInterface
) -> None:
    """Return `NOT_CONNECTED` where `step` needs handles that the instance has not been given."""
    if step.is_connected:
        mark = load_at(builder, instance, interface.connected_offset, I64)
        is_given = builder.icmp_unsigned("!=", mark, I64(0))
        return_unless(builder, is_given, I32(NOT_CONNECTED))
