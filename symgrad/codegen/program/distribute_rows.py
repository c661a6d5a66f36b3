"""Loop distribution across a program: launches whose kernels take short rows some at a time.

    launch @k0(input0, temporary0, output0)    // for i in 0..8192 ordered { ... }
    ->
    launch @k1(input0, temporary0, output0)    // for i in 0..1024 ordered { for i.row in 0..8 ... }

Memory for one row, which a contraction has left, becomes that for as many rows as are taken at a
time. How a kernel becomes one of stages is `schedule/distribute_rows.py`, and how one of a pipeline
`schedule/pipeline_rows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.rewrite import has_loops_in_loops
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import (
    Argument,
    Instr,
    Launch,
    Program,
)
from symgrad.codegen.program.rewrite_launches import once_for_each, rewrite_launches
from symgrad.codegen.schedule import distribute_rows as schedule
from symgrad.codegen.schedule.accumulate_columns import begin_with_cleared
from symgrad.codegen.target import Target
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace


def distribute_rows(program: Program, target: Target, *, pipelines: bool = False) -> Program:
    """Return `program` with loops over short rows distributed, or with rows pipelined."""
    names = KernelNames(program.kernels)

    def distributed(kernel: Kernel) -> Kernel:
        made = kernel
        if has_loops_in_loops(kernel.body):
            made = schedule.distribute_rows(kernel, target, pipelines=pipelines)
        made = made if pipelines else begin_with_cleared(made)
        return kernel if made == kernel else made

    distribute = once_for_each(distributed)

    def changed(instr: Instr) -> Instr:
        if not isinstance(instr, Launch):
            return instr
        kernel = distribute(instr.kernel)
        if kernel is instr.kernel:
            return instr
        arguments = _resized(instr, kernel, program.mentions)
        if arguments is None:
            return instr
        came_of = instr.fused or (instr,)
        return replace(instr, kernel=names.shared(kernel), arguments=arguments, fused=came_of)

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = map(changed, instrs)

    return rewrite_launches(program, names, rewrite)


def _resized(
    launch: Launch, kernel: Kernel, named: Mapping[Buffer, int]
) -> tuple[Argument, ...] | None:
    """Return the arguments with memory for more rows, None if something else uses that."""
    arguments = list(launch.arguments)
    for number, (before, after) in enumerate(zip(launch.kernel.params, kernel.params, strict=True)):
        if before.count == after.count:
            continue
        argument = arguments[number]
        if not isinstance(argument, Buffer) or argument.place != "temporary":
            return None
        if named[argument] != 1 or launch.starts[number]:
            return None
        arguments[number] = replace(argument, type=TensorType(after.dtype, (after.count,)))
    return tuple(arguments)
