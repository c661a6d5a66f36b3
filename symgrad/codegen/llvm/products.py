"""The plan of a product: what the code generator for products chooses from shapes and strides."""

from __future__ import annotations

from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.loops import Blocking, Let, Load, Product, Store


def product_plan(product: Product, target: Target) -> ContractPlan:
    """Return how `product` is computed on `target`: the same whenever it is asked for."""
    itemsize = product.element.itemsize
    store = next(s for s in product.body if isinstance(s, Store))
    result = Operand(
        store.index.coefficient(product.rows[0]),
        store.index.coefficient(product.columns[0]),
        store.value.dtype.itemsize,
    )
    return plan_contract(
        product.rows[1],
        product.columns[1],
        product.inner[1],
        product.element,
        Operand(product.lhs.rows, product.lhs.columns, itemsize),
        Operand(product.rhs.rows, product.rhs.columns, itemsize),
        result,
        target,
        streams=_streams(product),
    )


def _streams(product: Product) -> int:
    """Return how many buffers the epilogue walks through, those of a row or a column aside."""
    loaded = (s.value for s in product.body if isinstance(s, Let) and isinstance(s.value, Load))
    stored = (s for s in product.body if isinstance(s, Store))
    axes = product.rows[0], product.columns[0]
    buffers = (a.buffer for a in (*loaded, *stored) if all(map(a.index.coefficient, axes)))
    return len(set(buffers))


def blocking_of(plan: ContractPlan) -> Blocking:
    """Return what of `plan` a kernel's text shows."""
    along_n = plan.vector_axis == "n"
    high = min(plan.block_tiles * plan.tile_rows, plan.rows)
    across = min(plan.block_panels * plan.tile_columns, plan.columns)
    ways = {"lhs": plan.pack_left, "rhs": plan.pack_right}
    if not along_n:
        ways = {"lhs": plan.pack_right, "rhs": plan.pack_left}
    return Blocking(
        tile=(plan.tile_rows, plan.tile_columns),
        block=(*((high, across) if along_n else (across, high)), min(plan.block_k, plan.k)),
        pack=tuple(name for name, how in ways.items() if how != "none"),
        along=plan.vector_axis,
        scratch=plan.scratch_bytes,
    )
