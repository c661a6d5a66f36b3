"""Software prefetch of the next page, where a loop walks through more than a cache holds.

    for i in 0..1048576 vector(16) interleave(4) { ... m[i] ... v[i] ... w[i] ... }

becomes

    for i in 0..1048576 vector(16) interleave(4) prefetches { ... m[i] ... v[i] ... w[i] ... }

A processor follows a walk through memory by itself up to the end of a page. What comes behind it
knows when the loop gets there: then it looks up where the page is, and waits for the first lines of
it, in each of the buffers. So a loop prefetches lines a page before it reads or writes them. No
result changes.

A loop that gathers rows,

    for i in 0..100000 { check j = rows[i] in 10000; for k in 0..26 vector(8) { ... } }

waits for what it gathers, and its stores for the lines they are to: those it prefetches, too, if
the second cache holds a row.

Some processors follow walks across pages by themselves (`Target.follows_pages`). There neither
loop prefetches, for each line would be prefetched twice, but where a loop selects what it loads,

    a: bool = gt(b, 0.0); c: f32 = g[i]; d: f32 = select(a, c, 0.0)

LLVM loads such elements under a mask, and the walk of a masked load is not followed.

A loop that computes for long and then writes many lines, as that over a batch of small matrices,

    for i in 0..1000 vector(8) { ... m[256*i] = t0; ... m[256*i + 255] = t255 }

has nothing to do with memory while it computes, and waits for each of the lines at its end, which a
processor does not fetch ahead where iterations are far apart. It prefetches them while it computes,
some after every few values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from symgrad.codegen.loops.access import body_flops, names_used
from symgrad.codegen.loops.language import (
    Check,
    For,
    Kernel,
    Let,
    Load,
    Loop,
    Plain,
    Ref,
    Select,
    Stmt,
)
from symgrad.codegen.loops.next_pages import lines_written, rows_prefetched, walks
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.records import replace


def prefetch_pages(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with its loops marked to prefetch the next page, or for lines."""
    sizes = {param.name: param.dtype.itemsize for param in kernel.params}
    body = tuple(_marked(s, sizes, target) if isinstance(s, For) else s for s in kernel.body)
    return replace(kernel, body=body)


def _marked(loop: For, sizes: dict[str, int], target: Target) -> For:
    """Return a loop that prefetches, if it goes through more than a core has of caches.

    For pages it prefetches no processor that follows all its walks across them.
    """
    held = target.memory.shared_bytes
    if _computes_before_it_writes(loop, sizes, target):
        return replace(loop, prefetches=True)
    if target.follows_pages and not _selects_loads(loop):
        return loop
    if loop.vector > 1 and sum(sizes.values()) * loop.extent <= held:
        return loop
    touched = _touched(loop, sizes, target.memory)
    return replace(loop, prefetches=True) if touched * loop.extent > held else loop


def _computes_before_it_writes(loop: For, sizes: dict[str, int], target: Target) -> bool:
    """Return whether there is time to prefetch the lines of vectors that no near cache holds.

    Between what prefetches are values that LLVM is not to move across it.
    """
    memory = target.memory
    if loop.vector == 1 or target.register_constraint is None:
        return False
    lines = lines_written(loop, sizes, memory.line_bytes, memory.followed_bytes)
    far = len(lines) * memory.line_bytes * loop.extent > memory.l2_bytes
    return far and len(lines) * loop.vector <= body_flops(loop.body)


def _selects_loads(loop: For) -> bool:
    """Return whether a value is selected that is loaded for that alone."""
    plain = [s for s in loop.body if isinstance(s, Plain)]
    loaded = {s.name for s in plain if isinstance(s, Let) and isinstance(s.value, Load)}
    uses = Counter(name for s in plain for name in names_used(s.value))
    selects = (s.value for s in plain if isinstance(s.value, Select))
    picked = (atom for s in selects for atom in (s.chosen, s.otherwise) if isinstance(atom, Ref))
    return any(atom.name in loaded and uses[atom.name] == 1 for atom in picked)


def _touched(loop: For, sizes: dict[str, int], memory: MemoryHierarchy) -> int:
    """Return how many bytes of what it could prefetch an iteration touches."""
    if loop.vector > 1:
        walked = () if _has_loops(loop.body) else walks(loop)
        return sum(sizes[buffer] for buffer in {buffer for buffer, _ in walked})
    if not any(isinstance(statement, Check) for statement in loop.body):
        return 0
    prefetched = rows_prefetched(loop, sizes, memory.l2_bytes)
    rows = (sizes[buffer] * row for buffer, row in prefetched.items())
    return sum(row for row in rows if row >= memory.line_bytes)


def _has_loops(body: Sequence[Stmt]) -> bool:
    return any(isinstance(statement, Loop) for statement in body)
