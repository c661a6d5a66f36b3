"""Scratch memory of sorts: each sort of rows is given the memory that its keys take.

    sort values y[0] by (1, 1) = x[0] by (1, 1) for 1 rows of 100 keep 100
        ->  sort values ... keep 100 scratch(512 in scratch2)

How much it is depends on the shape, the dtype and the machine (`sorting/plan.py`).
"""

from __future__ import annotations

from symgrad.codegen.loops.language import For, Kernel, Param, SortRows, Stmt
from symgrad.codegen.sorting.plan import sort_plan
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import uint8
from symgrad.records import replace


def plan_sorts(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with scratch memory for each sort."""
    params = list(kernel.params)
    body = tuple(_planned(statement, params, target) for statement in kernel.body)
    return replace(kernel, params=tuple(params), body=body)


def _planned(statement: Stmt, params: list[Param], target: Target) -> Stmt:
    if isinstance(statement, For):
        return replace(statement, body=tuple(_planned(s, params, target) for s in statement.body))
    if not isinstance(statement, SortRows):
        return statement
    size = sort_plan(statement, target).scratch_bytes
    name = f"scratch{len(params)}"
    params.append(Param(name, uint8, size, "scratch"))
    return replace(statement, scratch_bytes=size, scratch=name)
