"""Variables: making them, asking about them, and changing them at once or by a program."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, user_source
from symgrad.graph.build import scoped
from symgrad.graph.dtypes import DTypeLike
from symgrad.graph.graph import Update
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, subtract
from symgrad.graph.ops.leaf import Variable, variable_node
from symgrad.graph.types import Array, Literal, State

_unnamed = itertools.count()


def variable(
    value: Any, dtype: DTypeLike | None = None, trainable: bool = True, name: str | None = None
) -> Variable:
    """Make a variable that holds `value`.

    Python floats become float32 and ints int32 unless `dtype` says otherwise; NumPy arrays keep
    their dtype. Without a name it is called `variable`, with a number from the second on.
    """
    if isinstance(value, Tensor):
        raise DTypeError(
            "variable",
            f"{value!r} has no value yet",
            hint="start from an array and update the variable",
            source=user_source(),
        )
    literal = constant(value, dtype).node.attrs["value"]
    assert isinstance(literal, Literal), "a constant holds a literal"
    chosen = name or _unused_name()
    full_name = scoped(chosen)
    assert full_name is not None, "a variable has a name"
    return variable_node(State(literal.array, name=full_name, trainable=trainable), chosen)


def _unused_name() -> str:
    number = next(_unnamed)
    return f"variable_{number}" if number else "variable"


def is_variable(x: Any, exclusive: bool = False) -> bool:
    """Return whether `x` is a variable.

    `exclusive` asks for a variable that is not something else as well; none here is.
    """
    return isinstance(x, Variable)


def variable_data(x: Any) -> Any:
    """Return a copy of the value of a variable; what is no variable is returned as it is."""
    return x.value if isinstance(x, Variable) else x


def inplace_update(x: Any, value: Any) -> Any:
    """Set `x` to `value`.

    With a variable and a tensor this is an `Update` for a program to carry out. With a value that
    is known, or an array `x`, it is done at once and `x` is returned.
    """
    if isinstance(value, Tensor):
        return _update("inplace_update", x, value)
    return _store("inplace_update", x, np.asarray(value))


def inplace_increment(x: Any, value: Any) -> Any:
    """Add `value` to `x`; as an `Update` or at once, as `inplace_update` does."""
    if isinstance(value, Tensor):
        return _update("inplace_increment", x, add(x, value))
    return _store("inplace_increment", x, _array_of("inplace_increment", x) + np.asarray(value))


def inplace_decrement(x: Any, value: Any) -> Any:
    """Subtract `value` from `x`; as an `Update` or at once, as `inplace_update` does."""
    if isinstance(value, Tensor):
        return _update("inplace_decrement", x, subtract(x, value))
    return _store("inplace_decrement", x, _array_of("inplace_decrement", x) - np.asarray(value))


def _update(op: str, x: Any, value: Tensor) -> Update:
    if not isinstance(x, Variable):
        raise DTypeError(
            op, f"{type(x).__name__} takes no tensor, a variable does", source=user_source()
        )
    return Update(x, value)


def _array_of(op: str, x: Any) -> Array:
    if isinstance(x, Variable):
        return x.state.array
    if isinstance(x, np.ndarray):
        return x
    raise DTypeError(op, f"{x!r} is neither a variable nor an array", source=user_source())


def _store(op: str, x: Any, value: Array) -> Any:
    target = _array_of(op, x)
    if isinstance(x, Variable):
        x.value = np.broadcast_to(value, target.shape) if value.ndim == 0 else value
    else:
        np.copyto(target, value, casting="same_kind")
    return x
