"""Software prefetch across a program: kernels that sweep over rows ask for the next one.

    launch @k0(input0, output0)    // for i1 in 0..1024 vector(16) { ... }
    ->
    launch @k1(input0, output0)    // for i1 in 0..1024 vector(16) asks { ... }

It is sweeps that have become one kernel that go over a row several times. Which loop asks, and of
what rows, is in `schedule/ask_for_rows.py`. And long elementwise loops, which some kernels may have
become together, ask for the next page: see `schedule/ask_ahead.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, Program
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule.ask_ahead import ask_ahead as marked_for_pages
from symgrad.codegen.schedule.ask_for_rows import ask_for_rows as marked_for_rows
from symgrad.codegen.target import Target

_Mark = Callable[[Kernel], Kernel]


def ask_for_rows(program: Program) -> Program:
    """Return `program` with kernels that ask for the next row where that pays."""
    return _with_marks(program, marked_for_rows)


def ask_ahead(program: Program, target: Target) -> Program:
    """Return `program` with kernels that ask for the next page where that pays."""
    return _with_marks(program, lambda kernel: marked_for_pages(kernel, target))


def _with_marks(program: Program, mark: _Mark) -> Program:
    names = KernelNames(program.kernels)

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = [_asking(i, names, mark) if isinstance(i, Launch) else i for i in instrs]

    return rewrite_launches(program, names, rewrite)


def _asking(launch: Launch, names: KernelNames, mark: _Mark) -> Launch:
    kernel = mark(launch.kernel)
    if kernel == launch.kernel:
        return launch
    came_of = launch.fused or (launch,)
    return replace(launch, kernel=names.shared(kernel), fused=came_of)
