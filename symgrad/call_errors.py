"""Error boundary of public calls: what an error inside of a function or method is made to say.

Functions take tensors and use one another so; a user's call goes through the wrapper made here, and
only that one knows which function the user called. An error of ours names it. An error of Python's
says which argument is not what its annotation says (`symgrad/argument_types.py`); where all are, it
is a fault of symgrad's or of a function of the user's, and is left as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar, cast

from symgrad.argument_types import argument_too_deep, misfit
from symgrad.errors import (
    BOUNDARIES,
    DTypeError,
    GraphError,
    SymgradError,
    is_raised_below,
    user_source,
)
from symgrad.suggestions import is_public_name, refuse_arguments

Called = TypeVar("Called", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

# What an argument of a wrong type ends in, wherever it is first used as one of the right type.
_OF_PYTHON = (
    TypeError, ValueError, AttributeError, ArithmeticError, LookupError, AssertionError,
    RecursionError,
)  # fmt: skip

# Ops, methods, and what converts arguments: subjects that say less than the function called.
_PARTS = {"dtype"}
_OF_PROGRAMS = {"graph", "Graph"}  # of what a call makes of tensors: about any line
_WRAPPED: set[Callable[..., Any]] = set()  # methods that are wrapped


def declare_part(name: str) -> None:
    """Declare that errors that name `name` are about a part of whatever function a user calls."""
    _PARTS.add(name)


def named_in_errors(function: Called, name: str) -> Called:
    """Return `function`, whose errors name it where they would name what it is made of.

    Left as it is: an error that came out of a function of the user's, one about another line, and
    one whose subject is no function, such as a file. Arguments that do not fit are an
    `ArgumentError`, and those of other types a `DTypeError`.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SymgradError as error:
            _name(error, name)
            raise
        except _OF_PYTHON as error:
            _refuse(name, function, args, kwargs, error)
            raise

    BOUNDARIES.add(id(cast(FunctionType, call).__code__))
    return cast(Called, call)


def _name(error: SymgradError, name: str) -> None:
    """Make an error that is being handled name `name` and the user's line, if it is about it."""
    if error.subject == name or _is_of_part(error):
        error.subject, error.source = name, error.source or user_source()


def _refuse(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    given: Mapping[str, Any],
    error: Exception,
) -> None:
    """Raise what is wrong with the arguments of a call that ended in `error`, if something is."""
    if isinstance(error, TypeError):  # where arguments do not fit, nothing of the function has run
        refuse_arguments(name, function, args, given)
    if isinstance(error, RecursionError):
        problem = argument_too_deep(function, args, given)
        if problem is not None:
            raise GraphError(name, problem, source=user_source()) from error
        return
    problem = misfit(function, args, given)
    if problem is not None:
        raise DTypeError(name, problem, source=user_source()) from error


def _is_of_part(error: SymgradError) -> bool:
    """Return whether an error that is being handled names a function that only we have called."""
    if error.subject in _OF_PROGRAMS:
        return not is_raised_below(error)
    if error.subject not in _PARTS and not is_public_name(error.subject):
        return False
    given, here = error.source, user_source()
    is_here = not (given and here) or (given.file, given.line) == (here.file, here.line)
    return is_here and not is_raised_below(error)


def methods_refuse_arguments(owner: Class) -> Class:
    """Make errors of public methods of a class, and of its construction, name these.

    A decorator of the class: errors are as those of public functions are, but for those that name
    the class. Methods it inherits are meant as well.
    """
    # From the base up, so that of each name the nearest counts; static methods are no functions.
    found = {name: value for base in reversed(owner.__mro__) for name, value in vars(base).items()}
    for name, method in found.items():
        is_public = name == "__init__" or not name.startswith("_")
        if is_public and inspect.isfunction(method) and method not in _WRAPPED:
            setattr(owner, name, _named_method(name, method))
    return owner


def _named_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    is_construction = name == "__init__"

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except SymgradError as error:
            owner = type(self).__name__
            if error.subject != owner:
                _name(error, owner if is_construction else name)
            raise
        except _OF_PYTHON as error:
            subject = type(self).__name__ if is_construction else name
            _refuse(subject, method, (self, *args), kwargs, error)
            raise

    if not is_construction:
        declare_part(name)
    _WRAPPED.add(call)
    return call
