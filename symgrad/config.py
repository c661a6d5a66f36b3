"""Settings that are no arguments: at most eight, each with a type and a default.

A setting is read once, from the environment variable `SYMGRAD_<NAME>`, and may be overridden for a
while by code. What a user chooses for one program is an argument of `compile` and not a setting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, TypedDict, Unpack

from symgrad.errors import CompileError
from symgrad.records import dataclass, replace

_PREFIX = "SYMGRAD_"
_WORDS = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False, "": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force.

    `verify`: check after every pass that what it made is well formed, be it a graph, a partition, a
    kernel or a program.
    `cache`: keep machine code in files, for other processes and later ones.
    `cache_dir`: the folder for these, which is made; "" for where the platform keeps caches.
    `cache_megabytes`: how much may be in it; what was not used for longest goes.
    `precompiled`: use leaf functions that were compiled before any program.
    `warn_float64`: warn where a float64 array meets a float32 graph, or a float32 input of a step.
    `internal_frames`: show the frames inside symgrad in the traceback of an uncaught error.
    """

    verify: bool = False
    cache: bool = True
    cache_dir: str = ""
    cache_megabytes: int = 512
    precompiled: bool = True
    warn_float64: bool = True
    internal_frames: bool = False


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings that `environment` states; raises `CompileError` for a value of none."""
    given: dict[str, Any] = {}
    for field in fields(Settings):
        variable = _PREFIX + field.name.upper()
        if variable in environment:
            given[field.name] = _READERS[type(field.default)](variable, environment[variable])
    return Settings(**given)


def _as_bool(variable: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in _WORDS:
        raise CompileError(variable, f"{text!r} is none of 0, 1, false, true, off, on")
    return _WORDS[word]


def _as_count(variable: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise CompileError(variable, f"{text!r} is no whole number")
    return int(text)


def _as_text(_variable: str, text: str) -> str:
    return text


_READERS: Mapping[type, Callable[[str, str], Any]] = {
    bool: _as_bool,
    int: _as_count,
    str: _as_text,
}

_settings: ContextVar[Settings] = ContextVar("settings")
_initial = read_settings(os.environ)


def settings() -> Settings:
    """Return the settings in force here."""
    return _settings.get(_initial)


class _Changes(TypedDict, total=False):
    """Settings by name, as `override` takes them."""

    verify: bool
    cache: bool
    cache_dir: str
    cache_megabytes: int
    precompiled: bool
    warn_float64: bool
    internal_frames: bool


@contextmanager
def override(**changes: Unpack[_Changes]) -> Iterator[Settings]:
    """Change settings inside the `with` block, for this thread or task only."""
    changed = replace(settings(), **changes)
    token = _settings.set(changed)
    try:
        yield changed
    finally:
        _settings.reset(token)
