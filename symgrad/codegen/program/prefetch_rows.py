"""Software prefetch across a program: kernels that sweep over rows prefetch the next one.

    launch @k0(input0, output0)    // for i1 in 0..1024 vector(16) { ... }
    ->
    launch @k1(input0, output0)    // for i1 in 0..1024 vector(16) prefetches { ... }

It is sweeps that have become one kernel that go over a row several times. Which loop prefetches,
and of what rows, is in `schedule/prefetch_rows.py`, and in `schedule/prefetch_windows.py` for
windows. And long elementwise loops, which some kernels may have become together, prefetch the next
page: see `schedule/prefetch_pages.py`. Kernels that do much with each matrix of a batch prefetch
the next one: see `schedule/prefetch_matrices.py`.
"""

from __future__ import annotations

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.rewrite_launches import rewrite_kernels
from symgrad.codegen.schedule.prefetch_matrices import prefetch_matrices
from symgrad.codegen.schedule.prefetch_pages import prefetch_pages as marked_for_pages
from symgrad.codegen.schedule.prefetch_rows import prefetch_results, prefetch_stages
from symgrad.codegen.schedule.prefetch_rows import prefetch_rows as marked_for_rows
from symgrad.codegen.schedule.prefetch_windows import prefetch_windows as marked_for_windows
from symgrad.codegen.target import Target


def prefetch_rows(program: Program, target: Target) -> Program:
    """Return `program` with kernels that prefetch the next row, also of windows, where it pays."""
    return rewrite_kernels(
        program, lambda k: marked_for_windows(marked_for_rows(k, target), target)
    )


def prefetch_pages(program: Program, target: Target) -> Program:
    """Return `program` with kernels that prefetch the next page or matrix where that pays.

    And for rows of results, where stages have become the loops that write them.
    """

    def prefetching(kernel: Kernel) -> Kernel:
        kernel = prefetch_results(prefetch_stages(kernel, target), target)
        return prefetch_matrices(marked_for_pages(kernel, target), target)

    return rewrite_kernels(program, prefetching)
