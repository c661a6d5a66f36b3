"""Known indices: index tensors of which a graph tells, before it runs, that they are in range.

Such as those that stand for a slice beside an array, or that a user has written out. What ranges of
computed integers are is in `symgrad/graph/ranges.py`; this looks through moved elements only.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Tensor
from symgrad.graph.ops.gathering import iota_op
from symgrad.graph.types import ArrayLiteral


def is_in_range(index: Tensor, size: int) -> bool:
    """Return whether each element of `index` is seen to be in an axis of `size`."""
    while index.node.definition.is_view:
        (index,) = index.node.inputs
    literal = index.node.attrs.get("value")
    if index.node.definition is constant_op and isinstance(literal, ArrayLiteral):
        array = literal.array
        return array.size == 0 or (-size <= array.min() and array.max() < size)
    if index.node.definition is not iota_op:
        return False
    axis = index.node.attrs["axis"]
    assert isinstance(axis, int), "an axis is an int"
    extent = index.shape[axis]
    return isinstance(extent, int) and extent <= size


def are_in_range(indices: Sequence[Tensor], sizes: Sequence[int]) -> bool:
    """Return whether index tensors are seen to be in axes of `sizes`."""
    return all(is_in_range(index, size) for index, size in zip(indices, sizes, strict=True))
