"""The table of passes over programs of kernels: what is in registers, where memory lies, who polls.

They change no result, but without a plan of memory nothing can run.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import KW_ONLY, field

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.arena import lay_out
from symgrad.codegen.program.contract_temporaries import contract_temporaries
from symgrad.codegen.program.distribute_rows import distribute_rows
from symgrad.codegen.program.fuse_batches import RowKernel, fuse_by_batches
from symgrad.codegen.program.fuse_blocks import fuse_blocks
from symgrad.codegen.program.fuse_elements import fuse_elements
from symgrad.codegen.program.fuse_products import fuse_products
from symgrad.codegen.program.fuse_sweeps import fuse_sweeps
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.lay_out_constants import lay_out_constants, narrow_constants
from symgrad.codegen.program.leave_out_zeros import tell_of_zeros
from symgrad.codegen.program.place_results import place_results
from symgrad.codegen.program.polls import polled_loops
from symgrad.codegen.program.prefetch_rows import prefetch_pages, prefetch_rows
from symgrad.codegen.program.print import print_instrs
from symgrad.codegen.program.registers import schedule_registers
from symgrad.codegen.program.reuse_results import reuse_results
from symgrad.codegen.program.rewrite_launches import rewrite_kernels
from symgrad.codegen.program.share_in_loops import share_in_loops
from symgrad.codegen.program.share_panels import share_panels
from symgrad.codegen.program.stream_stacks import stream_stacks
from symgrad.codegen.program.verify import verify_instrs, verify_program
from symgrad.codegen.schedule.accumulate_columns import accumulate_columns
from symgrad.codegen.schedule.bound_exponentials import bound_exponentials
from symgrad.codegen.schedule.distribute_scalars import distribute_scalars
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.schedule.split_matches import split_matches
from symgrad.codegen.target import Target
from symgrad.graph.text.print import ELIDED
from symgrad.passes.table import Pass, PassRunner
from symgrad.records import dataclass, replace


def _print(program: Program) -> str:
    return print_instrs(program, elide=ELIDED)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What kernels were scheduled for, and those that threads share as they are for one thread.

    Those that passes make of products, by rows, are added to `by_rows` for the passes that follow.
    """

    machine: Machine
    alone: MutableMapping[str, Kernel]
    by_rows: MutableMapping[str, RowKernel] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        return self.machine.target

    def keep_kernels_of(self, program: Program) -> None:
        """Drop what is known of kernels that `program` has no more.

        Their names are free, and the next pass may give them to kernels that it makes.
        """
        if self.alone or self.by_rows:
            present = {kernel.name for kernel in program.kernels}
            for name in {*self.alone, *self.by_rows} - present:
                self.alone.pop(name, None)
                self.by_rows.pop(name, None)


@dataclass(frozen=True, slots=True)
class ProgramPass(Pass[Program, Scheduled, Program]):
    """From a program to one that gives the same results."""

    _: KW_ONLY
    print: Callable[[Program], str] = _print
    verify: Callable[[Program], None] = verify_instrs


def _plan_memory(program: Program, _given: Scheduled) -> Program:
    return lay_out(program)


def _polls(program: Program, _given: Scheduled) -> Program:
    return replace(program, polled=polled_loops(program.instrs, program.routines))


