"""Planning packed windows: the left of a gradient to a kernel, whose rows are channels of pixels.

In it each pixel is a step of k for each place in a window, as far apart from the next one as pixels
are. So a block of k reads the pixels of some lines of images, which are copied once, some channels
side by side, and all places in a window are read from that.
"""

from __future__ import annotations

import math
from dataclasses import replace

from symgrad.codegen.contract.plan import ContractPlan
from symgrad.codegen.loops.strided import walk
from symgrad.codegen.target import MemoryHierarchy
from symgrad.cost_model import (
    FEW_READS,
    LEAST_CHANNELS_PACKED,
    LEAST_TERMS,
    MOST_PIXELS_A_TERM,
    SUM_AT_ONCE,
    WINDOW_TERMS,
)


def with_windows(plan: ContractPlan, memory: MemoryHierarchy) -> ContractPlan | None:
    """Return `plan` with windows of the left to be packed, if it has some and they are read often.

    Their rows are channels, side by side, and all else is a multiple of how many these are: runs of
    rows are cut to that.
    """
    left = plan.left
    above = [by for _, by in (*left.row_digits, *left.column_digits)]
    strides = [left.column_stride, *above]
    is_across = left.row_stride == 1 and bool(left.column_digits)
    if not is_across or plan.lacks_padding or min(strides) <= 0 or plan.k == 0:
        return None
    channels = math.gcd(plan.row_run, *strides)
    is_wide = min(channels, plan.columns) >= LEAST_CHANNELS_PACKED
    if not is_wide or plan.rows < FEW_READS * channels:
        return None
    digits = left.row_digits
    if channels < plan.row_run:
        digits = ((channels, channels), *digits)
    windows = replace(plan, lhs=replace(left, row_digits=digits), pack_left="windows")
    terms = _block_terms(windows, memory)
    windows = replace(windows, block_k=terms)
    is_dense = windows.window_pixels <= MOST_PIXELS_A_TERM * terms
    return windows if terms >= LEAST_TERMS and is_dense else None


def _block_terms(plan: ContractPlan, memory: MemoryHierarchy) -> int:
    """Return how many terms are a block of k: all, or whole digits below and an even part of one.

    Of many those are taken whose pixels stay in the second-level cache.
    """
    if plan.k <= SUM_AT_ONCE:
        return plan.k
    walked = walk(plan.left.column_stride, plan.left.column_digits, plan.k)
    sizes = [
        place * count
        for place, size, _ in walked
        for count in range(1, size + 1)
        if size % count == 0 and LEAST_TERMS <= place * count <= WINDOW_TERMS
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
