"""Sums over blocks of rows: where each block's part goes, and what hands all of them on.

    product s: f32 for (j in 0..1024) (n in 0..64) (i in 0..64) ... { y[64*j + n] = s }

adds what it comes to for a block to what there is,

    product s: f32 for (j in 0..1024) (n in 0..64) (i in 0..64) ... {
      old: f32 = x[65536*piece + 64*j + n]
      new: f32 = add(old, s)
      x[65536*piece + 64*j + n] = new
    }

and what was done with a sum is done behind all blocks. Several kernels may add to the same sums,
each to more than the ones before, as blocks of queries do to the gradients of keys and values:

      old: f32 = x[65536*piece + 64*j + n]
      more: f32 = add(old, s)
      new: f32 = select(j < 896, more, s)
"""

from __future__ import annotations

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Accumulator,
    Const,
    Fold,
    Index,
    IndexValue,
    Let,
    Load,
    Op,
    Product,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import substitute_variable
from symgrad.codegen.schedule.split_epilogue import result_axes
from symgrad.graph.dtypes import bool_, int64
from symgrad.records import dataclass, replace

PIECE = "piece"


@dataclass(frozen=True, slots=True)
class SharedSums:
    """Sums in `buffer` that several kernels add to, `size` elements of each matrix and piece.

    The first ones, so many rows of the result as are `begun`, hold sums of kernels before; what
    all have come to is handed on by the last kernel.
    """

    buffer: str
    size: int
    begun: int
    is_last: bool


def adding(product: Product, sums: str, place: Index) -> Product:
    """Return a product that adds to what is in a buffer, instead of what is done with it."""
    old, new = (Ref(f"{product.name}.{word}", product.dtype) for word in ("old", "new"))
    return replace(
        product,
        body=(
            Let(old.name, Load(sums, place, product.dtype)),
            Let(new.name, Op("add", (old, Ref(product.name, product.dtype)), product.dtype)),
            Store(sums, place, new),
        ),
    )


def adding_to_begun(product: Product, place: Index, shared: SharedSums, store: Store) -> Product:
    """Return a product that `store`s its sums with those that kernels before have begun.

    These are at `place`; of rows behind them there is nothing yet.
    """
    sums, dtype = Ref(product.name, product.dtype), product.dtype
    if not shared.begun:
        return replace(product, body=(replace(store, value=sums),))
    (row, _), _ = result_axes(product)
    old, more, new = (Ref(f"{product.name}.{word}", dtype) for word in ("old", "more", "new"))
    number, is_begun = Ref(f"{product.name}.row", int64), Ref(f"{product.name}.begun", bool_)
    begun = Const(shared.begun, int64)
    return replace(
        product,
        body=(
            Let(number.name, IndexValue(index_of((row, 1)), int64)),
            Let(is_begun.name, Op("lt", (number, begun), bool_)),
            Let(old.name, Load(shared.buffer, place, dtype)),
            Let(more.name, Op("add", (old, sums), dtype)),
            Let(new.name, Select(is_begun, more, sums, dtype)),
            replace(store, value=new),
        ),
    )


def total_of(product: Product, sums: str, place: Index, pieces: int) -> Stmt:
    """Return what binds the name of a product to the sum over all pieces."""
    dtype = product.dtype
    if pieces == 1:
        at = substitute_variable(place, PIECE, Index())
        return Let(product.name, Load(sums, at, dtype))
    item, left, right, both = (f"{product.name}.{w}" for w in ("item", "left", "right", "both"))
    return Fold(
        (Accumulator(product.name, Const(0.0, dtype)),),
        PIECE,
        pieces,
        1,
        (Let(item, Load(sums, place, dtype)),),
        (Ref(item, dtype),),
        (left,),
        (right,),
        (Let(both, Op("add", (Ref(left, dtype), Ref(right, dtype)), dtype)),),
        (Ref(both, dtype),),
    )
