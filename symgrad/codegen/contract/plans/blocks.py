"""Cache blocking of a GEMM: how many tiles, panels and terms make a block, by what caches hold."""

from __future__ import annotations

import math

from symgrad.codegen.contract.plans.packing import is_jumped
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.windows import window_tiles
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model.products import (
    FEW_READS,
    LEAST_STEPS_A_ROW,
    PACKED_PIXELS,
    PACKED_TERMS,
    SHARE_OF_KEPT_ROWS,
    SPARE_OF_BLOCK,
)
from symgrad.records import replace


def choose_blocks(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with about as many tiles and panels in a block as their caches hold."""
    memory = target.memory
    line = plan.packed_steps * plan.compute.itemsize
    band, tiles = plan.row_tiles, max(1, memory.l2_bytes // (line * plan.tile_rows))
    if tiles < band and not plan.left.column_digits:  # windows read the same elements several times
        tiles = max(1, memory.block_bytes // (line * plan.tile_rows))
    if plan.pack_left == "windows":
        tiles = window_tiles(plan, memory)
    elif plan.has_pixels_in_place:
        tiles = band
    elif plan.k_blocks > 1:
        band = _even_blocks(band, memory.band_rows / plan.tile_rows)
    return replace(
        plan,
        band_tiles=band,
        block_tiles=min(band, tiles) if plan.has_pieces else _even_blocks(band, tiles),
        block_panels=_even_blocks(plan.panels, memory.shared_bytes / (line * plan.tile_columns)),
        packed_terms=_choose_packed_terms(plan, memory),
        packs_late=packs_late(plan, target),
    )


def with_short_blocks(plan: ContractPlan, memory: MemoryHierarchy) -> ContractPlan:
    """Return `plan` with blocks of k as short as the pages that a walk along the right may touch.

    Where its steps of k lie far apart and it is not packed, a panel would touch as many pages as
    there are terms, and the next panel all of them again. So panels beside each other are read for
    a few terms at a time: lines that follow one another, on pages that are still at hand.
    """
    if plan.pack_right != "none" or plan.panels < FEW_READS or not is_jumped(plan, memory):
        return plan
    if plan.right.row_digits or plan.left.column_digits:
        return plan
    terms = max(plan.lanes, memory.near_pages // 2)
    return replace(plan, block_k=min(plan.block_k, terms))


def with_kept_rows(plan: ContractPlan, memory: MemoryHierarchy) -> ContractPlan:
    """Return `plan` with an epilogue that goes through whole rows of as many panels as fit.

    Of a tile it reaches a short piece of each of many rows, which no processor fetches ahead, and a
    few steps of k leave no time to prefetch them. Sums of whole rows wait in the second-level cache
    until it follows these from end to end. A part for a thread has no higher tiles, so it keeps
    rows only if the whole does.
    """
    is_plain = plan.method == "tile" and plan.pack_left == "none" and plan.rows_first
    is_plain = is_plain and not (has_digits(plan) or plan.borders or plan.result_row)
    is_large = plan.rows * plan.columns * plan.compute.itemsize > 2 * memory.l2_bytes
    is_met_late = plan.met > 0 and is_large and plan.steps_a_row < LEAST_STEPS_A_ROW
    if not (is_plain and is_met_late) or plan.k_blocks > 1 or plan.goes_on is not None:
        return plan
    kept = int(memory.l2_bytes * SHARE_OF_KEPT_ROWS) // plan.compute.itemsize
    panels = _even_blocks(plan.block_panels, kept / (plan.tile_rows * plan.tile_columns))
    return replace(plan, keeps_rows=True, block_panels=panels, met=0)


def packs_late(plan: ContractPlan, target: Target) -> bool:
    """Return whether a panel of the right is packed when it is read, and all of them in one place.

    So it is where the second-level cache has the right: then it also has room for the left, and
    what is read of the one while the other is multiplied is not waited for. And so it is where the
    shared cache is slow: packed before all, each panel would go there, and come back to be read.
    """
    is_packed = plan.method == "tile" and plan.pack_right != "none"
    is_near = plan.k * plan.column_run * plan.dtype.itemsize <= target.memory.l2_bytes
    is_better = is_near or (target.shares_slowly and plan.dtype == plan.compute)
    return is_packed and is_better and not (has_digits(plan) or plan.borders)


def has_digits(plan: ContractPlan) -> bool:
    """Return whether rows or columns of an operand are counted in digits."""
    sides = (plan.lhs, plan.rhs)
    return any(side.row_digits or side.column_digits for side in sides)


def _even_blocks(count: int, most: float) -> int:
    """Return the size of blocks of which none is small: for each, the other operand is packed.

    >>> from symgrad.codegen.contract.plans.blocks import _even_blocks
    >>> _even_blocks(43, 42.7), _even_blocks(64, 42.7)
    (43, 32)
    """
    blocks = math.ceil(count / most - SPARE_OF_BLOCK)
    return -(-count // max(1, blocks))


def _choose_packed_terms(plan: ContractPlan, memory: MemoryHierarchy) -> int:
    """Return how many steps of k of all tiles of a block are packed before the next ones.

    Where each step is further on than is fetched ahead, panels beside each other are parts of the
    same lines, which share few sets: packed one after the other they would bring each near again.
    """
    if plan.pack_left == "windows":
        return PACKED_PIXELS
    is_copied = plan.method == "tile" and plan.pack_left == "copy" and not plan.has_pieces
    apart = abs(plan.left.column_stride) * plan.dtype.itemsize
    is_jumped_over = plan.k >= memory.near_pages and apart >= memory.followed_bytes
    if not is_copied or not is_jumped_over:
        return plan.block_k
    return min(plan.block_k, PACKED_TERMS)
