"""Type promotion, broadcasting and unification of shapes: operands from what a user writes.

Ops themselves are strict: equal dtypes, equal shapes. Public functions come here first, so every
conversion and every broadcast is a node that can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.errors import (
    AxisError,
    DTypeError,
    ShapeError,
    SymgradError,
    called,
    shortened,
    user_source,
)
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype, promote
from symgrad.graph.foreign_arrays import arrays_within, has_own_dtype
from symgrad.graph.given_arrays import given_array, require_int
from symgrad.graph.late_binding import provide, provided
from symgrad.graph.leaf import constant_node
from symgrad.graph.node import Tensor
from symgrad.graph.promotion_warning import warn_of_float64
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.spread_numbers import number_beside
from symgrad.graph.types import Array, ArrayLiteral, Shape, TensorType
from symgrad.suggestions import known_as

_PYTHON_SCALARS = (bool, int, float, complex)
Scalar = bool | int | float | complex
_NUMBERS: dict[str, Scalar] = {"b": False, "i": 0, "f": 0.0, "c": 0j}
_RANKS = {"bool": 0, "unsigned": 1, "signed": 1, "float": 2, "complex": 3}


@known_as("tensor")
def constant(value: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Make a constant of `value`, a scalar, a nest of lists or an array.

    Python floats become float32, ints int32 and complex numbers complex64 unless `dtype` says
    otherwise; arrays, NumPy's and other libraries', keep their dtype, also in lists. Raises
    `DTypeError` for a dtype symgrad does not have or a value it cannot hold.

    >>> sg.constant([[1.0, 2.0]]), sg.constant(3), sg.constant(np.zeros(2))
    (<Tensor constant: f32[1, 2]>, <Tensor constant: i32[]>, <Tensor constant: f64[2]>)
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Size):
        raise _no_constant(value)
    if isinstance(value, _PYTHON_SCALARS):
        return _scalar_constant(value, wanted, name)
    return constant_node(ArrayLiteral(_as_array(value, wanted)), name=name)


def _scalar_constant(value: Scalar, dtype: DType | None, name: str | None = None) -> Tensor:
    return constant_node(_literal_of_scalar(value, repr(value), dtype), name=name)


def array_of(value: Any, dtype: DTypeLike | None = None) -> Array:
    """Return the array that a constant of `value` holds; if `value` is one already, `value`."""
    if isinstance(value, Size):
        raise _no_constant(value)
    return _as_array(value, None if dtype is None else as_dtype(dtype))


def _no_constant(size: Size) -> DTypeError:
    return DTypeError(
        "constant",
        f"size {size} is known when a program is called",
        hint="use sg.asarray, or compute with the size itself",
        source=user_source(),
    )


@lru_cache(maxsize=128, typed=True)  # formulas name the same few numbers again and again
def _literal_of_scalar(value: Scalar, _text: str, wanted: DType | None) -> ArrayLiteral:
    # The text is part of the key, since 0.0 and -0.0 are equal.
    return ArrayLiteral(_as_array(value, wanted))


def _as_array(value: Any, wanted: DType | None) -> Array:
    array = made_by_numpy(value)
    if array.dtype.kind in "MSUm" or not _has_numbers(array):  # NumPy would try to convert them
        wanted = _known_dtype(array, value)
    if has_own_dtype(value):
        wanted = wanted or _known_dtype(array, value)
        # A weight is large: it is copied where it is kept, and not before.
        return array if array.dtype == wanted.numpy else convert_numbers(array, wanted)
    kind: str = array.dtype.kind
    if kind == "f" and wanted is not None and wanted.is_integer:
        array, kind = _unrounded(value, array)
    if kind == "O" and all(type(n) is int for n in array.flat):
        kind = "i"  # NumPy has no dtype for ints beyond 64 bits
    for size in (n for n in array.flat if isinstance(n, Size)) if kind == "O" else ():
        raise _no_constant(size)
    if wanted is None:
        wanted = _dtype_of_arrays(value, kind) or _DEFAULTS.get(kind) or _known_dtype(array, value)
    if kind == "c" and not (wanted.is_complex or wanted.is_bool):
        raise DTypeError(
            "constant",
            f"{shortened(value)} is complex, {wanted.name} is real",
            source=user_source(),
        )
    if wanted.is_integer and kind in "iu" and array.size:
        limits = np.iinfo(wanted.numpy)
        if array.min() < limits.min or array.max() > limits.max:
            raise _does_not_fit(value, wanted)
    return _converted(array, wanted, value)


def _dtype_of_arrays(value: Any, kind: str) -> DType | None:
    """Return what the arrays in a list promote to, beside its numbers; None if it holds none."""
    strong = [_known_dtype(np.asarray(array), value) for array in arrays_within(value)]
    weak = [number for of, number in _NUMBERS.items() if of == kind]
    return common_dtype("constant", strong, weak) if strong else None


def _converted(array: Array, wanted: DType, value: Any) -> Array:
    try:
        return convert_numbers(array, wanted)
    except OverflowError as error:  # of ints that are more than any float
        raise _does_not_fit(value, wanted) from error


def _does_not_fit(value: Any, wanted: DType) -> DTypeError:
    problem = f"{shortened(value)} does not fit {wanted.name}"
    return DTypeError("constant", problem, source=user_source())


def made_by_numpy(value: Any) -> Array:
    """Return what NumPy makes of a value; raises `DTypeError` for lists of different lengths.

    And for an array of which elements are masked: a tensor would have what lies under the mask.
    """
    try:
        return given_array("constant", value)
    except DTypeError as error:  # of a tensor, which has no value to make an array of
        if has_own_dtype(value):
            raise
        error.hint = "use sg.stack, or sg.concat, to make one tensor of several"
        raise


def _has_numbers(array: Array) -> bool:
    if array.dtype.kind != "O":
        return True
    return all(isinstance(n, (*_PYTHON_SCALARS, np.generic, Size)) for n in array.flat)


def _unrounded(value: Any, array: Array) -> tuple[Array, str]:
    """Return an array of a nest and its kind: of ints, where NumPy has made floats of them.

    It does so of a small and a large one, since neither int64 nor uint64 has both.
    """
    if not array.size or not (array >= 2.0**63).any():
        return array, "f"
    elements = np.asarray(value, dtype=object)
    is_of_ints = all(isinstance(n, int | np.integer) for n in elements.flat)
    return (elements, "i") if is_of_ints else (array, "f")


_DEFAULTS = {
    "c": dtypes.complex64, "f": dtypes.float32, "i": dtypes.int32, "b": dtypes.bool_,
}  # fmt: skip


def _known_dtype(array: np.ndarray[Any, Any], value: Any) -> DType:
    try:
        return as_dtype(array.dtype)
    except SymgradError as error:
        error.subject, error.source = "constant", user_source()
        if not isinstance(value, np.ndarray | np.generic | list | tuple):
            error.hint = f"{value!r:.40} is no tensor, array or number"
        if hasattr(value, "tocoo"):
            error.hint = "multiply by a sparse matrix with sg.take and sg.segment_sum of its .data"
        raise


def as_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """Return `value` if it is a tensor, the tensor of a size or a nest of them, or a constant."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Size):  # an op like any other: it lives above this module
        tensor = provided("size_of")(value, dtype or dtypes.int64)
        assert isinstance(tensor, Tensor)
        return tensor
    if isinstance(value, list | tuple) and holds_size(value):
        given = promote_operands("asarray", *value)
        stacked = provided("stack")(given if dtype is None else [cast(t, dtype) for t in given])
        assert isinstance(stacked, Tensor)
        return stacked
    return constant(value, dtype)


