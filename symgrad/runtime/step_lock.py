"""Step lock of this process: its words, and what Python does with it.

What takes it for a step is emitted in `entry_lock.py`; see Note [The lock of steps].
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from symgrad.graph.whole_copies import wait_by
from symgrad.records import dataclass
from symgrad.runtime.entry_lock import LOCK_OBJECTS, LOCK_WORDS, lock_word

_allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", ctypes.pythonapi))
_acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(
    ("PyThread_acquire_lock", ctypes.pythonapi)
)
_WITHOUT_WAITING = 0


@dataclass(frozen=True, slots=True, eq=False)
class StepLock:
    """The words of the lock: the thread that has it, how many steps of it run, the lock itself."""

    owner: ctypes.c_int64
    depth: ctypes.c_int64
    lock: ctypes.c_int64

    @property
    def imports(self) -> dict[str, int]:
        """The symbols of the words, and their addresses."""
        return {lock_word(name): ctypes.addressof(getattr(self, name)) for name in LOCK_WORDS}

    def serves(self, wait: Callable[[], None], hold: Callable[[], None], let_go: Any) -> None:
        """Let copies of variables wait for steps, and processes be forked between two.

        Functions of Python that the entry is made of are given.
        """
        wait_by(wait)
        # It is called when modules and what they keep are gone already.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(LOCK_OBJECTS["is_finalizing"]))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=hold, after_in_parent=let_go, after_in_child=self._begin_anew
            )

    def _begin_anew(self) -> None:
        """Let go of the lock in a process that was forked, where there are no other threads.

        It was held by the thread that forked, below which steps may run on; or by another one,
        where a signal kept that from waiting. What C has of a lock may be copied while another
        thread changes it, so there is a new one.
        """
        is_own = self.owner.value == _thread()
        self.depth.value = self.depth.value - 1 if is_own else 0
        self.lock.value = _allocate()
        if self.depth.value:
            _acquire(self.lock.value, _WITHOUT_WAITING)
        else:
            self.owner.value = 0


_thread = ctypes.PYFUNCTYPE(ctypes.c_int64)(("PyThread_get_thread_ident", ctypes.pythonapi))


@cache
def step_lock() -> StepLock:
    """Return the lock of this process."""
    return StepLock(ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_int64(_allocate()))
