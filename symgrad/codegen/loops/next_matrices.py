"""Reuse across a batch: what a loop over matrices touches in its next iteration.

    for b in 0..128 ordered {
      product s: f32 for (i in 0..64) (j in 0..128) (k in 0..64) q[...] * x[8192*b] by (1, 64) ...
      for i in 0..64 prefetches { ... exp ... }
      product s: f32 for (i in 0..64) (j in 0..64) (k in 0..128) p[...] * v[8192*b] by (64, 1) ...
    }

reads `x[8192*b + 8192]` and what is behind it then, a whole matrix, and so of `v`. Of both the loop
over rows prefetches 128 elements in each iteration: in so many it has prefetched all. Which loops
prefetch, and where it pays, is decided in `schedule/prefetch_matrices.py`; how, in
`llvm/prefetching.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from symgrad.codegen.loops.footprints import Access, counted_extents, touched
from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import For, Index, Loop, Product, Stmt
from symgrad.codegen.loops.rewrite import is_free_of
from symgrad.codegen.loops.strided import PrefetchedPart


def next_matrices(around: For) -> dict[str, Index]:
    """Return where the matrices begin that the next iteration of a loop over them touches.

    An iteration touches of such a buffer what is in one matrix, and the next one is as many
    elements further on as `around.var` counts for.
    """
    if not around.ordered or around.extent < 2 or is_free_of(around.body, Product):
        return {}
    extents = counted_extents(around.body)
    found: dict[str, Index | None] = {}
    for access in touched(around.body):
        first = _first(around.var, access, extents)
        known = found.setdefault(access.buffer, first)
        found[access.buffer] = first if known == first else None
    return {buffer: first for buffer, first in found.items() if first is not None}


def prefetching_loops(around: For) -> list[For]:
    """Return the loops over rows that an iteration of `around` runs once, in order."""
    return [loop for loop in row_loops(around.body) if loop.prefetches]


def prefetching_in(around: For) -> frozenset[str]:
    """Return the names of the loops over rows and of the products that prefetch next matrices."""
    products = (product.name for product in products_run_once(around.body) if product.prefetches)
    return frozenset([*(loop.var for loop in prefetching_loops(around)), *products])


def row_loops(body: Sequence[Stmt]) -> Iterator[For]:
    """Yield the loops around folds and vectors in statements that run once."""
    for statement in body:
        if not isinstance(statement, For) or statement.vector > 1 or statement.parallel is not None:
            continue
        if statement.extent == 1:
            yield from row_loops(statement.body)
        elif not statement.ordered and is_free_of(statement.body, Product):
            has_rows = any(isinstance(s, Loop) for s in statement.body)
            yield from (statement,) if has_rows else ()


def prefetched_by(
    around: For, loop: For, sizes: Mapping[str, int], line: int
) -> Iterator[tuple[str, Index, int]]:
    """Yield where what an iteration of `loop` prefetches begins, and how many elements there are.

    They are whole lines; `sizes` are the bytes of an element of each buffer. Loops behind those
    that prefetch the end of a matrix prefetch none of it: the one after would be in the way.
    """
    loops = prefetching_loops(around)
    names = [prefetching.var for prefetching in loops]
    before = sum(prefetching.extent for prefetching in loops[: names.index(loop.var)])
    total = sum(prefetching.extent for prefetching in loops)
    parts = (product.prefetches for product in products_run_once(around.body))
    behind = max((part.first + part.lines for part in parts if part is not None), default=0)
    for (buffer, first), (begin, end) in lines_of_matrices(around, sizes, line).items():
        if begin < behind:
            continue  # products prefetch it
        count = -(-(end - begin) // total) * line // sizes[buffer]
        const = first.const + before * count
        if before * count < first.coefficient(around.var):
            yield buffer, index_of(*first.terms, (loop.var, count), const=const), count


def lines_of_matrices(
    around: For, sizes: Mapping[str, int], line: int
) -> dict[tuple[str, Index], tuple[int, int]]:
    """Return where the next matrices begin, and from which to which line of all these each has."""
    found, begin = {}, 0
    for buffer, first in next_matrices(around).items():
        end = begin - (-first.coefficient(around.var) * sizes[buffer] // line)
        found[buffer, first] = begin, end
        begin = end
    return found


def prefetched_by_product(
    around: For, part: PrefetchedPart, sizes: Mapping[str, int], line: int
) -> Iterator[tuple[str, Index, int, int]]:
    """Yield of which buffers a part of the next matrices is, and where line 0 of it would begin.

    Then come from which to which of its lines each has.
    """
    for (buffer, first), (begin, end) in lines_of_matrices(around, sizes, line).items():
        low, high = max(begin, part.first), min(end, part.first + part.lines)
        if low < high:
            const = first.const + (part.first - begin) * (line // sizes[buffer])
            at = index_of(*first.terms, const=const)
            yield buffer, at, low - part.first, high - part.first


def products_run_once(body: Sequence[Stmt]) -> Iterator[Product]:
    """Yield the products that statements run once, in order."""
    for statement in body:
        if isinstance(statement, Product):
            yield statement
        elif isinstance(statement, For) and statement.extent == 1 and statement.parallel is None:
            yield from products_run_once(statement.body)


def _first(variable: str, access: Access, extents: dict[str, int]) -> Index | None:
    """Return where the next matrix begins, None if `access` may be outside of this one."""
    place = access.index
    step = place.coefficient(variable)
    inner = [(a, c) for a, c in place.terms if isinstance(a, str) and a in extents]
    outer = [(a, c) for a, c in place.terms if not (isinstance(a, str) and a in extents)]
    if step <= 0 or not all(isinstance(a, str) for a, _ in outer):
        return None
    low, high = bounds(index_of(*inner, const=place.const), extents)
    if low < 0 or high + access.reach > step:
        return None
    return index_of(*outer, const=step)
