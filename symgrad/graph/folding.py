"""On-the-fly folding: what is asked, before an op is applied, whether its result is there already.

Who folds says what: `passes/gradients/folding.py`. Nothing is folded unless someone does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from symgrad.graph.node import OpDef, Tensor

# From an op and its operands to the tensor that stands for the result, None if it must be built.
Folder = Callable[[OpDef, tuple[Tensor, ...]], Tensor | None]

folder: ContextVar[Folder | None] = ContextVar("folder", default=None)


@contextmanager
def folding(by: Folder | None) -> Iterator[None]:
    """Ask `by` before each op that is applied inside, nobody for None; scopes nest."""
    token = folder.set(by)
    try:
        yield
    finally:
        folder.reset(token)
