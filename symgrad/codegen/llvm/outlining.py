"""Outlining of math functions: which kernels call one copy of a function, and not copies of it.

LLVM takes about a millisecond for each call that is inlined. Code that runs once, or a few times in
a short loop, is not worth that. Registers hold no values across calls, so such code stores early.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.kernel_costs import calls_often
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.early_stores import store_early
from symgrad.codegen.loops.language import Let, Loop, Op, Stmt
from symgrad.cost_model import COSTLY_FLOPS
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.records import replace


def outlined(scope: KernelScope, body: Sequence[Stmt]) -> tuple[KernelScope, Sequence[Stmt]]:
    """Return how statements of a kernel are emitted, and they, where math functions are calls."""
    if not _repeats_functions(body):
        return scope, body
    return replace(scope, inline_math=False), store_early(body)


def _repeats_functions(body: Sequence[Stmt]) -> bool:
    """Return whether code that runs a few times calls math functions again: one copy will do then.

    That is twice in code that runs once, and more often in short loops.
    """
    if any(isinstance(statement, Loop) for statement in body):
        return calls_often(body)
    values = (statement.value for statement in body if isinstance(statement, Let))
    names = [value.name for value in values if isinstance(value, Op)]
    costly = [name for name in names if SCALAR_OPS[name].flops >= COSTLY_FLOPS]
    return len(costly) > len(set(costly))
