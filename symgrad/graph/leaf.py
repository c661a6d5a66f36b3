"""The leaves of a graph: placeholders, constants and variables. They take no computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.build import apply, apply_node
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype
from symgrad.graph.given_arrays import given_array, out_of_range, without_axes
from symgrad.graph.node import EMPTY, Range, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.public_ops import public
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.sizes import Dim, Size, unknown
from symgrad.graph.types import (
    Array,
    ArrayLiteral,
    Shape,
    State,
    TensorType,
    read_states,
    write_states,
)


@public(known_as=["input"])
def placeholder(
    shape: Sequence[int | str | Size | None],
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Tensor:
    """Make an input of a program.

    A size may be an int, a string (the same name is the same size) or None (an unknown size of its
    own). Raises `ShapeError` for a negative size and `DTypeError` for what is no size.

    >>> sg.placeholder((2, 3), name="x"), sg.placeholder(("n", "n"), "int32", name="y")
    (<Tensor x: f32[2, 3]>, <Tensor y: i32[n, n]>)
    """
    given = without_axes(shape)
    sizes = (given,) if isinstance(given, int | str) else tuple(given)
    return apply(
        placeholder_op, name=name, dtype=as_dtype(dtype), shape=tuple(_as_size(n) for n in sizes)
    )


def _as_size(size: Any) -> Dim:
    size = without_axes(size)
    if size is None or isinstance(size, str):
        return unknown(size)
    if isinstance(size, Size):
        return size
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise DTypeError("placeholder", f"{size!r} is no size", source=user_source())
    if size < 0:
        raise ShapeError("placeholder", f"size {size} is negative", source=user_source())
    return int(size)


def _placeholder_infer(*, dtype: DType, shape: Shape) -> TensorType:
    return TensorType(dtype, shape)


placeholder_op = define(
    "placeholder", infer=_placeholder_infer, reference=None, grad="none", kernel=None
)


def constant_node(value: ArrayLiteral, name: str | None = None) -> Tensor:
    """Make the node of a constant."""
    return apply(constant_op, name=name, value=value)


def _constant_infer(*, value: ArrayLiteral) -> TensorType:
    return value.type


def _constant_reference(*, value: ArrayLiteral) -> Array:
    return value.array


def _constant_range(*, value: ArrayLiteral) -> Range | None:
    if not value.type.dtype.is_integer:
        return None
    array = value.array
    return (int(array.min()), int(array.max())) if array.size else EMPTY


constant_op = define(
    "constant",
    infer=_constant_infer,
    reference=_constant_reference,
    grad="none",
    kernel=None,
    value_range=_constant_range,
)


class Variable(Tensor):
    """State that programs read and update. As a tensor it is the value at the start of a step.

    `sg.variable` makes one. `value` is a copy of the state; setting it checks shape and dtype.

    >>> w = sg.variable([1.0, 2.0], name="w")
    >>> isinstance(w, sg.Variable), w.trainable, w.value
    (True, True, array([1., 2.], dtype=float32))
    """

    __slots__ = ()
    pickled_instead = "pickle its value, or write it with sg.save(path, variables)"

    def __setattr__(self, name: str, value: object) -> None:
        # That of a frozen class with slots fails in a subclass, and would refuse `value` too.
        if name != "value":
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    @property
    def state(self) -> State:
        """The storage."""
        state = self.node.attrs["state"]
        assert isinstance(state, State)
        return state

    @property
    def trainable(self) -> bool:
        """Whether `minimize` moves it when no variables are named."""
        return self.state.trainable

    @property
    def value(self) -> Array:
        """A read-only copy of the current value; assigning sets it, with shape and dtype checked.

        Both are whole: no step that runs in another thread lies half before and half after them.
        Since it is a copy, `w.value[0] = 1` would change nothing, and is a `ValueError`; write
        `w.value = new`, or to `w.value.copy()`.
        """
        value = read_states([self.state])[0]
        value.flags.writeable = False
        return value

    @value.setter
    def value(self, new: Any) -> None:
        array = given_array(f"variable {self.name}", new, ShapeError)
        if array.shape != self.state.array.shape:
            raise ShapeError(
                f"variable {self.name}",
                f"shape {array.shape} was assigned to a variable of shape {self.state.array.shape}",
                source=user_source(),
            )
        if not np.can_cast(array.dtype, self.state.array.dtype, casting="same_kind"):
            raise DTypeError(
                f"variable {self.name}",
                f"{array.dtype.name} was assigned to a variable of {self.dtype.name}",
                source=user_source(),
            )
        if (problem := out_of_range(array, self.state.array.dtype)) is not None:
            raise DTypeError(f"variable {self.name}", problem, source=user_source())
        write_states([self.state], [convert_numbers(array, self.dtype)])


def variable_node(state: State, name: str | None) -> Variable:
    """Make the node that reads `state`."""
    node = apply_node(variable_op, (), {"state": state}, name=name, tensor_class=Variable)
    variable = node.output
    assert isinstance(variable, Variable)
    return variable


def _variable_infer(*, state: State) -> TensorType:
    return state.type


def _variable_reference(*, state: State) -> Array:
    return read_states([state])[0]


variable_op = define(
    "variable", infer=_variable_infer, reference=_variable_reference, grad="none", kernel=None
)
