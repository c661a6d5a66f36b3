"""The team of this process: threads that share the kernels of all steps compiled in memory.

Its code (`codegen/team/`) is linked once, when a step needs it that forks, and stays for good: its
workers run it. They are started at the first fork, and ended before the interpreter is. A process
that was forked has none of its parent's, and starts its own.

Where the C library has no threads of POSIX, one thread runs all parts.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Iterable, Mapping
from functools import cache

from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.native.jit import LoadedCode, load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.target import target_named
from symgrad.codegen.team.fork import FORK, emit_team
from symgrad.codegen.team.threads import CLOSE, FORGET, SET_QUOTA
from symgrad.records import dataclass

_MOST_THREADS = 128
_SYMBOLS = (FORK, SET_QUOTA, FORGET, CLOSE)
_OPT_LEVEL = 2


@dataclass(frozen=True, slots=True, eq=False)
class Team:
    """The code of a team, with a memory of its own."""

    code: LoadedCode

    @property
    def fork(self) -> int:
        """The address of the function that kernels call."""
        return self.code.address(FORK)

    def set_quota(self, cores: int) -> None:
        """Let no more threads than that share a kernel."""
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(self.code.address(SET_QUOTA))(cores)

    def forget(self) -> None:
        """Begin anew with no workers, in a process that was forked."""
        ctypes.CFUNCTYPE(None)(self.code.address(FORGET))()

    def close(self) -> None:
        """End all workers: each fork is run by one thread from then on."""
        ctypes.CFUNCTYPE(None)(self.code.address(CLOSE))()


def team_symbols(images: Iterable[bytes]) -> Mapping[str, int]:
    """Return where the function is that objects call to fork; none if none of them does."""
    name = FORK.encode()
    return {FORK: process_team().fork} if any(name in image for image in images) else {}


@cache
def process_team() -> Team:
    """Return the team of this process."""
    made = link_team()
    made.set_quota(usable_cores())
    # Who runs this code are threads that nothing in Python refers to.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made.code))
    atexit.register(made.close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.forget)
    return made


def link_team() -> Team:
    """Return a new team, whose workers are started when they are needed."""
    native = target_named("native")
    module = str(emit_team("team", native, _MOST_THREADS, is_exported=False))
    return Team(load_object(object_of(module, native, _OPT_LEVEL), _SYMBOLS))
