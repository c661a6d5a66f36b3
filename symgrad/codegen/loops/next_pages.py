"""Walks through memory: which buffers a loop goes through element after element.

    for i in 0..1048576 vector(16) prefetches { ... m[i] ... x[3*i] ... v[i + 5] ... s[0] ... }

walks through `m[i]` and `v[i + 5]`. A loop without vectors,

    for i in 0..100000 prefetches { ... for k in 0..26 vector(8) { ... m[28*i + k + 2] = t0 } }

goes through rows of 28 elements, if that is all that it writes to `m`. And one with vectors,

    for i in 0..1000 vector(8) prefetches { ... m[256*i] = t0; ... m[256*i + 255] = t255 }

writes lines of memory, of each iteration 32. Which loop prefetches what of these, and where it
pays, is decided in `schedule/prefetch_pages.py`; how, in `llvm/prefetching.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.codegen.loops.access import looked_up_along
from symgrad.codegen.loops.language import For, Index, Plain, Store
from symgrad.codegen.loops.rewrite import accesses, index_extents, statements
from symgrad.codegen.loops.short_rows import row_accesses


def walks(loop: For) -> list[tuple[str, Index]]:
    """Return the places in buffers that each iteration reads or writes an element further."""
    bound = index_extents(loop.body).keys()  # by a check, or in a loop inside
    return [
        (buffer, index)
        for buffer, index in dict.fromkeys(accesses(loop.body))
        if index.coefficient(loop.var) == 1
        and all(isinstance(atom, str) and atom not in bound for atom, _ in index.terms)
    ]


def rows_written(loop: For) -> dict[str, int]:
    """Return the buffers in which each iteration writes to a row of its own, and how long it is."""
    extents = index_extents(loop.body)
    found: dict[str, int] = {}
    for statement in statements(loop.body):
        if isinstance(statement, Store):
            row = _row(statement.index, loop.var, extents)
            is_one = found.setdefault(statement.buffer, row) == row
            found[statement.buffer] = row if is_one else 0
    return {buffer: row for buffer, row in found.items() if row}


def rows_prefetched(loop: For, sizes: Mapping[str, int], held: int) -> dict[str, int]:
    """Return those rows of `rows_written` that may be prefetched: at most the `held` bytes.

    Of a longer row the cache of a core has lost the first lines when the last ones come.
    """
    rows = rows_written(loop)
    return {buffer: row for buffer, row in rows.items() if row * sizes[buffer] <= held}


def lines_written(
    loop: For, sizes: Mapping[str, int], line: int, apart: int
) -> list[tuple[str, Index]]:
    """Return where the lines begin in which an iteration of a loop without others writes runs.

    `sizes` are the bytes of an element of each buffer, and `line` those of a line: the first is
    taken to be one where a buffer begins. Those of iterations are `apart` bytes apart at least.
    """
    if not all(isinstance(statement, Plain) for statement in loop.body):
        return []
    stores = [statement for statement in loop.body if isinstance(statement, Store)]
    if all(sizes[s.buffer] * s.index.coefficient(loop.var) < apart for s in stores):
        return []
    looked_up = looked_up_along(loop.body, loop.var)
    found: dict[tuple[str, int], Index] = {}
    for row in row_accesses(loop.body, loop.var, loop.vector, looked_up):
        first = row.members[0][0]
        if not row.is_run or not isinstance(first, Store):
            continue
        size, start = sizes[first.buffer], row.start
        if start.coefficient(loop.var) * size < apart:
            continue
        for place in range(start.const, start.const + len(row.members)):
            number = place * size // line
            found[first.buffer, number] = Index(number * line // size, start.terms)
    return [(buffer, found[buffer, number]) for buffer, number in sorted(found)]


def _row(index: Index, var: str, extents: Mapping[str, int]) -> int:
    """Return how far apart iterations of `var` write, 0 if one may write where others do."""
    row, least, most = index.coefficient(var), index.const, index.const
    for atom, factor in index.terms:
        if atom == var:
            continue
        if not isinstance(atom, str) or atom not in extents:
            return 0
        span = factor * (extents[atom] - 1)
        least, most = least + min(span, 0), most + max(span, 0)
    return row if least >= 0 and most < row else 0
