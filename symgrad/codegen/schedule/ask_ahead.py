"""Software prefetch of the next page, where a loop walks through more than a cache holds.

    for i in 0..1048576 vector(16) interleave(4) { ... m[i] ... v[i] ... w[i] ... }

becomes

    for i in 0..1048576 vector(16) interleave(4) asks { ... m[i] ... v[i] ... w[i] ... }

A processor follows a walk through memory by itself up to the end of a page. What comes behind it
knows when the loop gets there: then it looks up where the page is, and waits for the first lines of
it, in each of the buffers. So a loop asks for lines a page before it reads or writes them. No
result changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.codegen.loops.language import For, Kernel, Loop, Stmt
from symgrad.codegen.loops.next_pages import walks
from symgrad.codegen.target import Target


def ask_ahead(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with its long elementwise loops marked to ask for the next page."""
    sizes = {param.name: param.dtype.itemsize for param in kernel.params}
    body = tuple(
        replace(s, asks=True) if _walks_through_memory(s, sizes, target) else s for s in kernel.body
    )
    return replace(kernel, body=body)


def _walks_through_memory(statement: Stmt, sizes: dict[str, int], target: Target) -> bool:
    """Return whether a statement is a loop of vectors over more than a near cache holds."""
    if not isinstance(statement, For) or statement.vector == 1 or _has_loops(statement.body):
        return False
    touched = sum(sizes[buffer] for buffer in {buffer for buffer, _ in walks(statement)})
    return touched * statement.extent > target.memory.l2_bytes


def _has_loops(body: Sequence[Stmt]) -> bool:
    return any(isinstance(statement, Loop) for statement in body)
