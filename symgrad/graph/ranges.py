"""Value range analysis: which values an integer tensor can have, as far as the graph tells.

An abstract interpretation over intervals. A range is the least and the greatest value, of any
element in any iteration; it is empty if there
is no element or no iteration. What is known of the parameters of a loop's body is in its region.
Only what indices are made of is looked into: views, elementwise ops by interval arithmetic on their
scalar bodies, and ops whose record has a rule for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from symgrad.graph.bodies import body_of
from symgrad.graph.build import known_ranges, outer_tensors
from symgrad.graph.dtypes import DType, bool_
from symgrad.graph.node import EMPTY, Node, Range, Tensor
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.graph.traverse import operands_of, topological


def is_empty(range_: Range) -> bool:
    """Return whether there is no value."""
    return range_[0] > range_[1]


def range_of(tensor: Tensor) -> Range | None:
    """Return the range of `tensor` as the region that is open sees it, None if it is not known."""
    return ranges_of([tensor]).get(tensor) if tensor.dtype.is_integer else None


def ranges_of(tensors: Iterable[Tensor]) -> Mapping[Tensor, Range]:
    """Return the ranges that are known of `tensors` and of what they are computed from."""
    outer, found = outer_tensors(), dict(known_ranges())
    for node in topological(tensors, found, outer):
        operands = operands_of(node, outer)
        given = [found.get(t) for t in operands]
        range_ = given[0] if operands is not node.inputs else _range_of_node(node, given)
        if range_ is not None and _fits(node.outputs[0].dtype, range_):
            found[node.outputs[0]] = range_
    return found


def _fits(dtype: DType, range_: Range) -> bool:
    if not dtype.is_integer:
        return False
    least, most = _limits(dtype)
    return is_empty(range_) or (least <= range_[0] and range_[1] <= most)


def _range_of_node(node: Node, given: list[Range | None]) -> Range | None:
    definition = node.definition
    known = [range_ for range_ in given if range_ is not None]
    if definition.value_range is not None:
        return definition.value_range(*known, **node.attrs) if len(known) == len(given) else None
    if definition.is_view:
        return given[0]
    if definition.kernel is None or not given or not definition.is_elementwise:
        return None
    return EMPTY if any(map(is_empty, known)) else _range_of_map(node, given)


def _range_of_map(node: Node, given: list[Range | None]) -> Range | None:
    """Return what the scalar body of a Map makes of the ranges of its operands."""
    dtypes = (t.dtype for t in node.inputs)
    operands = [_Interval(dtype, range_) for dtype, range_ in zip(dtypes, given, strict=True)]
    result: _Interval = body_of(node)(_Intervals(), *operands)
    return result.range


class _Interval(NamedTuple):
    """The values a scalar expression can have, None for a range if they are not known."""

    dtype: DType
    range: Range | None


class _Intervals:
    """Interval arithmetic: a `Scalars` that says which values the body of a Map can give.

    What may wrap around is not known, and neither is what a comparison decides.
    """

    def call(self, name: str, *args: _Interval) -> _Interval:
        dtype = bool_ if SCALAR_OPS[name].gives == "bool" else args[0].dtype
        combine = _COMBINED.get(name)
        ranges = [a.range for a in args]
        if name == "mod" and ranges[0] is None and ranges[1] is not None:
            ranges[0] = _limits(dtype)  # the divisor is enough to know
        known = [range_ for range_ in ranges if range_ is not None]
        if combine is None or len(known) < len(args):
            return _Interval(dtype, None)
        return _checked(dtype, combine(*known))

    def select(self, condition: _Interval, chosen: _Interval, otherwise: _Interval) -> _Interval:
        if chosen.range is None or otherwise.range is None:
            return _Interval(chosen.dtype, None)
        ends = zip(chosen.range, otherwise.range, strict=True)
        return _Interval(chosen.dtype, (min(next(ends)), max(next(ends))))

    def cast(self, value: _Interval, dtype: DType) -> _Interval:
        return _checked(dtype, value.range)

    def const(self, value: Any, dtype: DType) -> _Interval:
        return _checked(dtype, (value, value) if isinstance(value, int) else None)

    def dtype_of(self, value: _Interval) -> DType:
        return value.dtype


def _limits(dtype: DType) -> Range:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _checked(dtype: DType, range_: Range | None) -> _Interval:
    is_known = range_ is not None and _fits(dtype, range_)
    return _Interval(dtype, range_ if is_known else None)


def _of_ends(combine: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """Return the range of what `combine` makes, which is largest and least at the ends."""

    def combined(a: Range, b: Range) -> Range:
        ends = [combine(i, j) for i in a for j in b]
        return min(ends), max(ends)

    return combined


def _of_remainder(a: Range, b: Range) -> Range:
    """Return the range of a remainder, which has the sign of the divisor."""
    least, most = min(b[0] + 1, 0), max(b[1] - 1, 0)
    is_whole = b[0] > a[1] and a[0] >= 0  # what is less than the divisor is its own remainder
    return a if is_whole else (least, most)


# By the names of scalar operations.
_COMBINED: Mapping[str, Callable[..., Range]] = {
    "add": _of_ends(lambda i, j: i + j),
    "sub": _of_ends(lambda i, j: i - j),
    "mul": _of_ends(lambda i, j: i * j),
    "max": _of_ends(max),
    "min": _of_ends(min),
    "neg": lambda a: (-a[1], -a[0]),
    "mod": _of_remainder,
}
