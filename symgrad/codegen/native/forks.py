"""Locks of the compiler over forks: a child begins with all of them free.

A process may be forked while another thread compiles. That thread is not in the child, and what it
had locked would stay so: the first program that the child compiles would wait for ever. So who
forks takes each lock before, which is between two calls of LLVM, and both processes let go of it.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Any


def held_over_forks(lock: Any = None) -> Any:
    """Return a lock, a new one without `lock`, which a thread that forks takes before it does.

    The thread may have it already, as where the handler of a signal forks: it can be taken twice.
    """
    held = RLock() if lock is None else lock
    if hasattr(os, "register_at_fork"):
        release = _releasing(held)
        os.register_at_fork(before=held.__enter__, after_in_parent=release, after_in_child=release)
    return held


def _releasing(lock: Any) -> Any:
    def release() -> None:
        lock.__exit__(None, None, None)

    return release
