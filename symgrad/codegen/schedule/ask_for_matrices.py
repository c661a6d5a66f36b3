"""Software prefetch of the next matrix of a batch, where much is done with each.

    for b in 0..128 ordered {
      product s: f32 ... q[8192*b] by (64, 1) * x[8192*b] by (1, 64) ...
      for i in 0..64 { ... exp ... }
      product s: f32 ... * v[8192*b] by (64, 1) ...
    }

becomes

    for b in 0..128 ordered {
      product s: f32 ... q[8192*b] by (64, 1) * x[8192*b] by (1, 64) ...
      for i in 0..64 asks { ... exp ... }
      product s: f32 ... * v[8192*b] by (64, 1) ...
    }

What is done first with a matrix waits for memory, which rests while the others compute on what is
in caches. So the loops over rows between products ask for the next matrix, some lines with each
row. The larger matrices are, the less that is beside their products. No result changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from symgrad.codegen.loops.language import For, Kernel, Param, Product, Stmt
from symgrad.codegen.loops.next_matrices import next_matrices, row_loops
from symgrad.codegen.loops.rewrite import has_loops_in_loops
from symgrad.codegen.target import Target
from symgrad.cost_model import LINES_ASKED, MOST_RESULTS_ASKED, TERMS_OF_BYTE
from symgrad.records import replace


def ask_for_matrices(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with loops over rows marked to ask for the next matrix."""
    if not has_loops_in_loops(kernel.body):
        return kernel
    params = {param.name: param for param in kernel.params}
    return replace(kernel, body=tuple(_marked(s, params, target, 1) for s in kernel.body))


def _marked(statement: Stmt, params: Mapping[str, Param], target: Target, parts: int) -> Stmt:
    if not isinstance(statement, For) or statement.vector > 1:
        return statement
    parts *= statement.parts
    inner = tuple(_marked(s, params, target, parts) for s in statement.body)
    loop = replace(statement, body=inner)
    rows = list(row_loops(loop.body))
    if not rows or any(row.asks for row in rows):
        return loop
    scratch = sum(p.nbytes for p in params.values() if p.mode == "scratch") // parts
    if not _pays(loop, rows, params, scratch, target):
        return loop
    return replace(loop, body=tuple(_asking(s, {row.var for row in rows}) for s in loop.body))


def _asking(statement: Stmt, rows: set[str]) -> Stmt:
    if not isinstance(statement, For):
        return statement
    if statement.var in rows:
        return replace(statement, asks=True)
    return replace(statement, body=tuple(_asking(s, rows) for s in statement.body))


def _pays(
    loop: For, rows: list[For], params: Mapping[str, Param], scratch: int, target: Target
) -> bool:
    """Return whether matrices come from no near cache, and have room there, as the next ones do.

    Where much of them is results, `scratch` memory has to have room as well: whatever a line puts
    out has been written then, and is written back before.

    And there is time to ask for them, but not so much that waiting for them is nothing beside it.
    """
    memory = target.memory
    read = next_matrices(loop)
    total = sum(params[name].nbytes for name in read)
    sizes = {
        name: first.coefficient(loop.var) * params[name].dtype.itemsize
        for name, first in read.items()
    }
    nbytes = sum(sizes.values())
    results = sum(size for name, size in sizes.items() if params[name].mode != "in")
    lines = nbytes / memory.line_bytes / sum(row.extent for row in rows)
    beside = scratch if results > MOST_RESULTS_ASKED * nbytes else 0
    is_far = total > memory.l2_bytes and 2 * nbytes + beside <= memory.l2_bytes
    is_waited_for = _terms(loop.body) < TERMS_OF_BYTE * nbytes
    return is_far and is_waited_for and lines <= LINES_ASKED


def _terms(body: Sequence[Stmt]) -> int:
    """Return how many terms of products statements add up."""
    total = 0
    for statement in body:
        if isinstance(statement, Product):
            total += math.prod(n for _, n in (statement.rows, statement.columns, statement.inner))
        elif isinstance(statement, For):
            total += statement.extent * _terms(statement.body)
    return total
