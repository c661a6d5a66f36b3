"""Non-temporal stores across a program: slices of long stacks go past the caches.

    scan loop 0 constant0 at most 128 {
      launch @k0(temporary0, temporary1[iteration of loop 0])  // b1[i0] = t0
    }
    ->
    scan loop 0 constant0 at most 128 {
      launch @k1(temporary0, temporary1[iteration of loop 0])  // b1[i0] = t0 streamed
    }

What a loop records for its gradient is read when all iterations have run. Where a stack is much
more than a cache holds, a slice has left the caches by then; on its way it has been read, since a
store reads the line that it changes, and has taken the place of what iterations read and write. A
processor that `streams_stacks` is faster without that. Which vectors are whole lines is seen when
they are stored (`llvm/streaming.py`). No result changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from symgrad.codegen.loops.language import For, Kernel, Stmt, Store
from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import (
    Argument,
    Instr,
    Launch,
    LoopInstr,
    Program,
    Slice,
    buffers_of,
    root,
)
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.target import Target
from symgrad.cost_model import LEAST_SLICE_STREAMED
from symgrad.cost_model.products import CACHES_STREAMED
from symgrad.records import replace


def stream_stacks(program: Program, target: Target) -> Program:
    """Return `program` with kernels that store slices of long stacks past the caches."""
    if not target.streams_stacks:
        return program
    names, least = KernelNames(program.kernels), CACHES_STREAMED * target.memory.shared_bytes

    def rewrite(instrs: list[Instr]) -> None:
        for position, instr in enumerate(instrs):
            if isinstance(instr, LoopInstr):
                body = tuple(_streaming(i, instr, least, names) for i in instr.body)
                instrs[position] = replace(instr, body=body)

    return rewrite_launches(program, names, rewrite)


def _streaming(instr: Instr, loop: LoopInstr, least: int, names: KernelNames) -> Instr:
    """Return an instruction of a loop, with a kernel that streams where it is a launch of one."""
    if not isinstance(instr, Launch):
        return instr
    named = Counter(buffers_of(loop.body))
    pairs = zip(instr.kernel.params, instr.arguments, strict=False)
    long = {
        param.name
        for param, argument in pairs
        if param.mode == "out" and named[root(argument)] == 1 and _is_long(argument, loop, least)
    }
    if (kernel := _streamed(instr.kernel, long)) == instr.kernel:
        return instr
    return replace(instr, kernel=names.shared(kernel), fused=instr.fused or (instr,))


def _is_long(argument: Argument, loop: LoopInstr, least: int) -> bool:
    """Return whether an argument is the slice of a loop, long itself, of a stack of `least`."""
    if not isinstance(argument, Slice) or argument.loop != loop.number:
        return False
    size = argument.type.nbytes
    return size >= LEAST_SLICE_STREAMED and size * loop.capacity >= least


def _streamed(kernel: Kernel, buffers: Set[str]) -> Kernel:
    """Return `kernel` with vectors of `buffers`, which it does not read, stored past the caches."""
    read, _ = buffers_used(kernel.body)
    buffers = buffers - read
    return replace(kernel, body=tuple(_of_loop(s, buffers) for s in kernel.body))


def _of_loop(loop: Stmt, buffers: Set[str]) -> Stmt:
    if not isinstance(loop, For) or loop.vector == 1:
        return loop
    body = (
        replace(s, is_streamed=True)
        if isinstance(s, Store) and s.buffer in buffers and s.index.coefficient(loop.var) == 1
        else s
        for s in loop.body
    )
    return replace(loop, body=tuple(body))
