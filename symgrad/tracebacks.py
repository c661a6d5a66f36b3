"""Traceback filtering: an error of a user's mistake is shown without the frames inside symgrad.

The setting `internal_frames` shows them. The traceback of the error itself stays whole, for
debuggers and logs: what is left out is left out where an uncaught error is printed, by Python and
by IPython. An error that is no `SymgradError` is a fault of symgrad or of the user's function that
it calls, and is shown whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from symgrad.config import settings
from symgrad.errors import SymgradError, is_internal

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def shorten_tracebacks() -> None:
    """Have uncaught errors printed without internal frames, in this interpreter and in IPython."""
    sys.excepthook = _shortening(sys.excepthook)
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((SymgradError,), _show_in_ipython)


def user_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Return `trace` without the frames inside symgrad; the whole if there are no others."""
    frames = []
    at = trace
    while at is not None:
        if not is_internal(at.tb_frame):
            frames.append(at)
        at = at.tb_next
    shown: TracebackType | None = None
    for frame in reversed(frames):
        shown = TracebackType(shown, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trace if shown is None else shown


def _shortening(hook: _Hook) -> _Hook:
    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with _shortened(error):
            hook(kind, error, error.__traceback__ if isinstance(error, SymgradError) else trace)

    return show


def _show_in_ipython(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, **more: Any
) -> None:
    with _shortened(error):
        short = trace if settings().internal_frames else user_traceback(trace)
        shell.showtraceback((kind, error, short), tb_offset=more.get("tb_offset"))


@contextmanager
def _shortened(error: BaseException) -> Iterator[None]:
    """Take the internal frames out of an error, and out of those before it, inside the block."""
    kept = [(e, e.__traceback__) for e in _chain(error) if isinstance(e, SymgradError)]
    if settings().internal_frames:
        kept = []
    try:
        for one, trace in kept:
            one.__traceback__ = user_traceback(trace)
        yield
    finally:
        for one, trace in kept:
            one.__traceback__ = trace


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error, and those that it was raised from or while handling."""
    found: dict[int, BaseException] = {}
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in found:
            found[id(one)] = one
            pending += [one.__cause__, one.__context__]
    return list(found.values())
