"""Foreign functions of known libraries: where LAPACK is in this process, which SciPy brings along.

A compiled program calls LAPACK where SciPy has it, by a pointer that `scipy.linalg.cython_lapack`
gives. Without SciPy the symbol is looked up in the process. An export has the symbol, as Fortran
compilers name it, for `-llapack` to provide.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache

from symgrad.graph.foreign_functions import ForeignFunction

LAPACK = "lapack"
_HINT = "install SciPy, the extra linalg, or load LAPACK with ctypes.CDLL(path, ctypes.RTLD_GLOBAL)"


def lapack(routine: str) -> ForeignFunction:
    """Return a routine of LAPACK by its name, such as `dsyevd`."""
    return function_of(LAPACK, f"{routine}_")


@cache
def function_of(library: str | None, symbol: str) -> ForeignFunction:
    """Return the function of a library that has a symbol."""
    if library != LAPACK:
        return ForeignFunction(symbol, library=library)
    address = _address_in_scipy(symbol.removesuffix("_"))
    return ForeignFunction(symbol, address, library=LAPACK, hint=_HINT)


def _address_in_scipy(routine: str) -> int | None:
    try:
        capsules = importlib.import_module("scipy.linalg.cython_lapack").__pyx_capi__
    except ImportError:
        return None
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    capsule = capsules[routine]
    address = pointer_of(capsule, name_of(capsule))
    return None if address is None else int(address)
