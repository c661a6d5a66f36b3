"""Slices bounded by tensors: `x[i : i + 3]`, whose length is seen to be 3 before `i` is known.

The bounds are compared as sums: each is an integer and multiples of what no sum is, such as a
placeholder. Only where they differ by an integer alone is the length static.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.build import origin_of
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add_op, multiply_op, negative_op, subtract_op
from symgrad.graph.ops.indexing import as_int64
from symgrad.graph.ops.structure import broadcast_to_op
from symgrad.graph.types import ArrayLiteral, attr_key
from symgrad.records import dataclass

_OP = "getitem"
_DEEPEST = 8  # nodes from a bound to what it is a sum of
_HINT = "use sg.dynamic_slice(x, starts, sizes), or x[i : i + n] with an int n"


@dataclass(frozen=True, slots=True)
class TensorBounds:
    """A slice from `start`, an int64 scalar, on: of `length` elements every `step`-th."""

    start: Tensor
    length: int
    step: int


def tensor_bounds(item: slice) -> TensorBounds | None:
    """Return what a slice with bounds that are tensors takes, None for one without.

    Raises `DTypeError` for a bound that is no integer scalar, and where the length is not seen to
    be static.
    """
    if not isinstance(item.start, Tensor) and not isinstance(item.stop, Tensor):
        return None
    start = 0 if item.start is None else item.start
    if item.stop is None:
        raise _unknown_length(f"{_text(start)} on")
    first, last = _scalar(start), _scalar(item.stop)
    length = _difference(last, first)
    if length is None or length < 0:
        raise _unknown_length(f"{_text(start)} to {_text(item.stop)}")
    step = 1 if item.step is None else item.step
    if not isinstance(step, int) or step < 1:
        raise ShapeError(_OP, f"{step} is no step of a slice from a tensor", source=user_source())
    return TensorBounds(as_int64(first), length, step)


def _text(bound: Any) -> str:
    return str(bound.type) if isinstance(bound, Tensor) else str(bound)


def _unknown_length(what: str) -> DTypeError:
    problem = f"the length of a slice from {what} would depend on data"
    return DTypeError(_OP, problem, hint=_HINT, source=user_source())


def _scalar(bound: Any) -> Tensor:
    tensor = as_tensor(bound)
    if tensor.ndim or not tensor.dtype.is_integer:
        raise DTypeError(
            _OP, f"{tensor.type} does not bound a slice: it is no integer", source=user_source()
        )
    return tensor


@dataclass(frozen=True, slots=True)
class _LinearForm:
    """An integer and multiples of terms, which are equal if their keys are."""

    constant: int
    terms: tuple[tuple[Hashable, int], ...] = ()

    def plus(self, other: _LinearForm, times: int = 1) -> _LinearForm:
        total = dict(self.terms)
        for key, count in other.terms:
            total[key] = total.get(key, 0) + times * count
        left = tuple((key, count) for key, count in total.items() if count)
        return _LinearForm(self.constant + times * other.constant, left)

    def times(self, factor: int) -> _LinearForm:
        return _LinearForm(0).plus(self, factor)


def _difference(last: Tensor, first: Tensor) -> int | None:
    """Return `last - first` if it is the same for any data."""
    rest = _sum_of(last, _DEEPEST).plus(_sum_of(first, _DEEPEST), -1)
    return None if rest.terms else rest.constant


def _sum_of(tensor: Tensor, depth: int) -> _LinearForm:
    """Return what `tensor` is a sum of, where no sum wraps around."""
    tensor = origin_of(tensor)
    node = tensor.node
    if node.definition is constant_op:
        literal = node.attrs["value"]
        assert isinstance(literal, ArrayLiteral), "a constant has a value"
        return _LinearForm(int(literal.array.reshape(-1)[0]))
    if depth and node.definition in (add_op, subtract_op, negative_op, multiply_op):
        parts = [_sum_of(operand, depth - 1) for operand in node.inputs]
        found = _combined(node, parts)
        if found is not None:
            return found
    return _LinearForm(0, ((_key(tensor, depth), 1),))


def _combined(node: Node, parts: Sequence[_LinearForm]) -> _LinearForm | None:
    if node.definition is negative_op:
        return parts[0].times(-1)
    a, b = parts
    if node.definition is not multiply_op:
        return a.plus(b, 1 if node.definition is add_op else -1)
    if a.terms and b.terms:
        return None
    return a.times(b.constant) if a.terms else b.times(a.constant)


def _key(tensor: Tensor, depth: int) -> Hashable:
    """Return what is equal for tensors that are: built twice of the same, or one."""
    tensor = origin_of(tensor)
    node = tensor.node
    is_plain = node.definition.is_elementwise or node.definition is broadcast_to_op
    if not depth or not node.inputs or not is_plain:
        return tensor
    attrs = tuple((name, attr_key(node.attrs[name])) for name in sorted(node.attrs))
    return node.op, attrs, tuple(_key(operand, depth - 1) for operand in node.inputs)
