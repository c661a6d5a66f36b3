"""Triangular results: of tiles beside a diagonal the vectors are computed that something reads.

    rows 0 to 5      # . . .        scores of a causal attention, in vectors of 16 keys: what is
    rows 24 to 29    # # . .        behind all queries of a tile a mask leaves out, whatever it is

A tile then has a microkernel of as many vectors. It adds up the terms in the same order.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.diagonal import clamped
from symgrad.codegen.contract.elements import index
from symgrad.codegen.contract.lifted import PlanSizes, can_lift
from symgrad.codegen.contract.plans.packing import packs_within
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.unrolling import turns_of
from symgrad.codegen.loops.strided import Diagonals
from symgrad.codegen.target import Target
from symgrad.cost_model.products import LEAST_UNREAD, choosing_cycles
from symgrad.records import replace


def with_unread(plan: ContractPlan, read: Diagonals | None, target: Target) -> ContractPlan:
    """Return `plan` with tiles of those vectors that are `read`, if it gains by that.

    Its vectors are whole ones, of sums that are each one chain, and its loops are those of products
    of any size, which are told where the diagonal is.
    """
    if read is None or plan.diagonal is not None or plan.method != "tile" or not can_lift(plan):
        return plan
    is_even = plan.columns % plan.lanes == 0 and plan.column_run % plan.lanes == 0
    is_float = plan.compute == plan.dtype and plan.compute.is_float
    are_plain = not packs_within(plan) and plan.next_steps is None and plan.k > 0
    chains, _ = turns_of(plan, target, plan.tile_rows, plan.tile_columns)
    if not (is_even and is_float and are_plain and chains == 1):
        return plan
    told = replace(plan, read=read if plan.vector_axis == "n" else (1 - read[1], 1 - read[0]))
    tiles = plan.row_tiles * plan.panels
    vectors, unread = plan.row_tiles * plan.columns // plan.lanes, _unread_vectors(told)
    gained = unread * plan.tile_rows * plan.k / 2
    pays = unread >= LEAST_UNREAD * vectors and gained > choosing_cycles(tiles)
    return told if pays else plan


def _unread_vectors(plan: ContractPlan) -> int:
    """Return how many vectors of all tiles are not computed."""
    assert plan.read is not None, "all results are read"
    (first, stop), total = plan.read, 0
    for tile in range(plan.row_tiles):
        row = tile * plan.tile_rows
        begin = min(max(row + first, 0), plan.columns) // plan.lanes
        end = min(max(row + plan.tile_rows - 1 + stop, 0), plan.columns)
        total += plan.columns // plan.lanes - max(0, -(-end // plan.lanes) - begin)
    return total


def emit_read_vectors(
    builder: ir.IRBuilder,
    plan: ContractPlan,
    sizes: PlanSizes,
    rows: tuple[ir.Value, ir.Value],
    columns: tuple[ir.Value, ir.Value],
) -> tuple[ir.Value, ir.Value]:
    """Return which column of a tile is the first of its vectors to compute, and how many these are.

    Given are its first row and column, and how many it has of both.
    """
    assert sizes.read is not None, "all results are read"
    (row, height), (column, width), (first, stop) = rows, columns, sizes.read
    ahead = builder.sub(row, column)
    last = builder.add(builder.add(ahead, builder.sub(height, index(1))), stop)
    begin = clamped(builder, builder.add(ahead, first), index(0), width)
    end = clamped(builder, last, index(0), width)
    lanes = index(plan.lanes)
    begin = builder.udiv(begin, lanes)
    end = builder.udiv(builder.add(end, index(plan.lanes - 1)), lanes)
    return builder.mul(begin, lanes), builder.sub(end, begin)
