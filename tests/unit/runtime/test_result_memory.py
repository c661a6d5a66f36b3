"""Memory of results, in whole cache lines and kept for the next call: `runtime.result_memory`."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
from numpy._core import multiarray

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.runtime.entry import ArraySpec
from symgrad.runtime.entry_layout import verified_platform
from symgrad.runtime.result_memory import LEAST, MOST
from tests.support.copy_step import build_copy, values

_LARGE = ArraySpec("x", (1 << 16,), dtypes.float64)  # 512 KiB
_NAME = multiarray.get_handler_name


@pytest.mark.parametrize("nbytes", [LEAST, LEAST + 4, 3 * LEAST, MOST - 4])
def test_a_result_begins_with_a_cache_line_and_owns_its_elements(nbytes):
    spec = ArraySpec("x", (nbytes // 4,), dtypes.float32)
    x = values(spec)
    y = build_copy([spec], single=True).call(x)
    assert y.ctypes.data % 64 == 0
    assert _NAME(y) == "symgrad"
    assert (y.base, y.flags.owndata, y.flags.writeable) == (None, True, True)
    assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize("nbytes", [0, 4, LEAST - 4, MOST])
def test_small_and_huge_results_are_allocated_by_numpy(nbytes):
    spec = ArraySpec("x", (nbytes // 4,), dtypes.float32)
    assert _NAME(build_copy([spec], single=True).call(values(spec))) == "default_allocator"


def test_memory_is_used_again_once_nobody_has_it_and_not_before():
    entry = build_copy([_LARGE], single=True)
    x = values(_LARGE)
    held = [entry.call(x) for _ in range(12)]
    places = {y.ctypes.data for y in held}
    assert len(places) == len(held)
    view = held.pop()[5:]
    place = view.ctypes.data
    assert all(entry.call(x).ctypes.data != place - 40 for _ in range(12))
    np.testing.assert_array_equal(view, x[5:])
    del view
    assert entry.call(x).ctypes.data == place - 40


def test_a_result_is_resized_like_any_other_array():
    entry = build_copy([_LARGE], single=True)
    x = values(_LARGE)
    y = entry.call(x)
    y.resize(2 * x.size)
    np.testing.assert_array_equal(y[: x.size], x)
    assert not y[x.size :].any()
    y.resize(3)
    np.testing.assert_array_equal(y, x[:3])
    z = entry.call(x)
    del y
    np.testing.assert_array_equal(z, x)


def test_tracemalloc_counts_results_while_they_live():
    entry = build_copy([_LARGE], single=True)
    x = values(_LARGE)
    tracemalloc.start()
    try:
        for _ in range(3):
            y = entry.call(x)
            assert tracemalloc.get_traced_memory()[0] >= _LARGE.nbytes
            del y
            assert tracemalloc.get_traced_memory()[0] < _LARGE.nbytes
    finally:
        tracemalloc.stop()


class _Handler(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("functions", ctypes.c_void_p * 5),
    )


@contextmanager
def _other_handler():
    """Have NumPy allocate by a handler of another name with the functions of its own."""
    imports = dict(verified_platform().imports)
    default = ctypes.cast(imports["PyDataMem_DefaultHandler"], ctypes.py_object).value
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    own = _Handler.from_buffer_copy(_Handler.from_address(get(default, b"mem_handler")))
    own.name = b"other"
    name = ctypes.create_string_buffer(b"mem_handler")
    capsule = new(ctypes.addressof(own), ctypes.cast(name, ctypes.c_char_p), None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))
    table = get(multiarray._ARRAY_API, None)
    address = ctypes.c_int64.from_address(table + 8 * 304).value
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
    before = set_handler(capsule)
    try:
        yield own, name
    finally:
        set_handler(before)


def test_another_handler_that_a_program_has_chosen_is_used():
    entry = build_copy([_LARGE], single=True)
    x = values(_LARGE)
    with _other_handler() as kept:
        y = entry.call(x)
        assert _NAME(y) == "other"
        del y
    assert _NAME(entry.call(x)) == "symgrad"
    del kept


_LEAVES_RESULTS = """
import builtins, ctypes, sys, threading
import numpy as np
import symgrad as sg

x = sg.placeholder((1 << 16,), "float64")
step = sg.compile([x], x + 1)
builtins.result = step(np.zeros(1 << 16))
sys.result = [step(np.zeros(1 << 16)) for _ in range(6)]
leaked = step(np.zeros(1 << 16))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(leaked))
thread = threading.Thread(target=lambda: globals().update(other=step(np.ones(1 << 16))))
thread.start(), thread.join()
del step, x, sg
sys.modules.pop("symgrad.runtime.entry"), sys.modules.pop("symgrad.runtime.result_memory")
"""


def test_results_are_freed_after_a_step_was_made_for_another_machine():
    x = sg.placeholder((40_000,))
    result = sg.compile([x], x + 1)(np.zeros(40_000, np.float32))
    other = "aarch64" if platform.machine() == "x86_64" else "x86-64"
    assert "for" in sg.compile([x], x + 2, target=other).ir("loops")
    del result
    assert np.all(sg.compile([x], x + 3)(np.zeros(40_000, np.float32)) == 3)


def test_results_may_be_the_last_that_a_process_frees():
    ended = subprocess.run([sys.executable, "-c", _LEAVES_RESULTS], check=False, timeout=60)
    assert ended.returncode == 0
