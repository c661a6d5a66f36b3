"""Argument checking of a step: what a user hands to it, and the errors for what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import (
    ArgumentError,
    CompileError,
    DTypeError,
    ShapeError,
    SymgradError,
    shortened,
    user_source,
)
from symgrad.frontend.aliases import require_apart
from symgrad.frontend.nests import Nest, is_leaf
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import as_int, given_array
from symgrad.graph.node import Tensor
from symgrad.graph.promotion_warning import warn_of_rounding
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.sizes import Dim, Size, Unknown, substitute
from symgrad.graph.types import Array
from symgrad.suggestions import unknown_keyword


def convert(name: str, inputs: Sequence[Tensor], arguments: Sequence[Any]) -> list[Array]:
    """Return the arguments as arrays of the dtypes of `inputs`, contiguous and aligned.

    A dtype that casts safely is converted, and so are Python numbers and lists of them, which have
    no dtype of their own. A float64 array, which is what NumPy makes by default, is rounded for a
    float32 input, with a `PromotionWarning`. Raises `DTypeError` for another, and `ShapeError` for
    a wrong count or a wrong rank; sizes are `resolve_sizes`'s.
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
    given = given_array(step, argument, ShapeError, f"{what}: ")
    if not (is_weak := _is_weak(argument)) and _is_rounded(given, tensor.dtype):
        warn_of_rounding(step, what)
    elif not _casts(given, is_weak, tensor.dtype):
        raise DTypeError(
            step,
            f"{what}: {given.dtype.name} was given, {tensor.dtype.name} is needed",
            hint=_conversion_hint(argument, given, tensor.dtype),
            source=user_source(),
        )
    if given.ndim != tensor.ndim:
        raise _shape_error(step, what, given, tensor)
    try:
        if tensor.dtype.is_half:
            given = convert_numbers(given, tensor.dtype)
        return np.require(given, tensor.dtype.numpy, ["C", "A", "E"])
    except OverflowError as error:  # of ints that are more than any float
        problem = f"{what}: {shortened(argument)} does not fit {tensor.dtype.name}"
        raise DTypeError(step, problem, source=user_source()) from error


def _is_weak(argument: Any) -> bool:
    """Return whether an argument is Python numbers alone, whose dtype is a guess of NumPy's.

    Numbers of NumPy's that are floats of Python, those of float64, are such numbers too.
    """
    if isinstance(argument, list | tuple):
        return all(map(_is_weak, argument))
    if isinstance(argument, np.generic):
        return isinstance(argument, np.float64)
    return isinstance(argument, bool | int | float | complex)


def _is_rounded(given: Array, dtype: DType) -> bool:
    return given.dtype == np.float64 and dtype is dtypes.float32


def _casts(given: Array, is_weak: bool, dtype: DType) -> bool:
    if not is_weak:
        return np.can_cast(given.dtype, dtype.numpy, casting="safe")
    if not given.size or given.dtype.kind == "b":
        return True
    if given.dtype.kind == "c":
        return dtype.is_complex
    if given.dtype.kind == "f" or not dtype.is_integer:
        return dtype.is_float or dtype.is_complex
    limits = np.iinfo(dtype.numpy)
    return bool(limits.min <= given.min() and given.max() <= limits.max)


def _conversion_hint(argument: Any, given: Array, dtype: DType) -> str | None:
    is_real = given.dtype.kind in "biuf"
    if not (is_real or (given.dtype.kind == "c" and dtype.is_complex)):
        return None  # it holds no numbers, or parts that would be lost
    if isinstance(argument, np.ndarray | np.generic):
        return f"convert it: .astype({dtype.name!r})"
    return f"convert it: np.asarray(x).astype({dtype.name!r})"


