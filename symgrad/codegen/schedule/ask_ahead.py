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
    body = tuple(_marked(s, sizes, target) if isinstance(s, For) else s for s in kernel.body)
    return replace(kernel, body=body)


def _marked(loop: For, sizes: dict[str, int], target: Target) -> For:
    """Return a loop of vectors that asks, if it goes through more than a core has of caches."""
    held = target.memory.shared_bytes
    may_be_long = sum(sizes.values()) * loop.extent > held
    if loop.vector == 1 or not may_be_long or _has_loops(loop.body):
        return loop
    touched = sum(sizes[buffer] for buffer in {buffer for buffer, _ in walks(loop)})
    return replace(loop, asks=True) if touched * loop.extent > held else loop


def _has_loops(body: Sequence[Stmt]) -> bool:
    return any(isinstance(statement, Loop) for statement in body)
