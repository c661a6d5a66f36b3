"""Overlapping last vectors: what a loop leaves over is computed as one more whole vector.

    for i in 0..1000 vector(16) interleave(4) { ... }      at 0, 64, ..., 896, and then at 936

Otherwise its body is emitted once for each width: for 64, 16 and 8 elements. Where it is long, or
calls functions again and again, each of these takes LLVM as long as a thousand runs of the kernel.
And vectors that are computed beside each other, since each waits for itself, take little longer
than one. Elements that are computed twice have the same values, for nothing is read that the loop
writes.
"""

from __future__ import annotations

from symgrad.codegen.kernel_costs import calls_in_a_row
from symgrad.codegen.loops.language import For, Let, Store
from symgrad.codegen.loops.rewrite import buffers_used, index_names, indices
from symgrad.cost_model import LEAST_EMITTED_ONCE, ONE_REPEATED_OF


def repeats_elements(loop: For, width: int, *, calls: bool) -> bool:
    """Return whether the last `width` iterations of a loop are taken together, some of them again.

    So they are if the loop `calls` functions, or is long, and what is left over would hardly take
    less time in narrower vectors.
    """
    is_much = calls or len(loop.body) >= LEAST_EMITTED_ONCE
    if not is_much or loop.extent % width == 0 or loop.extent < width or not _may_repeat(loop):
        return False
    vectors, left = divmod(loop.extent % width, loop.vector)
    narrower = 0 if left == 0 else 1
    taken = width // loop.vector
    if calls and calls_in_a_row(loop.body):
        taken = min(taken, 2)  # four that wait for their calls together take no longer
    more = taken - vectors - narrower
    return more * ONE_REPEATED_OF <= loop.extent // loop.vector


def _may_repeat(loop: For) -> bool:
    """Return whether iterations may be taken twice, and vectors of them begin anywhere."""
    if loop.vector == 1 or loop.ordered or loop.prefetches:
        return False
    for statement in loop.body:
        if isinstance(statement, Store):
            if statement.is_streamed:
                return False
        elif not isinstance(statement, Let):
            return False
    loaded, stored = buffers_used(loop.body)
    return loaded.isdisjoint(stored) and all(
        index.coefficient(loop.var) == 1 or loop.var not in index_names(index)
        for index in indices(loop.body)
    )
