"""Instrumented execution: a program that measures itself is run, and the state put back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.native.jit import load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.native.team import team_symbols
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.types import Array, read_states, write_states
from symgrad.graph.whole_copies import at_one_moment
from symgrad.runtime.entry import LockUse, steps_held
from symgrad.runtime.executable import Executable
from symgrad.runtime.interrupts import stop_word


class TimedProgram:
    """The program of `executable` once more, as the LLVM IR `text`, which takes a fourth table."""

    def __init__(self, executable: Executable, text: str, arrays: Sequence[Array]) -> None:
        options = executable.options
        image = object_of(text, options.target, options.opt_level)
        self._executable = executable
        self._code = load_object(image, [STEP], team_symbols([image]))
        self._is_long = executable.lock_use == LockUse.LONG
        kind = ctypes.CFUNCTYPE if self._is_long else ctypes.PYFUNCTYPE
        self._step = kind(ctypes.c_int32, *[ctypes.c_void_p] * 4)(self._code.address(STEP))
        outputs = executable.graph.outputs
        self._outputs = [aligned_empty(t.type.static_shape, t.dtype.numpy) for t in outputs]
        self._arrays = arrays

    @contextmanager
    def state_kept(self) -> Iterator[None]:
        """Put the state back as it was when the block ends."""
        variables = self._executable.program.variables
        kept = read_states(variables)
        try:
            yield
        finally:
            write_states(variables, kept)

    def run(self, measured: Array) -> None:
        """Run it once, with what it measures left in `measured`. Raises what a call raises."""
        tables = (_table_of(self._arrays), _table_of(self._outputs), self._executable.table)
        pointers = [table.ctypes.data for table in (*tables, measured)]
        while True:
            status, index = self._call(pointers)
            if not status:
                return
            self._executable.raise_failure(status, index)

    def _call(self, pointers: list[int]) -> tuple[int, int]:
        """Call it once, apart from all steps; returns its status, and what it has left with it.

        As the step itself does, it gives the global lock up if it may take long and holds the lock
        of steps meanwhile: see Note [The lock of steps]. Otherwise it keeps the global one.
        """
        read, *place = self._executable.read_failure
        if self._is_long:
            with steps_held():
                return self._step(*pointers), int(read(*place))
        begin = setattr, stop_word(), "value", 0
        calls = [begin, (self._step, *pointers), (read, *place)]
        _, status, index = at_one_moment(calls)
        return status, int(index)


def _table_of(arrays: Sequence[Array]) -> Array:
    return np.array([a.ctypes.data for a in arrays], np.int64)
