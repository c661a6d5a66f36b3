"""Which values an integer tensor can have, as far as the graph tells when it is built.

A range is the least and the greatest value, of any element in any iteration; it is empty if there
is no element or no iteration. What is known of the parameters of a loop's body is in its region.
Only what indices are made of is looked into: constants, counters, sums, products and moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from symgrad.graph.build import known_ranges, outer_tensors
from symgrad.graph.node import Node, Range, Tensor
from symgrad.graph.traverse import operands_of, topological
from symgrad.graph.types import Literal

EMPTY: Range = (0, -1)


def is_empty(range_: Range) -> bool:
    """Return whether there is no value."""
    return range_[0] > range_[1]


def range_of(tensor: Tensor) -> Range | None:
    """Return the range of `tensor` as the region that is open sees it, None if it is not known."""
    if not tensor.dtype.is_integer:
        return None
    outer, found = outer_tensors(), dict(known_ranges())
    for node in topological([tensor], found, outer):
        operands = operands_of(node, outer)
        given = [found[t] for t in operands if t in found]
        if len(given) < len(operands):
            continue
        range_ = given[0] if operands is not node.inputs else _range_of_node(node, given)
        if range_ is not None and _fits(node.outputs[0], range_):
            found[node.outputs[0]] = range_
    return found.get(tensor)


def _fits(tensor: Tensor, range_: Range) -> bool:
    if not tensor.dtype.is_integer:
        return False
    limits = np.iinfo(tensor.dtype.numpy)
    return is_empty(range_) or (limits.min <= range_[0] and range_[1] <= limits.max)


def _range_of_node(node: Node, given: list[Range]) -> Range | None:
    if not given:
        return _range_of_leaf(node)
    if node.op in _MOVES:
        return given[0]
    combine = _COMBINED.get(node.op)
    if combine is None:
        return None
    return EMPTY if any(map(is_empty, given)) else combine(*given)


def _range_of_leaf(node: Node) -> Range | None:
    literal = node.attrs.get("value")
    if isinstance(literal, Literal) and literal.type.dtype.is_integer:
        values = literal.array
        return (int(values.min()), int(values.max())) if values.size else EMPTY
    if node.op == "iota":
        size = node.output.shape[_int(node.attrs["axis"])]
        return (0, size - 1) if isinstance(size, int) else None
    return None


def _int(attr: object) -> int:
    assert isinstance(attr, int), f"{attr!r} is no axis"
    return attr


def _of_ends(combine: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """Return the range of what `combine` makes, which is largest and least at the ends."""

    def combined(a: Range, b: Range) -> Range:
        ends = [combine(i, j) for i in a for j in b]
        return min(ends), max(ends)

    return combined


_MOVES = {"astype", "broadcast_to", "identity", "permute_dims", "reshape", "slice", "stop_gradient"}
_COMBINED: Mapping[str, Callable[..., Range]] = {
    "add": _of_ends(lambda i, j: i + j),
    "subtract": _of_ends(lambda i, j: i - j),
    "multiply": _of_ends(lambda i, j: i * j),
    "maximum": _of_ends(max),
    "minimum": _of_ends(min),
    "negative": lambda a: (-a[1], -a[0]),
    "concat": lambda *parts: (min(p[0] for p in parts), max(p[1] for p in parts)),
}
