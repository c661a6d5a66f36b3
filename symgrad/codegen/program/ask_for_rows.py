"""Software prefetch across a program: kernels that sweep over rows ask for the next one.

    launch @k0(input0, output0)    // for i1 in 0..1024 vector(16) { ... }
    ->
    launch @k1(input0, output0)    // for i1 in 0..1024 vector(16) asks { ... }

It is sweeps that have become one kernel that go over a row several times. Which loop asks, and of
what rows, is in `schedule/ask_for_rows.py`, and in `schedule/ask_for_windows.py` for windows. And
long elementwise loops, which some kernels may have become together, ask for the next page: see
`schedule/ask_ahead.py`. Kernels that do much with each matrix of a batch ask for the next one: see
`schedule/ask_for_matrices.py`.
"""

from __future__ import annotations

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.rewrite_launches import rewrite_kernels
from symgrad.codegen.schedule.ask_ahead import ask_ahead as marked_for_pages
from symgrad.codegen.schedule.ask_for_matrices import ask_for_matrices
from symgrad.codegen.schedule.ask_for_rows import ask_for_results
from symgrad.codegen.schedule.ask_for_rows import ask_for_rows as marked_for_rows
from symgrad.codegen.schedule.ask_for_windows import ask_for_windows as marked_for_windows
from symgrad.codegen.target import Target


def ask_for_rows(program: Program, target: Target) -> Program:
    """Return `program` with kernels that ask for the next row, also of windows, where that pays."""
    return rewrite_kernels(
        program, lambda k: marked_for_windows(marked_for_rows(k, target), target)
    )


def ask_ahead(program: Program, target: Target) -> Program:
    """Return `program` with kernels that ask for the next page or matrix where that pays.

    And for rows of results, where stages have become the loops that write them.
    """

    def asking(kernel: Kernel) -> Kernel:
        return ask_for_matrices(marked_for_pages(ask_for_results(kernel, target), target), target)

    return rewrite_kernels(program, asking)