def in_order(
    name: str,
    labels: Sequence[str | None],
    arguments: Sequence[Any],
    by_name: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Return the arguments of a step in their order, where some were given by the names of inputs.

    `labels` are the names of the inputs, None for one that has none. Raises `ArgumentError` for a
    name that no input has and for an input that is given twice, `ShapeError` for a missing one.
    """
    rest = labels[len(arguments) :]
    for keyword in by_name:
        if keyword not in labels:
            raise unknown_keyword(name, keyword, [label for label in labels if label])
        if keyword not in rest:
            raise ArgumentError(name, f"input {keyword} was given twice", source=user_source())
    missing = [n for n, given in enumerate(rest, len(arguments)) if given not in by_name]
    if missing:
        names = (f"input {n} ({labels[n]})" if labels[n] else f"input {n}" for n in missing)
        raise ShapeError(name, f"{', '.join(names)} was not given", source=user_source())
    return *arguments, *(by_name[label] for label in rest if label)


def input_labels(nest: Nest, inputs: Sequence[Tensor]) -> list[str | None]:
    """Return the names by which the arguments of a step may be given, None for a nest of inputs."""
    leaves = iter(inputs)
    labels: list[str | None] = []
    for child in nest.children():
        held = [next(leaves) for _ in range(child.num_leaves)]
        labels.append(held[0].name if is_leaf(child) else None)
    return labels


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
    for tensor, array in zip(inputs, arrays, strict=True):
        for dim, size in zip(tensor.shape, array.shape, strict=True):
            unknown = _lone_unknown(dim)
            if unknown is not None:
                sizes.setdefault(unknown, size)
    for position, (tensor, array) in enumerate(zip(inputs, arrays, strict=True)):
        for axis, (dim, size) in enumerate(zip(tensor.shape, array.shape, strict=True)):
            expected = substitute(dim, sizes)
            if expected != size:
                raise _size_error(
                    name, tensor, position, axis, array, (dim, expected, _places(inputs))
                )
    return sizes


def _places(inputs: Sequence[Tensor]) -> dict[str, str]:
    """Return the first axis of an input that each unknown size is the size of."""
    places: dict[str, str] = {}
    for position, tensor in enumerate(inputs):
        for axis, dim in enumerate(tensor.shape):
            unknown = _lone_unknown(dim)
            if unknown is not None:
                places.setdefault(unknown, f"axis {axis} of {label(tensor, position)}")
    return places


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


def check_sizes(
    name: str, inputs: Sequence[Tensor], unknowns: Sequence[str], sizes: Mapping[str, Any]
) -> Mapping[str, int]:
    """Return `sizes`, by the names of unknowns; raises `CompileError` unless they are all there.

    An unknown that the user gave no name has one that only the error says, so it says the axis.
    """
    missing = [unknown for unknown in unknowns if unknown not in sizes]
    if missing:
        place = _places(inputs).get(missing[0])
        where = "" if place is None else f", {place},"
        listed = ", ".join(f"{each!r}: ..." for each in missing)
        raise CompileError(
            name,
            f"size {missing[0]}{where} is not known",
            hint=f"sizes={{{listed}}} gives what is missing",
            source=user_source(),
        )
    for unknown in sizes:
        if unknown not in unknowns:
            problem = f"no unknown size is called {unknown}"
            raise CompileError(name, problem, source=user_source())
    numbers = {unknown: as_int(size) for unknown, size in sizes.items()}
    for unknown, number in numbers.items():
        if number is None or number < 0:
            problem = f"{sizes[unknown]!r} is no size for {unknown}"
            raise CompileError(name, problem, source=user_source())
    return {unknown: number for unknown, number in numbers.items() if number is not None}


def check_outputs(name: str, outputs: Sequence[Tensor], given: Sequence[Any]) -> None:
    """Raise unless the arrays of `out=` are writeable, apart, and have the types of the outputs."""
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
        if array.dtype.newbyteorder("=") != tensor.dtype.numpy:
            raise DTypeError(
                name,
                f"{what}: {array.dtype.name} was given, {tensor.dtype.name} is needed",
                source=user_source(),
            )
        if array.shape != tensor.type.static_shape:
            raise _shape_error(name, what, array, tensor)
        if not array.flags.writeable:
            raise ShapeError(name, f"{what}: the array is read-only", source=user_source())
    labels = [f"out {position}" for position in range(len(given))]
    require_apart(name, labels, given, hint="each result needs an array of its own")
