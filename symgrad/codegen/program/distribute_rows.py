"""Loop distribution across a program: launches whose kernels take short rows some at a time.

    launch @k0(input0, temporary0, output0)    // for i in 0..8192 ordered { ... }, one row at a time
    ->
    launch @k1(input0, temporary0, output0)    // for i in 0..1024 ordered { for i.row in 0..8 ... }

Memory for one row, which a contraction has left, becomes that for as many rows as are taken at a
time. How a kernel becomes one of stages is `schedule/distribute_rows.py`.
"""

from __future__ import annotations

from collections import Counter

from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, Program, buffers_of
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule import distribute_rows as schedule
from symgrad.codegen.target import Target
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace


def distribute_rows(program: Program, target: Target) -> Program:
    """Return `program` with loops over short rows distributed, some rows at a time."""
    names = KernelNames(program.kernels)
    named = Counter(buffers_of(program.all_instrs))

    def changed(instr: Instr) -> Instr:
        if not isinstance(instr, Launch):
            return instr
        kernel = schedule.distribute_rows(instr.kernel, target)
        if kernel == instr.kernel:
            return instr
        arguments = list(instr.arguments)
        pairs = zip(instr.kernel.params, kernel.params, strict=True)
        for number, (before, after) in enumerate(pairs):
            argument = arguments[number]
            if before.count == after.count:
                continue
            is_own = isinstance(argument, Buffer) and argument.place == "temporary"
            if not is_own or named[argument] != 1 or instr.starts[number]:
                return instr
            kind = TensorType(after.dtype, (after.count,))
            arguments[number] = replace(argument, type=kind)
        return replace(
            instr,
            kernel=names.shared(kernel),
            arguments=tuple(arguments),
            fused=instr.fused or (instr,),
        )

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = map(changed, instrs)

    return rewrite_launches(program, names, rewrite)
