"""Tiling: choose how each product is blocked and packed, and add the scratch memory that takes.

    product s: f32 for i in 0..320, j in 0..784 sum k in 0..10 of x[...] * y[...] { ... }
        ->  product ... tile(6, 16) ...

What is chosen depends on the shape, the strides and the machine (`contract/plans/search.py`).
"""

from __future__ import annotations

from symgrad.codegen.contract.plans.products import blocking_of, hand_on_plan, product_plan
from symgrad.codegen.loops.language import For, Kernel, Param, Product, Stmt
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import uint8
from symgrad.records import replace


def tile_products(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with a blocking for each product, and scratch memory for those that pack."""
    params = list(kernel.params)
    body = tuple(_tiled(statement, params, target) for statement in kernel.body)
    return replace(kernel, params=tuple(params), body=body)


def _tiled(statement: Stmt, params: list[Param], target: Target) -> Stmt:
    if isinstance(statement, For):
        return replace(statement, body=tuple(_tiled(s, params, target) for s in statement.body))
    if not isinstance(statement, Product):
        return statement
    blocking = blocking_of(product_plan(statement, target))
    name = None
    if blocking.scratch:
        name = f"scratch{len(params)}"
        params.append(Param(name, uint8, blocking.scratch, "scratch"))
    tiled = replace(statement, blocking=blocking, scratch=name or statement.scratch)
    hand_on_plan(statement, tiled, target)
    return tiled
