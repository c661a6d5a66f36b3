"""NumPy's functions on tensors that compute or choose values, where an op has other arguments.

Those that only shape tensors are in `numpy_shapes.py`, reductions in `numpy_reductions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.frontend import creation, data_types, matrices
from symgrad.frontend.numpy_arguments import adapts, refuse
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType, DTypeLike
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis
from symgrad.graph.ops import (
    arithmetic,
    closeness,
    comparison,
    complex_parts,
    contraction,
    conversion,
    diagonals,
    differences,
    extrema,
    float_parts,
    indexing,
    joining,
    membership,
    ordering,
    reduction,
    slicing,
    statistics,
    summation,
    whole_numbers,
)
from symgrad.graph.ops.elementwise import filled

# ---------------------------------------------------------------------------------------- creation


def _shape_of(a: Any, shape: Any) -> Any:
    return as_tensor(a).shape if shape is None else shape


def _dtype_of(a: Any, dtype: DTypeLike | None) -> DTypeLike:
    return as_tensor(a).dtype if dtype is None else dtype


@adapts("zeros_like", np.zeros_like)
def _zeros_like(a: Any, dtype: DTypeLike | None = None, shape: Any = None) -> Tensor:
    return creation.zeros(_shape_of(a, shape), _dtype_of(a, dtype))


@adapts("empty_like", np.empty_like)
def _empty_like(prototype: Any, dtype: DTypeLike | None = None, shape: Any = None) -> Tensor:
    return creation.empty(_shape_of(prototype, shape), _dtype_of(prototype, dtype))


@adapts("ones_like", np.ones_like)
def _ones_like(a: Any, dtype: DTypeLike | None = None, shape: Any = None) -> Tensor:
    return creation.ones(_shape_of(a, shape), _dtype_of(a, dtype))


@adapts("full_like", np.full_like)
def _full_like(
    a: Any, fill_value: Any, dtype: DTypeLike | None = None, shape: Any = None
) -> Tensor:
    return creation.full(_shape_of(a, shape), fill_value, _dtype_of(a, dtype))


@adapts("identity", np.copy)
def _copy(a: Any) -> Tensor:
    return conversion.identity(a)


@adapts("tril", np.tril)
def _tril(m: Any, k: int = 0) -> Tensor:
    return matrices.tril(m, k=k)


@adapts("triu", np.triu)
def _triu(m: Any, k: int = 0) -> Tensor:
    return matrices.triu(m, k=k)


@adapts("diag", np.diag)
def _diag(v: Any, k: int = 0) -> Tensor:
    return diagonals.diag(v, k)


@adapts("diagflat", np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Tensor:
    return diagonals.diagflat(v, k)


# ------------------------------------------------------------------------------- choice of elements


@adapts("take", np.take)
def _take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Tensor:
    x = as_tensor(a)
    if mode == "raise":
        return indexing.take(x, indices, axis=axis)
    size = x.size if axis is None else x.shape[normalize_axis("take", axis, x.ndim)]
    places = creation.asarray(indices)
    wrapped = arithmetic.remainder(places, size)
    inside = extrema.clip(places, 0, size - 1) if mode == "clip" else wrapped
    return indexing.take(x, inside, axis=axis)


@adapts("take_along_axis", np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    return indexing.take_along_axis(arr, indices, axis=axis)


@adapts("where", np.where)
def _where(condition: Any, *choices: Any) -> Tensor:
    if len(choices) != 2:
        problem = "without x and y the shape of the result would depend on data"
        raise refuse(np.where, problem, "sg.nonzero with size=")
    return comparison.where(_as_bool(condition), *choices)


def _as_bool(x: Any) -> Tensor:
    tensor = as_tensor(x)
    return tensor if tensor.dtype.is_bool else comparison.not_equal(tensor, 0)


@adapts("where", np.select)
def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    if len(condlist) != len(choicelist) or not condlist:
        problem = f"{len(condlist)} conditions for {len(choicelist)} choices"
        raise ShapeError("numpy.select", problem, source=user_source())
    found = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        found = comparison.where(condition, choice, found)
    return as_tensor(found)


@adapts("diagonal", np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return summation.diagonal(a, offset, axis1, axis2)


@adapts("clip", np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None) -> Tensor:
    return extrema.clip(a, a_min if min is None else min, a_max if max is None else max)


# ------------------------------------------------------------------------------------------ numbers


@adapts("round", np.round, np.around)
def _round(a: Any, decimals: int = 0) -> Tensor:
    x = as_tensor(a)
    if decimals == 0:
        return whole_numbers.round(x)
    if not x.dtype.is_float:
        if decimals > 0:
            return x
        raise refuse(np.round, "an integer has no decimals below 0", "sg.floor_divide")
    scale = float(10 ** abs(decimals))
    shift, back = arithmetic.multiply, arithmetic.divide
    if decimals < 0:
        shift, back = back, shift
    return back(whole_numbers.round(shift(x, scale)), scale)


@adapts("trunc", np.fix)
def _fix(x: Any) -> Tensor:
    return float_parts.trunc(x)


@adapts("sort", np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    x = joining.ravel(a) if axis is None else as_tensor(a)
    return ordering.sort(x, axis=-1 if axis is None else axis)


@adapts("argsort", np.argsort)
def _argsort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    x = joining.ravel(a) if axis is None else as_tensor(a)
    return ordering.argsort(x, axis=-1 if axis is None else axis)


@adapts("diff", np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    return differences.diff(a, n=n, axis=axis, prepend=prepend, append=append)


@adapts("diff", np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    found = differences.diff(joining.ravel(ary))
    ends = [None if end is None else joining.ravel(end) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], found, ends[1]) if part is not None]
    return slicing.concat(parts)


@adapts("isclose", np.isclose)
def _isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    return closeness.isclose(a, b, rtol, atol, equal_nan)


@adapts("allclose", np.allclose)
def _allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    return closeness.allclose(a, b, rtol, atol, equal_nan)


@adapts("array_equal", np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Tensor:
    return closeness.array_equal(a1, a2, equal_nan)


@adapts("array_equal", np.array_equiv)
def _array_equiv(a1: Any, a2: Any) -> Tensor:
    return reduction.all(comparison.equal(a1, a2))


@adapts("isin", np.isin)
def _isin(
    element: Any, test_elements: Any, *, invert: bool = False, assume_unique: bool = False,
    kind: Any = None,
) -> Tensor:  # fmt: skip
    return membership.isin(element, test_elements, invert=invert)


@adapts("nan_to_num", np.nan_to_num)
def _nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    return statistics.nan_to_num(x, nan, posinf, neginf)


@adapts("isinf", np.isposinf)
def _isposinf(x: Any) -> Tensor:
    return comparison.logical_and(arithmetic.isinf(x), comparison.greater(x, 0))


@adapts("isinf", np.isneginf)
def _isneginf(x: Any) -> Tensor:
    return comparison.logical_and(arithmetic.isinf(x), comparison.less(x, 0))


@adapts("identity", np.real_if_close)
def _real_if_close(a: Any, tol: float = 100) -> Tensor:
    return as_tensor(a)  # whether it is close depends on values, and a dtype does not


@adapts("imag", np.iscomplex)
def _iscomplex(x: Any) -> Tensor:
    return comparison.not_equal(_imag(x), 0)


@adapts("imag", np.isreal)
def _isreal(x: Any) -> Tensor:
    return comparison.equal(_imag(x), 0)


def _imag(x: Any) -> Tensor:
    given = as_tensor(x)
    is_complex = given.dtype.is_complex
    return complex_parts.imag(given) if is_complex else filled(given.shape, 0, dtypes.int8)


@adapts("isdtype", np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return as_tensor(x).dtype.is_complex


@adapts("isdtype", np.isrealobj)
def _isrealobj(x: Any) -> bool:
    return not as_tensor(x).dtype.is_complex


@adapts("result_type", np.result_type)
def _result_type(*arrays_and_dtypes: Any) -> DType:
    return data_types.result_type(*arrays_and_dtypes)


@adapts("can_cast", np.can_cast)
def _can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    given = from_.dtype.numpy if isinstance(from_, Tensor) else from_
    return bool(np.can_cast(given, to, casting))  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------- products


@adapts("tensordot", np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    return contraction.tensordot(a, b, axes=axes)


@adapts("tensordot", np.inner)
def _inner(a: Any, b: Any, /) -> Tensor:
    x, y = as_tensor(a), as_tensor(b)
    if x.ndim == 0 or y.ndim == 0:
        return arithmetic.multiply(x, y)
    return contraction.tensordot(x, y, axes=((-1,), (-1,)))


@adapts("tensordot", np.vdot)
def _vdot(a: Any, b: Any, /) -> Tensor:
    return contraction.tensordot(complex_parts.conj(joining.ravel(a)), joining.ravel(b), axes=1)


@adapts("trace", np.trace)
def _trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Tensor:
    return reduction.sum(summation.diagonal(a, offset, axis1, axis2), -1, dtype=dtype)
