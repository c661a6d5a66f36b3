"""Loop distribution of a product: its sums in memory, and apart from them what is done with these.

    product s: f64 for (i in 0..16) (j in 0..1000) (k in 0..10000) x[0] ... * w[0] ... {
      t = y[j]
      z[i + 16*j] = div(s, t)
    }

becomes

    product s: f64 for (i in 0..16) (j in 0..1000) (k in 0..10000) x[0] ... * w[0] ... {
      sums[i + 16*j] = s
    }
    for j in 0..1000 { for i in 0..16 { s = sums[16*j + i]; t = y[j]; z[i + 16*j] = div(s, t) } }

of which the first needs no `y`. Where that pays is for passes over programs to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
)
from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.schedule.vectorize import nested, perfect_nest
from symgrad.records import replace

SUMS = "sums"


def split_epilogue(kernel: Kernel) -> tuple[Kernel, Kernel] | None:
    """Return a product that writes SUMS and what reads them, neither of which is scheduled.

    None where a kernel is no product alone, or one that only writes its sums.
    """
    if len(kernel.body) != 1:  # one of no elements has no statement
        return None
    loops, body = perfect_nest(kernel.body[0]) if isinstance(kernel.body[0], For) else ([], ())
    product = body[0] if loops and len(body) == 1 else kernel.body[0]
    if not isinstance(product, Product) or len(product.body) == 1:
        return None
    axes = [(loop.var, loop.extent) for loop in loops] + result_axes(product)
    place = row_major(axes)
    count = math.prod(extent for _, extent in axes)
    sums = Param(SUMS, product.dtype, count, "out")
    write = Store(SUMS, place, Ref(product.name, product.dtype))
    alone = replace(product, body=(write,), parallel=None, scratch=None)
    first = nested(loops, (alone,)) if loops else alone
    read = Let(product.name, Load(SUMS, place, product.dtype))
    rest = nested([For(variable, extent, ()) for variable, extent in axes], (read, *product.body))
    return _using(kernel, sums, first), _using(kernel, replace(sums, mode="in"), rest)


def result_axes(product: Product) -> list[tuple[str, int]]:
    """Return rows and columns in the order in which sums lie as what becomes of them does."""
    stores = (s.index for s in product.body if isinstance(s, Store))
    is_turned = any(abs(index.coefficient(product.rows[0])) == 1 for index in stores)
    return [product.columns, product.rows] if is_turned else [product.rows, product.columns]


def row_major(axes: Sequence[tuple[str, int]]) -> Index:
    """Return the place of an element of an array with these axes, in row-major order."""
    extents = [extent for _, extent in axes]
    return index_of(*((v, math.prod(extents[i + 1 :])) for i, (v, _) in enumerate(axes)))


def _using(whole: Kernel, sums: Param, statement: Stmt) -> Kernel:
    """Return a kernel of a statement, with SUMS and those parameters of `whole` that it uses."""
    used = set().union(*buffers_used((statement,)))
    params = (*(p for p in whole.params if p.name in used), sums)
    return Kernel("part", params, (statement,))
