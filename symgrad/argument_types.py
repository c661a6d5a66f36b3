"""Type annotations as refusals: which argument of a call is not what its parameter says.

Nothing is checked while a call goes well. Where one ends in an error of Python's, the annotations
tell which argument it was: each public function says there what it takes, once, and type checkers
hold it to that. A form of annotation that is not known here takes everything.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import numpy as np

from symgrad.errors import shortened

# No program has as many lists in one another; what recursion fails at has, and may hold itself.
_DEEP, _DEEPEST = 100, 100_000
_UNIONS = (typing.Union, types.UnionType)
_NAMES = {
    bool: "a bool",
    bytes: "bytes",
    float: "a number",
    int: "an int",
    str: "a string",
    types.NoneType: "None",
}


def misfit(
    function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> str | None:
    """Return what is wrong with the first argument that is not what its annotation says.

    None where all of them are, which an annotation that names what is not imported takes all for.
    """
    signature = inspect.signature(function)
    for name, value in signature.bind(*args, **given).arguments.items():
        parameter = signature.parameters[name]
        wanted = _annotation(function, parameter)
        for one in _values(parameter, value):
            if not _fits(one, wanted):
                return f"{name} must be {_described(wanted)}, it is {shortened(one)}"
    return None


def too_deep(name: str, value: Any) -> str | None:
    """Return what is wrong with a nest that recursion cannot take apart, called `name`.

    None if lists, tuples and dicts lie in one another only as they do in programs.
    """
    depth, level = 0, [value]
    while depth < _DEEPEST:
        level = [child for one in level for child in _children(one)]
        if not level:
            break
        level = list({id(child): child for child in level}.values())
        depth += 1
    if depth < _DEEP:
        return None
    levels = f"{depth:,}" if depth < _DEEPEST else f"{depth:,} or more"
    limit = f"{sys.getrecursionlimit():,} calls"
    return f"{name} is nested {levels} deep, and recursion goes {limit} deep"


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        return value
    return value.values() if isinstance(value, dict) else ()


def argument_too_deep(
    function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> str | None:
    """Return what `too_deep` says of the first argument that it says something of."""
    signature = inspect.signature(function)
    for name, value in signature.bind(*args, **given).arguments.items():
        for one in _values(signature.parameters[name], value):
            problem = too_deep(name, one)
            if problem is not None:
                return problem
    return None


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, scope)[parameter.name]
    except NameError:  # of a module that is imported for type checkers alone
        return Any


def _values(parameter: inspect.Parameter, value: Any) -> tuple[Any, ...]:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return tuple(value)
    return tuple(value.values()) if parameter.kind is parameter.VAR_KEYWORD else (value,)


def _fits(value: Any, wanted: Any) -> bool:
    """Return whether a value is of an annotated type, as functions take it: an int is a float."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in _UNIONS:
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if wanted in _KINDS:
        return _KINDS[wanted](value)
    kind: Any = origin or wanted
    if kind is Callable:
        return callable(value)
    if wanted in (Any, inspect.Parameter.empty) or not isinstance(kind, type):
        return True  # or a type variable, or the name of a type
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping) and _entries_fit(value, inner)
    if issubclass(kind, Iterable) and kind.__module__ in ("builtins", "collections.abc"):
        return _is_series(value) and _elements_fit(value, kind, inner)
    return isinstance(value, kind)


def _elements_fit(value: Any, kind: type, inner: tuple[Any, ...]) -> bool:
    """Return whether the elements are as annotated; those of an iterator are used up by a look."""
    if not isinstance(value, Sequence | Mapping | np.ndarray) or not inner:
        return True
    if kind is tuple and inner[-1] is not ...:
        return len(value) == len(inner) and all(map(_fits, value, inner))
    return all(_fits(element, inner[0]) for element in value)


def _entries_fit(value: Mapping[Any, Any], inner: tuple[Any, ...]) -> bool:
    return not inner or all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())


def _is_series(value: Any) -> bool:
    """Return whether a value is one after another: a list, an array, an iterator; no string."""
    if isinstance(value, str | bytes):
        return False
    try:
        iter(value)
    except TypeError:
        return False
    return True


def _is_int(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.ndim and value.dtype.kind in "iu"
    return isinstance(value, int | np.integer)


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.ndim and value.dtype.kind in "iuf"
    return isinstance(value, int | float | np.integer | np.floating)


_KINDS: Mapping[Any, Callable[[Any], bool]] = {
    bool: lambda value: isinstance(value, bool | np.bool_) or (_is_int(value) and value in (0, 1)),
    float: _is_number,
    int: _is_int,
    bytes: lambda value: isinstance(value, bytes),
    str: lambda value: isinstance(value, str),
}


def _described(wanted: Any) -> str:
    """Return what an annotation is called in messages."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in _UNIONS or origin is Literal:
        names = [repr(one) if origin is Literal else _described(one) for one in inner]
        return " or ".join(dict.fromkeys(names))
    if wanted in _NAMES:
        return _NAMES[wanted]
    kind: Any = origin or wanted
    if kind is Callable:
        return "a function"
    if not isinstance(kind, type):
        return "what it is annotated as"
    if issubclass(kind, os.PathLike):
        return "a path"
    if issubclass(kind, Mapping):
        return "a dict"
    if issubclass(kind, Iterable) and kind.__module__ in ("builtins", "collections.abc"):
        of = f" of {_NAMES[inner[0]].split()[-1]}s" if inner and inner[0] in _NAMES else ""
        return f"a sequence{of}"
    return f"{_article(kind.__name__)} {kind.__name__}"


def _article(name: str) -> str:
    return "an" if name[0] in "AEIOU" else "a"
