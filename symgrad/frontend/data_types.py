"""Data type functions of the Array API: limits of dtypes, their kinds, and what they promote to."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, SymgradError, user_source
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype, float_limits, promote
from symgrad.graph.node import Tensor
from symgrad.graph.operands import Scalar, common_dtype
from symgrad.graph.sizes import Size
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """Machine limits of a float dtype, or of the parts of a complex one: what `finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """Machine limits of an integer dtype: what `iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: DTypeLike | Tensor, /) -> FloatLimits:
    """Return the machine limits of a float dtype, or of that of a tensor.

    `bits`, `eps` (from 1 to the next number), `max`, `min` (the least finite number),
    `smallest_normal`, `dtype`. Those of a complex dtype are those of its parts. Raises `DTypeError`
    for a dtype that is neither.

    >>> sg.finfo(sg.float32).bits
    32
    """
    dtype = _dtype_of(type).real
    if not dtype.is_float:
        raise DTypeError("finfo", f"{dtype.name} is no float", source=user_source())
    found = float_limits(dtype)
    return FloatLimits(
        bits=dtype.bits,
        eps=float(found.eps),
        max=float(found.max),
        min=float(found.min),
        smallest_normal=float(found.smallest_normal),
        dtype=dtype,
    )


def iinfo(type: DTypeLike | Tensor, /) -> IntegerLimits:
    """Return the machine limits of an integer dtype, or of that of a tensor.

    `bits`, `max`, `min`, `dtype`. Raises `DTypeError` for a dtype that is no integer.

    >>> sg.iinfo("int8").max
    127
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError("iinfo", f"{dtype.name} is no integer", source=user_source())
    found = np.iinfo(dtype.numpy)
    return IntegerLimits(dtype.bits, int(found.max), int(found.min), dtype)


def _dtype_of(given: Any) -> DType:
    return given.dtype if isinstance(given, Tensor) else as_dtype(given)


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike, /) -> bool:
    """Return whether `from_`, a dtype or a tensor, is promoted to `to` where the two meet.

    >>> sg.can_cast("int8", "int16"), sg.can_cast("float64", "float32")
    (True, False)
    """
    wanted = as_dtype(to)
    try:
        return promote("can_cast", _dtype_of(from_), wanted) is wanted
    except SymgradError:
        return False  # they meet nowhere


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that tensors, dtypes and Python numbers promote to (type promotion).

    Within a kind it is the table of the Array API; an integer with a float takes the float's dtype.
    Python numbers are weak: they take the dtype of the others, unless their kind is above it.
    Raises `DTypeError` for dtypes without a common one, and where no dtype or tensor is given.

    >>> sg.result_type("int8", sg.uint8, 3)
    symgrad.int16
    """
    weak = [v for v in arrays_and_dtypes if isinstance(v, Scalar)]
    strong = [_strong_dtype(v) for v in arrays_and_dtypes if not isinstance(v, Scalar)]
    if not strong:
        problem = f"there is no dtype and no tensor among {arrays_and_dtypes}"
        raise DTypeError("result_type", problem, source=user_source())
    try:
        return common_dtype("result_type", strong, weak)
    except SymgradError as error:
        error.source = user_source()
        raise


def _strong_dtype(given: Any) -> DType:
    if isinstance(given, Size):
        return dtypes.int64
    is_array = hasattr(given, "dtype") and not isinstance(given, type)
    return as_dtype(given.dtype if is_array else given)


KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (dtypes.bool_,),
    "signed integer": tuple(d for d in dtypes.ALL if d.kind == "signed"),
    "unsigned integer": tuple(d for d in dtypes.ALL if d.kind == "unsigned"),
    "integral": tuple(d for d in dtypes.ALL if d.is_integer),
    "real floating": dtypes.FLOATS,
    "complex floating": dtypes.COMPLEX,
    "numeric": tuple(d for d in dtypes.ALL if not d.is_bool),
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Return whether `dtype` is `kind`: a dtype, a kind of dtypes, or one of a tuple of them.

    The kinds are "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating" and "numeric". Raises `GraphError` for another one.

    >>> sg.isdtype(sg.float32, "real floating"), sg.isdtype(sg.int8, ("bool", sg.int16))
    (True, False)
    """
    given = as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(given in dtypes_of_kind("isdtype", one) for one in kinds)


def dtypes_of_kind(op: str, kind: DTypeLike) -> tuple[DType, ...]:
    """Return the dtypes of a kind of the Array API, or the one that is named."""
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    try:
        return (as_dtype(kind),)
    except DTypeError as error:
        problem = f"{kind!r} is no dtype and none of {', '.join(KINDS)}"
        raise GraphError(op, problem, source=user_source()) from error
