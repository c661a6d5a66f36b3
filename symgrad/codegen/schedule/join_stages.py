"""Loop fusion within a stage of a row: what several loops along it read is read by one of them.

    for k in 0..1024 vector(16) { ... y[1024*i + k] = x[1024*i + k] * t0 }
    fold s: f32 = 0.0 for l in 0..1024 lanes(32) { ... x[1024*i + l] * g[1024*i + l] ... }

becomes

    fold s: f32 = 0.0 for k in 0..1024 lanes(32) {
      ... y[1024*i + k] = x[1024*i + k] * t0
      ... x[1024*i + k] * g[1024*i + k] ...
    }

Loops of a stage wait for no fold of one another (`distribute_rows.py`). Where they read the same,
one loop reads it once, and has to compute with it once what each of them did, as far as registers
hold what all of them carry. Rows that are pipelined have such loops anyway. No result changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from symgrad.codegen.loops.language import (
    Fold,
    For,
    Index,
    Let,
    Load,
    Loop,
    Product,
    Reduction,
)
from symgrad.codegen.loops.rewrite import substitute_variable
from symgrad.codegen.schedule.stage_parts import (
    StageBody,
    StagePart,
    carried_vectors,
    joined_folds,
)
from symgrad.codegen.target import Target
from symgrad.cost_model import SHARE_HELD
from symgrad.records import replace


def join_stage(stage: StageBody, row: str, number: int, target: Target) -> StageBody:
    """Return stage `number` of each `row` with one loop along it, if loops of it read the same."""
    loops = [s for s in stage if isinstance(s, Loop) and not isinstance(s, Product)]
    column = f"{row}.column{number}"
    if not any(_read(a, column) & _read(b, column) for a, b in combinations(loops, 2)):
        return stage
    part = StagePart(stage, column)
    if not part.is_one_loop:
        return stage
    extents = {extent for extent, _ in part.shapes}
    lanes = {count for _, count in part.shapes if count}
    if len(lanes) > 1 or len(extents) > 1 or any(min(extents) % count for count in lanes):
        return stage
    part.move(row, row, {}, 1, ending=column)
    if carried_vectors((part,), max(lanes, default=1), target) > (
        SHARE_HELD * target.vector_registers
    ):
        return stage
    return *part.before, _one_loop(part, loops, column), *part.after


def _read(loop: For | Reduction, column: str) -> set[Load]:
    """Return what a loop reads along a row."""
    at = Index(0, ((column, 1),))
    loads = (s.value for s in loop.body if isinstance(s, Let) and isinstance(s.value, Load))
    return {
        replace(load, index=substitute_variable(load.index, loop.var, at))
        for load in loads
        if load.index.coefficient(loop.var)
    }


def _one_loop(part: StagePart, loops: Sequence[For | Reduction], column: str) -> For | Fold:
    if part.folds:
        return joined_folds((part,), column, loops[0].extent, part.folds[0].lanes)
    vector = min(s.vector for s in loops if isinstance(s, For))
    prefetches = any(isinstance(s, For) and s.prefetches for s in loops)
    return For(column, loops[0].extent, tuple(part.inside), vector, prefetches=prefetches)
