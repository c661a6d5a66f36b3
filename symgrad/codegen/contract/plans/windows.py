"""Planning packed windows: the left of a gradient to a kernel, whose rows are channels of pixels.

In it each pixel is a step of k for each place in a window, as far apart from the next one as pixels
are. So a block of k reads the pixels of some lines of images, which are copied once, some channels
side by side, and all places in a window are read from that.
"""

from __future__ import annotations

import math

from symgrad.codegen.contract.operand import LineAxis, Operand, PaddedPixels
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.strided import walk
from symgrad.codegen.target import MemoryHierarchy
from symgrad.cost_model.products import (
    CROWDED_SETS,
    FEW_READS,
    LEAST_CHANNELS_PACKED,
    LEAST_TERMS,
    MOST_PIXELS_A_TERM,
    SUM_AT_ONCE,
    WINDOW_TERMS,
    resuming_cycles,
    waiting_cycles,
)
from symgrad.records import replace


def with_windows(plan: ContractPlan, memory: MemoryHierarchy) -> ContractPlan | None:
    """Return `plan` with windows of the left to be packed, if it has some and they are read often.

    Their rows are channels, side by side, and all else is a multiple of how many these are: runs of
    rows are cut to that. What has its padding in no memory can be read in no other way.
    """
    if plan.lacks_padding:
        return _with_padding(plan, memory)
    left = plan.left
    above = [by for _, by in (*left.row_digits, *left.column_digits)]
    strides = [left.column_stride, *above]
    is_across = left.row_stride == 1 and bool(left.column_digits)
    if not is_across or min(strides) <= 0 or plan.k == 0:
        return None
    channels = math.gcd(plan.row_run, *strides)
    is_wide = min(channels, plan.columns) >= LEAST_CHANNELS_PACKED
    if not is_wide or plan.rows < FEW_READS * channels:
        return None
    digits = left.row_digits
    if channels < plan.row_run:
        digits = ((channels, channels), *digits)
    windows = replace(plan, lhs=replace(left, row_digits=digits), pack_left="windows")
    terms = _block_terms(windows, memory, WINDOW_TERMS)
    windows = replace(windows, block_k=terms)
    is_dense = windows.window_pixels <= MOST_PIXELS_A_TERM * terms
    return windows if terms >= LEAST_TERMS and is_dense else None


def in_place(plan: ContractPlan) -> ContractPlan | None:
    """Return `plan` if its left has no elements in its padding, and channels as rows, else None.

    Tiles of channels are at one place in a window, so they read of each line what is no padding.
    The right is packed, which finds out whether zeros make a difference.
    """
    if not plan.lacks_padding or plan.left.row_stride != 1:
        return None
    return replace(plan, pack_right="copy")


def in_place_cycles(plan: ContractPlan, memory: MemoryHierarchy) -> float:
    """Return the cycles that reading pixels where they lie costs: for their lines, and for sums.

    A block of k is as short as its panel, so sums are resumed often. Lines of its pixels come from
    the second-level cache. Many that fall on a few sets of the first one come again for each tile,
    also those that two tiles share.
    """
    apart = max(abs(plan.left.column_stride) * plan.dtype.itemsize, memory.line_bytes)
    steps = plan.row_tiles * plan.panels * plan.k
    vectors = plan.whole_vectors(plan.columns) // plan.lanes
    resumed = resuming_cycles(plan.k_blocks * plan.rows * vectors)
    if plan.block_k <= CROWDED_SETS * memory.lines_kept(apart):
        return resumed + waiting_cycles("near line", steps)
    lines = 1 + (plan.tile_rows - 1) * plan.dtype.itemsize / memory.line_bytes
    return resumed + waiting_cycles("line", lines * steps)


def _with_padding(plan: ContractPlan, memory: MemoryHierarchy) -> ContractPlan | None:
    """Return a plan whose left has no elements in its padding with windows to be packed.

    None if rows are pixels, not their channels: then tiles leave out the terms.
    """
    if plan.left.row_stride != 1:
        return None
    assert plan.left.column_digits, f"the pixels of {plan.left} are one line of one image"
    padding = _padding(plan)
    windows = replace(plan, pack_left="windows", padding=padding, borders=())
    terms = _block_terms(windows, memory, WINDOW_TERMS) or _block_terms(windows, memory, plan.k)
    return replace(windows, block_k=terms)


def _padding(plan: ContractPlan) -> PaddedPixels:
    """Return how the pixels of the left lie with their padding, from its absent borders.

    Each axis of an image has one, and whatever else there is are digits of the terms. The order is
    that of the terms: an axis is as long as its border says, and a step of the next is all of it.
    """
    left = plan.left
    borders = {border.term_place: border for border in plan.borders}
    of_rows: dict[int, int] = {}
    of_terms: dict[int, int] = {}
    axes: list[LineAxis] = []
    pitch = plan.row_run
    walked = walk(left.column_stride, left.column_digits, plan.k)
    for place, size, by in walked:
        step, count, first, stop = 1, size, 0, size
        if (border := borders.get(place)) is not None:
            step = border.term_step
            count = border.row_step * (border.row_count - 1) + step * (border.term_count - 1) + 1
            first, stop = min(border.first, count), min(border.stop, count)
            of_rows[border.row_place] = border.row_step * pitch
        of_terms[place] = step * pitch
        # Lines are counted in, and so what is above the lowest axis.
        lines = axes[0].count * plan.row_run if axes else plan.row_run
        axes.append(LineAxis(pitch // lines, count, by // step, first, stop))
        pitch *= count
    line, *above = axes
    rows = tuple((place, of_rows[place]) for place, _ in left.row_digits)
    terms = tuple((place, of_terms[place]) for place, _ in left.column_digits)
    operand = Operand(left.row_stride, of_terms[1], left.align, rows, terms)
    return PaddedPixels(operand, line, tuple(above))


def _block_terms(plan: ContractPlan, memory: MemoryHierarchy, most: int) -> int:
    """Return how many terms are a block of k: all, or whole digits below and an even part of one.

    Of many, `most` at most, those are taken whose pixels stay in the second-level cache; 0 if there
    are none.
    """
    if plan.k <= SUM_AT_ONCE:
        return plan.k
    walked = walk(plan.left.column_stride, plan.left.column_digits, plan.k)
    sizes = [
        place * count
        for place, size, _ in walked
        for count in range(1, size + 1)
        if size % count == 0 and LEAST_TERMS <= place * count <= most
    ]
    near = [size for size in sizes if _bytes_of(replace(plan, block_k=size)) <= memory.l2_bytes]
    return max(near, default=min(sizes, default=0))


def window_tiles(plan: ContractPlan, memory: MemoryHierarchy) -> int:
    """Return how many tiles are a block: all that read the same channels, of as many as stay near.

    Those are whole lines of pixels; in blocks of k, which are chosen so, all of them.
    """
    if plan.k_blocks > 1:
        return plan.row_tiles
    line = memory.line_bytes // plan.dtype.itemsize
    tile_bytes = plan.packed_tile_elements * plan.compute.itemsize
    channels = memory.l2_bytes * 3 // 4 // tile_bytes * plan.tile_rows
    channels = max(channels // line * line, line)
    return min(plan.row_tiles, -(-channels // plan.tile_rows) * plan.runs)


def _bytes_of(plan: ContractPlan) -> int:
    return plan.window_pixels * plan.row_run * plan.compute.itemsize
