"""Locks over forks: a child begins with all of them free.

A process may be forked while another thread compiles. That thread is not in the child, and what it
had locked would stay so: the first program that the child compiles would wait for ever. So who
forks takes each lock before, which is between two calls of LLVM, and both processes let go of it.

What takes long has no lock at all: a fork would wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock, local
from typing import TYPE_CHECKING, Any

_own: list[Any] = []
_foreign: list[Any] = []


class _Taken(local):
    """What a thread has taken for each fork: the handler of a signal may fork within another."""

    def __init__(self) -> None:
        self.of_forks: list[list[Any]] = []


_taken = _Taken()


def held_over_forks(lock: Any = None) -> Any:
    """Return a lock, a new one without `lock`, which a thread that forks takes before it does.

    The thread may have it already, as where the handler of a signal forks: it can be taken twice.
    Those of other libraries are taken last: whoever has one of ours may free what needs one.
    """
    held = RLock() if lock is None else lock
    (_own if lock is None else _foreign).append(held)
    return held


def _take() -> None:
    taken: list[Any] = []
    _taken.of_forks.append(taken)
    for lock in (*_own, *_foreign):  # more may come while one is waited for
        lock.__enter__()
        taken.append(lock)


def _release() -> None:
    # Nothing was taken where this is imported by another thread meanwhile.
    taken = _taken.of_forks.pop() if _taken.of_forks else []
    for lock in reversed(taken):
        lock.__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_release)

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class CachedProperty:
        """That of `functools` from Python 3.12 on: before, a lock was held while one is found.

        The lock was one for all objects. Of two threads that find the same, both have the first.
        """

        def __init__(self, find: Callable[[Any], Any]) -> None:
            self._find = find
            self.__doc__ = find.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            kept = vars(instance)
            return kept[self._name] if self._name in kept else self._keep(kept, instance)

        def _keep(self, kept: dict[str, Any], instance: Any) -> Any:
            return kept.setdefault(self._name, self._find(instance))

    cached_property = CachedProperty
