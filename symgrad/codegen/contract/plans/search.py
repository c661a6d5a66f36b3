"""Search for a GEMM plan: every way to compute a contraction is planned, and the cheapest taken.

Ways differ in the axis along the vectors, in the width of the tile, and in whether lanes are
columns of the result or terms of a sum. Sizes of blocks follow from caches, ways of packing from
strides. Nothing depends on values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.plans.blocks import (
    choose_blocks,
    has_digits,
    with_short_blocks,
)
from symgrad.codegen.contract.plans.borders import share_outside, with_borders
from symgrad.codegen.contract.plans.held import can_hold_right, held_cycles, plan_held
from symgrad.codegen.contract.plans.packing import (
    is_far,
    lines_further,
    pack_panels,
    reads_late,
    with_packed_left,
)
from symgrad.codegen.contract.plans.pairs import (
    can_multiply_pairs,
    multiplying_cycles,
    plan_pairs,
)
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.prefetching import with_prefetching
from symgrad.codegen.contract.plans.split import (
    can_split_vectors,
    plan_split,
    split_cycles,
)
from symgrad.codegen.contract.plans.terms import choose_block_k
from symgrad.codegen.contract.plans.windows import (
    in_place,
    in_place_cycles,
    with_windows,
)
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model.products import (
    FEW_STREAMS,
    MANY_PANELS,
    NEARLY_CHEAPEST,
    SHORT_OPERAND,
    dotting_cycles,
    epilogue_cycles,
    packing_cycles,
    resuming_cycles,
    tiling_cycles,
    waiting_cycles,
)
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.records import replace


@lru_cache(maxsize=4096)
def plan_contract(
    m: int,
    n: int,
    k: int,
    dtype: DType,
    lhs: Operand,
    rhs: Operand,
    result: Operand,
    target: Target,
    *,
    streams: int = 1,
    borders: tuple[ZeroBorder, ...] = (),
    only_tiles: bool = False,
) -> ContractPlan:
    """Decide how to compute the `m` by `n` sums of `k` products of `lhs` and `rhs`.

    `result` has the strides the epilogue will mostly store with, and `streams` is how many buffers
    of the size of the result it reads and writes. `lhs` is 0 in its `borders`, or not there.
    No vectors are split and no right is held if there are to be `only_tiles`.
    """
    assert min(m, n, k) >= 0, f"sizes of a contraction are not negative: {m}, {n}, {k}"
    assert dtype.is_float or dtype.is_integer, f"no contraction of {dtype}"
    compute = _computing_dtype(dtype)
    start = ContractPlan(
        m=m,
        n=n,
        k=k,
        dtype=dtype,
        accumulate=dtypes.float32 if dtype.is_half else dtype,
        lhs=_canonical(lhs, m, k),
        rhs=_canonical(rhs, k, n),
        vector_axis="n",
        vector_width=1,
        compute=compute,
        lanes=target.lanes(compute.itemsize),
        method="tile",
        tile_rows=1,
        tile_columns=1,
        band_tiles=1,
        block_tiles=1,
        block_panels=1,
        block_k=1,
        pack_left="none",
        pack_right="none",
        packed_terms=1,
        rows_first=False,
        borders=tuple(border for border in borders if border.absent),
    )
    if m == 0 or n == 0:
        return start
    ways = _ways(start, _canonical(result, m, n), target, borders)
    others = ("split", "held") if only_tiles else ()
    cycles, cheapest = _cheapest([way for way in ways if way[1].method not in others])
    chosen = choose_blocks(cheapest, target)
    rows_first = _serves_result(chosen, streams, target.memory)
    chosen = replace(chosen, rows_first=rows_first, cycles=cycles)
    return with_prefetching(chosen, target)


def _cheapest(ways: Sequence[tuple[float, ContractPlan]]) -> tuple[float, ContractPlan]:
    """Return the cheapest way, of equals the first: lanes along n.

    Where a tile is a whole run of rows, registers are left and widths hardly differ: then one is
    taken whose panels are all as wide, if there are many, since threads share these evenly.
    """
    cycles, cheapest = min(ways, key=lambda way: way[0])
    if not cheapest.edge_columns or not _is_of_runs(cheapest):
        return cycles, cheapest
    even = [
        (cost, plan)
        for cost, plan in ways
        if cost <= NEARLY_CHEAPEST * cycles
        and _is_of_runs(plan)
        and plan.edge_columns == 0
        and plan.panels >= MANY_PANELS
    ]
    return min(even, key=lambda way: way[0], default=(cycles, cheapest))


def _is_of_runs(plan: ContractPlan) -> bool:
    """Return whether each tile is a run of rows, of which there are several."""
    return plan.method == "tile" and plan.tile_rows == plan.row_run < plan.rows


def _ways(
    plan: ContractPlan, result: Operand, target: Target, borders: tuple[ZeroBorder, ...]
) -> list[tuple[float, ContractPlan]]:
    """Return all plans of a contraction, and their costs."""
    if ways := _ways_by_channels(plan, result, target):
        return ways
    turned = replace(plan, vector_axis="m")
    ways = _plan_tiles(
        with_packed_left(plan, target), result.column_stride, target, borders=borders
    )
    if not plan.borders:
        least = min((cycles for cycles, _ in ways), default=math.inf)
        packed = with_packed_left(turned, target)
        ways += _plan_tiles(packed, result.row_stride, target, least)
    if plan.k > 0 and min(plan.m, plan.n) <= SHORT_OPERAND and not has_digits(plan):
        ways.append(_plan_dots(plan, result.column_stride, target))
        ways.append(_plan_dots(turned, result.row_stride, target))
    for way, stride in ((plan, result.column_stride), (turned, result.row_stride)):
        if stride == 1 and can_split_vectors(way, target):
            width = _choose_width(way.columns, way.lanes)
            shape = replace(plan_split(way, target), vector_width=width)
            ways.append((split_cycles(shape) + _surrounding_cycles(shape, stride), shape))
        if can_hold_right(way, target):
            width = _choose_width(way.columns, way.lanes)
            shape = replace(plan_held(way), vector_width=width)
            ways.append((held_cycles(shape) + _surrounding_cycles(shape, stride), shape))
    if can_multiply_pairs(plan, target) and not has_digits(plan):
        for way, stride in ((plan, result.column_stride), (turned, result.row_stride)):
            shape = plan_pairs(way, target)
            cycles = multiplying_cycles(shape) + _surrounding_cycles(shape, stride)
            ways.append((cycles, shape))
    return ways


def _ways_by_channels(
    plan: ContractPlan, result: Operand, target: Target
) -> list[tuple[float, ContractPlan]]:
    """Return the plans of a gradient to a kernel whose rows are channels: windows are packed.

    Or pixels without padding are read where they are.
    """
    ways: list[tuple[float, ContractPlan]] = []
    windows = with_windows(plan, target.memory)
    if windows is not None:
        packed = tuple(replace(border, absent=False) for border in plan.borders)
        ways += _plan_tiles(windows, result.column_stride, target, borders=packed)
    unpacked = in_place(plan)
    if unpacked is not None:
        ways += [
            (cycles + in_place_cycles(way, target.memory), way)
            for cycles, way in _plan_tiles(
                unpacked, result.column_stride, target, borders=plan.borders
            )
        ]
    return ways


def _serves_result(plan: ContractPlan, streams: int, memory: MemoryHierarchy) -> bool:
    """Return whether tiles follow one another along the rows of the result, not down its columns.

    That is the order in which the epilogue meets its buffers element after element. It is taken
    where it costs nothing, since the first-level cache holds the right, or where the epilogue
    moves more than the tiles read of a right that the second-level cache holds.
    """
    right_bytes = plan.k * plan.columns * plan.compute.itemsize
    return right_bytes <= (memory.l1_bytes if streams <= FEW_STREAMS else memory.l2_bytes)


def _canonical(operand: Operand, rows: int, columns: int) -> Operand:
    """Give an axis of one element the stride 1: any is right and 1 is easiest to serve."""
    row = operand.row_stride if rows > 1 else 1
    column = operand.column_stride if columns > 1 else 1
    return replace(operand, row_stride=row, column_stride=column)


def _computing_dtype(dtype: DType) -> DType:
    """Return what registers hold: small integers wrap around when they are cut in the end."""
    if dtype.is_half:
        return dtypes.float32
    if dtype.is_integer and dtype.bits < 32:
        return dtypes.int32
    return dtype


def _plan_tiles(
    plan: ContractPlan,
    stride: int,
    target: Target,
    least: float = math.inf,
    borders: tuple[ZeroBorder, ...] = (),
) -> list[tuple[float, ContractPlan]]:
    """Return plans with lanes along the columns, for widths of the tile, and their costs.

    `stride` is that of the result along its columns. Of `borders` tiles leave out terms. Branch
    and bound: a width whose tiles and epilogue alone cost much more than `least`, or than another
    width, is left out; so the cheapest tiles come first.
    """
    memory = target.memory
    width, row_run = _choose_width(plan.column_run, plan.lanes), plan.row_run
    after = epilogue_cycles(plan.rows, plan.columns, width, stride)
    ways = []
    for cycles, across, highest in sorted(_tile_shapes(plan, target)):
        if cycles * share_outside(borders) + after > NEARLY_CHEAPEST * least:
            break
        tiles = -(-row_run // highest)
        shape = replace(
            plan,
            vector_width=width,
            tile_rows=-(-row_run // tiles),
            tile_columns=across * plan.lanes,
            block_k=choose_block_k(plan, target, across * plan.lanes),
        )
        packed = with_short_blocks(pack_panels(shape, target), memory)
        cycles *= share_outside(with_borders(packed, borders).borders)
        cycles += _surrounding_cycles(packed, stride)
        if _meets_pages(packed, memory):
            panels = packed.panels if packed.pack_left == "none" else 1
            cycles += waiting_cycles("page", packed.row_tiles * packed.k * panels)
        if packed.panels > 1 and reads_late(packed, target):
            further = lines_further(packed, memory)
            cycles += waiting_cycles("line", packed.row_tiles * packed.panels * packed.k * further)
        if packed.k_blocks > shape.k_blocks:
            cycles += resuming_cycles(packed.k_blocks * packed.rows * _vectors_across(plan))
        ways.append((cycles, packed))
        least = min(least, cycles)
    return sorted(ways, key=lambda way: way[1].tile_columns)


def _tile_shapes(plan: ContractPlan, target: Target) -> Iterator[tuple[float, int, int]]:
    """Yield what the tiles of all rows and columns cost, how many vectors wide and rows high."""
    vectors, row_run = _vectors_across(plan), plan.row_run
    runs = plan.rows // row_run * (plan.columns // plan.column_run)
    pieces = plan.k // max(plan.k_run, 1) if plan.left.column_digits else 0
    apart = abs(plan.left.row_stride) * plan.dtype.itemsize
    memory = target.memory
    is_packed = plan.pack_left in ("copy", "transpose")
    of_line = plan.compute.itemsize / memory.line_bytes if is_packed else 0.0
    is_late = not is_packed and reads_late(plan, target)
    # Rows that lie a page apart fall on one set of the first-level cache, half a page on two.
    are_lines = apart > 0 and apart % memory.line_bytes == 0 and not is_packed
    kept = memory.lines_kept(apart) if are_lines else plan.rows
    # Registers for an element of the left, and for a product where the multiplication and the
    # addition are two instructions.
    spare = 1 if target.has_fma and plan.compute.is_float else 2
    for across in range(1, min(vectors, 8) + 1):
        highest = (target.vector_registers - across - spare) // across
        if plan.rows > kept:
            highest = min(highest, kept)
        if highest < 1:
            return
        highest = _whole_lines(plan, highest, memory)
        part = 1 << (highest.bit_length() - 1)  # of a line, which begins with each tile
        for high in dict.fromkeys((highest, part if is_late and part < plan.rows else highest)):
            cycles = runs * tiling_cycles(
                row_run, vectors, high, across, plan.k, pieces, of_line=of_line
            )
            yield cycles, across, high


def _vectors_across(plan: ContractPlan) -> int:
    """Return how many vectors there are in a row of a run of columns."""
    return -(-plan.column_run // plan.lanes)


def _whole_lines(plan: ContractPlan, highest: int, memory: MemoryHierarchy) -> int:
    """Return how high tiles may be, of at most `highest` rows, that read whole lines of the left.

    Where its rows lie side by side and a vector is a line, a tile of some rows more than a vector
    would read another line in each step of k, and is padded to two where it is packed. Of a left
    that is packed for any width, a step of a tile is one line at the most.
    """
    is_line = plan.lanes * plan.dtype.itemsize == memory.line_bytes
    if plan.pack_left in ("copy", "transpose"):
        return min(highest, memory.line_bytes // plan.compute.itemsize)
    are_beside = is_line and plan.left.row_stride == 1 and not has_digits(plan)
    if not are_beside or highest < plan.lanes or plan.rows <= highest:
        return highest
    return highest // plan.lanes * plan.lanes


def _plan_dots(plan: ContractPlan, stride: int, target: Target) -> tuple[float, ContractPlan]:
    """Return the plan with lanes along k, and its cost."""
    registers = target.vector_registers * 3 // 4
    rows = min(plan.rows, SHORT_OPERAND)
    columns = min(plan.columns, max(1, registers // rows), SHORT_OPERAND)
    if columns < plan.columns:
        # Vectors of the epilogue then divide a tile evenly.
        columns = 1 << (columns.bit_length() - 1)
    rows = min(rows, max(1, registers // columns))
    tiles = -(-plan.rows // rows)
    shape = replace(
        plan,
        method="dot",
        vector_width=_choose_width(columns, plan.lanes),
        tile_rows=-(-plan.rows // tiles),
        tile_columns=columns,
        block_k=-(-plan.k // plan.lanes) * plan.lanes,
        pack_left="none" if plan.left.column_stride == 1 else "lines",
        pack_right="none" if plan.right.row_stride == 1 else "lines",
    )
    steps = -(-plan.k // plan.lanes)
    cycles = dotting_cycles(plan.rows, plan.columns, shape.tile_rows, columns, steps)
    return cycles + _surrounding_cycles(shape, stride), shape


def _surrounding_cycles(plan: ContractPlan, stride: int) -> float:
    """Return the cycles spent around the microkernels: packing before, the epilogue after."""
    ways_to_pack = zip((plan.pack_left, plan.pack_right), plan.packed_elements, strict=True)
    left, right = (packing_cycles(how, elements) for how, elements in ways_to_pack)
    after = epilogue_cycles(plan.rows, plan.columns, plan.vector_width, stride)
    return left + right + after


def _choose_width(columns: int, lanes: int) -> int:
    """Return the width that needs the fewest calls of the epilogue, leftover columns included."""
    widths = [1 << i for i in range(lanes.bit_length())]
    return min(reversed(widths), key=lambda width: columns // width + columns % width)


def _meets_pages(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether a tile waits at each step of k for another page of the left.

    It does not for rows that leave room in the shared cache, and share no set of the first.
    """
    apart = abs(plan.left.column_stride) * plan.dtype.itemsize
    is_near = apart % memory.page_bytes != 0 and plan.k * apart <= memory.shared_bytes // 2
    return plan.left.row_stride == 1 and is_far(plan, memory) and not is_near
