"""Scratch memory of a GEMM: the packed left, then the packed right, then sums.

Sums wait for their next block of k, but for those that wait where results are, or for an epilogue
that goes through whole rows. Each part begins at a multiple of 64 bytes, as the whole does.
"""

from __future__ import annotations

from symgrad.codegen.contract.plans.plan import ContractPlan


def packed_right_offset(plan: ContractPlan) -> int:
    """Return the byte at which the packed right begins."""
    return _aligned(_packed_left_bytes(plan))


def partial_offset(plan: ContractPlan) -> int:
    """Return the byte at which the sums that wait begin."""
    return packed_right_offset(plan) + _aligned(_packed_right_bytes(plan))


def scratch_bytes(plan: ContractPlan) -> int:
    """Return how many bytes a kernel of this plan needs."""
    return partial_offset(plan) + _aligned(_partial_bytes(plan))


def _packed_left_bytes(plan: ContractPlan) -> int:
    if plan.pack_left == "none":
        return 0
    tiles = plan.block_tiles
    if plan.pack_left == "windows":
        tiles = min(-(-tiles // plan.runs) + 1, plan.tiles_of_run)
    elements = tiles * plan.packed_tile_elements
    return (elements + plan.lanes) * plan.compute.itemsize


def _packed_right_bytes(plan: ContractPlan) -> int:
    if plan.pack_right == "none":
        return 0
    return plan.kept_panels * plan.packed_steps * plan.tile_columns * plan.compute.itemsize


def _partial_bytes(plan: ContractPlan) -> int:
    if plan.keeps_rows:
        return plan.tile_rows * plan.tile_row * plan.compute.itemsize
    if plan.k_blocks == 1 or plan.result_row:
        return 0
    return plan.band_tiles * plan.block_panels * plan.tile_elements * plan.compute.itemsize


def _aligned(size: int) -> int:
    return -(-size // 64) * 64
