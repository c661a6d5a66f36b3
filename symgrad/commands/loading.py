"""Module loading: finds the compiled step that a command line means."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from symgrad.errors import SymgradError
from symgrad.records import dataclass
from symgrad.runtime.step import Step


class CommandError(SymgradError, ValueError):
    """A command line that does not make sense."""


@contextmanager
def refuse_os_errors(subject: str) -> Iterator[None]:
    """Say in one line what the system has against a file, where nothing of a user runs."""
    try:
        yield
    except OSError as error:
        raise CommandError(subject, error.strerror or str(error)) from error


@dataclass(frozen=True, slots=True)
class Loaded:
    """A step, and arrays to call it with, if there are some."""

    name: str
    step: Step
    arrays: tuple[Any, ...] | None

    def call(self) -> object:
        """Run the step once."""
        return self.step(*self.arguments())

    def arguments(self) -> tuple[Any, ...]:
        """Return arrays to call the step with. Raises `CommandError` if there are none."""
        if self.arrays is not None:
            return self.arrays
        if self.step.graph.inputs:
            raise CommandError(
                self.name,
                "the step has inputs, and there are no arrays to run it on",
                hint="return the step and a list of arrays: `return step, [x, y]`",
            )
        return ()


def load(text: str) -> Loaded:
    """Return what the function `module:function`, or `file.py:function`, returns.

    That is a compiled step, or a pair of a step and a list of arrays to call it with. Modules are
    looked for in the current folder first. Raises `CommandError` for anything else.
    """
    place, colon, name = text.rpartition(":")
    if not (colon and place and name):
        raise CommandError(
            text, "this names no function", hint="write module:function or file.py:function"
        )
    function = getattr(_module(text, place), name, None)
    if not callable(function):
        raise CommandError(text, f"{place} has no function {name!r}")
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        raise CommandError(text, f"{name} cannot be called without arguments: {error}") from error
    return _loaded(text, function())


def _module(text: str, place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _module_of_file(text, Path(place))
        return _module_of_name(text, place)
    except SyntaxError as error:
        raise CommandError(text, f"{place} is not Python: {error}") from error


def _module_of_name(text: str, place: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise CommandError(text, f"there is no module {place!r}")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        # What the module itself imports and cannot find is another matter.
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        raise CommandError(text, f"there is no module {place!r}") from error


def _module_of_file(text: str, path: Path) -> ModuleType:
    with refuse_os_errors(text):  # the system's limit on names is one
        is_file = path.is_file()
    if not is_file:
        raise CommandError(text, f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "a file that ends in .py is a module"
    assert spec.loader is not None, "a file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _loaded(text: str, result: Any) -> Loaded:
    match result:
        case Step():
            return Loaded(text, result, None)
        case (Step() as step, list() | tuple() as arrays):
            return Loaded(text, step, tuple(arrays))
        case _:
            raise CommandError(
                text,
                f"it returned {type(result).__name__}, not a compiled step",
                hint="return what sg.compile returns, or that and a list of arrays",
            )
