"""Loop blocking of batched products: what lies side by side in memory is walked through together.

    for k in 0..25 { product s: f64 for (i in 0..10) (n in 0..10000) (j in 0..10)
        a[100*k] by (10, 1) * x[10*k] by (1, 250) { y[10*k + i + 250*n] = s } }

reads a few bytes of each row of x, and writes a few of each row of y, 25 times over. In blocks of
rows that stay in cache, all products of a block come one after another:

    for n.block in 0..78 { for k in 0..25 {
      product s: f64 for (i in 0..10) (n in 0..128) (j in 0..10)
          a[100*k] by (10, 1) * x[10*k + 32000*n.block] by (1, 250) { ... } } }

Where the rows are what is summed over, each block adds to sums in scratch memory, of which parts of
the rows have their own. How rows are cut depends on the shape alone, and so does the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.codegen.loops.index_arithmetic import index_of, scaled_sum
from symgrad.codegen.loops.language import (
    Accumulator,
    Const,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Product,
    Ref,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import map_indices, substitute_variable
from symgrad.codegen.schedule.vectorize import nested, perfect_nest
from symgrad.cost_model import (
    BLOCK_MULTIPLE,
    BYTES_OF_BLOCK,
    LEAST_BYTES_IN_BLOCKS,
    PARTS_OF_SUMS,
    PIECE_MULTIPLE,
    PIECES,
    SHARE_OF_SUMS,
    VECTOR_BYTES,
)
from symgrad.records import dataclass, replace


def block_batches(kernel: Kernel) -> Kernel:
    """Block the batched products of a kernel whose operands lie within one another's rows."""
    params = list(kernel.params)
    body: list[Stmt] = []
    for statement in kernel.body:
        plan = _plan(statement)
        if plan is None:
            body.append(statement)
        elif plan.axis == plan.product.inner:
            body += _summed(plan, params)
        else:
            body += _blocked(plan)
    return replace(kernel, params=tuple(params), body=tuple(body))


@dataclass(frozen=True, slots=True)
class _BatchedProduct:
    """Products in loops, and the axis of them that is cut into blocks of so many rows."""

    loops: tuple[For, ...]
    product: Product
    axis: tuple[str, int]
    block: int

    @property
    def is_inner(self) -> bool:
        """Whether the axis is what is summed over."""
        return self.axis == self.product.inner


def _plan(statement: Stmt) -> _BatchedProduct | None:
    """Return how the products of a statement are blocked, None if there are none that gain."""
    if not isinstance(statement, For):
        return None
    loops, body = perfect_nest(statement)
    product = body[0] if len(body) == 1 else None
    if not isinstance(product, Product) or any(loop.ordered or not loop.extent for loop in loops):
        return None
    axis = max(product.rows, product.columns, product.inner, key=lambda axis: axis[1])
    rows = _rows_along(product, axis)
    if rows is None or not all(_is_walked_again(loops, product, row) for row in rows):
        return None
    size = product.element.itemsize
    longest = max(stride for _, stride, _ in rows) * size
    block = BYTES_OF_BLOCK // longest // BLOCK_MULTIPLE * BLOCK_MULTIPLE
    if block == 0 or axis[1] < 2 * block or longest * axis[1] < LEAST_BYTES_IN_BLOCKS:
        return None
    return _BatchedProduct(tuple(loops), product, axis, block)


# What is walked along an axis: an index, its stride along the axis, and how many elements of a row
# a product reaches.
_WalkedRow = tuple[Index, int, int]


def _rows_along(product: Product, axis: tuple[str, int]) -> list[_WalkedRow] | None:
    """Return what the product walks through along an axis, None if that is not by one stride."""
    lhs, rhs = product.lhs, product.rhs
    if lhs.row_digits or lhs.column_digits or rhs.row_digits or rhs.column_digits:
        return None
    (_, m), (_, n), (_, k) = product.rows, product.columns, product.inner
    if axis == product.inner:
        return [
            (lhs.index, lhs.columns, 1 + (m - 1) * lhs.rows),
            (rhs.index, rhs.rows, 1 + (n - 1) * rhs.columns),
        ]
    stores = [s.index for s in product.body if isinstance(s, Store)]
    read = (lhs.index, lhs.rows, k * lhs.columns) if axis == product.rows else None
    read = read or (rhs.index, rhs.columns, k * rhs.rows)
    other = product.columns if axis == product.rows else product.rows
    written = [
        (index, index.coefficient(axis[0]), 1 + (other[1] - 1) * index.coefficient(other[0]))
        for index in stores
    ]
    return [read, *written]


def _is_walked_again(loops: Sequence[For], product: Product, row: _WalkedRow) -> bool:
    """Return whether all loops stay within the rows, and each reaches but little of one."""
    index, stride, reached = row
    size = product.element.itemsize
    steps = [(abs(index.coefficient(loop.var)), loop.extent) for loop in loops]
    within = sum(step * (extent - 1) for step, extent in steps) + abs(reached)
    is_batched = any(step and extent > 1 for step, extent in steps)
    is_wide = stride * size >= 2 * VECTOR_BYTES and 2 * abs(reached) <= stride
    return is_batched and is_wide and within <= stride


