"""Argument binding for NumPy's functions on tensors: NumPy's names and defaults, ours, refusals.

An argument that has NumPy's default is as if it were not given. One that has not, and that no
function of ours takes, is refused by name; so is a function that nothing stands for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, user_source
from symgrad.graph.late_binding import BoundFunction

# The name of the op, and what takes NumPy's arguments for it, under NumPy's names.
ADAPTERS: dict[Callable[..., Any], tuple[str, Callable[..., Any]]] = {}

# What NumPy's functions are told about memory, which is no matter of a graph: any value will do.
_ABOUT_MEMORY = {"order", "subok", "copy", "like", "optimize", "overwrite_input"}
# Of these `order` says in which order elements are counted.
_COUNTED_IN_ORDER = {np.reshape, np.ravel, np.unravel_index, np.ravel_multi_index}
_ABSENT = object()


def adapts(op: str, *functions: Callable[..., Any]) -> Callable[[BoundFunction], BoundFunction]:
    """Make what is decorated stand for NumPy's `functions`, whose arguments `op` has otherwise."""

    def declare(adapter: BoundFunction) -> BoundFunction:
        for function in dict.fromkeys(functions):  # some are one function with two names
            assert function not in ADAPTERS, f"two adapters stand for {function.__name__}"
            ADAPTERS[function] = op, adapter
        return adapter

    return declare


def refuse(function: Any, problem: str, instead: str) -> DTypeError:
    """Return the error for a call of NumPy's on tensors that has no meaning for them."""
    name = f"numpy.{getattr(function, '__name__', function)}"
    return DTypeError(name, problem, hint=f"use {instead}", source=user_source())


def call_adapter(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call the adapter of one of NumPy's functions, with the arguments that are no defaults."""
    op, adapter = ADAPTERS[function]
    unnamed, named = _bound(function, args, options)
    _check_named(function, op, adapter, named)
    return adapter(*unnamed, **named)


def call_op(
    function: Callable[..., Any],
    op: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """Call `op`, which takes NumPy's arguments as they are, but for the names of the first ones."""
    unnamed, named = _bound(function, args, options)
    parameters = _parameters(op)
    places = list(parameters.values())[len(unnamed) :]
    for name, parameter in zip(list(named), places, strict=False):
        is_unnamed = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        has_other_name = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if not is_unnamed and not (has_other_name and name not in parameters):
            break
        unnamed.append(named.pop(name))
    _check_named(function, op.__name__, op, named)
    return op(*unnamed, **named)


def _bound(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that NumPy's function has by place only, and the others by their names.

    Those that have NumPy's default are left out.
    """
    names = [
        name
        for name, parameter in _parameters(function).items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    kinds = [parameter.kind for parameter in _parameters(function).values()]
    has_any = inspect.Parameter.VAR_POSITIONAL in kinds or not kinds
    by_place = len(args) if has_any else kinds.count(inspect.Parameter.POSITIONAL_ONLY)
    named = dict(zip(names, args[by_place:], strict=False)) | dict(options)
    kept = {name: v for name, v in named.items() if not _is_default(function, name, v)}
    return list(args[:by_place]), kept


def _check_named(
    function: Callable[..., Any], op: str, adapter: Callable[..., Any], named: Mapping[str, Any]
) -> None:
    parameters = _parameters(adapter)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    strange = [name for name in named if name not in parameters]
    if strange:
        text = ", ".join(f"{name}=" for name in strange)
        hint = f"sg.{op}, whose result is a new tensor" if "out" in strange else f"sg.{op}"
        raise refuse(function, f"{text} has no meaning for a tensor", hint)


def _is_default(function: Callable[..., Any], name: str, value: Any) -> bool:
    if name in _ABOUT_MEMORY and not (name == "order" and function in _COUNTED_IN_ORDER):
        return True
    if name in ("out", "device") and value is None:
        return True
    parameter = _parameters(function).get(name)
    default = _ABSENT if parameter is None else parameter.default
    # Only what is the very default: a number may equal another one that is meant, as 0 and False.
    return value is default and not isinstance(value, int | float)


@functools.cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:
        return {}  # some of NumPy's functions in C do not tell
