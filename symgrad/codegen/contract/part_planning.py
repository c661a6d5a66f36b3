"""Panels of a GEMM that begin anew in each thread's part, so that parts are equal.

512 columns are 10 panels of 48 and one of 32: of two threads one would have 288 columns and the
other 224. Cut in two, 256 columns are 5 panels and one of 16, for each.
"""

from __future__ import annotations

from symgrad.codegen.contract.asking_planning import with_asking
from symgrad.codegen.contract.block_planning import packs_late
from symgrad.codegen.contract.plan import ContractPlan
from symgrad.codegen.contract.unrolling import turns_of
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model import tiling_cycles
from symgrad.records import replace


def part_columns(plan: ContractPlan, threads: int, target: Target) -> int | None:
    """Return how many columns each thread has if panels begin anew there; None if they cannot.

    Parts are whole vectors, and narrow tiles add up their sums in the order that wide ones do.
    """
    columns, rest = divmod(plan.columns, threads)
    has_digits = bool(plan.right.column_digits or plan.right.row_digits)
    is_plain = plan.method == "tile" and not (has_digits or plan.borders or plan.part_columns)
    if not is_plain or rest or columns % plan.lanes or columns < plan.tile_columns:
        return None
    cut = replace(plan, part_columns=columns)
    heights = {plan.tile_rows, plan.tile_rows - 1} - {0}
    widths = {plan.tile_columns, plan.edge_columns, cut.edge_columns} - {0}
    turns = (turns_of(plan, target, h, w) for h in heights for w in widths)
    return columns if all(chains == 1 for chains, _ in turns) else None


def part_cycles(plan: ContractPlan, columns: int) -> float:
    """Return which share of the cycles of all tiles those of a part of so many columns take."""
    vectors, wide = plan.tile_columns // plan.lanes, -(-plan.columns // plan.lanes)
    sizes = plan.tile_rows, vectors, plan.k
    whole = tiling_cycles(plan.row_run, wide, *sizes)
    return tiling_cycles(plan.row_run, -(-columns // plan.lanes), *sizes) / whole


def in_parts(plan: ContractPlan, columns: int, memory: MemoryHierarchy) -> ContractPlan:
    """Return `plan` for threads that have so many columns each.

    What a thread reads of the right may stay in its near cache where the whole would not.
    """
    cut = replace(plan, part_columns=columns)
    cut = replace(cut, block_panels=min(plan.block_panels, cut.panels_of_part))
    cut = replace(cut, packs_late=packs_late(cut, memory))
    return with_asking(cut, memory)
