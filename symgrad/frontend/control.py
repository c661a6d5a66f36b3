"""Conditionals as users write them: `cond` and `switch_case`.

This reads arguments, traces the functions and joins what they return; the op that runs one of them
is in `symgrad/graph/ops/branches.py`. Loops are in `symgrad/frontend/iteration.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, SymgradError, user_source
from symgrad.frontend.growth import growing_leaves, grown
from symgrad.frontend.nests import Nest, describe, flatten, unflatten
from symgrad.frontend.user_functions import AnyFunction, called
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import as_int
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import logical_not
from symgrad.graph.ops.indexing import as_int64
from symgrad.graph.ops.structure import reshape
from symgrad.suggestions import known_as

_CAPTURES = "it takes no arguments: tensors from around may be used inside"


@known_as("if_else", "ifelse")
def cond(pred: Any, true_fn: AnyFunction, false_fn: AnyFunction, name: str | None = None) -> Any:
    """Return what `true_fn()` gives where `pred` holds when the program runs, else `false_fn()`.

    Both are called now, once, and only one of their graphs runs. They return the same nest of
    tensors, of equal dtypes and shapes; outer tensors are used freely. The gradient runs that of
    the branch that ran. Raises `ShapeError` for a `pred` of several elements and for branches whose
    shapes differ, `DTypeError` if their dtypes do, and `GraphError` if their nests do.

    >>> x = sg.placeholder((), name="x")
    >>> y = sg.cond(x > 0, lambda: sg.log(x), lambda: x)
    >>> sg.run(y, {x: -2.0})
    array(-2., dtype=float32)
    """
    require_callables("cond", true_fn=true_fn, false_fn=false_fn)
    given: Any = name
    if isinstance(given, Tensor):
        problem = f"name is {given!r}, not a string"
        raise DTypeError("cond", problem, hint=f"of a branch, {_CAPTURES}", source=user_source())
    if not isinstance(pred, Tensor):
        raise DTypeError(
            "cond",
            f"pred is {pred!r}, not a tensor",
            hint="what Python knows already needs no cond: use an if",
            source=user_source(),
        )
    holds = scalar_tensor("cond", "pred", pred)
    require_bool("cond", "pred", holds)
    index = cast(logical_not(holds), dtypes.int64)
    return _choose("cond", index, {"true_fn": true_fn, "false_fn": false_fn}, name)


@known_as("switch")
def switch_case(
    index: Any,
    branch_fns: Sequence[AnyFunction]
    | Mapping[int, AnyFunction]
    | Iterable[tuple[int, AnyFunction]],
    default: AnyFunction | None = None,
    name: str | None = None,
) -> Any:
    """Return what the function number `index` gives; `default()`, or the last one, for no number.

    `branch_fns` are functions, or functions under the keys 0, 1, ... of a dict or in pairs. They
    return the same nest of tensors, of equal dtypes and shapes, and only one of them runs.

    >>> i = sg.placeholder((), "int32", name="i")
    >>> y = sg.switch_case(i, [lambda: sg.zeros(2), lambda: sg.ones(2)])
    >>> sg.run(y, {i: 1})
    array([1., 1.], dtype=float32)
    """
    if not isinstance(index, Tensor) or not index.dtype.is_integer:
        given = index.type if isinstance(index, Tensor) else repr(index)
        raise DTypeError(
            "switch_case", f"index is {given}, not an integer tensor", source=user_source()
        )
    functions = {f"branch_{i}": f for i, f in enumerate(_in_order(branch_fns))}
    if default is not None:
        functions["default"] = default
    require_callables("switch_case", **functions)
    chosen = as_int64(scalar_tensor("switch_case", "index", index))
    return _choose("switch_case", chosen, functions, name)


def _in_order(branch_fns: Any) -> list[AnyFunction]:
    """Return the functions by their numbers."""
    given: list[Any] = list(branch_fns.items() if isinstance(branch_fns, Mapping) else branch_fns)
    if not given:
        raise GraphError("switch_case", "there are no branches", source=user_source())
    if not any(isinstance(entry, tuple) for entry in given):
        return given
    keys = []
    for entry in given:
        if not isinstance(entry, tuple) or len(entry) != 2:
            raise DTypeError(
                "switch_case", f"{entry!r} is no pair of a number and a function",
                source=user_source(),
            )  # fmt: skip
        key = as_int(entry[0])
        if key is None:
            problem = f"key {entry[0]!r} is not an int"
            raise DTypeError("switch_case", problem, source=user_source())
        keys.append(key)
    if sorted(keys) != list(range(len(keys))):
        raise GraphError(
            "switch_case",
            f"the keys are {sorted(keys)}, not 0 to {len(keys) - 1}, each once",
            source=user_source(),
        )
    return [function for _, function in sorted(given, key=lambda entry: int(entry[0]))]


def _choose(op: str, index: Tensor, functions: Mapping[str, AnyFunction], name: str | None) -> Any:
    """Trace `functions` and make the node that runs the one at `index`."""
    traced = [Traced(label, ()) for label in functions]
    leaves, nests = [], []
    growing: list[bool] = []
    for region, function in zip(traced, functions.values(), strict=True):
        with region.open():
            result = called(op, region.region.name, function, (), _CAPTURES)
            growing = growing_leaves(result)
            flat, nest = flatten(result)
        leaves.append(flat)
        nests.append(nest)
    _check_nests(op, list(functions), leaves, nests)
    if not leaves[0]:
        return unflatten(nests[0], ())
    leaves = _grown_alike(traced, leaves, growing)
    dtypes_wanted = [_strong_dtype(values) for values in zip(*leaves, strict=True)]
    for region, values in zip(traced, leaves, strict=True):
        with region.open():
            tensors = [with_dtype(v, d) for v, d in zip(values, dtypes_wanted, strict=True)]
        region.give(tensors)
    try:
        node = branch(index, traced, name)
    except SymgradError as error:
        error.subject = op  # the op is the same for all branches, what the user called is not
        raise
    return unflatten(nests[0], node.outputs)


def _grown_alike(
    traced: Sequence[Traced], leaves: Sequence[list[Any]], growing: Sequence[bool]
) -> list[list[Any]]:
    """Return the results of branches with arrays of dynamic size as large as in any branch."""
    found = [list(values) for values in leaves]
    for position in (i for i, grows in enumerate(growing) if grows):
        sizes = [values[position].shape[0] for values in leaves]
        if not all(isinstance(size, int) for size in sizes):
            continue
        for region, values in zip(traced, found, strict=True):
            with region.open():
                values[position] = grown(values[position], max(sizes))
    return found


def _check_nests(
    op: str, labels: Sequence[str], leaves: Sequence[Sequence[Any]], nests: Sequence[Nest]
) -> None:
    for label, values, nest in zip(labels, leaves, nests, strict=True):
        if len(values) != len(leaves[0]):
            raise GraphError(
                op,
                f"{labels[0]} returns {len(leaves[0])} tensors and {label} {len(values)}",
                source=user_source(),
            )
        if nest != nests[0]:
            raise DTypeError(
                op,
                f"{labels[0]} returns {describe(nests[0])} and {label} {describe(nest)}",
                source=user_source(),
            )


def _strong_dtype(values: Sequence[Any]) -> DType | None:
    """Return the dtype of the first value that has one."""
    return next((v.dtype for v in values if isinstance(v, Tensor)), None)


def with_dtype(value: Any, dtype: DType | None) -> Tensor:
    """Return `value` as a tensor; a number of Python takes `dtype` if that loses nothing."""
    is_number = isinstance(value, int | float | complex)
    if dtype is None or not is_number or isinstance(value, bool | np.generic):
        return as_tensor(value)
    is_real = not isinstance(value, complex)
    fits = dtype.is_complex or (dtype.is_float and is_real)
    fits = fits or (dtype.is_integer and isinstance(value, int))
    return constant(value, dtype if fits else None)


def require_callables(op: str, **functions: Any) -> None:
    """Raise `DTypeError`, a `TypeError`, for one of `functions` that cannot be called."""
    for label, function in functions.items():
        if not callable(function):
            raise DTypeError(op, f"{label} is {function!r}, not a function", source=user_source())


def scalar_tensor(op: str, label: str, value: Any) -> Tensor:
    """Return `value` as a tensor without axes; axes of size 1 are dropped."""
    tensor = as_tensor(value)
    if any(n != 1 for n in tensor.shape):
        raise ShapeError(
            op, f"{label} is {tensor.type}, not a single element", source=user_source()
        )
    return reshape(tensor, ()) if tensor.ndim else tensor


def require_bool(op: str, label: str, tensor: Tensor) -> None:
    """Raise `DTypeError` for a condition of another dtype."""
    if not tensor.dtype.is_bool:
        raise DTypeError(op, f"{label} is {tensor.type}, not bool[]", source=user_source())
