"""Parallel GEMM: along which axis of the result threads share it, and how much is for a thread.

Only tiles of the result are shared out, never the terms of a sum, so each element is added up in
the one order of the plan. Each thread packs what it reads itself: what lies along the axis is
packed once in all, the other operand once by each thread.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.contract.pair_planning import multiplying_cycles
from symgrad.codegen.contract.part_planning import part_columns, part_cycles
from symgrad.codegen.contract.plan import Axis, ContractPlan
from symgrad.codegen.loops.blocking import Share
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model import LEAST_EVENED, packing_cycles, reading_cycles
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class TileRegion:
    """A part of the tiles of a result: from where to where, in tiles and in panels."""

    tiles: tuple[ir.Value, ir.Value]
    panels: tuple[ir.Value, ir.Value]


def whole_region(plan: ContractPlan, row_tiles: ir.Value) -> TileRegion:
    """Return all of the result, which has so many tiles below each other."""
    return TileRegion((index(0), row_tiles), (index(0), index(plan.panels)))


def part_region(
    builder: ir.IRBuilder,
    plan: ContractPlan,
    share: Share,
    numbers: tuple[ir.Value, ir.Value],
) -> TileRegion:
    """Return some parts of the result, which is cut as `share` says.

    `numbers` are the first of them, and the one behind the last.
    """
    most = plan.tiles_across(share.axis)
    assert share.of == most, f"{share.of} tiles are shared, the plan has {most} along {share.axis}"
    whole = whole_region(plan, index(plan.row_tiles))
    is_across = share.axis == plan.vector_axis
    start, stop = (builder.mul(number, index(share.tiles)) for number in numbers)
    is_inside = builder.icmp_signed("<", stop, index(most))
    part = start, builder.select(is_inside, stop, index(most))
    return TileRegion(whole.tiles, part) if is_across else TileRegion(part, whole.panels)


def choose_share(plan: ContractPlan, threads: int, target: Target) -> tuple[Share, float]:
    """Return how to cut the result, along the better axis, and the speed-up.

    Along vectors it may be cut within a panel: then panels begin anew in each part.
    """
    other: Axis = "m" if plan.vector_axis == "n" else "n"
    multiply = plan.rows * plan.columns * plan.k / plan.lanes / 2
    if plan.multiplies_pairs:
        multiply = multiplying_cycles(plan)
    ways_to_pack = zip((plan.pack_left, plan.pack_right), plan.packed_elements, strict=True)
    left, right = (packing_cycles(how, elements) for how, elements in ways_to_pack)
    reading = _reading(plan, target.memory)
    left, right = left + reading[0], right + reading[1]
    serial = multiply + left + right
    ways: list[tuple[Share, float]] = []
    for axis, tiles, own, whole in (
        (plan.vector_axis, plan.panels, right, left),
        (other, plan.row_tiles, left, right),
    ):
        size = -(-tiles // threads)
        # The last panel of a run may be narrow, and tiles are evenly high.
        is_across = axis == plan.vector_axis
        share = plan.columns_of(size) / plan.columns if is_across else size / tiles
        longest = (multiply + own) * share + whole
        ways.append((Share(axis, size, tiles), serial / longest))
    columns = part_columns(plan, threads, target)
    if columns is not None:
        longest = multiply * part_cycles(plan, columns) + right / threads + left
        size = replace(plan, part_columns=columns).panels_of_run
        speed_up = serial / longest / LEAST_EVENED
        ways.append((Share(plan.vector_axis, size, threads * size, columns), speed_up))
    # Of equals the first: panels, whose packed block is the larger one.
    return max(ways, key=lambda way: way[1])


def _reading(plan: ContractPlan, memory: MemoryHierarchy) -> tuple[float, float]:
    """Return the cycles of bringing the left and the right near, where a near cache has the other.

    Where it has neither, blocks of both are read again and again, however they are shared.
    """
    # Windows overlap: of each, others read all but a piece.
    sizes = plan.rows * plan.k_run, plan.columns * plan.k
    left, right = (size * plan.dtype.itemsize > memory.l2_bytes for size in sizes)
    if left == right:
        return 0.0, 0.0
    return reading_cycles(left * sizes[0]), reading_cycles(right * sizes[1])
