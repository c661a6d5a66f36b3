"""Bitwise ops on integers; of bools they are the logical ops.

A shift by as many bits as there are, or by more, is defined as what it tends to: nothing is left
but zeros, or copies of the sign where a signed integer is shifted right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, user_source
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Commutes, OpDef, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.comparison import (
    logical_and_op,
    logical_not_op,
    logical_or_op,
    logical_xor_op,
)
from symgrad.graph.ops.elementwise import broadcast_operands, infer_same, one_call
from symgrad.graph.public_ops import public


def _is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def _on_integers(
    name: str, reference: np.ufunc, scalar_op: str, commutes: Commutes = "no"
) -> OpDef:
    return elementwise(
        name,
        infer=infer_same(name, _is_integer),
        reference=lambda *operands: np.asarray(reference(*operands)),
        grad="none",
        body=one_call(scalar_op),
        commutes=commutes,
    )


def _check_has_bits(op: str, *values: Any) -> None:
    # An int has the dtype of the other operand: alone it might not fit that of a constant.
    for tensor in [as_tensor(value) for value in values if type(value) is not int]:
        if tensor.dtype.is_float:
            raise DTypeError(
                op,
                f"{tensor.type} is neither integer nor bool",
                hint="compare with 0",
                source=user_source(),
            )


def _apply(op: OpDef, of_bools: OpDef, *values: Any) -> Tensor:
    """Apply `op` to integers, or `of_bools` to bools; a bool beside an integer becomes one."""
    _check_has_bits(op.name, *values)
    operands = broadcast_operands(op.name, *values)
    return apply(of_bools if operands[0].dtype.is_bool else op, *operands)


@public(is_standard=True, ufuncs=[np.bitwise_and])
def bitwise_and(x: Any, y: Any, /) -> Tensor:
    """Compute the bits that are set in both integers; of bools, whether both are true.

    >>> sg.run(sg.bitwise_and([6, 12], 10))
    array([2, 8], dtype=int32)
    """
    return _apply(bitwise_and_op, logical_and_op, x, y)


bitwise_and_op = _on_integers("bitwise_and", np.bitwise_and, "and", "yes")


@public(is_standard=True, ufuncs=[np.bitwise_or])
def bitwise_or(x: Any, y: Any, /) -> Tensor:
    """Compute the bits that are set in either integer; of bools, whether either is true.

    >>> sg.run(sg.bitwise_or([6, 12], 1))
    array([ 7, 13], dtype=int32)
    """
    return _apply(bitwise_or_op, logical_or_op, x, y)


bitwise_or_op = _on_integers("bitwise_or", np.bitwise_or, "or", "yes")


@public(is_standard=True, ufuncs=[np.bitwise_xor])
def bitwise_xor(x: Any, y: Any, /) -> Tensor:
    """Compute the bits in which two integers differ; of bools, whether they differ.

    >>> sg.run(sg.bitwise_xor([6, 12], 10))
    array([12,  6], dtype=int32)
    """
    return _apply(bitwise_xor_op, logical_xor_op, x, y)


bitwise_xor_op = _on_integers("bitwise_xor", np.bitwise_xor, "xor", "yes")


@public(is_standard=True, ufuncs=[np.invert])
def bitwise_invert(x: Any, /) -> Tensor:
    """Compute the opposite of each bit of an integer; of a bool, the opposite.

    >>> sg.run(sg.bitwise_invert([0, 6]))
    array([-1, -7], dtype=int32)
    """
    _check_has_bits("bitwise_invert", x)
    x = as_tensor(x)
    return apply(logical_not_op if x.dtype.is_bool else bitwise_invert_op, x)


bitwise_invert_op = _on_integers("bitwise_invert", np.invert, "not")


@public(is_standard=True, ufuncs=[np.left_shift])
def bitwise_left_shift(x: Any, y: Any, /) -> Tensor:
    """Compute `x * 2**y` of integers, without the bits that leave the type.

    Where `y` is the width of the type or more, or negative, the result is 0.

    >>> sg.run(sg.bitwise_left_shift([1, 3], [4, 1]))
    array([16,  6], dtype=int32)
    """
    return _shift(bitwise_left_shift_op, x, y)


bitwise_left_shift_op = _on_integers("bitwise_left_shift", np.left_shift, "shl")


@public(is_standard=True, ufuncs=[np.right_shift])
def bitwise_right_shift(x: Any, y: Any, /) -> Tensor:
    """Compute the floor of `x / 2**y` of integers; the sign of a signed one is kept.

    Where `y` is the width of the type or more, or negative, the result is 0, or -1 for `x < 0`.

    >>> sg.run(sg.bitwise_right_shift([17, -17], 2))
    array([ 4, -5], dtype=int32)
    """
    return _shift(bitwise_right_shift_op, x, y)


bitwise_right_shift_op = _on_integers("bitwise_right_shift", np.right_shift, "shr")


def _shift(op: OpDef, x: Any, y: Any) -> Tensor:
    # A Python int takes the dtype of the other operand, in which it may be wider than by itself.
    for tensor in [as_tensor(operand) for operand in (x, y) if type(operand) is not int]:
        if not tensor.dtype.is_integer:
            raise DTypeError(op.name, f"{tensor.type} is no integer", source=user_source())
    return apply(op, *broadcast_operands(op.name, x, y))
