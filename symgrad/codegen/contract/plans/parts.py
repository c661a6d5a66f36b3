"""Panels or tiles of a GEMM that begin anew in each thread's part, so that parts are equal.

512 columns are 10 panels of 48 and one of 32: of two threads one would have 288 columns and the
other 224. Cut in two, 256 columns are 5 panels and one of 16, for each. So 256 rows are 43 tiles,
of which one thread would have 132 rows and the other 124; 128 rows are 22 tiles, some of them low.
"""

from __future__ import annotations

from symgrad.codegen.contract.plans.blocks import has_digits, packs_late
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.prefetching import with_prefetching
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.contract.plans.unrolling import turns_of
from symgrad.codegen.loops.blocking import Share
from symgrad.codegen.target import Target
from symgrad.cost_model.products import tiling_cycles
from symgrad.records import replace


def even_columns(plan: ContractPlan, threads: int, target: Target) -> Share | None:
    """Return a share in which each thread has as many columns, where panels begin anew.

    None if there is none: parts are whole vectors.
    """
    columns, rest = divmod(plan.columns, threads)
    in_digits = bool(plan.right.column_digits or plan.right.row_digits)
    if in_digits or rest or columns % plan.lanes or columns < plan.tile_columns:
        return None
    cut = replace(plan, part_columns=columns)
    if not _keeps_order(plan, cut, target):
        return None
    return Share(plan.vector_axis, cut.panels_of_run, cut.panels, columns)


def even_rows(plan: ContractPlan, threads: int, target: Target) -> Share | None:
    """Return a share in which each thread has as many rows, where tiles begin anew.

    None if there is none: a part has the scratch memory of the whole.
    """
    rows, rest = divmod(plan.rows, threads)
    if has_digits(plan) or rest or rows < plan.tile_rows:
        return None
    cut = _cut_in_rows(plan, rows)
    if not _keeps_order(plan, cut, target) or scratch_bytes(cut) > scratch_bytes(plan):
        return None
    return Share("m" if plan.vector_axis == "n" else "n", cut.tiles_of_run, cut.row_tiles, rows)


def part_cycles(plan: ContractPlan, share: Share) -> float:
    """Return which share of the cycles of all tiles those of a part of an even `share` take."""
    assert share.by is not None, "parts are even"
    rows, columns = plan.rows, plan.columns
    if share.axis == plan.vector_axis:
        part = _tiling(plan, rows, share.by)
    else:
        part = _tiling(plan, share.by, columns)
    return part / _tiling(plan, rows, columns)


def in_parts(plan: ContractPlan, share: Share, target: Target) -> ContractPlan:
    """Return `plan` for threads that have as many columns or rows each as an even `share` says.

    What a thread reads of the right may stay in its near cache where the whole would not.
    """
    assert share.by is not None, "parts are even"
    if share.axis != plan.vector_axis:
        return _cut_in_rows(plan, share.by)
    cut = replace(plan, part_columns=share.by)
    cut = replace(cut, block_panels=min(plan.block_panels, cut.panels_of_part))
    cut = replace(cut, packs_late=packs_late(cut, target))
    return with_prefetching(cut, target)


def _cut_in_rows(plan: ContractPlan, rows: int) -> ContractPlan:
    """Return `plan` with tiles that begin anew every so many rows; no block has more of them."""
    tiles = -(-rows // plan.tile_rows)
    cut = replace(plan, part_rows=rows, tile_rows=-(-rows // tiles))
    return replace(
        cut, band_tiles=min(plan.band_tiles, tiles), block_tiles=min(plan.block_tiles, tiles)
    )


def _keeps_order(plan: ContractPlan, cut: ContractPlan, target: Target) -> bool:
    """Return whether tiles add up their sums in the order of k, whole and in parts.

    Narrow and low ones of other methods, or with several chains, have another order.
    """
    if plan.method != "tile" or plan.borders:
        return False
    heights = {high - low for high in (plan.tile_rows, cut.tile_rows) for low in (0, 1)} - {0}
    widths = {plan.tile_columns, plan.edge_columns, cut.edge_columns} - {0}
    turns = (turns_of(plan, target, h, w) for h in heights for w in widths)
    return all(chains == 1 for chains, _ in turns)


def _tiling(plan: ContractPlan, rows: int, columns: int) -> float:
    """Return the cycles of the microkernels over so many rows and columns."""
    vectors, wide = plan.tile_columns // plan.lanes, -(-columns // plan.lanes)
    return tiling_cycles(rows, wide, plan.tile_rows, vectors, plan.k)
