"""Comparison, logic and selection: truth values, ops on them, and choice between values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, called, user_source
from symgrad.graph.build import apply
from symgrad.graph.given_arrays import integer_limits
from symgrad.graph.node import Commutes, Grads, Node, OfPairs, OpDef, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import (
    as_tensor,
    cast,
    common_dtype,
    promote_operands,
    require_dtype,
    require_equal_types,
)
from symgrad.graph.ops.elementwise import (
    broadcast_operands,
    broadcast_together,
    filled_like,
    infer_bool,
    infer_same,
    is_any,
    is_bool,
    one_call,
    tangents_or_zeros,
)
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Size
from symgrad.graph.types import Array, TensorType

_SCALARS = (bool, int, float, complex, Size)


def _comparison(
    name: str,
    reference: np.ufunc,
    scalar_op: str,
    commutes: Commutes = "no",
    of_pairs: OfPairs = "none",
) -> OpDef:
    return elementwise(
        name,
        infer=infer_bool(name, is_any),
        reference=lambda x, y: np.asarray(reference(x, y)),
        grad="none",
        body=one_call(scalar_op),
        commutes=commutes,
        of_pairs=of_pairs,
    )


def _operands(op: str, x: Any, y: Any) -> list[Tensor]:
    """Return the operands of a comparison, whose values may have no dtype in common.

    An int may be beyond the dtype of the other operand: it is then more than all elements, or less,
    as 1 and 0 are. So is a negative number beside uint64, which no dtype holds with signed ones.
    """
    for number, other in ((y, x), (x, y)):
        if not isinstance(number, int) or isinstance(number, bool | np.generic):
            continue
        if isinstance(other, _SCALARS):
            continue
        with called(op):
            tensor = as_tensor(other)
        limits = integer_limits(common_dtype(op, [tensor.dtype], [number]))
        if limits is not None and not limits[0] <= number <= limits[1]:
            is_more = number > limits[1]
            ends = filled_like(tensor, not is_more), filled_like(tensor, is_more)
            return list(ends if number is y else ends[::-1])
    if any([isinstance(v, _SCALARS) or _has_no_integers(v) for v in (x, y)]):
        return broadcast_operands(op, x, y)
    with called(op):
        tensors = [as_tensor(x), as_tensor(y)]
    kinds = [(t.dtype.kind, t.dtype.bits) for t in tensors]
    for number, kind in enumerate(kinds):
        if kind[0] == "signed" and kinds[1 - number] == ("unsigned", 64):
            tensors[1 - number], tensors[number] = _beside_signed(
                op, tensors[1 - number], tensors[number]
            )
    return broadcast_operands(op, *tensors)


def _has_no_integers(value: Any) -> bool:
    """Return whether `value` is an array of other numbers; promotion may warn of such an array."""
    return isinstance(value, np.ndarray) and value.dtype.kind not in "iu"


def _beside_signed(op: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return uint64 elements that compare as `x`, which are uint64, and signed `y` do."""
    x, y = broadcast_together(op, x=x, y=y)
    is_below = apply(less_op, y, filled_like(y, 0))
    return where(is_below, filled_like(x, 1), x), cast(
        where(is_below, filled_like(y, 0), y), x.dtype
    )


@public(is_standard=True, ufuncs=[np.equal], known_as=["eq"])
def equal(x: Any, y: Any, /) -> Tensor:
    """Compute `x == y`, elementwise, as bools. On a tensor also `x == y`.

    >>> sg.run(sg.equal([1, 2, 3], 2))
    array([False,  True, False])
    """
    return apply(equal_op, *_operands("equal", x, y))


equal_op = _comparison("equal", np.equal, "eq", "yes", "rule")


@public(is_standard=True, ufuncs=[np.not_equal], known_as=["ne"])
def not_equal(x: Any, y: Any, /) -> Tensor:
    """Compute `x != y`, elementwise, as bools. On a tensor also `x != y`.

    >>> sg.run(sg.not_equal([1, 2, 3], 2))
    array([ True, False,  True])
    """
    return apply(not_equal_op, *_operands("not_equal", x, y))


not_equal_op = _comparison("not_equal", np.not_equal, "ne", "yes", "rule")


@public(is_standard=True, ufuncs=[np.less], known_as=["lt"])
def less(x: Any, y: Any, /) -> Tensor:
    """Compute `x < y`, elementwise, as bools; false where either is nan.

    >>> sg.run(sg.less([1, 2, 3], 2))
    array([ True, False, False])
    """
    return apply(less_op, *_operands("less", x, y))


less_op = _comparison("less", np.less, "lt")


@public(is_standard=True, ufuncs=[np.less_equal], known_as=["le"])
def less_equal(x: Any, y: Any, /) -> Tensor:
    """Compute `x <= y`, elementwise, as bools; false where either is nan.

    >>> sg.run(sg.less_equal([1, 2, 3], 2))
    array([ True,  True, False])
    """
    return apply(less_equal_op, *_operands("less_equal", x, y))


less_equal_op = _comparison("less_equal", np.less_equal, "le")


