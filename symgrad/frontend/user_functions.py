"""Calls of functions that a user hands over, such as the body of a loop.

What such a function raises is left as it is, but where it does not take the arguments it is given:
Python's message names a lambda, and not who called it with how many.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from symgrad.errors import DTypeError, Source, user_source

AnyFunction = Callable[..., Any]

_NO_KEYWORDS: Mapping[str, Any] = MappingProxyType({})


def called(
    op: str,
    label: str,
    function: AnyFunction,
    arguments: Sequence[Any],
    hint: str,
    keywords: Mapping[str, Any] = _NO_KEYWORDS,
    source: Source | None = None,
) -> Any:
    """Return what a user's function gives; `DTypeError` if it takes other arguments than these.

    The error is at `source`, or else where the user called what calls it.
    """
    try:
        return function(*arguments, **keywords)
    except TypeError as error:
        problem = _does_not_take(function, arguments, keywords)
        if problem is None:
            raise
        where = source or user_source()
        raise DTypeError(op, f"{label}{problem}", hint=hint, source=where) from error


def _does_not_take(
    function: AnyFunction, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> str | None:
    """Return what is wrong with a call of `function`; None if arguments fit, or none can tell."""
    try:
        # What a decorator has wrapped may well take other arguments than those of the wrapper.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # one that is written in C
        return None
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        count = f"{len(arguments)} argument{'s' * (len(arguments) != 1)}"
        return f"{signature} is called with {count}"
    return None