def holds_size(value: Any) -> bool:
    """Return whether `value` is a size that only a call tells, or a list that has one in it."""
    if isinstance(value, list | tuple):
        return any(map(holds_size, value))
    return isinstance(value, Size)


# What operators take for an operand, beside what says itself that it is an array.
_OPERANDS = (
    Tensor, bool, int, float, complex, np.generic, np.ndarray, Size,
    list, tuple, str, bytes, dict,
)  # fmt: skip


@provide
def is_operand(value: Any) -> bool:
    """Return whether an operator tries `value` as an operand, and does not leave it to `value`.

    What is tried may still be refused, with an error that says why; a dict may be a nest.
    """
    if isinstance(value, _OPERANDS):
        return True
    return hasattr(value, "__array__") and getattr(value, "__array_ufunc__", True) is not None


def promote_operands(op: str, *values: Any) -> list[Tensor]:
    """Convert `values` to tensors of the one dtype they promote to.

    A Python scalar is weak: it takes the dtype of the others, except that a float makes integers
    float32, an int makes bools int32, and a complex number makes what is real complex.
    """
    first, *rest = values
    if isinstance(first, Tensor) and all(
        [isinstance(v, Tensor) and v.type.dtype is first.type.dtype for v in rest]
    ):
        return list(values)
    if len(values) == 2 and (pair := number_beside(*values)) is not None:
        literal = _scalar_constant(pair.number, pair.tensor.type.dtype)
        return pair.with_number(literal)
    weak = [v for v in values if isinstance(v, _PYTHON_SCALARS)]
    strong = [v for v in values if not isinstance(v, _PYTHON_SCALARS)]
    if not all([isinstance(v, Tensor) for v in strong]):
        with called(op):
            strong = [as_tensor(v) for v in strong]
    try:
        dtype = common_dtype(op, [t.dtype for t in strong], weak)
    except SymgradError as error:
        error.source = user_source()
        raise
    if dtype is dtypes.float64:
        warn_of_float64(op, values)
    tensors = iter(strong)
    return [
        _scalar_constant(v, dtype) if isinstance(v, _PYTHON_SCALARS) else cast(next(tensors), dtype)
        for v in values
    ]


def common_dtype(op: str, strong: Sequence[DType], weak: Sequence[Scalar]) -> DType:
    """Return the dtype that dtypes and Python scalars, which are weak, promote to."""
    dtype: DType | None = None
    for other in strong:
        dtype = other if dtype is None else promote(op, dtype, other)
    for scalar in weak:
        default = _scalar_dtype(scalar)
        if dtype is None or _rank(default) > _rank(dtype):
            dtype = dtype.complex if dtype is not None and default.is_complex else default
    assert dtype is not None, "an op has operands"
    return dtype


