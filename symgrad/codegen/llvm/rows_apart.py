"""Loop unrolling of folds that take a few rows at a time, with vectors along the rows.

    for i in 0..1024 ordered {
      for j in 0..1024 vector(64) {
        fold s: f32 = 0.0 for k in 0..8 { ... x[8192*i + j + 1024*k] ... }
        ...
      }
    }

A processor fetches ahead by what each load instruction read before. In a loop over rows one
instruction reads them all, a row further at each step and back again for the next vector: nothing
follows that. Without the loop each row has instructions of its own, which walk along it. Rows that
another loop has read before are near, and those of one vector are side by side: they keep the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.carrying import Carry, emit_carrying, emit_unrolled
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.access import body_flops
from symgrad.codegen.loops.language import Fold, For, Plain
from symgrad.codegen.loops.rewrite import accesses, buffers_used
from symgrad.cost_model import BYTES_BETWEEN_ROWS, MOST_UNROLLED, ROWS_TOGETHER


def emit_steps(
    scope: KernelScope, fold: Fold, start: int, initial: Sequence[ir.Value], step: Carry
) -> Sequence[ir.Value]:
    """Emit the steps of a fold from `start` on, one at a time; return what they come to."""
    bounds = start, fold.extent, 1
    if takes_few_rows(scope, fold):
        return emit_unrolled(scope, fold.var, bounds, initial, step)
    return emit_carrying(scope, fold.var, bounds, initial, step, lifting=scope.lifting)


def takes_few_rows(scope: KernelScope, fold: Fold) -> bool:
    """Return whether a fold is over a few rows apart that come from memory, and walked along."""
    along, around = scope.vector.variable, scope.around
    if around is None or along in {None, fold.var} or not 1 < fold.extent <= ROWS_TOGETHER:
        return False
    statements = (*fold.body, *fold.combine)
    is_plain = all(isinstance(s, Plain) for s in statements)
    if not is_plain or body_flops(statements) * fold.extent > MOST_UNROLLED:
        return False
    loops = [s for s in around.body if isinstance(s, For) and s.var == along]
    others = [s for s in around.body if s not in loops]
    near = set().union(*buffers_used(others))
    sizes = (
        abs(index.coefficient(fold.var)) * scope.params[buffer].dtype.itemsize
        for buffer, index in accesses(fold.body)
        if index.coefficient(along) == 1 and buffer not in near
    )
    is_walked = any(loop.extent > loop.vector for loop in loops)
    is_apart = max(sizes, default=0) >= BYTES_BETWEEN_ROWS
    return is_walked and is_apart