@public(is_standard=True, ufuncs=[np.greater], known_as=["gt"])
def greater(x: Any, y: Any, /) -> Tensor:
    """Compute `x > y`, elementwise, as bools; false where either is nan.

    >>> sg.run(sg.greater([1, 2, 3], 2))
    array([False, False,  True])
    """
    return apply(greater_op, *_operands("greater", x, y))


greater_op = _comparison("greater", np.greater, "gt")


@public(is_standard=True, ufuncs=[np.greater_equal], known_as=["ge"])
def greater_equal(x: Any, y: Any, /) -> Tensor:
    """Compute `x >= y`, elementwise, as bools; false where either is nan.

    >>> sg.run(sg.greater_equal([1, 2, 3], 2))
    array([False,  True,  True])
    """
    return apply(greater_equal_op, *_operands("greater_equal", x, y))


greater_equal_op = _comparison("greater_equal", np.greater_equal, "ge")


def _logic(name: str, reference: np.ufunc, scalar_op: str, commutes: Commutes = "no") -> OpDef:
    return elementwise(
        name,
        infer=infer_same(name, is_bool),
        reference=lambda *operands: np.asarray(reference(*operands)),
        grad="none",
        body=one_call(scalar_op),
        commutes=commutes,
    )


def _bool_operands(op: str, *values: Any) -> list[Tensor]:
    tensors = [as_tensor(v) for v in values]
    for tensor in tensors:
        if not tensor.dtype.is_bool:
            raise DTypeError(
                op, f"{tensor.type} is not bool", hint="compare with 0", source=user_source()
            )
    return tensors if len(tensors) == 1 else broadcast_operands(op, *tensors)


@public(is_standard=True, ufuncs=[np.logical_and])
def logical_and(x: Any, y: Any, /) -> Tensor:
    """Compute whether both are true; the operands are bools.

    >>> sg.run(sg.logical_and([True, True], [True, False]))
    array([ True, False])
    """
    return apply(logical_and_op, *_bool_operands("logical_and", x, y))


logical_and_op = _logic("logical_and", np.logical_and, "and", "yes")


@public(is_standard=True, ufuncs=[np.logical_or])
def logical_or(x: Any, y: Any, /) -> Tensor:
    """Compute whether either is true; the operands are bools.

    >>> sg.run(sg.logical_or([True, False], [False, False]))
    array([ True, False])
    """
    return apply(logical_or_op, *_bool_operands("logical_or", x, y))


logical_or_op = _logic("logical_or", np.logical_or, "or", "yes")


@public(is_standard=True, ufuncs=[np.logical_xor])
def logical_xor(x: Any, y: Any, /) -> Tensor:
    """Compute whether one is true and the other is not; the operands are bools.

    >>> sg.run(sg.logical_xor([True, True], [True, False]))
    array([False,  True])
    """
    return apply(logical_xor_op, *_bool_operands("logical_xor", x, y))


logical_xor_op = _logic("logical_xor", np.logical_xor, "xor", "yes")


@public(is_standard=True, ufuncs=[np.logical_not])
def logical_not(x: Any, /) -> Tensor:
    """Compute the opposite; the operand is bool.

    >>> sg.run(sg.logical_not([True, False]))
    array([False,  True])
    """
    return apply(logical_not_op, *_bool_operands("logical_not", x))


logical_not_op = _logic("logical_not", np.logical_not, "not")


@public(is_standard=True, ufuncs=[np.isnan])
def isnan(x: Any, /) -> Tensor:
    """Compute whether each element is nan.

    >>> sg.run(sg.isnan([1.0, np.inf, np.nan]))
    array([False, False,  True])
    """
    x = as_tensor(x)
    return not_equal(x, x)


@public(is_standard=True, known_as=["select"])
def where(condition: Any, x: Any, y: Any, /) -> Tensor:
    """Take `x` where `condition` holds and `y` elsewhere; both are evaluated.

    The gradient is selected before it is multiplied into either side, so the side that is not
    taken receives exact zeros.

    >>> sg.run(sg.where([True, False, True], [1.0, 2.0, 3.0], 0.0))
    array([1., 0., 3.], dtype=float32)
    """
    (condition,) = _bool_operands("where", condition)
    x, y = promote_operands("where", x, y)
    return apply(where_op, *broadcast_together("where", condition=condition, x=x, y=y))


def _where_infer(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    require_dtype("where", "condition", condition, is_bool)
    chosen = require_equal_types("where", x=x, y=y)
    return require_equal_types("where", x=chosen, condition=condition.with_dtype(chosen.dtype))


def _where_reference(condition: Array, x: Array, y: Array) -> Array:
    return np.asarray(np.where(condition, x, y))


def _where_grad(node: Node, g: Tensor) -> Grads:
    condition = node.inputs[0]
    zero = filled_like(g, 0)
    return (
        None,
        apply(where_op, condition, g, zero),
        apply(where_op, condition, zero, g),
    )


def _where_tangent(
    node: Node, _condition: None, *tangents: Tensor | None
) -> Sequence[Tensor | None]:
    condition, *choices = node.inputs
    return [apply(where_op, condition, *tangents_or_zeros(choices, tangents))]


where_op = elementwise(
    "where",
    infer=_where_infer,
    reference=_where_reference,
    grad=_where_grad,
    tangent=_where_tangent,
    body=lambda s, condition, x, y: s.select(condition, x, y),
    of_pairs="each",
)
