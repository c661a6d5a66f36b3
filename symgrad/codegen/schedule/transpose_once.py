"""Packing hoisted out of products: what several of them would transpose is transposed once.

    for b in 0..32 ordered {
      product s: f32 for (m in 0..64) (n in 0..64) (k in 0..32)
          q[4096*b] by (32, 1) * k[4096*b] by (1, 32) ... pack(rhs) ... { ... }
      product t: f32 for (m in 0..64) (n in 0..128) (k in 0..32)
          q[4096*b + 2048] by (32, 1) * k[4096*b] by (1, 32) ... pack(rhs) ... { ... }
    }

becomes

    for b in 0..32 ordered {
      for p in 0..2 { for k in 0..32 vector(16) { for n in 0..64 vector(16) {
        u = k[4096*b + 2048*p + k + 32*n]  x[2048*p + 64*k + n] = u } } }
      product s: f32 ... q[4096*b] by (32, 1) * x[0] by (64, 1) ... { ... }
      product t: f32 ... q[4096*b + 2048] by (32, 1) * x[0] by (64, 1 64:2048) ... { ... }
    }

So keys are that blocks of queries share, each of which would pack those that come before it. What
is added up is the same, in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product as product_of

from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.products import blocking_of, product_plan
from symgrad.codegen.contract.plans.unrolling import turns_of
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    For,
    Index,
    Kernel,
    Let,
    Load,
    Param,
    Product,
    Ref,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.schedule.fuse_products import PART
from symgrad.codegen.schedule.register_tiles import transpose_in_registers
from symgrad.codegen.schedule.split_epilogue import row_major
from symgrad.codegen.schedule.vectorize import nested, vectorize
from symgrad.codegen.target import Target
from symgrad.cost_model.products import PANEL_BYTES
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Transposed:
    """A right operand that products read across: so many terms of columns, `apart` in memory."""

    buffer: str
    element: DType
    index: Index
    apart: int
    terms: int


def transpose_once(
    body: tuple[Stmt, ...], params: Sequence[Param], around: Collection[str], target: Target
) -> tuple[tuple[Stmt, ...], tuple[Param, ...]]:
    """Return statements within loops `around`, and the scratch memory that a part of them needs."""
    _, written = buffers_used(body)
    found: dict[_Transposed, list[Product]] = {}
    for product in _products(body, around):
        operand = _across(product, around)
        if operand is not None and operand.buffer not in written and _is_packed(product, target):
            found.setdefault(operand, []).append(product)
    before: list[Stmt] = []
    changed: dict[int, Product] = {}
    scratch: list[Param] = []
    for operand, products in found.items():
        count = operand.terms * max(product.columns[1] for product in products)
        name = f"scratch.{len(params) + len(scratch)}"
        param = Param(name, operand.element, count, "scratch")
        told = [(p, new) for p in products if (new := _reads(p, param, target)) is not None]
        if len(told) < 2:
            continue
        scratch.append(param)
        before += _panels(operand, param, (*params, param), target)
        changed |= {id(product): new for product, new in told}
    return (*before, *_replaced(body, changed)), tuple(scratch)


def _products(body: Sequence[Stmt], around: Collection[str]) -> list[Product]:
    """Return the products that are computed once in an iteration of the loops around."""
    found: list[Product] = []
    for statement in body:
        if isinstance(statement, Product):
            found.append(statement)
        elif isinstance(statement, For) and statement.extent == 1:
            found += _products(statement.body, around)
    return found


def _replaced(body: Sequence[Stmt], changed: Mapping[int, Product]) -> tuple[Stmt, ...]:
    return tuple(
        replace(s, body=_replaced(s.body, changed))
        if isinstance(s, For) and s.extent == 1
        else changed.get(id(s), s) if isinstance(s, Product) else s
        for s in body
    )  # fmt: skip


def _across(product: Product, around: Collection[str]) -> _Transposed | None:
    """Return the right operand of a product if its terms lie beside each other, else None.

    Other loops around it have one iteration.
    """
    rhs = product.rhs
    is_affine = all(isinstance(atom, str) for atom, _ in rhs.index.terms)
    is_plain = is_affine and not (rhs.row_digits or rhs.column_digits or product.borders)
    if not is_plain or rhs.rows != 1 or rhs.columns <= 1 or product.parallel is not None:
        return None
    terms = ((atom, c) for atom, c in rhs.index.terms if atom in around)
    place = index_of(*terms, const=rhs.index.const)
    return _Transposed(rhs.buffer, product.element, place, rhs.columns, product.inner[1])


def _is_packed(product: Product, target: Target) -> bool:
    plan = product_plan(product, target)
    return plan.pack_right == "transpose" and plan.pack_left == "none"


def _panel(element: DType) -> int:
    return PANEL_BYTES // element.itemsize


def _reads(product: Product, panels: Param, target: Target) -> Product | None:
    """Return a product that reads panels, None if it would not compute the same by that."""
    (_, columns), (_, terms) = product.columns, product.inner
    panel = _panel(product.element)
    if columns % panel:
        return None
    digits = ((panel, panel * terms),) if columns > panel else ()
    first = index_of((PART, panels.count))
    rhs = StridedOperand(panels.name, first, panel, 1, (), digits)
    told = replace(product, rhs=rhs, scratch=None)
    plan, other = (product_plan(each, target) for each in (told, product))
    blocking = blocking_of(plan)
    is_direct = plan.pack_right == "none" and not blocking.scratch
    is_same = _is_one_chain(plan, target) and _is_one_chain(other, target)
    is_told = (plan.read is None) == (other.read is None)
    return replace(told, blocking=blocking) if is_direct and is_same and is_told else None


def _is_one_chain(plan: ContractPlan, target: Target) -> bool:
    """Return whether each sum is one chain of multiply-adds, from the first term to the last."""
    widths = {plan.tile_columns, plan.edge_columns} - {0}
    sizes = product_of((plan.tile_rows, max(1, plan.tile_rows - 1)), widths)
    is_plain = plan.method == "tile" and plan.k_blocks == 1 and plan.compute == plan.accumulate
    return is_plain and all(turns_of(plan, target, *size)[0] == 1 for size in sizes)


def _panels(
    operand: _Transposed, panels: Param, params: Sequence[Param], target: Target
) -> tuple[Stmt, ...]:
    """Return the loops that write panels, by squares in registers."""
    size, terms = _panel(panels.dtype), operand.terms
    panel, term, column = (f"{panels.name}.{axis}" for axis in ("panel", "term", "column"))
    value = Ref(f"{panels.name}.element", panels.dtype)
    axes = [(panel, panels.count // (size * terms)), (term, terms), (column, size)]
    source = index_of(
        *operand.index.terms,
        (panel, size * operand.apart),
        (term, 1),
        (column, operand.apart),
        const=operand.index.const,
    )
    place = index_of((PART, panels.count), *row_major(axes).terms)
    load = Let(value.name, Load(operand.buffer, source, value.dtype))
    loop = nested(
        [For(variable, extent, ()) for variable, extent in axes],
        (load, Store(panels.name, place, value)),
    )
    kernel = vectorize(Kernel("part", tuple(params), (loop,)), target)
    return transpose_in_registers(kernel).body
