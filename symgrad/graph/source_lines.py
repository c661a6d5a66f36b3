"""Source locations: the line of the user's code that a node is built by.

It is that of the innermost frame that is not symgrad's. To walk the frames takes as long as to make
a node, so what builds many nodes for one line, and calls nothing of the user's, walks them once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from symgrad.errors import Source, user_source
from symgrad.records import draft_of

_line: ContextVar[Source | None] = ContextVar("line", default=None)


def built_by_line(is_ours: bool = True) -> AbstractContextManager[None]:
    """Give the nodes built inside the user's line that is running now, which is looked for once.

    Nothing of the user's may be called inside, but in `built_by_any_line`. With `is_ours` false it
    changes nothing.
    """
    # Found here: within `_built_by` the frame of contextlib would be taken for the caller.
    return _built_by(user_source() if is_ours else None)


def built_by_any_line() -> AbstractContextManager[None]:
    """Look for the user's line of each node built inside: it is for functions of the user's."""
    return _built_by(None)


@contextmanager
def _built_by(line: Source | None) -> Iterator[None]:
    token = _line.set(line)
    try:
        yield
    finally:
        _line.reset(token)


def line_of(scope: str) -> Source | None:
    """Return the line that builds a node now, in `scope`, with the public function that it calls.

    It is an object of the node's own, by which the node is found in what becomes of it. None where
    no line of a user's is running.
    """
    line, scope = _line.get(), scope.rstrip("/")
    if line is None:
        return user_source(scope)
    source = _SourceDraft()
    source.file, source.line, source.function = line.file, line.line, line.function
    source.scope, source.called = scope, line.called
    source.__class__ = Source
    made: Source = source
    return made


_SourceDraft = draft_of(Source)
