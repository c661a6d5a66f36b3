"""Predication: which epilogues run for some lanes of a vector, where a row does not fill the last.

    for j in 0..56 step 16        mask = lane < 56 - j
      v = load 16 of the tile     masked load, masked store

Otherwise what is left of a row is computed one element after another, by code of its own. Of a math
function that takes as long for each as for a vector, and as long to compile. What costs little is
done one by one: what is stored under a mask is not read again before it is in the cache. Lanes that
are left out load zeros and store nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.contract.epilogue import RowForm
from symgrad.codegen.llvm.expressions import stride_of
from symgrad.codegen.llvm.scope import KernelScope, Vector
from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    Fold,
    For,
    Let,
    Load,
    Op,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
)
from symgrad.cost_model import COSTLY_FLOPS
from symgrad.cost_model.products import MOST_STATEMENTS_WRITTEN_OUT
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.records import replace


def epilogue_form(scope: KernelScope, along: str, body: Sequence[Stmt]) -> RowForm:
    """Return the form of what is done with vectors along a variable."""
    is_short = len(body) <= MOST_STATEMENTS_WRITTEN_OUT and not any(map(_is_costly, body))
    return RowForm(runs_masked(scope, along, body), is_short)


def runs_masked(scope: KernelScope, along: str, body: Sequence[Stmt]) -> bool:
    """Return whether statements are to run for some lanes of vectors along a variable."""
    if not scope.target.masks_lanes or not any(map(_is_costly, body)):
        return False
    inside = replace(scope, vector=Vector(along, scope.target.vector_bytes))
    return all(_can_mask(inside, statement) for statement in body)


def _is_costly(statement: Stmt) -> bool:
    """Return whether a statement is a math function."""
    if not isinstance(statement, Let) or not isinstance(statement.value, Op):
        return False
    return SCALAR_OPS[statement.value.name].flops >= COSTLY_FLOPS


def _can_mask(scope: KernelScope, statement: Stmt) -> bool:
    match statement:
        case Store():
            return scope.held(statement.buffer) is None and stride_of(scope, statement.index) == 1
        case Let(value=Load() as load):
            return scope.held(load.buffer) is None and stride_of(scope, load.index) in (0, 1)
        case Let(value=value):
            return not isinstance(value, BinarySearch)
        case Check() | SortRows() | For() | Product() | Fold() | Prefix():
            return False
