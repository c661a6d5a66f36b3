"""Public face of functions: what a module lists is mapped over containers, and named in errors.

Arguments that do not fit, of a function or of a method of a class, are an error of ours as well.

Functions take tensors and use one another so; a user's call goes through the wrapper that is made
here, and only that one knows which function the user called. So no op names itself for the sake of
messages, and an error of the body of a loop, which is the user's, is left as it is.
"""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from symgrad.call_errors import methods_refuse_arguments, named_in_errors
from symgrad.collector import importing
from symgrad.frontend.container import leafwise
from symgrad.graph.node import Node, Tensor
from symgrad.graph.public_ops import PUBLIC_OPS
from symgrad.late_modules import await_modules
from symgrad.suggestions import register_names, unknown_name

_NOTHING_LATE: Mapping[str, Sequence[str]] = MappingProxyType({})


@functools.cache  # one for each, under whatever names and in whatever modules it is public
def published(function: Callable[..., Any], prefix: str = "") -> Callable[..., Any]:
    """Return what users call of a function: of an op, what maps over containers as well.

    Errors say its name after `prefix`.
    """
    name = f"{prefix}{function.__name__}"
    return named_in_errors(leafwise(function) if is_op(function) else function, name)


def is_op(function: Callable[..., Any]) -> bool:
    """Return whether a function is one that users know as an op."""
    op = PUBLIC_OPS.get(function.__name__)
    return op is not None and op.function is function


def publish(
    namespace: dict[str, Any],
    submodules: Sequence[str] = (),
    prefix: str = "",
    late: Mapping[str, Sequence[str]] = _NOTHING_LATE,
) -> list[str]:
    """Make a module public: publish its functions, and return its names, which `dir` then shows.

    These are those of `__all__` if it has that; else those of `submodules`, those that `late`
    lists, and all but modules and what starts with an underscore. A name that it does not have is
    an `UnknownNameError` with a hint. Errors of functions name them with `prefix`, where the bare
    name would say too little.

    Submodules that are not there yet, and the modules that have the names in `late`, are imported
    when these names are first asked for.
    """
    module = namespace["__name__"]
    late_names = {name: path for path, listed in late.items() for name in listed}
    listed = [*submodules, *late_names, *_public_names(namespace)]
    names = sorted(namespace.get("__all__") or listed)
    missing = [name for name in submodules if name not in namespace]
    await_modules([*(f"{module}.{name}" for name in missing), *late])
    for name in names:
        if name in namespace:
            namespace[name] = _as_users_see(namespace[name], prefix)
    path = "sg" + module.removeprefix("symgrad")
    register_names(path, names)

    def find(name: str) -> Any:
        if name in late_names:
            with importing():
                value = getattr(importlib.import_module(late_names[name]), name)
            return namespace.setdefault(name, _as_users_see(value, prefix))
        if name in missing:
            return importlib.import_module(f"{module}.{name}")
        if name.startswith("_"):  # what Python and its tools look for, and mostly do not find
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise unknown_name(path, name)

    namespace["__getattr__"] = find
    namespace["__dir__"] = lambda: list(names)
    return names


def _as_users_see(value: Any, prefix: str) -> Any:
    """Return what users have of a public value: of a function, one that errors name."""
    if inspect.isfunction(inspect.unwrap(value)):  # whose results may be kept, as a world's is
        return published(value, prefix) if prefix else published(value)
    if inspect.isclass(value) and _is_called_by_users(value):
        methods_refuse_arguments(value)
    return value


def _public_names(namespace: dict[str, Any]) -> list[str]:
    return [
        name
        for name, value in namespace.items()
        if not name.startswith("_") and not inspect.ismodule(value)
    ]


def _is_called_by_users(owner: type) -> bool:
    """Return whether a class is one of ours whose methods, or the class itself, users call.

    Tensors and nodes are made for every op that is built, and nobody else makes them: a call more
    each would cost what it does not give.
    """
    is_simple = issubclass(owner, BaseException | enum.Enum | tuple)
    return not is_simple and owner not in (Node, Tensor) and owner.__module__.startswith("symgrad")
