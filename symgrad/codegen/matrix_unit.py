"""AMX permission: whether this process may use the tile registers of its cores.

They are 8 KiB of state a thread, which Linux saves for those processes only that have asked for it.
The permission is the process's, all its threads' and children's, and is never given back.
"""

from __future__ import annotations

import ctypes
import platform
import sys

_ARCH_PRCTL = 158  # the number of the system call, on x86-64
_REQUEST = 0x1023  # ARCH_REQ_XCOMP_PERM
_TILE_DATA = 18  # XFEATURE_XTILEDATA


def may_use_tiles() -> bool:
    """Ask for the tile registers, and return whether there are any and they were granted.

    Linux refuses where a thread has too small a stack for signals to save them on.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None).syscall
    syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_long]
    syscall.restype = ctypes.c_long
    return bool(syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0)
