"""NumPy's dispatch protocols on tensors: `numpy.exp(x)` or `numpy.sum(x, axis=0)` builds graph.

Which op stands for a function of NumPy's is declared where the op is defined
(`symgrad/graph/public_ops.py`); here are the functions whose arguments NumPy has otherwise, and the
dispatch. What stands for nothing is refused by NumPy itself with a `TypeError`; so are options that
a function here does not have. The text and the views of graphs are bound to their methods here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from types import ModuleType
from typing import Any

import numpy as np

from symgrad.errors import GraphError, user_source
from symgrad.frontend import creation, namespace
from symgrad.frontend.container import Container, leafwise
from symgrad.graph.late_binding import BoundFunction, provide, wrap_provided
from symgrad.graph.networkx_view import to_networkx
from symgrad.graph.node import Tensor
from symgrad.graph.ops import (
    arithmetic,
    comparison,
    contraction,
    declare_all,
    indexing,
    slicing,
    structure,
    summation,
    views,
)
from symgrad.graph.public_ops import ACCUMULATIONS, FUNCTIONS, REDUCTIONS, UFUNCS
from symgrad.graph.text.parse import parse_graph
from symgrad.graph.text.print import print_graph

# The name of the op, and what takes NumPy's arguments for it.
ADAPTERS: dict[Callable[..., Any], tuple[str, Callable[..., Any]]] = {}


def _adapts(op: str, function: Callable[..., Any]) -> Callable[[BoundFunction], BoundFunction]:
    """Make what is decorated stand for NumPy's `function`, whose arguments `op` has otherwise."""

    def declare(adapter: BoundFunction) -> BoundFunction:
        ADAPTERS[function] = op, adapter
        return adapter

    return declare


@provide
def array_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Do what `x.__array_ufunc__` is asked for."""
    if any(isinstance(x, Container) for x in inputs):
        return NotImplemented  # NumPy then asks the container, which maps over its leaves
    if method == "__call__" and ufunc in UFUNCS and not options:
        return UFUNCS[ufunc].function(*inputs)
    if method == "reduce" and ufunc in REDUCTIONS:
        return _reduce(REDUCTIONS[ufunc].function, inputs, options)
    if method == "accumulate" and ufunc in ACCUMULATIONS:
        return _accumulate(ACCUMULATIONS[ufunc].function, inputs, options)
    if method == "outer" and ufunc is np.multiply and not options:
        return contraction.tensordot(*inputs, axes=0)
    return NotImplemented


def _reduce(
    function: Callable[..., Tensor], inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    given = {key: value for key, value in options.items() if value is not None or key == "axis"}
    if not given.keys() <= {"axis", "keepdims", "dtype"}:
        return NotImplemented
    # A ufunc reduces the first axis if none is named, where a function reduces all.
    return function(*inputs, **({"axis": 0} | given))


def _accumulate(
    function: Callable[..., Tensor], inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    given = {key: value for key, value in options.items() if value is not None}
    takes = signature(function).parameters.keys()
    return function(*inputs, **({"axis": 0} | given)) if given.keys() <= takes else NotImplemented


@_adapts("moveaxis", np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return views.moveaxis(a, source, destination)


@_adapts("permute_dims", np.transpose)
def _transpose(a: Any, axes: Any = None) -> Tensor:
    return views.reverse_axes(a) if axes is None else structure.permute_dims(a, axes)


@_adapts("reshape", np.reshape)
def _reshape(a: Any, /, shape: Any, order: str = "C") -> Any:
    return structure.reshape(a, shape) if order == "C" else NotImplemented


@_adapts("concat", np.concatenate)
def _concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Tensor:
    return slicing.concat(arrays, axis=axis)


@_adapts("stack", np.stack)
def _stack(arrays: Sequence[Any], axis: int = 0) -> Tensor:
    return slicing.stack(arrays, axis=axis)


@_adapts("expand_dims", np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Tensor:
    return structure.expand_dims(a, axis=axis)


@_adapts("pad", np.pad)
def _pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    if mode != "constant":
        return NotImplemented
    return slicing.pad(array, pad_width, constant_values=constant_values)


@_adapts("take", np.take)
def _take(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    return indexing.take(a, indices, axis=axis)


@_adapts("take_along_axis", np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    return indexing.take_along_axis(arr, indices, axis=axis)


@_adapts("where", np.where)
def _where(condition: Any, *choices: Any) -> Any:
    return comparison.where(condition, *choices) if len(choices) == 2 else NotImplemented


@_adapts("tensordot", np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    return contraction.tensordot(a, b, axes=axes)


@_adapts("trace", np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return summation.trace(a, offset=offset, axis1=axis1, axis2=axis2)


@_adapts("tril", np.tril)
def _tril(m: Any, k: int = 0) -> Tensor:
    return creation.tril(m, k=k)


@_adapts("triu", np.triu)
def _triu(m: Any, k: int = 0) -> Tensor:
    return creation.triu(m, k=k)


@_adapts("round", np.round)
def _round(a: Any, decimals: int = 0) -> Any:
    return arithmetic.round(a) if decimals == 0 else NotImplemented


@_adapts("repeat", np.repeat)
def _repeat(a: Any, repeats: int, axis: int | None = None) -> Tensor:
    return views.repeat(a, repeats, axis=axis)


@_adapts("roll", np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    return views.roll(a, shift, axis=axis)


@_adapts("clip", np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, **limits: Any) -> Any:
    if not limits.keys() <= {"min", "max"}:
        return NotImplemented
    return arithmetic.clip(a, limits.get("min", a_min), limits.get("max", a_max))


@provide
def array_function(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Do what `x.__array_function__` is asked for."""
    if any(isinstance(x, Container) for x in args):
        return NotImplemented
    if function in ADAPTERS:
        return ADAPTERS[function][1](*args, **options)
    if function in FUNCTIONS:
        return FUNCTIONS[function].function(*args, **options)
    return NotImplemented


@provide
def array_namespace(api_version: str | None) -> ModuleType:
    """Do what `x.__array_namespace__` is asked for."""
    newest = namespace.__array_api_version__
    if api_version is not None and api_version > newest:
        raise GraphError(
            "array namespace",
            f"version {api_version} was asked for, this is {newest}",
            source=user_source(),
        )
    return namespace


declare_all()
# `tensor + container` is a container.
wrap_provided(leafwise)
provide(parse_graph)
provide(print_graph)
provide(to_networkx)
