"""Vectorization (vmap) as a function transformation: from one example to a batch of them.

The function is traced for one case, and the graph is built once more with the axis of the cases by
`symgrad/passes/batching/vmap.py`, so nothing runs case by case that has a rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from symgrad.arrays.differentiate import kept, require_arguments
from symgrad.arrays.mapped_axes import AxesPrefix, MappedArguments, read_arguments, read_axes
from symgrad.errors import GraphError, user_source
from symgrad.frontend.control import require_callables
from symgrad.frontend.nests import Nest, flatten, flatten_whole, leaf_names, unflatten
from symgrad.frontend.tensor_array import TensorArray
from symgrad.functional import Function
from symgrad.graph.batch_rules import Entry, Operands
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.ranges import range_of
from symgrad.graph.sizes import Dim
from symgrad.passes.batching.vmap import build_batched
from symgrad.suggestions import known_as

Func = Callable[..., Any]

_SUBJECT = "vmap"


@known_as("vectorized_map")
def vmap(f: Func, in_axes: Any = 0, out_axes: Any = 0) -> Func:
    """Vectorise (vmap): return a function that maps `f` over an axis of its arguments.

    The function sees one case: arrays without the mapped axis. `in_axes` says which axis that is:
    an int for all positional arguments, a list or tuple with one entry for each of them, and in the
    place of an entry an int, None for what is the same in all cases, or a nest of these that begins
    as the argument does. What is given by keyword is mapped over axis 0. `out_axes` says likewise
    where the axis is in the results; a result with None must be the same for all cases.

    On arrays it is traced once for each signature, compiled and kept, and arrays come back; given
    tensors, or within another function that is traced, it builds graph. Gradients pass it, and it
    may be applied to what `grad`, `vjp` or `vmap` give. A branch or a loop whose way depends on the
    case is run for one case after the other.

    Raises `GraphError` where axes do not fit the arguments or nothing is mapped, `ShapeError` where
    there is no such axis or where sizes differ, `DTypeError` for what has no axes.

    >>> rows, w = np.float32([[1.0, 2.0], [3.0, 4.0]]), np.float32([1.0, 10.0])
    >>> sg.vmap(lambda row, w: sg.sum(row * w), in_axes=(0, None))(rows, w)
    array([21., 43.], dtype=float32)
    """
    require_callables(_SUBJECT, f=f)
    axes = read_axes("in_axes", in_axes), read_axes("out_axes", out_axes)
    return kept(_traced_vmap, f, *axes)


def _traced_vmap(func: Func, in_axes: AxesPrefix, out_axes: AxesPrefix) -> Func:
    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        require_arguments(_SUBJECT, func, args, kwargs)
        given = read_arguments(in_axes, args, kwargs)
        entries, nest = _batched(func, given)
        tree = unflatten(nest, [entry.tensor for entry in entries])
        axes = out_axes.beside(tree, "the results")
        names = leaf_names("the result", tree)
        placed = map(_placed, names, entries, axes, [given.size] * len(axes))
        return unflatten(nest, placed)

    compiled = Function(mapped)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    return call


def _batched(func: Func, given: MappedArguments) -> tuple[list[Entry], Nest]:
    """Trace `func` for one case; return its results, some with the axis, and their nest."""
    stacks = [t for t in given.stacks if t is not None]
    name = getattr(func, "__name__", "function")
    traced = Traced(name, [t.type.with_shape(t.shape[1:]) for t in stacks])
    for param, stack in zip(traced.params, stacks, strict=True):
        known = range_of(stack)
        if known is not None:
            traced.region.ranges[param] = known
    with traced.open():
        args, kwargs = given.with_slices(traced.params)
        results = func(*args, **kwargs)
        _refuse_arrays_of_tensors(results)
        leaves, nest = flatten(results)
        tensors = [as_tensor(leaf) for leaf in leaves]
    traced.give(tensors)
    captures = traced.captures
    entries = [*(Entry(t, True) for t in stacks), *(Entry(t, False) for t in captures)]
    return build_batched(traced.graph(captures), entries, given.size), nest


def _refuse_arrays_of_tensors(results: Any) -> None:
    if any(isinstance(whole, TensorArray) for whole in flatten_whole(results, TensorArray)):
        raise GraphError(
            _SUBJECT,
            "the function returns a TensorArray, which has no place for the axis",
            hint="return array.stack()",
            source=user_source(),
        )


def _placed(name: str, entry: Entry, axis: int | None, size: Dim) -> Tensor:
    """Return a result with the axis of the cases where it belongs."""
    tensor = entry.tensor
    if axis is None:
        if entry.is_batched:
            raise GraphError(
                _SUBJECT,
                f"out_axes has None for {name}, which depends on what is mapped",
                source=user_source(),
            )
        return tensor
    stack = Operands(tensor.node, (entry,), size).lift(entry)
    return moveaxis(stack, 0, normalize_axis(_SUBJECT, axis, stack.ndim, f"{name}: axis"))
