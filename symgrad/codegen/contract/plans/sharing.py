"""Parallel GEMM: along which axis of the result threads share it, and how much is for a thread.

Only tiles of the result are shared out, never the terms of a sum, so each element is added up in
the one order of the plan. Each thread packs what it reads itself: what lies along the axis is
packed once in all, the other operand once by each thread.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.contract.methods import Axis
from symgrad.codegen.contract.plans.pairs import multiplying_cycles
from symgrad.codegen.contract.plans.parts import even_columns, even_rows, part_cycles
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.blocking import Share
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model import LEAST_EVENED
from symgrad.cost_model.products import packing_cycles, reading_cycles
from symgrad.records import dataclass


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

    It may be cut within a panel or a tile: then these begin anew in each part.
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
    even = even_columns(plan, threads, target)
    if even is not None:
        longest = multiply * part_cycles(plan, even) + right / threads + left
        ways.append((even, serial / longest / LEAST_EVENED))
    # Of equals the first: panels, whose packed block is the larger one.
    best, speed_up = max(ways, key=lambda way: way[1])
    return (_evened(plan, best, threads, target) if best.axis == other else best), speed_up


def _evened(plan: ContractPlan, share: Share, threads: int, target: Target) -> Share:
    """Return a share in rows with tiles that begin anew in each part, if that is more even.

    The first tiles are a row higher than the last ones, and there may be one more in a part.
    """
    even = even_rows(plan, threads, target)
    if even is None:
        return share
    longest = _rows_of(plan, share.tiles)
    return even if longest >= LEAST_EVENED * part_cycles(plan, even) else share


def _rows_of(plan: ContractPlan, tiles: int) -> float:
    """Return which share of the rows the first `tiles` have."""
    runs, rest = divmod(tiles, plan.tiles_of_run)
    low = max(0, rest - plan.tall_tiles)
    return (runs * plan.row_run + rest * plan.tile_rows - low) / plan.rows


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
