"""Reuse of load instructions: folds that take a few rows at a time, with vectors along the rows.

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
Such folds are emitted without one (`llvm/rows_apart.py`), and remarks say so
(`schedule/reasons.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.codegen.loops.access import body_flops
from symgrad.codegen.loops.language import Fold, For, Plain
from symgrad.codegen.loops.rewrite import accesses, buffers_used
from symgrad.cost_model import BYTES_BETWEEN_ROWS, MOST_UNROLLED, ROWS_TOGETHER


def takes_few_rows(
    around: For | None, along: str | None, fold: Fold, sizes: Mapping[str, int]
) -> bool:
    """Return whether a fold is over a few rows apart that come from memory, and walked along.

    Its vectors are `along` a variable, whose loop is in `around`. `sizes` are those of elements.
    """
    if around is None or along in {None, fold.var} or not 1 < fold.extent <= ROWS_TOGETHER:
        return False
    statements = (*fold.body, *fold.combine)
    is_plain = all(isinstance(s, Plain) for s in statements)
    if not is_plain or body_flops(statements) * fold.extent > MOST_UNROLLED:
        return False
    loops = [s for s in around.body if isinstance(s, For) and s.var == along]
    others = [s for s in around.body if s not in loops]
    near = set().union(*buffers_used(others))
    steps = (
        abs(index.coefficient(fold.var)) * sizes[buffer]
        for buffer, index in accesses(fold.body)
        if index.coefficient(along) == 1 and buffer not in near
    )
    is_walked = any(loop.extent > loop.vector for loop in loops)
    return is_walked and max(steps, default=0) >= BYTES_BETWEEN_ROWS
