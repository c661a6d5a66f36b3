"""Arrays as a user gives them: what NumPy makes of a value, and which of its numbers fit a dtype.

What NumPy would lose without a word is refused: what a mask says, and the upper bits of integers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, SymgradError, shortened, user_source
from symgrad.graph.dtypes import DType
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.types import Array, TensorType

# Classes of numbers that no array is.
PLAIN_NUMBERS = {bool, int, float, complex, np.float32, np.float64, np.int32, np.int64, np.bool_}


def given_array(
    subject: str, value: Any, ragged: type[SymgradError] = DTypeError, label: str = ""
) -> Array:
    """Return what NumPy makes of a value.

    Raises `ragged` for lists of different lengths, and `DTypeError` for an array of which elements
    are masked: what lies under the mask is nothing that was meant. So it does where another library
    refuses, as PyTorch for what is on a device. Messages begin with `label`.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ragged(subject, f"{label}{error}", source=user_source()) from error
    except (TypeError, RuntimeError) as error:
        if isinstance(error, SymgradError):  # of a tensor, which has no value
            raise
        problem = f"{label}{type(value).__name__} hands no array over: {error}"
        raise DTypeError(subject, problem, source=user_source()) from error
    if count := _count_masked(value, array.ndim):
        raise DTypeError(
            subject,
            f"{label}{count} of {array.size} elements are masked, and tensors have no mask",
            hint="say what stands for them: .filled(0)",
            source=user_source(),
        )
    return array


def _count_masked(value: Any, depth: int) -> int:
    """Return how many elements are masked of an array, or of those in lists of `depth` levels."""
    if _is_masked_array(value):
        return int(np.sum(np.ma.getmaskarray(value)))
    if depth == 0 or not isinstance(value, list | tuple):
        return 0
    # Lists of numbers can be long, and are asked no more than what their classes are.
    if {*map(type, value)} <= PLAIN_NUMBERS:
        return 0
    return sum(_count_masked(element, depth - 1) for element in value)


def _is_masked_array(value: Any) -> bool:
    # Whose module takes longer to import than NumPy's others, and is there if the array is.
    return "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray)


@contextmanager
def within_memory(op: str, subject: str) -> Iterator[None]:
    """Raise `ShapeError` about `subject` where NumPy has no memory for what is made of sizes."""
    try:
        yield
    except (MemoryError, ValueError) as error:  # the latter of more bytes than an address counts
        raise ShapeError(op, f"{subject} is too large: {error}", source=user_source()) from error


def out_of_range(array: Array, dtype: np.dtype[Any]) -> str | None:
    """Return which integer `dtype` does not hold, with its name; None if it holds all of them."""
    if array.dtype.kind not in "iu" or dtype.kind not in "iu" or not array.size:
        return None
    if np.can_cast(array.dtype, dtype):
        return None
    limits = np.iinfo(dtype)
    for number in (array.min(), array.max()):
        if not limits.min <= int(number) <= limits.max:
            return f"{number} does not fit {dtype.name}"
    return None


def without_axes(value: Any) -> Any:
    """Return what an array of no axes has of integers as an int, as `int`s are taken in its place.

    NumPy gives one where a size was computed by it, as in `np.array(3)` or a field of a file. Any
    other value, and a sequence of sizes, is returned as it is.
    """
    if isinstance(value, np.ndarray) and not value.shape and value.dtype.kind in "iu":
        return int(value)
    return value


def as_int(value: Any) -> int | None:
    """Return an integer, also NumPy's and that of an array of no axes, as an int.

    None for every other value, of which a bool is one, and a time of NumPy, though `Integral`: who
    asks says what the number is for.
    """
    if type(value) is int:
        return value
    value = without_axes(value)
    is_other = isinstance(value, bool | np.timedelta64) or not isinstance(value, Integral)
    return None if is_other else int(value)


def require_int(op: str, name: str, value: Any) -> int:
    """Return what `as_int` does; raises `DTypeError` with the name of an argument that is no int.

    A float that is whole is none, and a bool is none: who gives one has mixed up arguments.
    """
    number = as_int(value)
    if number is None:
        raise DTypeError(
            op, f"{name} must be an int, it is {shortened(value)}", source=user_source()
        )
    return number


def as_size(value: Any) -> Dim | None:
    """Return a size, known or not, of which an int is what `as_int` says; None for other values."""
    return value if isinstance(value, Size) else as_int(value)


def require_size(op: str, name: str, value: Any) -> Dim:
    """Return what `as_size` does; raises `DTypeError` with the name of an argument that is none."""
    return value if isinstance(value, Size) else require_int(op, name, value)


def integer_limits(dtype: DType) -> tuple[int, int] | None:
    """Return the least and the greatest integer of a dtype, None if it is none of integers."""
    if not dtype.is_integer:
        return None
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def require_fit(op: str, numbers: tuple[int, ...], dtype: DType) -> None:
    """Raise `DTypeError` for the first of `numbers` that an integer dtype does not hold."""
    limits = integer_limits(dtype)
    for number in numbers:
        if limits is not None and not limits[0] <= number <= limits[1]:
            raise DTypeError(op, f"{number} does not fit {dtype.name}", source=user_source())


def reached_limits(dtype: DType, low: Any, high: Any) -> tuple[Any, Any]:
    """Return limits, None for an int that no element of the dtype is below, or above."""
    limits = integer_limits(dtype)
    if limits is None:
        return low, high
    is_passed = isinstance(low, int) and low < limits[0]
    is_out_of_reach = isinstance(high, int) and high > limits[1]
    return None if is_passed else low, None if is_out_of_reach else high


def refuse_negative_power(x: TensorType, exponent: Any) -> None:
    """Raise `DTypeError` for integers to a power that is known, and below 0."""
    is_known = isinstance(exponent, int | np.integer | np.ndarray)
    if x.dtype.is_integer and is_known and np.any(np.less(exponent, 0)):
        raise DTypeError(
            "pow",
            f"x: {x} is of integers, which have no power {shortened(exponent)}",
            hint="write 1.0 / x**n, or make x a float by sg.astype",
            source=user_source(),
        )
