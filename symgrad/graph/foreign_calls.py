"""Foreign calls from Python: where a function of C is in this process, and one call of it.

This is for interpreters. A compiled program calls by the address alone (`codegen/llvm/extern.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from symgrad.errors import CompileError, Source
from symgrad.graph.foreign_functions import (
    ForeignFunction,
    Layout,
    PassedArgument,
    PassedNumber,
    PassedOperand,
    PassedStatus,
    PassedSymbol,
    PassedText,
    PassedWorkspace,
)

_HINT = "give pointer=, or load its library with ctypes.CDLL(path, ctypes.RTLD_GLOBAL)"
_ALIGNMENT = 64  # of a workspace
_Arrays = Sequence[npt.NDArray[Any]]


def locate(function: ForeignFunction, source: Source | None = None) -> int:
    """Return the address of a function; raises `CompileError` if it is not in this process."""
    if function.address is not None:
        return function.address
    found = symbol_in_process(function.name)
    if found is None:
        raise CompileError(
            f"extern {function.name}",
            "there is no symbol of this name in the process",
            hint=function.hint or _HINT,
            source=source,
        )
    return found


def symbol_in_process(name: str) -> int | None:
    """Return where the dynamic loader finds a symbol, None if it finds none."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        return None


def call_foreign(
    function: ForeignFunction, layout: Layout, inputs: _Arrays, outputs: _Arrays, workspace: int
) -> int:
    """Call a function on contiguous arrays, as a program would; return its status."""
    raw = np.zeros(workspace + _ALIGNMENT, np.uint8)
    memory = raw[-raw.ctypes.data % _ALIGNMENT :]
    status = ctypes.c_int32(0)
    numbers = {i: _number(a) for i, a in enumerate(layout) if isinstance(a, PassedNumber)}
    passed: list[Any] = []
    for position, argument in enumerate(layout):
        if isinstance(argument, PassedNumber):
            number = numbers[position]
            passed.append(ctypes.pointer(number) if argument.is_pointer else number)
        elif isinstance(argument, PassedStatus):
            passed.append(ctypes.pointer(status))
        else:
            passed.append(_pointer(argument, inputs, outputs, memory))
    is_told = any(isinstance(argument, PassedStatus) for argument in layout)
    result = None if is_told else ctypes.c_int32
    kind = ctypes.PYFUNCTYPE if function.keeps_lock else ctypes.CFUNCTYPE
    call = kind(result, *map(type, passed))(locate(function))
    returned = call(*passed)
    return status.value if is_told else int(returned)


def _number(argument: PassedNumber) -> Any:
    kind = ctypes.c_int32 if argument.bits == 32 else ctypes.c_int64
    return kind(argument.value)


def _pointer(
    argument: PassedArgument, inputs: _Arrays, outputs: _Arrays, memory: npt.NDArray[Any]
) -> Any:
    match argument:
        case PassedOperand(place, number):
            arrays = inputs if place == "in" else outputs
            return ctypes.c_void_p(arrays[number].ctypes.data)
        case PassedWorkspace(offset):
            return ctypes.c_void_p(memory.ctypes.data + offset)
        case PassedText(value):
            return ctypes.c_char_p(value.encode())
        case PassedSymbol(symbol):
            return ctypes.c_void_p(locate(symbol))
        case PassedNumber() | PassedStatus():
            raise AssertionError(f"{argument} is not where an array is")
        case _:
            assert_never(argument)
