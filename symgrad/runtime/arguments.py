"""Argument checking of a step: what a user hands to it, and the errors for what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import CompileError, DTypeError, ShapeError, SymgradError, user_source
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.sizes import Dim, Size, Unknown, substitute
from symgrad.graph.types import Array


def convert(name: str, inputs: Sequence[Tensor], arguments: Sequence[Any]) -> list[Array]:
    """Return the arguments as arrays of the dtypes of `inputs`, contiguous and aligned.

    A dtype that casts safely is converted, and so is a Python number. Raises `DTypeError` for
    another, and `ShapeError` for a wrong count or a wrong rank; sizes are `resolve_sizes`'s.
    """
    if len(arguments) != len(inputs):
        names = ", ".join(label(t, i) for i, t in enumerate(inputs))
        raise ShapeError(
            name,
            f"{len(arguments)} inputs were given, {len(inputs)} are needed: {names or 'none'}",
            source=user_source(),
        )
    return [_convert(name, t, i, a) for i, (t, a) in enumerate(zip(inputs, arguments, strict=True))]


def label(tensor: Tensor, position: int) -> str:
    """Return how messages call an input."""
    return f"input {position} ({tensor.name})" if tensor.name else f"input {position}"


def _convert(step: str, tensor: Tensor, position: int, argument: Any) -> Array:
    what = label(tensor, position)
    if isinstance(argument, Tensor):
        raise DTypeError(
            step,
            f"{what}: {argument!r} is symbolic, an array {tensor.type} is needed",
            hint="a compiled step takes arrays",
            source=user_source(),
        )
    try:
        given = np.asarray(argument)
    except ValueError as error:
        raise ShapeError(step, f"{what}: {error}", source=user_source()) from error
    is_scalar = isinstance(argument, bool | int | float | complex) and not isinstance(
        argument, np.generic
    )
    if not _casts(given, argument if is_scalar else None, tensor.dtype):
        raise DTypeError(
            step,
            f"{what}: {given.dtype.name} was given, {tensor.dtype.name} is needed",
            hint=f"convert it: .astype({tensor.dtype.name!r})",
            source=user_source(),
        )
    if given.ndim != tensor.ndim:
        raise _shape_error(step, what, given, tensor)
    if tensor.dtype.is_half:
        given = convert_numbers(given, tensor.dtype)
    return np.require(given, tensor.dtype.numpy, ["C", "A", "E"])


def _casts(given: Array, scalar: bool | int | float | complex | None, dtype: DType) -> bool:
    if scalar is None:
        return np.can_cast(given.dtype, dtype.numpy, casting="safe")
    if isinstance(scalar, bool):
        return True
    if isinstance(scalar, complex):
        return dtype.is_complex
    if isinstance(scalar, float) or not dtype.is_integer:
        return dtype.is_float or dtype.is_complex
    limits = np.iinfo(dtype.numpy)
    return bool(limits.min <= scalar <= limits.max)


def _shape_error(step: str, what: str, given: Array, tensor: Tensor) -> ShapeError:
    shape = ", ".join(map(str, tensor.shape))
    return ShapeError(
        step,
        f"{what}: shape {list(given.shape)} was given, [{shape}] is needed",
        source=user_source(),
    )


def resolve_sizes(name: str, inputs: Sequence[Tensor], arrays: Sequence[Array]) -> dict[str, int]:
    """Return the unknown sizes that the arrays have.

    Raises `ShapeError` where an array has another size than the one its input has, or than the
    same unknown has in another input; both are named.
    """
    sizes: dict[str, int] = {}
    places: dict[str, str] = {}
    for position, (tensor, array) in enumerate(zip(inputs, arrays, strict=True)):
        for axis, (dim, size) in enumerate(zip(tensor.shape, array.shape, strict=True)):
            unknown = _lone_unknown(dim)
            if unknown is not None and unknown not in sizes:
                sizes[unknown] = size
                places[unknown] = f"axis {axis} of {label(tensor, position)}"
    for position, (tensor, array) in enumerate(zip(inputs, arrays, strict=True)):
        for axis, (dim, size) in enumerate(zip(tensor.shape, array.shape, strict=True)):
            expected = substitute(dim, sizes)
            if expected != size:
                raise _size_error(name, tensor, position, axis, array, (dim, expected, places))
    return sizes


def _size_error(
    step: str,
    tensor: Tensor,
    position: int,
    axis: int,
    given: Array,
    wanted: tuple[Dim, Dim, Mapping[str, str]],
) -> SymgradError:
    dim, expected, places = wanted
    what = label(tensor, position)
    unknown = _lone_unknown(dim)
    if unknown is None:
        return _shape_error(step, what, given, tensor)
    return ShapeError(
        step,
        f"sizes of {unknown} differ: {expected} in {places[unknown]}, "
        f"{given.shape[axis]} in axis {axis} of {what}",
        source=user_source(),
    )


def _lone_unknown(dim: Dim) -> str | None:
    """Return the name of the unknown that `dim` is, None if it is more than that."""
    match dim:
        case Size(terms=(((Unknown(name),), 1),)):
            return name
        case _:
            return None


def check_sizes(name: str, unknowns: Sequence[str], sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Return `sizes`, by the names of unknowns; raises `CompileError` unless they are all there."""
    missing = [unknown for unknown in unknowns if unknown not in sizes]
    if missing:
        raise CompileError(
            name,
            f"size {missing[0]} is not known",
            hint="sizes={name: size} gives each unknown size",
            source=user_source(),
        )
    for unknown, size in sizes.items():
        if unknown not in unknowns:
            problem = f"no unknown size is called {unknown}"
            raise CompileError(name, problem, source=user_source())
        if not _is_size(size):
            raise CompileError(name, f"{size!r} is no size for {unknown}", source=user_source())
    return sizes


def _is_size(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def check_outputs(name: str, outputs: Sequence[Tensor], given: Sequence[Any]) -> None:
    """Raise unless the arrays of `out=` are writeable and have the types of the outputs."""
    if len(given) != len(outputs):
        raise ShapeError(
            name,
            f"{len(given)} arrays were given as out, there are {len(outputs)} outputs",
            source=user_source(),
        )
    for position, (tensor, array) in enumerate(zip(outputs, given, strict=True)):
        what = f"out {position}"
        if not isinstance(array, np.ndarray):
            kind = type(array).__name__
            raise DTypeError(
                name, f"{what}: a {kind} was given, an array is needed", source=user_source()
            )
        if array.dtype != tensor.dtype.numpy:
            raise DTypeError(
                name,
                f"{what}: {array.dtype.name} was given, {tensor.dtype.name} is needed",
                source=user_source(),
            )
        if array.shape != tensor.type.static_shape:
            raise _shape_error(name, what, array, tensor)
        if not array.flags.writeable:
            raise ShapeError(name, f"{what}: the array is read-only", source=user_source())
