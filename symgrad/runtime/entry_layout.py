"""Struct layouts of NumPy and CPython that the native entry reads: offsets, verified.

The offsets are part of the C ABI both promise to keep. They are tried once on a real array all the
same, since a wrong one would read memory at random.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np
from numpy._core import multiarray

from symgrad.errors import CompileError
from symgrad.records import dataclass

# NPY_ARRAY_C_CONTIGUOUS, _ALIGNED and _WRITEABLE of NumPy's C API.
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
BEHAVED = C_CONTIGUOUS | ALIGNED | WRITEABLE  # what every array is that a step makes
OWNS_DATA = 0x4  # NPY_ARRAY_OWNDATA

# Places in NumPy's table of C functions, and the version of the ABI that has them there.
_GET_VERSION, _ARRAY_TYPE, _NEW_FROM_DESCR = 0, 2, 94
_GET_HANDLER, _DEFAULT_HANDLER = 305, 306
_ABI_VERSION = 0x02000000
_LEAST_ADDRESS = 4096  # what is less is a count, and no pointer that could be followed

_PYTHON_FUNCTIONS = (
    "PyErr_CheckSignals",
    "PyErr_Clear",
    "PyErr_SetString",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyList_New",
    "PyLong_FromLong",
    "PyObject_Vectorcall",
    "PyThread_acquire_lock_timed",
    "PyThread_get_thread_ident",
    "PyThread_release_lock",
    "PyTraceMalloc_Track",
    "PyTuple_New",
    "Py_DecRef",
    "Py_IncRef",
)


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """Byte offsets in the C structures of an object, an array, a tuple and a list."""

    object_type: int
    array_pointer: int
    array_ndim: int
    array_dims: int
    array_descr: int
    array_flags: int
    array_handler: int
    tuple_items: int
    list_pointer: int


@dataclass(frozen=True, slots=True)
class Platform:
    """The layout of this process, and the addresses of what the entry calls (symbol -> address)."""

    layout: EntryLayout
    imports: tuple[tuple[str, int], ...]


@cache
def verified_platform() -> Platform:
    """Return what the native entry builds on, tried out on this interpreter and this NumPy.

    Raises `CompileError` if it is not what is expected.
    """
    layout = assumed_layout()
    verify_layout(layout)
    functions = [(name, _address(getattr(ctypes.pythonapi, name))) for name in _PYTHON_FUNCTIONS]
    none = ("_Py_NoneStruct", id(None))
    return Platform(layout, (*functions, none, *_numpy_imports()))


def assumed_layout() -> EntryLayout:
    """Return the layout that the headers of CPython 3 and NumPy 2 declare."""
    # PyArrayObject after its head: data, nd (an int, padded), dimensions, strides, base, descr,
    # flags (padded), weak references, a buffer, what allocates and frees the elements (NEP 49).
    # The head is two words, unless the interpreter has no global lock.
    pointer, ndim, dims, _strides, _base, descr, flags, _references, _buffer, handler = (
        16 + 8 * word for word in range(10)
    )
    # PyListObject after its head and its size: a pointer to the items, and how many fit there.
    list_pointer = 24
    places = (8, pointer, ndim, dims, descr, flags, handler, tuple.__basicsize__, list_pointer)
    return EntryLayout(*places)


def verify_layout(layout: EntryLayout) -> None:
    """Compare what `layout` finds in real objects with what Python says of them.

    Raises `CompileError` for any difference.
    """
    probe = np.zeros((2, 3, 5), np.float32)
    pair = (None, probe)
    listed = [None, pair]
    start = id(probe)
    found = {
        "type": _word(start + layout.object_type) == id(np.ndarray),
        "address": _word(start + layout.array_pointer) == probe.ctypes.data,
        "ndim": _int(start + layout.array_ndim) == probe.ndim,
        "dtype": _word(start + layout.array_descr) == id(probe.dtype),
        "flags": _int(start + layout.array_flags) == probe.flags.num,
        "memory handler": _word(start + layout.array_handler) == id(_handler()),
        "place in a tuple": _word(id(pair) + layout.tuple_items + 8) == start,
    }
    wrong = [name for name, is_right in found.items() if not is_right]
    # What is behind a pointer is looked at only where everything around it is right.
    if not wrong and _words(_word(start + layout.array_dims), probe.ndim) != probe.shape:
        wrong.append("shape")
    items = _word(id(listed) + layout.list_pointer)
    if not wrong and (items < _LEAST_ADDRESS or _word(items + 8) != id(pair)):
        wrong.append("place in a list")
    if wrong:
        raise CompileError(
            "native entry",
            f"NumPy {np.__version__} on Python {sys.version.split()[0]} does not keep an array's "
            f"{', '.join(wrong)} where expected",
        )


def _numpy_table() -> int:
    """Return where NumPy's table of C functions is, if it has the ABI that is expected."""
    table = _capsule_pointer(multiarray._ARRAY_API, None)
    assert table is not None, "PyCapsule_GetPointer returned NULL without an exception"
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(_word(table + 8 * _GET_VERSION))()
    has_abi = version == _ABI_VERSION and _word(table + 8 * _ARRAY_TYPE) == id(np.ndarray)
    if not has_abi:
        raise CompileError(
            "native entry",
            f"NumPy {np.__version__} has ABI {version:#x}, expected {_ABI_VERSION:#x}",
        )
    return int(table)


def _handler() -> object:
    """Return what allocates the elements of new arrays here: a capsule."""
    place = _word(_numpy_table() + 8 * _GET_HANDLER)
    return ctypes.PYFUNCTYPE(ctypes.py_object)(place)()


def _numpy_imports() -> tuple[tuple[str, int], ...]:
    table = _numpy_table()
    return (
        ("PyArray_Type", id(np.ndarray)),
        ("PyArray_NewFromDescr", _word(table + 8 * _NEW_FROM_DESCR)),
        ("PyDataMem_GetHandler", _word(table + 8 * _GET_HANDLER)),
        ("PyDataMem_DefaultHandler", _word(_word(table + 8 * _DEFAULT_HANDLER))),
    )


# A prototype of its own: setting `argtypes` of `ctypes.pythonapi`'s would change it for everyone.
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None, f"{function} has no address"
    return address


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _words(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address))


def _int(address: int) -> int:
    return ctypes.c_int32.from_address(address).value