def _scalar_dtype(scalar: Scalar) -> DType:
    if isinstance(scalar, bool):
        return dtypes.bool_
    if isinstance(scalar, complex):
        return dtypes.complex64
    return dtypes.int32 if isinstance(scalar, int) else dtypes.float32


def _rank(dtype: DType) -> int:
    return _RANKS[dtype.kind]


def cast(x: Tensor, dtype: DType) -> Tensor:
    """Return `x` in `dtype`, itself if it has it."""
    if x.type.dtype is dtype:
        return x
    converted = provided("astype")(x, dtype)  # an op like any other: it lives above this module
    assert isinstance(converted, Tensor)
    return converted


def require_dtype(op: str, name: str, x: TensorType, allowed: Callable[[DType], bool]) -> None:
    """Raise `DTypeError` if the dtype of operand `name` is not one the op takes."""
    if not allowed(x.dtype):
        kinds = [d.name for d in dtypes.ALL if allowed(d)]
        raise DTypeError(op, f"{name}: {x} is none of {', '.join(kinds)}")


def require_equal_types(op: str, **operands: TensorType) -> TensorType:
    """Return the type equal operands have, with known sizes in the place of unknown ones.

    Raises `DTypeError` or `ShapeError` that names the two operands that differ.
    """
    (first_name, first), *rest = operands.items()
    if all([other == first for _, other in rest]):
        return first
    shape = first.shape
    for name, other in rest:
        if other == first:
            continue
        if other.dtype != first.dtype:
            raise DTypeError(
                op, f"dtypes differ: {first_name}: {first}, {name}: {other}", hint="use astype"
            )
        shape = meet_shapes(op, first_name, first.with_shape(shape), name, other)
    return first.with_shape(shape)


def meet_shapes(op: str, a_name: str, a: TensorType, b_name: str, b: TensorType) -> Shape:
    """Return the shape that `a` and `b` must both have.

    Where an unknown size meets another size the known one is taken; that they are equal is checked
    when the program is called and this runs again on known sizes.
    """
    if a.ndim != b.ndim:
        raise ShapeError(op, f"ranks differ: {a.ndim} of {a_name}: {a}, {b.ndim} of {b_name}: {b}")
    met: list[Dim] = []
    for axis, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
        if m != n and isinstance(m, int) and isinstance(n, int):
            raise ShapeError(
                op,
                f"sizes differ: {m} in axis {axis} of {a_name}: {a}, "
                f"{n} in axis {axis} of {b_name}: {b}",
            )
        met.append(m if isinstance(m, int) else n if isinstance(n, int) else m)
    return tuple(met)


def broadcast_shapes(op: str, **operands: TensorType) -> Shape:
    """Return the shape the operands broadcast to, as NumPy does; an unknown size is never 1."""
    ndim = max(t.ndim for t in operands.values())
    shape: list[Dim] = []
    for axis in range(-ndim, 0):
        sized = {n: t for n, t in operands.items() if t.ndim >= -axis and t.shape[axis] != 1}
        size: Dim = 1
        for name, type_ in sized.items():
            size = _meet_broadcast(op, axis, size, name, type_, operands)
        shape.append(size)
    return tuple(shape)


def _meet_broadcast(
    op: str, axis: int, size: Dim, name: str, type_: TensorType, operands: dict[str, TensorType]
) -> Dim:
    here = type_.shape[axis]
    if size in (1, here):
        return here
    if isinstance(size, int) and isinstance(here, int):
        other = next(n for n, t in operands.items() if t.ndim >= -axis and t.shape[axis] == size)
        raise ShapeError(
            op,
            f"shapes do not broadcast: {size} in axis {axis} of {other}: {operands[other]}, "
            f"{here} in axis {axis} of {name}: {type_}",
        )
    return size if isinstance(size, int) else here


def refuse_tensors(op: str, sizes: Iterable[Any]) -> None:
    """Raise `DTypeError` for a tensor among sizes, which only a run would tell."""
    for size in sizes:
        if isinstance(size, Tensor):
            hint = "the size of a result is known before it runs: x.shape[0], not sg.shape(x)[0]"
            raise DTypeError(op, f"{size!r} is no size", hint=hint, source=user_source())


def normalize_axis(op: str, axis: int, ndim: int, name: str = "axis") -> int:
    """Return `axis` counted from 0; raises `AxisError` if a tensor of `ndim` axes has none."""
    number = require_int(op, name, axis)
    if not -ndim <= number < ndim:
        raise AxisError(
            op, f"{name} {number} is not an axis of a tensor of rank {ndim}", source=user_source()
        )
    return number % ndim


def normalize_axes(op: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from 0 and sorted, all of them for None; raises for a repeated one."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(sorted(normalize_axis(op, a, ndim) for a in given))
    if len(set(axes)) != len(axes):
        raise ShapeError(op, f"an axis is repeated in {tuple(given)}", source=user_source())
    return axes
