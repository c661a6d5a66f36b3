"""Register pressure in folds: the vectors of a step one after another, where registers hold sums.

A fold in lanes carries more vectors than one. LLVM takes a step of all of them operation by
operation, and has to spill what it computes where sums fill most registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.prefetching import emit_prefetch_in_fold
from symgrad.codegen.llvm.scope import KernelScope, Vector
from symgrad.codegen.loops.language import Fold
from symgrad.codegen.schedule.interleave import vectors_in_turn
from symgrad.codegen.vectors import joined, part_of
from symgrad.records import replace

_Step = Callable[[KernelScope, Sequence[ir.Value]], list[ir.Value]]


def emit_in_turn(
    scope: KernelScope, fold: Fold, carried: Sequence[ir.Value], step: _Step
) -> list[ir.Value]:
    """Emit a step of a fold, for each vector register by itself if registers hold no more.

    What it prefetches, lines of all of them, is before these.
    """
    emit_prefetch_in_fold(scope, fold)
    width, count = scope.vector.width, vectors_in_turn(fold, scope.target)
    if scope.vector.variable != fold.var or scope.written_out is not None or count == 1:
        return step(scope, carried)
    size = width // count
    builder, first = scope.builder, scope.indices[fold.var]
    narrow = replace(scope, vector=Vector(fold.var, size))
    parts: list[list[ir.Value]] = []
    for start in range(0, width, size):
        at = builder.add(first, ir.Constant(first.type, start), flags=("nuw", "nsw"))
        given = [part_of(builder, vector, start, size) for vector in carried]
        parts.append(step(narrow.inside(fold.var, at), given))
    return [joined(builder, vectors, size) for vectors in zip(*parts, strict=True)]
