"""Lambda lifting of a GEMM: what differs between products whose loops are the same is passed.

    define void @"k0"(ptr %.0, ptr %.1, ptr %.2, i64 %.3, ptr %.4, i64 %.5)
    call void @"k0"(ptr %.6, ptr %.7, ptr %.8, i64 64, ptr @"contract.tile", i64 6)

How many tiles there are, how high they are, how many terms a sum has, and so which microkernels
are called: a function of a small product takes these, so batches of many sizes have one. Large
products, which prefetch memory ahead, are compiled for their sizes.
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.strided import Diagonals
from symgrad.codegen.target import Target
from symgrad.cost_model.products import MOST_HELD_ROWS
from symgrad.records import dataclass, replace

# Returns a parameter for which calls pass a value, or that value.
Lift = Callable[[ir.Value], ir.Value]


def unlifted(value: ir.Value) -> ir.Value:
    """Return `value`: it is the same in all calls."""
    return value


def can_lift(plan: ContractPlan) -> bool:
    """Return whether the loops of `plan` are the same for other sizes."""
    prefetches = (
        plan.prefetches_next or plan.prefetches_panel or plan.prefetches_block or plan.next_source
    )
    is_plain = plan.method in ("tile", "split", "held") and not plan.borders
    is_plain = is_plain and plan.pack_left == "none"
    is_even = plan.tiles_of_run == plan.row_tiles and not plan.has_pieces
    reads_ahead = prefetches or plan.met > 0 or plan.keeps_rows or plan.goes_on is not None
    return is_plain and is_even and plan.k_blocks == 1 and not reads_ahead


def most_tile_elements(plan: ContractPlan, target: Target) -> int:
    """Return how many sums the largest tile with the loops of `plan` has.

    It is in registers before it is stored, but for one of a held right, of which some rows are.
    One of split vectors is stored as twice as many vectors where each register has two rows.
    """
    rows_of = {"held": MOST_HELD_ROWS, "split": 2 * target.vector_registers}
    most = rows_of.get(plan.method, target.vector_registers) * plan.lanes
    assert plan.tile_elements <= most, f"a tile of {plan} is more than the {most} sums kept for it"
    return most


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """Numbers of a plan: of its tiles, of the high ones, of the rows of these, and of terms.

    Then those that bound the diagonal lines of the left, if zeros are beside a diagonal, and those
    of the results that are read, if not all are.
    """

    row_tiles: ir.Value
    tall_tiles: ir.Value
    tile_rows: ir.Value
    k: ir.Value
    diagonal: tuple[ir.Value, ir.Value] | None
    read: tuple[ir.Value, ir.Value] | None


def shifted(builder: ir.IRBuilder, sizes: PlanSizes, shift: ir.Value) -> PlanSizes:
    """Return `sizes` with diagonals that lie `shift` further on."""

    def moved(bounds: tuple[ir.Value, ir.Value] | None) -> tuple[ir.Value, ir.Value] | None:
        return bounds and (builder.add(bounds[0], shift), builder.add(bounds[1], shift))

    return replace(sizes, diagonal=moved(sizes.diagonal), read=moved(sizes.read))


def plan_sizes(plan: ContractPlan, lift: Lift) -> PlanSizes:
    """Return the numbers of `plan`, lifted where loops are written for any of them."""
    are_some, are_high = plan.row_tiles > 1, plan.tile_rows > 2
    is_mixed = plan.tall_tiles < plan.tiles_of_run
    diagonal = plan.diagonal
    bounds = None if diagonal is None else (diagonal.first, diagonal.stop)
    return PlanSizes(
        row_tiles=_lifted(lift, plan.row_tiles, are_some),
        tall_tiles=_lifted(lift, plan.tall_tiles, are_some and is_mixed),
        tile_rows=_lifted(lift, plan.tile_rows, are_high),
        k=_lifted(lift, plan.k, plan.k > 0),
        diagonal=_lifted_bounds(lift, bounds),
        read=_lifted_bounds(lift, plan.read),
    )


def _lifted_bounds(lift: Lift, bounds: Diagonals | None) -> tuple[ir.Value, ir.Value] | None:
    return None if bounds is None else (lift(index(bounds[0])), lift(index(bounds[1])))


def _lifted(lift: Lift, size: int, is_any: bool) -> ir.Value:
    return lift(index(size)) if is_any else index(size)
