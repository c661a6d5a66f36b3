"""Absurd arguments of all public functions and methods end in an error of ours, if in any.

It names what the user called, and the user's line. What a call takes is no matter here.
"""

from __future__ import annotations

import inspect
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from symgrad.argument_types import misfit
from symgrad.errors import SymgradError
from tests.errors.test_arguments import CALLED
from tests.support.absurd import EXAMPLE, Call, arguments_of, calls_of
from tests.support.together import together
from tools.public_names import PublicName

# What its examples call starts MPI, in a process of their own.
_NAMES = [name for name in CALLED if not name.name.startswith("sg.distributed.")]

# Errors that say which object of the user's is wrong, where that says more.
_OBJECTS = ("graph", "step", "update of w", "load ", "extern halve")

# As many parts, times, orders as these are taken at their word, and never done.
_DONE_SO_OFTEN = {("indices_or_sections", "a huge int"), ("repeat", "a huge int"),
                  ("order", "a huge int")}  # fmt: skip


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _is_of_the_user(error: BaseException) -> bool:
    """Return whether an error came out of a function of the example, or of the call of it."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(frame.filename == EXAMPLE for frame in frames) or "<lambda>()" in str(error)


def _subjects(name: PublicName) -> set[str]:
    path = name.name.split(".")
    owners = {path[-2]} if path[-2][:1].isupper() else set()
    return {path[-1], name.value.__name__, *owners}


def _complaint(name: PublicName, call: Call) -> str | None:
    """Return what is wrong with how a call ended."""
    try:
        with _limited(5):
            call.run()
    except SymgradError as error:
        if error.source is None:
            return f"has no line: {error}"
        if error.source.file == EXAMPLE or error.subject.startswith(_OBJECTS):
            return None
        subject = error.subject.partition(":")[0]
        is_named = subject.rpartition(".")[2] in _subjects(name)
        return None if is_named else f"names {error.subject!r}: {error}"
    except (OSError, MemoryError):
        return None  # of a path, of more than there is
    except AssertionError as error:
        return None if name.name.startswith("sg.testing.") else f"{error!r}"
    except Exception as error:
        return None if _is_of_the_user(error) else f"{error!r}"
    return None


@together("name", _NAMES, ids=lambda name: name.name, at_once=60)
def test_absurd_arguments_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a path that is absurd may be one
    arguments = arguments_of(name)
    if arguments is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        complaints = [
            f"{call} {text}"
            for call in calls_of(name, arguments)
            if (call.parameter, call.label) not in _DONE_SO_OFTEN
            if (text := _complaint(name, call)) is not None
        ]
    assert not complaints, f"{name.name}: {complaints[:5]} and so on, {len(complaints)}"


@together("name", _NAMES, ids=lambda name: name.name, at_once=100)
def test_the_arguments_of_an_example_are_what_annotations_say(name):
    arguments = arguments_of(name)
    if arguments is not None:
        assert misfit(inspect.unwrap(name.value), *arguments) is None


def test_most_functions_have_a_call_to_begin_with():
    found = {name.value for name in _NAMES if arguments_of(name) is not None}
    without = {name.value for name in _NAMES} - found
    assert len(without) < 10, without
