"""What computing an element costs, in flops, for decisions and for reports."""

from __future__ import annotations

from symgrad.graph.dtypes import DType
from symgrad.graph.dtypes import bool_ as bool_dtype
from symgrad.graph.kernel_spec import KernelSpec, Map
from symgrad.graph.node import Node
from symgrad.graph.scalars import SCALAR_OPS


class _Counter:
    """A `Scalars` whose values are dtypes: it counts the flops of a body."""

    def __init__(self) -> None:
        self.flops = 0

    def call(self, name: str, *args: DType) -> DType:
        row = SCALAR_OPS[name]
        self.flops += row.flops
        return bool_dtype if row.gives == "bool" else args[0]

    def select(self, condition: DType, chosen: DType, otherwise: DType) -> DType:
        return chosen

    def cast(self, value: DType, dtype: DType) -> DType:
        return dtype

    def const(self, value: float, dtype: DType) -> DType:
        return dtype

    def dtype_of(self, value: DType) -> DType:
        return value


def flops_per_element(node: Node, spec: KernelSpec | None) -> int:
    """Return the flops of one element of a Map; 0 for the structures that only move elements."""
    if not isinstance(spec, Map):
        return 0
    counter = _Counter()
    spec.body(counter, *(t.dtype for t in node.inputs))
    return counter.flops
