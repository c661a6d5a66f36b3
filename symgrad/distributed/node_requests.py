"""Open requests: what the library of MPI has started, and nobody has waited for yet.

    i32 scatter_start, i32 gather_start, i32 exchange_start

A step that fails between a start and its wait leaves a request, for which the library goes on to
read and write the memory of the step. So what starts notes where its request is, and the wait of
`distributed/node_sums.py` forgets it; what is left is waited for when a step has failed. The
functions take what the library's do, and stand in their place.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.team.state import I8, I32, I64, NULL, PTR, Field, TeamBuilder, define
from symgrad.distributed.node_words import FIND, as_integer, at_offset, times

OPEN = "node.open"
# A row: where the request is, and of which communicator.
OPEN_REQUEST, OPEN_HANDLE = Field(0, PTR), Field(8)
OPEN_BYTES, MAX_OPEN = 16, 1024
_USED, _NOTE, _FORGET = "node.opened", "node.note", "node.forget"
_EXCHANGED = ir.FunctionType(I32, [PTR, I32, I64, PTR, I32, I64, I64, PTR])
_SCATTERED = ir.FunctionType(I32, [PTR, PTR, I32, I64, I64, I64, PTR])
_KINDS = {
    "MPI_Ireduce_scatter_block": _SCATTERED,
    "MPI_Iallgather": _EXCHANGED,
    "MPI_Ialltoall": _EXCHANGED,
}
# The functions of the library that only note their requests, by what stands in their place.
STARTS = {
    "scatter_start": "MPI_Ireduce_scatter_block",
    "gather_start": "MPI_Iallgather",
    "exchange_start": "MPI_Ialltoall",
}


def emit_open_requests(module: ir.Module) -> None:
    """Emit the functions that start, behind that which searches tables."""
    ir.GlobalVariable(module, I64, OPEN)
    used = ir.GlobalVariable(module, ir.ArrayType(I8, 8), _USED)
    used.linkage, used.initializer, used.align = "internal", ir.ArrayType(I8, 8)(None), 8
    _emit_note(module)
    _emit_forget(module)
    for name, started in STARTS.items():
        kind = _KINDS[started]
        ir.LLVMFunction(module, kind, started)
        builder, given = define(module, name, list(kind.takes), I32, is_public=True)
        status = builder.run(started, *given)
        note_open(builder, given[-1], given[-2])
        builder.ret(status)


def note_open(builder: TeamBuilder, request: ir.Value, comm: ir.Value) -> None:
    """Emit that a request of a communicator has been started by the library."""
    builder.run(_NOTE, request, comm)


def forget_open(builder: TeamBuilder, request: ir.Value) -> None:
    """Emit that a request is waited for."""
    builder.run(_FORGET, request)


def _emit_note(module: ir.Module) -> None:
    """Emit how a request gets a row; where there are too many it has none."""
    builder, (request, comm) = define(module, _NOTE, [PTR, I64])
    table, place = module.globals[OPEN], module.globals[_USED]
    used = builder.load(place, typ=I64, align=8)
    free = builder.run(FIND, table, used, I64(OPEN_BYTES), I64(0))
    row = builder.local(free)
    is_new = builder.icmp_unsigned("==", free, NULL)
    is_room = builder.icmp_signed("<", used, I64(MAX_OPEN))
    with builder.if_then(builder.and_(is_new, is_room), likely=False):
        builder.store(at_offset(builder, table, times(builder, used, OPEN_BYTES)), row)
        builder.store(builder.add(used, I64(1)), place, align=8)
    found = builder.load(row, typ=PTR)
    with builder.if_then(builder.icmp_unsigned("!=", found, NULL)):
        builder.put(found, OPEN_REQUEST, request)
        builder.put(found, OPEN_HANDLE, comm)
    builder.ret_void()


def _emit_forget(module: ir.Module) -> None:
    builder, (request,) = define(module, _FORGET, [PTR])
    used = builder.load(module.globals[_USED], typ=I64, align=8)
    wanted = as_integer(builder, request)
    found = builder.run(FIND, module.globals[OPEN], used, I64(OPEN_BYTES), wanted)
    with builder.if_then(builder.icmp_unsigned("!=", found, NULL)):
        builder.put(found, OPEN_REQUEST, NULL)
    builder.ret_void()
