"""The table of passes over kernels of the loop language: which schedules there are, and why so.

Each is a function from loops to loops. The first one runs on the kernel of every group, the others
once for all groups whose kernels it has made equal: see `kernel_pool.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.block_batches import block_batches
from symgrad.codegen.schedule.interleave import interleave
from symgrad.codegen.schedule.licm import hoist_uniform
from symgrad.codegen.schedule.narrow_indices import narrow_indices
from symgrad.codegen.schedule.parallelize import Threads, share_work
from symgrad.codegen.schedule.plan_sorts import plan_sorts
from symgrad.codegen.schedule.register_tiles import transpose_in_registers
from symgrad.codegen.schedule.relocate import Relocated, relocate
from symgrad.codegen.schedule.row_folds import interchange_folds
from symgrad.codegen.schedule.row_scans import interchange_scans
from symgrad.codegen.schedule.share_loads import share_loads
from symgrad.codegen.schedule.tile_loops import tile_transposes
from symgrad.codegen.schedule.tile_products import tile_products
from symgrad.codegen.schedule.two_stage_reduction import split_folds
from symgrad.codegen.schedule.vectorize import coalesce, simplify_loops, vectorize
from symgrad.codegen.target import Target
from symgrad.passes.table import Pass
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """What kernels are scheduled for."""

    target: Target
    threads: Threads


def print_relocated(relocated: Relocated) -> str:
    """Return the text of a kernel, and what a call of it says where it begins in a buffer."""
    places = zip(relocated.kernel.params, relocated.starts, strict=False)
    begins = [f"// {param.name} begins at element {start}\n" for param, start in places if start]
    return print_kernel(relocated.kernel) + "".join(begins)


@dataclass(frozen=True, slots=True)
class KernelPass(Pass[Relocated, Machine, Relocated]):
    """From a kernel to one that computes the same."""

    _: KW_ONLY
    print: Callable[[Relocated], str] = print_relocated
    verify: Callable[[Relocated], None] = lambda relocated: verify_kernel(relocated.kernel)


def _on_kernel(
    schedule: Callable[[Kernel, Machine], Kernel],
) -> Callable[[Relocated, Machine], Relocated]:
    """Return `schedule` as a pass: where a kernel begins stays as it is."""
    return lambda given, machine: Relocated(
        schedule(given.kernel, machine), given.starts, given.statuses
    )


RELOCATE = KernelPass("relocate", lambda given, _: relocate(given.kernel))

PARALLELIZE = KernelPass(
    "parallelize",
    _on_kernel(lambda kernel, machine: share_work(kernel, machine.target, machine.threads)),
    after={
        "vectorize": "a loop is cut at whole vectors",
        "tile-products": "each part of a product has scratch memory of its own",
        "plan-sorts": "and so has each part of a sort",
    },
)

KERNEL_PASSES: tuple[KernelPass, ...] = (
    RELOCATE,
    KernelPass(
        "two-stage-reduction",
        _on_kernel(lambda kernel, machine: split_folds(kernel, machine.threads.least_cycles)),
        after={"relocate": "a kernel is scheduled once for all places where it is called"},
    ),
    KernelPass("simplify-loops", _on_kernel(lambda kernel, _: simplify_loops(kernel))),
    KernelPass(
        "coalesce",
        _on_kernel(lambda kernel, _: coalesce(kernel)),
        after={
            "two-stage-reduction": "a loop over pieces is merged as others are",
            "simplify-loops": "a loop that runs once would stand between two that are merged",
        },
    ),
    KernelPass(
        "block-batches",
        _on_kernel(lambda kernel, _: block_batches(kernel)),
        after={"coalesce": "the loops around a product are then as few as can be"},
    ),
    KernelPass(
        "interchange-scans",
        _on_kernel(lambda kernel, _: interchange_scans(kernel)),
        after={"coalesce": "a merged loop has longer rows"},
    ),
    KernelPass(
        "interchange-folds",
        _on_kernel(lambda kernel, _: interchange_folds(kernel)),
        after={
            "two-stage-reduction": "pieces of a fold are the loop around its rows",
            "coalesce": "a merged loop has longer rows",
        },
    ),
    KernelPass(
        "vectorize",
        _on_kernel(lambda kernel, machine: vectorize(kernel, machine.target)),
        after={
            "two-stage-reduction": "each piece of a fold has lanes of its own",
            "coalesce": "a merged loop has more elements side by side",
            "interchange-scans": "a loop along rows is then an innermost one",
            "interchange-folds": "and so it is here",
        },
    ),
    KernelPass(
        "transpose-in-registers",
        _on_kernel(lambda kernel, _: transpose_in_registers(kernel)),
        after={"vectorize": "squares are of as many rows as a vector has elements"},
    ),
    KernelPass(
        "tile-transposes",
        _on_kernel(lambda kernel, machine: tile_transposes(kernel, machine.target.memory)),
        after={
            "vectorize": "a loop with vectors is cut at whole ones",
            "transpose-in-registers": "what is done in registers needs no tiles",
        },
    ),
    KernelPass(
        "share-loads",
        _on_kernel(lambda kernel, _: share_loads(kernel)),
        after={
            "vectorize": "what vectors read is counted, and vectors are along rows",
            "tile-transposes": "rows of a transpose share nothing, and are taken in tiles",
        },
    ),
    KernelPass(
        "interleave",
        _on_kernel(lambda kernel, machine: interleave(kernel, machine.target)),
        after={
            "vectorize": "several of its vectors are taken at a time",
            "share-loads": "and of two rows fewer, where registers do not hold more",
        },
    ),
    KernelPass(
        "tile-products",
        _on_kernel(lambda kernel, machine: tile_products(kernel, machine.target)),
        after={"simplify-loops": "a load that nobody uses would count as traffic of an epilogue"},
        is_required=True,
    ),
    KernelPass(
        "plan-sorts",
        _on_kernel(lambda kernel, machine: plan_sorts(kernel, machine.target)),
        after={"simplify-loops": "a sort in a loop that never runs takes no memory"},
        is_required=True,
    ),
    PARALLELIZE,
    KernelPass(
        "kernel-licm",
        _on_kernel(lambda kernel, _: hoist_uniform(kernel)),
        after={
            "coalesce": "what stands between two loops would keep them from being merged",
            "parallelize": "and from changing places",
        },
    ),
    KernelPass(
        "narrow-indices",
        _on_kernel(lambda kernel, machine: narrow_indices(kernel, machine.target)),
        after={
            "vectorize": "indices in a vector are narrower",
            "kernel-licm": "what an index is compared with is then before the loop",
        },
    ),
)
