"""Source locations: the line of the user's code that a node is built by.

It is that of the innermost frame that is not symgrad's. To walk the frames takes as long as to make
a node, so what builds many nodes for one line, and calls nothing of the user's, walks them once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from symgrad.errors import Source, called_function, source_at, user_source
from symgrad.suggestions import is_public_name

_line: ContextVar[Source | None] = ContextVar("line", default=None)


class built_by_line:  # noqa: N801  # called as a function: a context manager's frame is no user's
    """Give the nodes built inside the user's line that is running now, which is looked for once.

    Nothing of the user's may be called inside, but in `built_by_any_line`. With `is_ours` false it
    changes nothing.
    """

    __slots__ = ("_is_ours", "_token")

    def __init__(self, is_ours: bool = True) -> None:
        self._is_ours = is_ours

    def __enter__(self) -> None:
        found = user_source() if self._is_ours else None
        if found is not None:
            found = replace(found, called=called_function())
        self._token = _line.set(found)

    def __exit__(self, *_: object) -> None:
        _line.reset(self._token)


@contextmanager
def built_by_any_line() -> Iterator[None]:
    """Look for the user's line of each node built inside: it is for functions of the user's."""
    token = _line.set(None)
    try:
        yield
    finally:
        _line.reset(token)


def line_of(op: str, scope: str) -> Source | None:
    """Return the line that builds a node of an op now, in `scope`, and what it calls, if another.

    None where no line of a user's is running.
    """
    line = _line.get()
    if line is None:
        found = user_source(scope.rstrip("/"))
        if found is None or is_public_name(op):
            return found
        return source_at(found.file, found.line, found.function, found.scope, called_function())
    called = "" if is_public_name(op) else line.called
    return source_at(line.file, line.line, line.function, scope.rstrip("/"), called)
