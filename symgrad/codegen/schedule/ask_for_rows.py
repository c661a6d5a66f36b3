"""Software prefetch of the next row, where a kernel sweeps over each row several times.

    for i in 0..256 ordered {
      fold ... x[1024*i + j] ...
      for k in 0..1024 vector(16) { ... exp ... }
    }

becomes

    for i in 0..256 ordered {
      fold ... x[1024*i + j] ...
      for k in 0..1024 vector(16) asks { ... exp ... }
    }

The first sweep over a row waits for memory, and the others read what is in the nearest cache then,
while memory rests: a processor reads ahead only of what is read. So the sweep that computes most
asks for the next row, or for one behind it if rows are short: those of one array alone, of which it
computes a function, since memory does not rest for long there. A row that is read before
that sweep, and not by the first one, the last fold before asks for. No result changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.access import body_flops
from symgrad.codegen.loops.language import Fold, For, Kernel, Param, Stmt
from symgrad.codegen.loops.next_rows import next_rows, rows_behind, sweeps
from symgrad.cost_model import (
    BYTES_SWEPT,
    LEAST_INTERLEAVED_FLOPS,
    LEAST_ONLY_ROW_ASKED,
    LEAST_ROW_ASKED,
)


def ask_for_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with one sweep over each long row marked to ask for the next one."""
    params = {param.name: param for param in kernel.params}
    return replace(kernel, body=_marked(kernel.body, params))


def _marked(body: Sequence[Stmt], params: dict[str, Param]) -> tuple[Stmt, ...]:
    return tuple(_of_rows(s, params) if isinstance(s, For) else s for s in body)


def _of_rows(loop: For, params: dict[str, Param]) -> For:
    loop = replace(loop, body=_marked(loop.body, params))
    vectors = [s for s in loop.body if isinstance(s, For) and s.vector > 1 and not s.parallel]
    if loop.vector > 1 or not vectors:
        return loop
    longest = max(vectors, key=statement_cycles)
    if len(sweeps(loop, longest.extent)) < 2 or not _are_long(loop, longest, params):
        return loop
    marked = replace(longest, asks=True)
    loop = replace(loop, body=tuple(marked if s is longest else s for s in loop.body))
    place = loop.body.index(marked)
    folds = (
        replace(s, asks=True) if isinstance(s, Fold) and _asks(loop, s) else s
        for s in loop.body[:place]
    )
    return replace(loop, body=(*folds, *loop.body[place:]))


def _asks(around: For, fold: Fold) -> bool:
    """Return whether a loop behind a fold is the first one to read some rows."""
    return fold.lanes > 1 and bool(rows_behind(around, fold))


def _are_long(around: For, loop: For, params: dict[str, Param]) -> bool:
    """Return whether rows are long, and there are more of them than a cache holds."""
    read = [params[buffer] for buffer, _ in next_rows(around, loop)]
    is_only = len(read) == 1 and body_flops(loop.body) >= LEAST_INTERLEAVED_FLOPS
    least = LEAST_ONLY_ROW_ASKED if is_only else LEAST_ROW_ASKED
    return any(
        loop.extent * param.dtype.itemsize >= least and param.nbytes >= BYTES_SWEPT
        for param in read
    )
