"""Scalar bodies: what one element of an elementwise op computes, and how many flops that is.

They decide what is computed again rather than kept; prices of whole programs are in
`symgrad/passes/costs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.dtypes import DType, bool_
from symgrad.graph.node import Node
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.graph.structures import Body, Map


class _Counter:
    """A `Scalars` whose values are dtypes: it counts the flops of a body."""

    def __init__(self) -> None:
        self.flops = 0

    def call(self, name: str, *args: DType) -> DType:
        row = SCALAR_OPS[name]
        self.flops += row.flops
        return bool_ if row.gives == "bool" else args[0]

    def select(self, condition: DType, chosen: DType, otherwise: DType) -> DType:
        return chosen

    def cast(self, value: DType, dtype: DType) -> DType:
        return dtype

    def const(self, value: float, dtype: DType) -> DType:
        return dtype

    def dtype_of(self, value: DType) -> DType:
        return value


def flops_of_body(body: Body, operands: Sequence[DType]) -> int:
    """Return the flops of one element, given the dtypes of the operands."""
    counter = _Counter()
    body(counter, *operands)
    return counter.flops


def flops_of_map(node: Node) -> int:
    """Return the flops of one element of a Map; 0 for all else, which only moves elements."""
    if not node.definition.is_elementwise:
        return 0
    return flops_of_body(body_of(node), [t.dtype for t in node.inputs])


def body_of(node: Node) -> Body:
    """Return the scalar body of a Map, whose sizes need not be known."""
    kernel = node.definition.kernel
    assert kernel is not None, f"{node.op} is a leaf"
    spec = kernel(*(t.type for t in node.inputs), **node.attrs)
    assert isinstance(spec, Map), f"the kernel rule of {node.op} returns {spec}, and not a Map"
    return spec.body