def _blocked(plan: _BatchedProduct) -> list[Stmt]:
    """Return the products of rows in blocks, then those of the rows that are left."""
    product, (variable, extent) = plan.product, plan.axis
    count, left = divmod(extent, plan.block)
    outer = f"{variable}.block"
    start = Index(0, ((outer, plan.block),))
    whole = nested(
        [For(outer, count, ()), *plan.loops], (_moved(product, plan, start, plan.block),)
    )
    if not left:
        return [whole]
    rest = _moved(product, plan, Index(count * plan.block), left)
    return [whole, nested(plan.loops, (rest,))]


def _moved(product: Product, plan: _BatchedProduct, start: Index, extent: int) -> Product:
    """Return the product of `extent` rows from `start` on."""
    variable = plan.axis[0]
    lhs, rhs = product.lhs, product.rhs
    if plan.is_inner:
        lhs, rhs = _from(lhs, start, lhs.columns), _from(rhs, start, rhs.rows)
        return replace(product, lhs=lhs, rhs=rhs, inner=(variable, extent))

    place = scaled_sum([(Index(0, ((variable, 1),)), 1), (start, 1)])
    body = map_indices(product.body, lambda index: substitute_variable(index, variable, place))
    if plan.axis == product.rows:
        lhs = _from(lhs, start, lhs.rows)
        return replace(product, lhs=lhs, rows=(variable, extent), body=body)
    rhs = _from(rhs, start, rhs.columns)
    return replace(product, rhs=rhs, columns=(variable, extent), body=body)


def _from(operand: StridedOperand, start: Index, stride: int) -> StridedOperand:
    return replace(operand, index=scaled_sum([(operand.index, 1), (start, stride)]))


def _summed(plan: _BatchedProduct, params: list[Param]) -> list[Stmt]:
    """Return the products of blocks that are added up, the sums of which join `params`."""
    product, extent = plan.product, plan.axis[1]
    axes = [(loop.var, loop.extent) for loop in plan.loops]
    axes += [product.rows, product.columns]
    count = math.prod(n for _, n in axes)
    parts, each = _parts(plan, count)
    left = extent - parts * each * plan.block
    part, block = f"{plan.axis[0]}.part", f"{plan.axis[0]}.block"
    name = f"sums{len(params)}"
    params.append(Param(name, product.dtype, count * (parts + bool(left)), "scratch"))
    steps = [math.prod(n for _, n in axes[i + 1 :]) for i in range(len(axes))]
    place = [(variable, step) for (variable, _), step in zip(axes, steps, strict=True)]
    zero, own = Const(0.0, product.dtype), index_of(*place, (part, count))
    cleared = nested([For(v, n, ()) for v, n in axes], (Store(name, own, zero),))
    old, new = (f"{product.name}.{word}" for word in ("old", "new"))
    total = Ref(product.name, product.dtype)
    adding: tuple[Stmt, ...] = (
        Let(old, Load(name, own, product.dtype)),
        Let(new, Op("add", (Ref(old, product.dtype), total), product.dtype)),
        Store(name, own, Ref(new, product.dtype)),
    )
    start = index_of((part, each * plan.block), (block, plan.block))
    added = replace(_moved(product, plan, start, plan.block), body=adding)
    inside = For(block, each, (nested(plan.loops, (added,)),), ordered=True)
    statements: list[Stmt] = [For(part, parts, (cleared, inside))]
    if left:
        last = (Store(name, index_of(*place, const=parts * count), total),)
        rest = _moved(product, plan, Index(parts * each * plan.block), left)
        statements.append(nested(plan.loops, (replace(rest, body=last),)))
    fold = _fold_of_parts(product, name, own, part, parts + bool(left))
    final = nested([For(v, n, ()) for v, n in axes], (fold, *product.body))
    return [*statements, final]


def _parts(plan: _BatchedProduct, sums: int) -> tuple[int, int]:
    """Return how many parts of the rows have `sums` of their own, and of how many blocks each is.

    They are the pieces that other sums over these rows are cut into, with which they may be fused,
    unless all sums together are not much less than the rows.
    """
    product, extent = plan.product, plan.axis[1]
    blocks = extent // plan.block
    each = max(1, extent // PIECES // PIECE_MULTIPLE * PIECE_MULTIPLE // plan.block)
    of_rows = extent * (abs(product.lhs.columns) + abs(product.rhs.rows))
    if blocks // each * sums * SHARE_OF_SUMS > of_rows:
        parts = min(PARTS_OF_SUMS, blocks)
        return parts, blocks // parts
    return blocks // each, each


def _fold_of_parts(product: Product, name: str, own: Index, part: str, parts: int) -> Fold:
    """Return the fold that adds up the sums of all parts."""
    dtype = product.dtype
    item, left, right, both = (f"{product.name}.{w}" for w in ("item", "left", "right", "both"))
    return Fold(
        (Accumulator(product.name, Const(0.0, dtype)),),
        part,
        parts,
        1,
        (Let(item, Load(name, own, dtype)),),
        (Ref(item, dtype),),
        (left,),
        (right,),
        (Let(both, Op("add", (Ref(left, dtype), Ref(right, dtype)), dtype)),),
        (Ref(both, dtype),),
    )
