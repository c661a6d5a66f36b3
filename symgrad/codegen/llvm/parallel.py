"""Fork-join parallelism: a team of threads runs the parts of a parallel loop or product.

The threads are those of an OpenMP runtime, by the functions that GCC's code calls:

    void GOMP_parallel(void (*fn)(ptr), ptr shared, i32 threads, i32 flags)
    i32 omp_get_thread_num(), i32 omp_get_num_threads()

A runtime may give fewer threads than it is asked for, so thread t of n takes the parts t, t + n,
t + 2n, ...: whatever n is, each part is run once. What a part computes does not depend on who runs
it. What the parts share lies on the stack of who forks; nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, index

FORK, THREAD_NUMBER, THREAD_COUNT = "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads"
OPENMP = (FORK, THREAD_NUMBER, THREAD_COUNT)

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()
SIGNATURES = {
    FORK: ir.FunctionType(ir.VoidType(), [_PTR, _PTR, _I32, _I32]),
    THREAD_NUMBER: ir.FunctionType(_I32, []),
    THREAD_COUNT: ir.FunctionType(_I32, []),
}
_WORD_BYTES = 8


def emit_fork(
    builder: ir.IRBuilder,
    part: ir.LLVMFunction,
    arguments: Sequence[ir.Value],
    parts: int,
    *,
    can_fail: bool,
) -> tuple[ir.Value, ir.Value] | None:
    """Fork and join: emit calls of `part` for 0 to `parts - 1`, by as many threads.

    `part` takes the `arguments`, pointers and scalars, then the number of the part. One that can
    fail takes a last pointer to an int64 and returns a status; the result is then the status of the
    first part that failed, else 0, and what it left at its pointer.
    """
    module = builder.module
    # A word for each argument; then, for each part, its status and what it left.
    words = len(arguments) + (2 * parts if can_fail else 0)
    with builder.goto_entry_block():
        shared = builder.alloca(_PTR, size=words)
        shared.align = _WORD_BYTES
    for number, argument in enumerate(arguments):
        builder.store(argument, _word(builder, shared, index(number)), align=_WORD_BYTES)
    team = _emit_team(module, part, [a.type for a in arguments], parts, can_fail=can_fail)
    fork = _of_runtime(module, FORK)
    builder.call(fork, [team, shared, _I32(parts), _I32(0)])
    return _first_failure(builder, shared, len(arguments), parts) if can_fail else None


def _emit_team(
    module: ir.Module,
    part: ir.LLVMFunction,
    types: Sequence[ir.Type],
    parts: int,
    *,
    can_fail: bool,
) -> ir.LLVMFunction:
    """Emit the function each thread of a team runs: its share of the parts."""
    team = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), [_PTR]), f"{part.name}.team")
    team.linkage = "internal"
    team.attributes.add("nounwind")
    (shared,) = team.args
    builder = ir.IRBuilder(team.append_basic_block("entry"))
    thread, threads = (
        builder.sext(builder.call(_of_runtime(module, name), []), _I64)
        for name in (THREAD_NUMBER, THREAD_COUNT)
    )
    arguments = [
        builder.load(_word(builder, shared, index(number)), align=_WORD_BYTES, typ=type_)
        for number, type_ in enumerate(types)
    ]
    turns = builder.sub(builder.add(index(parts - 1), threads), thread)
    with counted_loop(builder, index(0), builder.sdiv(turns, threads)) as turn:
        number = builder.add(thread, builder.mul(turn, threads))
        if not can_fail:
            builder.call(part, [*arguments, number])
        else:
            place = builder.add(index(len(arguments)), builder.mul(number, index(2)))
            found = _word(builder, shared, builder.add(place, index(1)))
            status = builder.call(part, [*arguments, number, found])
            widened = builder.sext(status, _I64)
            builder.store(widened, _word(builder, shared, place), align=_WORD_BYTES)
    builder.ret_void()
    return team


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


def _of_runtime(module: ir.Module, name: str) -> ir.LLVMFunction:
    """Declare a function of the OpenMP runtime."""
    known: ir.LLVMFunction | None = module.globals.get(name)
    return known or ir.LLVMFunction(module, SIGNATURES[name], name)
