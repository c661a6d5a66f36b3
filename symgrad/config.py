"""Settings that are no arguments: at most eight, each with a type and a default.

A setting is read once, from the environment variable `SYMGRAD_<NAME>`, and may be overridden for a
while by code. What a user chooses for one program is an argument of `compile` and not a setting.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace

from symgrad.errors import CompileError

_PREFIX = "SYMGRAD_"
_WORDS = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False, "": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force.

    `verify`: check after every pass that what it made is well formed, be it a graph, a partition, a
    kernel or a program.
    """

    verify: bool = False


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings that `environment` states; raises `CompileError` for a value of none."""
    given = {}
    for field in fields(Settings):
        variable = _PREFIX + field.name.upper()
        if variable in environment:
            given[field.name] = _as_bool(variable, environment[variable])
    return Settings(**given)


def _as_bool(variable: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in _WORDS:
        raise CompileError(variable, f"{text!r} is none of 0, 1, false, true, off, on")
    return _WORDS[word]


_settings: ContextVar[Settings] = ContextVar("settings")
_initial = read_settings(os.environ)


def settings() -> Settings:
    """Return the settings in force here."""
    return _settings.get(_initial)


@contextmanager
def override(**changes: bool) -> Iterator[Settings]:
    """Change settings inside the `with` block, for this thread or task only."""
    changed = replace(settings(), **changes)
    token = _settings.set(changed)
    try:
        yield changed
    finally:
        _settings.reset(token)
