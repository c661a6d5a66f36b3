"""Profiler: where the time of a step goes, kernel by kernel, and how close to the roofline."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.codegen.kernel_costs import kernel_dtype
from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.native.jit import load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.native.team import team_symbols
from symgrad.codegen.program.language import Launch, launches_of
from symgrad.codegen.program.registers import timed_as_one
from symgrad.graph.types import Array, aligned_empty, read_states, write_states
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.kernels import KernelRecord, describe_kernels, threads_text
from symgrad.runtime.inspection.tables import table
from symgrad.runtime.interrupts import stop_word
from symgrad.runtime.limits import machine_limits

_HEAD = ("kernel", "computes", "threads", "runs", "us", "share", "GFLOP/s", "GB/s", "of limit")


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One call: how often it ran, the seconds of all these runs, and their share of the step.

    In a loop a call runs many times, in a branch perhaps never. Time and runs are medians over the
    steps; reading the clock is part of the time, some 20 ns a run. `least_seconds` is what the
    arithmetic, or the traffic, of all runs would take at the rates measured on one core: see
    `symgrad.runtime.limits`.
    """

    kernel: KernelRecord
    runs: int
    seconds: float
    share: float
    least_seconds: float

    @property
    def gflops(self) -> float:
        """Arithmetic in 10**9 operations a second."""
        return self._rate(self.kernel.flops)

    @property
    def gbytes(self) -> float:
        """Traffic in 10**9 bytes a second."""
        return self._rate(self.kernel.bytes)

    @property
    def of_limit(self) -> float:
        """The share of the machine's limit that was reached; more than 1 with several threads."""
        return self.least_seconds / self.seconds if self.seconds else 0.0

    def _rate(self, amount: int) -> float:
        return amount * self.runs / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a step goes. `seconds` is the sum over its calls."""

    rows: tuple[ProfileRow, ...]
    seconds: float

    def __str__(self) -> str:
        rows = [
            (
                row.kernel.name,
                row.kernel.label,
                threads_text(row.kernel),
                f"{row.runs:,}",
                f"{row.seconds * 1e6:.2f}",
                f"{row.share:.1%}",
                f"{row.gflops:.1f}",
                f"{row.gbytes:.1f}",
                f"{row.of_limit:.0%}",
            )
            for row in sorted(self.rows, key=lambda r: -r.seconds)
        ]
        rows.append(("", "all", "", "", f"{self.seconds * 1e6:.2f}", "100.0%", "", "", ""))
        return table(_HEAD, rows)


def profile(executable: Executable, arrays: Sequence[Array], repeat: int) -> Profile:
    """Run the program `repeat` times with a clock around each call.

    The program is compiled once more for this. A loop that is kept in registers has no calls to put
    a clock around: its time is measured as a whole, and divided among its kernels as they take it
    when they are called. The state is put back as it was.
    """
    program = executable.program
    calls = _measured(executable, arrays, repeat, whole_loops=False)
    routines = (routine.instrs for routine in program.routines)
    loops = [loop for instrs in (program.instrs, *routines) for loop in timed_as_one(instrs)]
    if loops:
        whole = _measured(executable, arrays, repeat, whole_loops=True)
        numbers = {id(call): number for number, call in enumerate(program.launches)}
        for loop in loops:
            inside = [numbers[id(call)] for call in launches_of([loop])]
            called = calls[inside, 0].sum()
            calls[inside, 0] *= whole[inside[0], 0] / called if called else 0.0
    total = float(calls[:, 0].sum())
    records = zip(program.launches, describe_kernels(executable), strict=True)
    rows = zip(records, calls.tolist(), strict=True)
    return Profile(tuple(_row(call, k, t, round(n), total) for (call, k), (t, n) in rows), total)


def _measured(
    executable: Executable, arrays: Sequence[Array], repeat: int, *, whole_loops: bool
) -> Array:
    """Return the seconds and the runs of each call: medians over `repeat` steps."""
    run, spent = _timed_run(executable, arrays, whole_loops=whole_loops)
    kept = read_states(executable.program.variables)
    samples = []
    try:
        for _ in range(repeat + 1):
            spent[:] = 0.0
            run()
            samples.append(spent.copy())
    finally:
        write_states(executable.program.variables, kept)
    medians: Array = np.median(samples[1:], axis=0)  # the first run meets cold caches
    return medians


def _row(call: Launch, record: KernelRecord, seconds: float, runs: int, total: float) -> ProfileRow:
    least = machine_limits().seconds(kernel_dtype(call.kernel), record.flops, record.bytes)
    return ProfileRow(record, runs, seconds, seconds / total, least * runs)


def _timed_run(
    executable: Executable, arrays: Sequence[Array], *, whole_loops: bool
) -> tuple[Callable[[], None], Array]:
    options = executable.options
    program, target = executable.program, options.target
    text = str(emit_module(program, target, timed=True, whole_loops=whole_loops))
    image = object_of(text, options.target, options.opt_level)
    code = load_object(image, [STEP], team_symbols([image]))
    step = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(code.address(STEP))
    outputs = [aligned_empty(t.type.static_shape, t.dtype.numpy) for t in executable.graph.outputs]
    spent = np.zeros((len(executable.program.launches), 2))  # seconds and runs
    inputs_table, outputs_table = _table_of(arrays), _table_of(outputs)
    tables = (inputs_table, outputs_table, executable.table, spent)

    def run() -> None:
        kept_alive = (code, outputs, arrays)
        pointers = [t.ctypes.data for t in tables]
        stop_word().value = 0
        while status := step(*pointers):
            executable.raise_failure(status)
        assert kept_alive

    return run, spent


def _table_of(arrays: Sequence[Array]) -> Array:
    return np.array([a.ctypes.data for a in arrays], np.int64)