PROGRAM_PASSES: tuple[ProgramPass, ...] = (
    ProgramPass(
        "fuse-products",
        lambda program, given: fuse_products(program, given.machine, given.alone, given.by_rows),
        after={
            "tile-products": "blocks of rows are products of other sizes, tiled anew",
            "parallelize": "they are shared anew, and which are fused does not depend on it",
        },
    ),
    ProgramPass(
        "share-panels",
        lambda program, given: share_panels(program, given.by_rows),
        after={"fuse-products": "what each block reads across is in panels before the first one"},
    ),
    ProgramPass(
        "leave-out-zeros",
        lambda program, given: tell_of_zeros(program, given.target, given.by_rows),
        after={
            "fuse-products": "what masks are read for is computed where products read it",
        },
    ),
    ProgramPass(
        "fuse-batches",
        lambda program, given: fuse_by_batches(program, given.machine, given.alone, given.by_rows),
        after={
            "fuse-products": "around products by rows is what is fused",
            "leave-out-zeros": "what products know does not depend on the number of threads",
        },
    ),
    ProgramPass(
        "fuse-elements",
        lambda program, given: fuse_elements(program, given.target),
        after={
            "fuse-products": "whose stages are kernels as they were scheduled",
            "vectorize": "kernels are alike that have vectors along the same axis",
            "parallelize": "what is fused is shared as either of the two kernels is",
            "kernel-licm": "and what does not depend on its rows is in front of them",
        },
    ),
    ProgramPass(
        "place-results",
        lambda program, _: place_results(program),
        after={"fuse-elements": "pieces of pieces are then written by one kernel"},
    ),
    ProgramPass(
        "share-in-loops",
        lambda program, given: share_in_loops(program, given.machine),
        after={
            "fuse-elements": "a kernel of two has more to share",
            "parallelize": "threads are awake where one of a loop's kernels is shared",
        },
    ),
    ProgramPass(
        "fuse-sweeps",
        lambda program, _: fuse_sweeps(program),
        after={
            "fuse-products": "blocks of rows that products are made of need no sweep of their own",
            "interchange-folds": "rows are put where some rows at a time are added up",
            "parallelize": "what is fused is shared as the second of the two kernels is",
            "share-in-loops": "and so it is in loops",
            "kernel-licm": "and what does not depend on its rows is in front of them",
        },
    ),
    ProgramPass(
        "fuse-blocks",
        lambda program, given: fuse_blocks(program, given.machine, given.by_rows),
        after={
            "fuse-products": "what is fused by rows has blocks of its own",
            "fuse-sweeps": "reductions of the same rows are one kernel, with one loop over these",
        },
    ),
    ProgramPass(
        "contract-temporaries",
        lambda program, _: contract_temporaries(program),
        after={
            "fuse-sweeps": "what one kernel has written another one reads until they are fused",
            "parallelize": "each part of a loop has a row of its own",
        },
    ),
    ProgramPass(
        "reuse-results",
        lambda program, _: reuse_results(program),
        after={
            "fuse-sweeps": "a temporary between kernels that are one is in no memory",
            "contract-temporaries": "or it is a row",
        },
    ),
    ProgramPass(
        "lay-out-constants",
        lambda program, _: lay_out_constants(program),
        after={
            "vectorize": "it is vectors whose elements are far apart",
            "fuse-sweeps": "and kernels read what they will",
        },
    ),
    ProgramPass(
        "narrow-constants",
        lambda program, _: narrow_constants(program),
        after={"lay-out-constants": "a step of one element is one of either width"},
    ),
    ProgramPass(
        "distribute-scalars",
        lambda program, given: rewrite_kernels(
            program, lambda kernel: distribute_scalars(kernel, given.target)
        ),
        after={
            "fuse-sweeps": "which loops over rows are fused, and not such as are behind others",
            "contract-temporaries": "rows are contracted that one loop walks through",
        },
    ),
    ProgramPass(
        "split-matches",
        lambda program, _: rewrite_kernels(program, split_matches),
        after={
            "narrow-indices": "what an index is compared with is then before the loop",
            "fuse-sweeps": "a place that is data is between loops, which are fused by even steps",
            "contract-temporaries": "and rows are contracted that all loops walk through so",
        },
    ),
    ProgramPass(
        "bound-exponentials",
        lambda program, _: rewrite_kernels(program, bound_exponentials),
        after={
            "fuse-sweeps": "the greatest of a row is found in the kernel that takes exponentials",
            "fuse-products": "and so it is in one that makes the rows",
        },
    ),
    ProgramPass(
        "accumulate-columns",
        lambda program, given: rewrite_kernels(
            program, lambda kernel: accumulate_columns(kernel, given.target)
        ),
        after={
            "fuse-sweeps": "which loops over rows and columns are in one kernel",
            "contract-temporaries": "rows are contracted that one loop walks through",
            "distribute-scalars": "what is late in a row is behind the loop over rows too",
        },
    ),
    ProgramPass(
        "prefetch-rows",
        lambda program, given: prefetch_rows(program, given.target),
        after={
            "fuse-sweeps": "a kernel that goes over a row several times was made of some",
            "contract-temporaries": "what is kept of one row alone is in the cache anyway",
        },
    ),
    ProgramPass(
        "pipeline-rows",
        lambda program, given: distribute_rows(program, given.target, pipelines=True),
        after={
            "contract-temporaries": "rows are contracted that one loop walks through",
            "distribute-scalars": "what is late in a row leaves the loop over rows",
            "split-matches": "and a match in a row is taken apart",
            "bound-exponentials": "what is known of a row is of the one that is at hand",
            "accumulate-columns": "and the last stage adds to sums of columns",
        },
    ),
    ProgramPass(
        "distribute-rows",
        lambda program, given: distribute_rows(program, given.target),
        after={
            "contract-temporaries": "rows are contracted that one loop walks through",
            "distribute-scalars": "what is late in a row leaves the loop over rows",
            "split-matches": "and a match in a row is taken apart",
            "bound-exponentials": "what is known of a row is of the one that is at hand",
            "prefetch-rows": "which sweep over a row prefetches is chosen of all of them",
            "accumulate-columns": "and adds to sums of columns",
            "pipeline-rows": "rows are beside each other where they cannot be in a pipeline",
        },
    ),
    ProgramPass(
        "prefetch-pages",
        lambda program, given: prefetch_pages(program, given.target),
        after={
            "fuse-elements": "loops are as long as they get, and read all that they will",
            "parallelize": "and each part of one prefetches what comes next",
        },
    ),
    ProgramPass(
        "stream-stacks",
        lambda program, given: stream_stacks(program, given.target),
        after={"fuse-elements": "kernels read what they have written until they are one"},
    ),
    ProgramPass(
        "registers",
        lambda program, given: schedule_registers(program, given.target),
        after={
            "parallelize": "a kernel that threads share is called, on buffers that have addresses",
        },
    ),
    ProgramPass(
        "plan-memory",
        _plan_memory,
        after={
            "fuse": "values inside of a kernel need no memory",
            "tile-products": "scratch memory lies in the arena too",
            "parallelize": "and there is some for each part",
        },
        verify=verify_program,
        is_required=True,
    ),
    ProgramPass(
        "polls",
        _polls,
        after={"kernel-licm": "what has left a loop is not counted in each iteration"},
    ),
)


def run_program_passes(program: Program, given: Scheduled, runner: PassRunner) -> Program:
    """Return `program` as the passes leave it, which can be emitted."""
    for row in runner.chosen(PROGRAM_PASSES):
        program = runner.apply(row, program, given)
        given.keep_kernels_of(program)
    return program
