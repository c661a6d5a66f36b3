"""Public face of functions: what a module lists is mapped over containers, and named in errors.

Functions take tensors and use one another so; a user's call goes through the wrapper that is made
here, and only that one knows which function the user called. So no op names itself for the sake of
messages, and an error of the body of a loop, which is the user's, is left as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from symgrad.errors import SymgradError, is_raised_below, user_source
from symgrad.frontend.container import leafwise
from symgrad.graph.opdef import OPS
from symgrad.graph.public_ops import PUBLIC_OPS
from symgrad.suggestions import is_public_name, refuse_keywords, register_names, unknown_name

PublicFunction = TypeVar("PublicFunction", bound=Callable[..., Any])


def named_in_errors(function: PublicFunction) -> PublicFunction:
    """Return `function`, whose errors name it where they would name what it is made of.

    Left as it is: an error that came out of a function of the user's, one about another line, and
    one whose subject is no function, such as a file. A keyword it does not take is an
    `ArgumentError`.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SymgradError as error:
            if error.subject != name and _is_of_part(error):
                error.subject, error.source = name, error.source or user_source()
            raise
        except TypeError:
            if kwargs:  # of one that does not exist nothing of the function has run
                refuse_keywords(name, function, kwargs)
            raise

    return cast(PublicFunction, call)


def _is_of_part(error: SymgradError) -> bool:
    """Return whether an error that is being handled names a function that only we have called."""
    if error.subject not in OPS and not is_public_name(error.subject):
        return False
    given, here = error.source, user_source()
    is_here = not (given and here) or (given.file, given.line) == (here.file, here.line)
    return is_here and not is_raised_below(error)


@functools.cache  # one for each, under whatever names and in whatever modules it is public
def published(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what users call of a function: of an op, what maps over containers as well."""
    return named_in_errors(leafwise(function) if is_op(function) else function)


def is_op(function: Callable[..., Any]) -> bool:
    """Return whether a function is one that users know as an op."""
    op = PUBLIC_OPS.get(function.__name__)
    return op is not None and op.function is function


def publish(namespace: dict[str, Any], submodules: Sequence[str] = ()) -> list[str]:
    """Make a module public: publish its functions, and return its names, which `dir` then shows.

    These are those of `submodules`, and all else but modules and what starts with an underscore. A
    name that it does not have is an `UnknownNameError` with a hint.
    """
    for name, value in list(namespace.items()):
        if inspect.isfunction(value) and not name.startswith("_"):
            namespace[name] = published(value)
    module = namespace["__name__"]
    names = sorted(
        [
            *submodules,
            *(
                name
                for name, value in namespace.items()
                if not name.startswith("_") and not inspect.ismodule(value)
            ),
        ]
    )
    path = "sg" + module.removeprefix("symgrad")
    register_names(path, names)

    def find(name: str) -> Any:
        if name.startswith("_"):  # what Python and its tools look for, and mostly do not find
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise unknown_name(path, name)

    namespace["__getattr__"] = find
    namespace["__dir__"] = lambda: list(names)
    return names
