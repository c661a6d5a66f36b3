"""Loop fusion of kernels that need nothing of one another and walk over the same rows in step.

    for p in 0..32 { for j in 0..1024 vector(64) { fold ... g[8192*p + 1024*k + j] * x[...] } }
    for p in 0..32 { for j in 0..1024 vector(64) { fold ... g[8192*p + 1024*k + j] } }

become

    for p in 0..32 {
      for j in 0..1024 vector(64) { fold ... g[8192*p + 1024*k + j] * x[...] }
      for j in 0..1024 vector(64) { fold ... g[8192*p + 1024*k + j] }
    }

so that the second finds rows of `g` in the cache. Each does what it did, in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from symgrad.codegen.loops.language import (
    Check,
    For,
    Generated,
    Index,
    Kernel,
    Param,
    Reduction,
    Stmt,
)
from symgrad.codegen.loops.rewrite import (
    accesses,
    is_free_of,
    map_indices,
    substitute_variable,
)
from symgrad.cost_model import BYTES_OF_ROWS_AGAIN
from symgrad.records import replace


def fuse_siblings(first: Kernel, second: Kernel, shared: Collection[str]) -> Kernel | None:
    """Return a kernel that does what both do, None if they do not read `shared` buffers in step.

    They can be siblings. Parameters that both have are of one name and only read, and nothing else
    is of one name.
    """
    itemsizes = {p.name: p.dtype.itemsize for p in first.params if p.name in shared}
    pairs = list(zip(first.body, second.body, strict=True))
    if not any(_is_in_step(a, b, itemsizes) for a, b in pairs):
        return None
    body: list[Stmt] = []
    for a, b in pairs:
        body += [_joined(a, b)] if _are_alike(a, b) else [a, b]
    params: dict[str, Param] = {p.name: p for p in (*first.params, *second.params)}
    return replace(first, params=tuple(params.values()), body=tuple(body))


def can_be_siblings(first: Kernel, second: Kernel) -> bool:
    """Return whether two kernels are reductions whose loops come in the same order and sizes."""
    if len(first.body) != len(second.body):
        return False
    if not any(map(_are_alike, first.body, second.body)):
        return False
    bodies = first.body, second.body
    return all(is_free_of(b, Check | Generated) and not is_free_of(b, Reduction) for b in bodies)


def _are_alike(first: Stmt, second: Stmt) -> bool:
    """Return whether two statements are loops whose iterations can be taken together."""
    if not isinstance(first, For) or not isinstance(second, For) or first.vector > 1:
        return False
    return _shape(first) == _shape(second)


def _shape(loop: For) -> tuple[object, ...]:
    return loop.extent, loop.vector, loop.ordered, loop.parallel, loop.interleave


def _is_in_step(first: Stmt, second: Stmt, itemsizes: dict[str, int]) -> bool:
    """Return whether two loops read the same rows of a buffer in each iteration, few enough."""
    if not isinstance(first, For) or not isinstance(second, For) or not _are_alike(first, second):
        return False
    return any(
        _steps(first, name) == _steps(second, name) != set()
        and max(_steps(first, name)) * size <= BYTES_OF_ROWS_AGAIN
        for name, size in itemsizes.items()
    )


def _steps(loop: For, buffer: str) -> set[int]:
    """Return how far apart the iterations of a loop read a buffer; empty if it is not by rows."""
    steps = {index.coefficient(loop.var) for name, index in accesses(loop.body) if name == buffer}
    return steps if len(steps) == 1 and min(steps) > 1 else set()


def _joined(first: Stmt, second: Stmt) -> Stmt:
    assert isinstance(first, For), "alike are loops"
    assert isinstance(second, For), "alike are loops"
    at = Index(0, ((first.var, 1),))
    moved: Sequence[Stmt] = map_indices(
        second.body, lambda index: substitute_variable(index, second.var, at)
    )
    return replace(first, body=(*first.body, *moved))
