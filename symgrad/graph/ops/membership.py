"""Membership of elements in another tensor; no op is declared here."""

from __future__ import annotations

from typing import Any

from symgrad.graph.node import Tensor
from symgrad.graph.operands import promote_operands
from symgrad.graph.ops.comparison import equal, logical_not
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.structure import reshape
from symgrad.graph.public_ops import public


@public(is_standard=True)
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Compute whether each element of `x1` is one of `x2`, or with `invert` whether it is none.

    A bool tensor of the shape of `x1`; it has no gradient. nan is in nothing. Every pair is
    compared, within one kernel and without memory for it: the time is the product of the sizes.
    Raises `DTypeError` for dtypes that do not meet.

    >>> sg.run(sg.isin(sg.constant([1, 2, 3]), [3, 1]))
    array([ True, False,  True])
    """
    x, values = promote_operands("isin", x1, x2)
    pairs = equal(reshape(x, (*x.shape, 1)), reshape(values, (values.size,)))
    found = any_of(pairs, -1)
    return logical_not(found) if invert else found
