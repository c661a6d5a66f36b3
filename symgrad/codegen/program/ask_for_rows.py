"""Software prefetch across a program: kernels that sweep over rows ask for the next one.

    launch @k0(input0, output0)    // for i1 in 0..1024 vector(16) { ... }
    ->
    launch @k1(input0, output0)    // for i1 in 0..1024 vector(16) asks { ... }

It is sweeps that have become one kernel that go over a row several times. Which loop asks, and of
what rows, is in `schedule/ask_for_rows.py`.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, Program
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule.ask_for_rows import ask_for_rows as marked


def ask_for_rows(program: Program) -> Program:
    """Return `program` with kernels that ask for the next row where that pays."""
    names = KernelNames(program.kernels)

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = [_asking(i, names) if isinstance(i, Launch) else i for i in instrs]

    return rewrite_launches(program, names, rewrite)


def _asking(launch: Launch, names: KernelNames) -> Launch:
    kernel = marked(launch.kernel)
    if kernel == launch.kernel:
        return launch
    came_of = launch.fused or (launch,)
    return replace(launch, kernel=names.shared(kernel), fused=came_of)
