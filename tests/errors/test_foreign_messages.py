"""The full text of the errors of calls of functions of C."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.c_programs import needs
from tests.support.foreign_library import address_of
from tests.support.refusals import assert_refused

X = sg.placeholder((4,), "float64", name="x")
OUT = [((4,), "float64")]
BARE: Any = ["float64"]
HALF: Any = [((2.0,), "float64")]


def test_a_name_that_is_none():
    assert_refused(lambda: sg.extern("my-f", [X], OUT), ValueError, """
        extern: 'my-f' is no name of a function of C
          --> <here>
    """)  # fmt: skip


@pytest.mark.parametrize("pointer", ["f", 1.5, True])
def test_a_pointer_that_is_none(pointer):
    assert_refused(lambda: sg.extern("f", [X], OUT, pointer=pointer), TypeError, f"""
        extern f: pointer is {pointer!r}, neither an address nor a function of ctypes
          --> <here>
    """)  # fmt: skip


def test_a_pointer_to_nothing():
    assert_refused(lambda: sg.extern("f", [X], OUT, pointer=0), ValueError, """
        extern f: pointer is 0, the address of nothing
          --> <here>
    """)  # fmt: skip
    null = ctypes.c_void_p()
    assert_refused(lambda: sg.extern("f", [X], OUT, pointer=null), ValueError, """
        extern f: pointer is c_void_p(None), the address of nothing
          --> <here>
    """)  # fmt: skip


def test_results_that_are_none():
    assert_refused(lambda: sg.extern("f", [X], []), ValueError, """
        extern f: out_types has no result, and nothing could depend on the call
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.extern("f", [X], BARE), ValueError, """
        extern f: result 0 is 'float64', not (shape, dtype)
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.extern("f", [X], [((2, -1), "float64")]), ValueError, """
        extern f: result 0: size -1 is negative
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.extern("f", [X], HALF), TypeError, """
        extern f: result 0: 2.0 is no size
          --> <here>
    """)  # fmt: skip


@pytest.mark.parametrize("workspace", [-1, 1.5, True])
def test_a_workspace_that_is_none(workspace):
    assert_refused(lambda: sg.extern("f", [X], OUT, workspace=workspace), ValueError, f"""
        extern f: workspace is {workspace!r}, no number of bytes
          --> <here>
    """)  # fmt: skip


def test_a_symbol_that_is_not_in_the_process():
    here = sg.extern("no_such_symbol", [X], OUT)[0]
    line = here.node.source
    with pytest.raises(sg.CompileError) as caught:
        sg.compile([X], here, opt_level=0)
    assert str(caught.value) == (
        f"extern no_such_symbol: there is no symbol of this name in the process\n  --> {line}\n"
        "  hint: give pointer=, or load its library with ctypes.CDLL(path, ctypes.RTLD_GLOBAL)"
    )


def test_a_name_with_two_functions():
    first = sg.extern("f", [X], OUT, pointer=1 << 20)[0]
    second = sg.extern("f", [first], OUT, pointer=1 << 21)[0]
    with pytest.raises(sg.GraphError) as caught:
        sg.compile([X], second, opt_level=0)
    assert str(caught.value) == (
        "extern f: the name stands for two functions in one program: at 1048576 and 2097152\n"
        f"  --> {second.node.source}\n  hint: give each a name of its own"
    )


def test_a_gradient_there_is_not():
    y = sg.extern("f", [X], OUT)[0]
    with pytest.raises(LookupError) as caught:
        sg.gradients(y, [X])
    assert str(caught.value) == (
        f"extern f: the function has no gradient\n  --> {y.node.source}\n"
        "  hint: give grad=, a function of the node and one gradient for each result"
    )


def test_a_function_of_c_with_the_name_of_one_of_the_library(tmp_path):
    step = sg.compile([X], X, opt_level=0)
    y = sg.extern("net_size", [X], OUT, pointer=1 << 20)[0]
    step = sg.compile([X], y, opt_level=0)
    assert_refused(lambda: step.export(tmp_path / "net"), RuntimeError, """
        export: extern net_size has the name of a function of the library
          --> <here>
    """)  # fmt: skip


@needs("cc")
def test_a_status_and_a_library_that_is_not_there(tmp_path):
    y = sg.extern("twice4", [X], OUT, pointer=address_of("twice4"))[0]
    step = sg.compile([X], y, opt_level=0)
    text = f"extern twice4: the function returned status 7\n  --> {y.node.source}"
    with pytest.raises(sg.ForeignCallError) as caught:
        step(np.full(4, 200.0))
    assert str(caught.value) == text
    step.export(tmp_path / "net", formats=("so",))
    assert_refused(lambda: sg.load(tmp_path / "net"), RuntimeError, """
        load net.so: it calls twice4, and there is no such symbol in the process
          --> <here>
          hint: load its library before, with ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    """)  # fmt: skip
