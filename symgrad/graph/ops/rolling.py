"""Rolls: circular shifts along axes, by distances that are known or that a program computes."""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis
from symgrad.graph.ops.arithmetic import remainder, subtract
from symgrad.graph.ops.conversion import shape
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.indexing import as_int64
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.ops.windows import dynamic_slice
from symgrad.graph.public_ops import public


@public(is_standard=True)
def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Move elements along `axis` by `shift`; those that leave at the end come in at the start.

    `shift` is an integer or an integer scalar that the program computes, and `axis` an integer; or
    both are tuples of equal length. Without an axis the elements are moved in the order of memory.
    The result has the shape and dtype of `x`, its gradient is rolled back. Sizes may be unknown.

    >>> sg.run(sg.roll([1, 2, 3, 4], 1))
    array([4, 1, 2, 3], dtype=int32)
    >>> x, i = sg.placeholder((None,)), sg.placeholder((), "int32")
    >>> sg.compile([x, i], sg.roll(x, i))(np.arange(3, dtype="float32"), 5)
    array([1., 2., 0.], dtype=float32)

    Raises `ShapeError` if there is not one shift for each axis or a shift is no scalar, and
    `DTypeError` for a shift that is no integer.
    """
    x = as_tensor(x)
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError("roll", f"{len(shifts)} shifts for {len(axes)} axes", source=user_source())
    rolled: Tensor = x
    for a, distance in zip(axes, shifts, strict=True):
        rolled = _roll_axis(rolled, normalize_axis("roll", a, x.ndim), _distance(distance))
    return rolled


def _distance(shift: Any) -> int | Tensor:
    if not isinstance(shift, Tensor):
        return require_int("roll", "shift", shift)
    if not shift.dtype.is_integer:
        raise DTypeError("roll", f"shift: {shift.type} is no integer", source=user_source())
    if shift.ndim:
        raise ShapeError("roll", f"shift: {shift.type} is no scalar", source=user_source())
    return as_int64(shift)


def _roll_axis(x: Tensor, axis: int, distance: int | Tensor) -> Tensor:
    size = x.shape[axis]
    if not isinstance(size, int) or isinstance(distance, Tensor):
        return _roll_computed(x, axis, distance)
    if size == 0 or distance % size == 0:
        return x
    cut = size - distance % size
    return concat([narrow(x, axis, cut, size - cut), narrow(x, axis, 0, cut)], axis=axis)


def _roll_computed(x: Tensor, axis: int, distance: int | Tensor) -> Tensor:
    """Slice as many elements as `x` has out of two copies side by side, from the cut on."""
    size = shape(x)[axis]
    cut = subtract(size, remainder(distance, maximum(size, 1)))  # a remainder of 0 is not defined
    starts: list[int | Tensor] = [0] * x.ndim
    starts[axis] = cut
    return dynamic_slice(concat([x, x], axis=axis), starts, x.shape)
