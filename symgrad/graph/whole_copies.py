"""Atomic snapshots: copies of arrays that native steps write to, which other threads see whole.

NumPy gives the global lock up while it copies a large array, and a step may then run in another
thread and write what is being read. These copies keep it.
"""

# Note [The global lock is the lock of state]
# A step runs from its first kernel to its last under the global lock, on however many threads its
# kernels are, since nothing it calls gives that up. So whoever keeps it while they copy see all
# variables between two steps, and no step sees a part of what they write. A lock of our own would
# cost every call of every step what this costs only those who copy.
#
# An assignment to a slice of a memoryview is a copy that keeps the lock. Of several, nothing may
# give it up between one and the next either. The interpreter does so only between instructions of
# Python code, and `map` and `deque`, which are C, run none. A finalizer that the garbage collector
# calls would be some, so the collector rests.

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.generic]
_ALL = slice(None)


def copy_whole(targets: Sequence[_Array], sources: Sequence[_Array]) -> None:
    """Copy each of `sources` to the one of `targets` in its place, all of them at one moment.

    Both are C-contiguous, with equal shapes and dtypes.
    """
    if len(targets) == len(sources) == 1:
        _bytes_of(targets[0])[:] = _bytes_of(sources[0])
        return
    pairs = zip(map(_bytes_of, targets), map(_bytes_of, sources), strict=True)
    to, of = zip(*pairs, strict=True) if targets else ((), ())
    was_running = gc.isenabled()
    gc.disable()
    try:
        deque(map(memoryview.__setitem__, to, repeat(_ALL), of), maxlen=0)
    finally:
        if was_running:
            gc.enable()


def _bytes_of(array: _Array) -> memoryview:
    # Never a copy, which would be written to in the place of an array that is not contiguous.
    return array.reshape(array.size, copy=False).view(np.uint8).data
