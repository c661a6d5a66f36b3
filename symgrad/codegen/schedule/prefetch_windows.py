"""Software prefetch of the next row of windows that a fold reads where they lie.

    for i in 0..54 ordered {
      for c in 0..128 vector(32) {
        fold ... for k in 0..54 { ... x[7168*i + 128*k + c] ... x[7168*i + 128*k + c + 14336] }
      }
    }

becomes

    for i in 0..54 ordered {
      for c in 0..128 vector(32) {
        fold ... for k in 0..54 prefetches { ... }
      }
    }

as in the gradient to the kernel of a depthwise convolution. A fold over pixels reads a piece of
each, which a processor is late to follow: the first pass over a row waits for the one row that is
new, in each buffer, and memory rests while the others are read again. So each step prefetches the
same place of the row that the next iteration reads. It is done where rows come from memory, and one
of each buffer stays in a near cache until it is read. No result changes.
"""

from __future__ import annotations

from symgrad.codegen.loops.language import Fold, For, Kernel, Param, Stmt
from symgrad.codegen.loops.next_rows import next_of_windows
from symgrad.codegen.loops.rewrite import has_loops_in_loops
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model import SHARE_OF_ROWS_PREFETCHED
from symgrad.records import replace


def prefetch_windows(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with folds over windows that no cache has marked to prefetch the next row."""
    if not has_loops_in_loops(kernel.body):
        return kernel
    params = {param.name: param for param in kernel.params}
    body = tuple(_marked(statement, params, target.memory) for statement in kernel.body)
    return replace(kernel, body=body)


def _marked(statement: Stmt, params: dict[str, Param], memory: MemoryHierarchy) -> Stmt:
    if not isinstance(statement, For) or statement.vector > 1:
        return statement
    body: list[Stmt] = []
    for inner in statement.body:
        if isinstance(inner, For) and inner.vector > 1:
            body.append(_with_folds(statement, inner, params, memory))
        else:
            body.append(_marked(inner, params, memory))
    return replace(statement, body=tuple(body))


def _with_folds(around: For, loop: For, params: dict[str, Param], memory: MemoryHierarchy) -> For:
    """Return a loop over vectors with the folds in it that prefetch what `around` reads next."""
    body = (
        replace(s, prefetches=True)
        if isinstance(s, Fold) and _pays(around, loop, s, params, memory)
        else s
        for s in loop.body
    )
    return replace(loop, body=tuple(body))


def _pays(
    around: For, loop: For, fold: Fold, params: dict[str, Param], memory: MemoryHierarchy
) -> bool:
    """Return whether the next row comes from memory, and is still near when it is read."""
    prefetched = next_of_windows(around, loop.var, fold)
    rows = sum(i.coefficient(around.var) * params[b].dtype.itemsize for b, i in prefetched)
    read = sum(params[buffer].nbytes for buffer in {buffer for buffer, _ in prefetched})
    is_near = rows <= SHARE_OF_ROWS_PREFETCHED * memory.l2_bytes
    is_in_pieces = all(index.coefficient(fold.var) > loop.vector for _, index in prefetched)
    return is_near and is_in_pieces and read > memory.shared_bytes
