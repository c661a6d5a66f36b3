"""Fork-join parallelism: a team of threads runs the parts of a parallel loop or product.

How the parts come to threads is for `codegen/team/`, whose one function is called here. Any thread
may run any part, or some that follow one another, and what they compute does not depend on that.
What the parts share lies on the stack of who forks; nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.llvm.tracing import emit_traced_parts
from symgrad.codegen.team.fork import FORK, FORK_TYPE
from symgrad.codegen.team.sharing import PART

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()
_WORD_BYTES = 8


def emit_fork(
    builder: ir.IRBuilder,
    part: ir.LLVMFunction,
    arguments: Sequence[ir.Value],
    parts: int,
    *,
    can_fail: bool,
) -> tuple[ir.Value, ir.Value] | None:
    """Fork and join: emit what runs `part` for 0 to `parts - 1`, by as many threads at most.

    `part` takes the `arguments`, pointers and scalars, then the numbers of the first part it is to
    run and of the one behind the last. One that can fail takes a last pointer to an int64 and
    returns a status; the result is then the status of the first part that failed, else 0, and what
    it left at its pointer.
    """
    module = builder.module
    # A word for each argument; then, for each part, its status and what it left.
    words = len(arguments) + (2 * parts if can_fail else 0)
    with builder.goto_entry_block():
        shared = builder.alloca(_PTR, size=words)
        shared.align = _WORD_BYTES
    for number, argument in enumerate(arguments):
        builder.store(argument, _word(builder, shared, index(number)), align=_WORD_BYTES)
    for number in range(parts if can_fail else 0):
        place = _word(builder, shared, index(len(arguments) + 2 * number))
        builder.store(_I64(0), place, align=_WORD_BYTES)  # as the first of some answers for them
    run = _emit_run(module, part, [a.type for a in arguments], can_fail=can_fail)
    known: ir.LLVMFunction | None = module.globals.get(FORK)
    fork = known or ir.LLVMFunction(module, FORK_TYPE, FORK)
    builder.call(fork, [run, shared, index(parts), index(parts)])
    return _first_failure(builder, shared, len(arguments), parts) if can_fail else None


def _emit_run(
    module: ir.Module, part: ir.LLVMFunction, types: Sequence[ir.Type], *, can_fail: bool
) -> ir.LLVMFunction:
    """Emit the function by which a thread runs parts, of what all share and their numbers."""
    run = ir.LLVMFunction(module, PART, f"{part.name}.run")
    run.linkage = "internal"
    run.attributes.add("nounwind")
    shared, first, stop = run.args
    builder = ir.IRBuilder(run.append_basic_block("entry"))
    arguments = [
        builder.load(_word(builder, shared, index(at)), align=_WORD_BYTES, typ=type_)
        for at, type_ in enumerate(types)
    ]

    def run_parts() -> None:
        if not can_fail:
            builder.call(part, [*arguments, first, stop])
            return
        place = builder.add(index(len(arguments)), builder.mul(first, index(2)))
        found = _word(builder, shared, builder.add(place, index(1)))
        status = builder.call(part, [*arguments, first, stop, found])
        widened = builder.sext(status, _I64)
        builder.store(widened, _word(builder, shared, place), align=_WORD_BYTES)

    emit_traced_parts(builder, first, stop, run_parts)
    builder.ret_void()
    return run


def _first_failure(
    builder: ir.IRBuilder, shared: ir.Value, start: int, parts: int
) -> tuple[ir.Value, ir.Value]:
    """Return the status of the first part that failed, else 0, and what it left."""
    status: ir.Value = _I32(0)
    found: ir.Value = _I64(0)
    for number in reversed(range(parts)):
        own, left = (
            builder.load(
                _word(builder, shared, index(start + 2 * number + i)), align=_WORD_BYTES, typ=_I64
            )
            for i in range(2)
        )
        failed = builder.icmp_signed("!=", own, _I64(0))
        status = builder.select(failed, builder.trunc(own, _I32), status)
        found = builder.select(failed, left, found)
    return status, found


def _word(builder: ir.IRBuilder, shared: ir.Value, number: ir.Value) -> ir.Value:
    return builder.gep(shared, [number], inbounds=True, source_etype=_I64)
