"""Rounding to whole numbers: down, up and to the nearest; integers stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, user_source
from symgrad.graph.build import apply
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import as_number
from symgrad.graph.ops.elementwise import (
    infer_same,
    is_float,
    is_inexact,
    one_call,
    rounded_once,
)
from symgrad.graph.public_ops import public


def as_real_number(op: str, x: Any) -> Tensor:
    """Return `x` as a tensor; raises `DTypeError` that names `op` for bools and complex numbers."""
    tensor = as_number(op, x)
    if tensor.dtype.is_complex:
        hint = "use real and imag"
        raise DTypeError(op, f"{tensor.type} is no real number", hint=hint, source=user_source())
    return tensor


@public(is_standard=True, ufuncs=[np.floor])
def floor(x: Any, /) -> Tensor:
    """Compute the greatest integer not above `x`, in the dtype of `x`. It has no gradient.

    >>> sg.run(sg.floor([1.7, -1.2]))
    array([ 1., -2.], dtype=float32)
    """
    x = as_real_number("floor", x)
    return apply(floor_op, x) if x.dtype.is_float else x


floor_op = elementwise(
    "floor",
    infer=infer_same("floor", is_float),
    reference=rounded_once(np.floor),
    grad="none",
    body=one_call("floor"),
)


@public(is_standard=True, ufuncs=[np.ceil])
def ceil(x: Any, /) -> Tensor:
    """Compute the least integer not below `x`, in the dtype of `x`. It has no gradient.

    >>> sg.run(sg.ceil([1.2, -1.7]))
    array([ 2., -1.], dtype=float32)
    """
    x = as_real_number("ceil", x)
    return apply(ceil_op, x) if x.dtype.is_float else x


ceil_op = elementwise(
    "ceil",
    infer=infer_same("ceil", is_float),
    reference=rounded_once(np.ceil),
    grad="none",
    body=one_call("ceil"),
)


@public(is_standard=True, ufuncs=[np.rint])
def round(x: Any, /) -> Tensor:
    """Compute the nearest integer, the even one of two, in the dtype of `x`. It has no gradient.

    >>> sg.run(sg.round([0.5, 1.5, -2.4]))
    array([ 0.,  2., -2.], dtype=float32)
    """
    x = as_number("round", x)
    return apply(round_op, x) if is_inexact(x.dtype) else x


round_op = elementwise(
    "round",
    infer=infer_same("round", is_inexact),
    reference=rounded_once(np.rint),
    grad="none",
    body=one_call("round"),
    of_pairs="each",
)
