"""Measuring on one core, beside libraries that need not be installed.

How contestants take turns is in `symgrad.testing.timing`, which is for users as well.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from symgrad.testing.timing import (
    Clock,
    Contestant,
    Times,
    interleave,
    time_calls,
    wait_for_threads,
)

__all__ = [
    "Clock",
    "Contestant",
    "Times",
    "interleave",
    "optional",
    "pin_to_one_core",
    "time_calls",
    "wait_for_threads",
]


def pin_to_one_core() -> int | None:
    """Keep this process and its threads on one core; return its number, None where none can be."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def optional(module: str) -> Any:
    """Import a library that is only compared with; None if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None
