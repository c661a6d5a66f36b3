"""Atomic snapshots: copies of arrays that native steps write to, which other threads see whole.

NumPy gives the global lock up while it copies a large array, and a step may then run in another
thread and write what is being read. These copies keep it.
"""

# Note [The locks of state]
# A step runs from its first kernel to its last under the global lock, or under the lock of steps if
# it may take long (`runtime/entry_lock.py`). So whoever finds, under the global lock, that no step
# has the other one, and keeps the global lock while they copy, see all variables between two steps,
# and no step sees a part of what they write. A callback that a step calls finds the lock with its
# own thread, and goes on.
#
# An assignment to a slice of a memoryview is a copy that keeps the lock. Of several, nothing may
# give it up between one and the next either, nor between finding that no step runs and the first.
# The interpreter does so only between instructions of Python code, and `map`, `starmap` and `list`,
# which are C, run none. A finalizer that the garbage collector calls would be some, so the
# collector rests.

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from itertools import chain, starmap
from operator import call, setitem
from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.generic]
_ALL = slice(None)


def copy_whole(targets: Sequence[_Array], sources: Sequence[_Array]) -> None:
    """Copy each of `sources` to the one of `targets` in its place, all of them at one moment.

    Both are C-contiguous, with equal shapes and dtypes.
    """
    if len(targets) == len(sources) == 1:
        at_one_moment([(setitem, _bytes_of(targets[0]), _ALL, _bytes_of(sources[0]))])
        return
    pairs = zip(map(_bytes_of, targets), map(_bytes_of, sources), strict=True)
    at_one_moment([(setitem, to, _ALL, of) for to, of in pairs])


def at_one_moment(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call functions of C that keep the global lock, between two steps; returns their results.

    Each of `calls` is a function and its arguments. Nothing else runs from the first to the last.
    """
    for wait in _waits:
        wait()  # mostly here, where the collector does not rest
    was_running = gc.isenabled()
    gc.disable()
    try:
        # What is waited by is looked at last: a thread may compile the first step meanwhile.
        results = list(chain(map(call, _waits), starmap(call, calls)))
    finally:
        if was_running:
            gc.enable()
    return results[len(results) - len(calls) :]


# Functions of C that return, under the global lock, when no other thread runs a step.
_waits: list[Callable[[], None]] = []


def wait_by(wait: Callable[[], None]) -> None:
    """Let what is done at one moment wait by a function of C, before any step may have to."""
    _waits.append(wait)


def _bytes_of(array: _Array) -> memoryview:
    # Never a copy, which would be written to in the place of an array that is not contiguous.
    return array.reshape(array.size, copy=False).view(np.uint8).data
