"""Loop unrolling of folds that take a few rows at a time: each row has loads of its own."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.carrying import Carry, emit_carrying, emit_unrolled
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.few_rows import takes_few_rows
from symgrad.codegen.loops.language import Fold


def emit_steps(
    scope: KernelScope, fold: Fold, start: int, initial: Sequence[ir.Value], step: Carry
) -> Sequence[ir.Value]:
    """Emit the steps of a fold from `start` on, one at a time; return what they come to."""
    bounds = start, fold.extent, 1
    sizes = {name: param.dtype.itemsize for name, param in scope.params.items()}
    if takes_few_rows(scope.around, scope.vector.variable, fold, sizes):
        return emit_unrolled(scope, fold.var, bounds, initial, step)
    return emit_carrying(scope, fold.var, bounds, initial, step, lifting=scope.lifting)
