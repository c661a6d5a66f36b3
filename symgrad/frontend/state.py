"""Variables: making them, asking about them, and changing them at once or by a program."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.aliases import require_apart
from symgrad.frontend.container import Container
from symgrad.frontend.nests import (
    describe,
    flatten,
    is_leaf,
    leaf_names,
    leaves_beside,
    map_leaves,
    unflatten,
)
from symgrad.graph.build import scoped
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.given_arrays import out_of_range
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable, variable_node
from symgrad.graph.node import Tensor
from symgrad.graph.operands import array_of, as_tensor, made_by_numpy
from symgrad.graph.types import Array, Sharding, State, TensorType, write_states
from symgrad.records import replace
from symgrad.suggestions import known_as

_unnamed = itertools.count()


@overload
def variable(
    value: Container,
    dtype: DTypeLike | None = None,
    trainable: bool = True,
    name: str | None = None,
) -> Container: ...


@overload
def variable(
    value: Any,
    dtype: DTypeLike | None = None,
    trainable: bool = True,
    name: str | None = None,
) -> Variable: ...


@known_as("parameter", "get_variable", "shared")
def variable(
    value: Any, dtype: DTypeLike | None = None, trainable: bool = True, name: str | None = None
) -> Any:
    """Make a `Variable` that holds `value`; of a container, a container of them.

    Python floats become float32 and ints int32 unless `dtype` says otherwise; NumPy arrays keep
    their dtype. Without a name it is called `variable`, with a number from the second on. In a
    container the keys are names, within that of the container if it is given one.

    >>> w = sg.variable(np.ones((2, 3), "float32"), name="w")
    >>> w
    <Tensor w: f32[2, 3]>
    >>> w.value = np.zeros((2, 3), "float32")
    >>> w.value.sum()
    np.float32(0.0)
    """
    if isinstance(value, Container):
        prefix = f"{name}/" if name else ""
        return value.map(lambda leaf, chain: _variable(leaf, dtype, trainable, prefix + chain))
    return _variable(value, dtype, trainable, name)


def _variable(value: Any, dtype: DTypeLike | None, trainable: bool, name: str | None) -> Variable:
    if isinstance(value, Tensor):
        raise DTypeError(
            "variable",
            f"{value!r} has no value yet",
            hint="start from an array and update the variable",
            source=user_source(),
        )
    array, chosen = array_of(value, dtype), name or _unused_name()
    return variable_node(State(array, name=_full_name(chosen), trainable=trainable), chosen)


def variable_of_zeros(type_: TensorType, name: str, *, is_trainable: bool) -> Variable:
    """Make a variable of zeros, whose memory is first touched by a step that writes it."""
    return variable_node(State.zeros(type_, name=_full_name(name), trainable=is_trainable), name)


def _full_name(name: str) -> str:
    full_name = scoped(name)
    assert full_name is not None, "a variable has a name"
    return full_name


def cut_variable(value: Array, sharding: Sharding, name: str, *, is_trainable: bool) -> Variable:
    """Make a variable of the type of `value`, of which this rank has the part that `sharding` says.

    Programs are built of the whole; which part of it a rank computes is decided when a program is
    compiled.
    """
    state = State(sharding.part_of(value), name=name, trainable=is_trainable)
    state.type = state.type.with_shape(value.shape)
    state.sharding = replace(sharding, owner=state)
    return variable_node(state, name)


def _unused_name() -> str:
    number = next(_unnamed)
    return f"variable_{number}" if number else "variable"


def is_variable(x: Any, exclusive: bool = False) -> Any:
    """Return whether `x` is a variable; of a nest, a nest that says so of each leaf.

    `exclusive` asks for a variable that is not something else as well; none here is.

    >>> sg.is_variable({"w": sg.variable(1.0), "x": sg.placeholder(())})
    {'w': True, 'x': False}
    """
    return False if x is None else map_leaves(lambda leaf: isinstance(leaf, Variable), x)


def variable_data(x: Any) -> Any:
    """Return a copy of the value of a variable; what is no variable is returned as it is.

    Of a nest, the nest of these.

    >>> sg.variable_data({"w": sg.variable([1.0, 2.0]), "epochs": 3})
    {'w': array([1., 2.], dtype=float32), 'epochs': 3}
    """
    return map_leaves(lambda leaf: leaf.value.copy() if isinstance(leaf, Variable) else leaf, x)


@known_as("assign")
def inplace_update(x: Any, val: Any) -> Any:
    """Set `x` to `val`.

    With a variable and a tensor this is an `Update` for a program to carry out. With a value that
    is known, or an array `x`, it is done at once and `x` is returned. Of a nest `x` every leaf is
    set, to the leaf of `val` in its place, or to `val` where that is no nest. If a leaf is
    refused none is set: `DTypeError` for what cannot be set or takes no such dtype, `ShapeError`
    for a shape that does not broadcast to that of `x`, `GraphError` for two that share memory.

    >>> w, x = sg.variable(1.0, name="w"), sg.placeholder((), name="x")
    >>> step = sg.compile([x], w, [sg.inplace_update(w, w * x)])  # an update: the step does it
    >>> step(3.0), w.value
    (array(1., dtype=float32), array(3., dtype=float32))
    """
    return change("inplace_update", x, val)


@known_as("assign_add")
def inplace_increment(x: Any, val: Any) -> Any:
    """Add `val` to `x`; as an `Update` or at once, as `inplace_update` does.

    >>> w = sg.variable([1.0, 2.0])
    >>> sg.inplace_increment(w, 0.5).value
    array([1.5, 2.5], dtype=float32)
    """
    return change("inplace_increment", x, val, operator.add)


@known_as("assign_sub")
def inplace_decrement(x: Any, val: Any) -> Any:
    """Subtract `val` from `x`; as an `Update` or at once, as `inplace_update` does.

    >>> w = sg.variable([1.0, 2.0])
    >>> sg.inplace_decrement(w, 0.5).value
    array([0.5, 1.5], dtype=float32)
    """
    return change("inplace_decrement", x, val, operator.sub)


Combine = Callable[[Any, Any], Any]


def change(op: str, x: Any, value: Any, combine: Combine = lambda _old, new: new) -> Any:
    """Set `x` to what `combine` makes of it and `value`, as `inplace_update` does."""
    leaves, nest = flatten(x)
    # Beside an array a list is what NumPy makes of it, and no nest.
    values = [value] if is_leaf(nest) else leaves_as(op, "val", value, "x", x)
    pairs = list(zip(leaves, values, strict=True))
    if any(isinstance(v, Tensor) for v in values):
        return unflatten(nest, [_update(op, leaf, v, combine) for leaf, v in pairs])
    news = [_combined(op, leaf, made_by_numpy(v), combine) for leaf, v in pairs]
    if len(leaves) > 1:
        require_apart(op, leaf_names("x", x), [storage(op, leaf) for leaf in leaves])
    held = [(x.state, new) for x, new in zip(leaves, news, strict=True) if isinstance(x, Variable)]
    write_states([state for state, _ in held], [new for _, new in held])
    for leaf, new in zip(leaves, news, strict=True):
        if not isinstance(leaf, Variable):
            np.copyto(leaf, new, casting="same_kind")
    return x


def _update(op: str, x: Any, value: Any, combine: Combine) -> Update:
    if not isinstance(x, Variable):
        raise DTypeError(
            op, f"{type(x).__name__} takes no tensor, a variable does", source=user_source()
        )
    return Update(x, combine(x, as_tensor(value, x.dtype)))


def _combined(op: str, x: Any, value: Array, combine: Combine) -> Array:
    target = storage(op, x)
    check_storable(op, "the value", target, value)
    old = x.value if isinstance(x, Variable) else target
    return np.asarray(combine(old, value))


def storage(op: str, x: Any) -> Array:
    """Return the array that holds the elements of `x`, a variable or a writeable array."""
    if isinstance(x, Variable):
        return x.state.array
    if not isinstance(x, np.ndarray):
        raise DTypeError(op, f"{x!r} is neither a variable nor an array", source=user_source())
    if not x.flags.writeable:
        raise GraphError(op, f"an array of shape {x.shape} is read-only", source=user_source())
    as_dtype(x.dtype)
    return x


def check_storable(op: str, label: str, target: Array, value: Array) -> None:
    """Raise unless `value` broadcasts to the shape of `target`, and is of no wider kind."""
    if not np.can_cast(value.dtype, target.dtype, casting="same_kind"):
        raise DTypeError(
            op,
            f"{label} is {value.dtype.name}, which {target.dtype.name} does not hold",
            source=user_source(),
        )
    if (problem := out_of_range(value, target.dtype)) is not None:
        raise DTypeError(op, f"{label}: {problem}", source=user_source())
    # From the last axis backwards; a value of more axes fits nowhere.
    pairs = zip(reversed(value.shape), reversed(target.shape), strict=False)
    if value.ndim > target.ndim or any(n not in (1, m) for n, m in pairs):
        raise ShapeError(
            op,
            f"{label} has shape {value.shape}, which does not broadcast to {target.shape}",
            source=user_source(),
        )


def leaves_as(op: str, label: str, tree: Any, wanted_label: str, wanted: Any) -> list[Any]:
    """Return the leaves of `tree` at those of `wanted`; a leaf of `tree` may stand for many."""
    try:
        return leaves_beside(tree, wanted)
    except ValueError as error:
        given, needed = describe(flatten(tree)[1]), describe(flatten(wanted)[1])
        problem = f"{label} is {given}, {wanted_label} is {needed}"
        raise GraphError(op, problem, source=user_source()) from error
