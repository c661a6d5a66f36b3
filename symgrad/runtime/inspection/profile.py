"""Profiler: where the time of a step goes, kernel by kernel, and how close to the roofline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.codegen.kernel_costs import kernel_dtype
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.program.language import Launch, NativeCall, native_calls_of
from symgrad.codegen.program.registers import timed_as_one
from symgrad.display.markup import Html, html_table
from symgrad.display.panels import bar, panel
from symgrad.display.units import seconds_text, share_text
from symgrad.errors import CompileError, Source, user_source
from symgrad.graph.dtypes import float32
from symgrad.graph.given_arrays import require_int
from symgrad.graph.types import Array
from symgrad.records import dataclass, replace
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.communication import Communication, communication_of
from symgrad.runtime.inspection.kernels import KernelRecord, describe_kernels, threads_text
from symgrad.runtime.inspection.tables import fitted, terminal_width
from symgrad.runtime.inspection.timed_program import TimedProgram
from symgrad.runtime.limits import machine_limits

_HEAD = ("kernel", "computes", "threads", "runs", "us", "share", "GFLOP/s", "GB/s", "of limit")
_NO_LINE, _NO_SCOPE = "copies and fills", "outside of scopes"
_BAR = 20  # characters for the whole step
_SHOWN = 12  # bars


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
class KernelTime(ProfileRow):
    """The calls of one kernel together: `calls` of them, with the record of the first.

    The bytes of a function of C, whose calls may differ in size, are the mean of them.
    """

    calls: int


@dataclass(frozen=True, slots=True)
class ProfileGroup:
    """What the ops of one line, or of one name scope, take of a step.

    The time of a call is divided among the lines of its ops as the cost model prices these;
    `kernels` are all that had a part of it.
    """

    name: str
    seconds: float
    share: float
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a step goes. `rows` has one for each call, `seconds` is the sum of them.

    `communication` is what a step sends to other ranks, None where it sends nothing. The text names
    the dearest kernels, lines and name scopes, as wide as the terminal; `text(top=None)` names all.
    """

    rows: tuple[ProfileRow, ...]
    seconds: float
    communication: Communication | None = None

    @property
    def by_kernel(self) -> tuple[KernelTime, ...]:
        """The time of each kernel, equal calls together; the dearest first."""
        groups: dict[str, list[ProfileRow]] = {}
        for row in self.rows:
            groups.setdefault(row.kernel.name, []).append(row)
        return tuple(sorted(map(_together, groups.values()), key=lambda row: -row.seconds))

    @property
    def by_line(self) -> tuple[ProfileGroup, ...]:
        """The time of each of the user's lines, with the gradients of what it built."""
        return self.grouped(lambda source: str(source or _NO_LINE))

    @property
    def by_scope(self) -> tuple[ProfileGroup, ...]:
        """The time of each name scope, "" for what is in none, with that of the gradients."""
        return self.grouped(lambda source: source.scope if source else "")

    def grouped(self, name: Callable[[Source | None], str]) -> tuple[ProfileGroup, ...]:
        """Return the time of all lines of which `name` says the same; the dearest first."""
        seconds: dict[str, float] = {}
        kernels: dict[str, dict[str, None]] = {}
        for row in self.rows:
            for source, share in row.kernel.origins:
                group = name(source)
                seconds[group] = seconds.get(group, 0.0) + share * row.seconds
                kernels.setdefault(group, {})[row.kernel.name] = None
        found = (
            ProfileGroup(group, spent, spent / self.seconds, tuple(kernels[group]))
            for group, spent in seconds.items()
        )
        return tuple(sorted(found, key=lambda group: -group.seconds))

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """Return what notebooks show: bars of the dearest kernels, lines and name scopes."""
        parts = [_kernel_bars(self.by_kernel[:_SHOWN])]
        parts += [_group_bars("line", self.by_line)]
        if any(group.name for group in self.by_scope):
            parts.append(_group_bars("name scope", self.by_scope))
        return panel(f"{seconds_text(self.seconds)} in {len(self.rows)} calls", *parts)

    def text(self, top: int | None = 15, width: int | None = None) -> str:
        """Return tables of the `top` kernels, lines and name scopes, `width` characters wide.

        Without `width` they are as wide as the terminal; for a `top` of None they name all.
        """
        wide = terminal_width() if width is None else width
        parts = [_kernel_table(self.by_kernel, self.seconds, top, wide)]
        if self.communication is not None:
            parts.append(str(self.communication))
        parts.append(_group_table("line", self.by_line, top, wide))
        if any(group.name for group in self.by_scope):
            parts.append(_group_table("name scope", self.by_scope, top, wide))
        return "\n\n".join(parts)


def _together(rows: list[ProfileRow]) -> KernelTime:
    # Calls of one function of C may differ in what they are handed; those of one kernel do not.
    bytes_ = round(sum(row.kernel.bytes for row in rows) / len(rows))
    return KernelTime(
        replace(rows[0].kernel, bytes=bytes_),
        sum(row.runs for row in rows),
        sum(row.seconds for row in rows),
        sum(row.share for row in rows),
        sum(row.least_seconds for row in rows),
        len(rows),
    )


def _kernel_table(found: Sequence[KernelTime], total: float, top: int | None, width: int) -> str:
    shown, rest = found[:top], found[len(found[:top]) :]
    rows = [
        (
            row.kernel.name if row.calls == 1 else f"{row.kernel.name} x{row.calls}",
            row.kernel.label,
            threads_text(row.kernel),
            f"{row.runs:,}",
            f"{row.seconds * 1e6:.2f}",
            f"{row.share:.1%}",
            f"{row.gflops:.1f}",
            f"{row.gbytes:.1f}",
            f"{row.of_limit:.0%}",
        )
        for row in shown
    ]
    if rest:
        spent = sum(row.seconds for row in rest)
        rows.append(("", f"{len(rest)} more", "", *_spent(spent, spent / total), "", "", ""))
    rows.append(("", "all", "", *_spent(total, 1.0), "", "", ""))
    return fitted(_HEAD, rows, cut="computes", width=width)


def _spent(seconds: float, share: float) -> tuple[str, str, str]:
    return "", f"{seconds * 1e6:.2f}", f"{share:.1%}"


def _kernel_bars(found: Sequence[KernelTime]) -> Html:
    rows = [
        (
            row.kernel.name if row.calls == 1 else f"{row.kernel.name} \u00d7{row.calls}",
            row.kernel.label,
            bar(row.seconds / (found[0].seconds or 1.0)),
            seconds_text(row.seconds),
            share_text(row.share),
            share_text(row.of_limit),
        )
        for row in found
    ]
    headers = ("kernel", "computes", "", "time", "share", "of limit")
    return html_table(headers, rows, right=(3, 4, 5))


def _group_bars(what: str, groups: Sequence[ProfileGroup]) -> Html:
    most = groups[0].seconds or 1.0 if groups else 1.0
    rows = [
        (g.name or _NO_SCOPE, bar(g.seconds / most), seconds_text(g.seconds), share_text(g.share))
        for g in groups[:_SHOWN]
    ]
    return html_table((what, "", "time", "share"), rows, right=(2, 3))


def _group_table(what: str, groups: Sequence[ProfileGroup], top: int | None, width: int) -> str:
    rows = []
    for group in groups[:top]:
        bar = "#" * round(_BAR * group.share)
        rows.append(
            (group.name or _NO_SCOPE, f"{group.seconds * 1e6:.2f}", f"{group.share:.1%}", bar)
        )
    return fitted((what, "us", "share", ""), rows, cut=what, width=width)


def profile(executable: Executable, arrays: Sequence[Array], repeat: int) -> Profile:
    """Run the program `repeat` times with a clock around each call.

    The program is compiled once more for this. A loop that is kept in registers has no calls to put
    a clock around: its time is measured as a whole, and divided among its kernels as they take it
    when they are called. The state is put back as it was.
    """
    if require_int("profile", "repeat", repeat) < 1:
        problem = f"repeat is {repeat}, it must be at least 1"
        raise CompileError("profile", problem, source=user_source())
    program = executable.program
    calls = _measured(executable, arrays, repeat, whole_loops=False)
    routines = (routine.instrs for routine in program.routines)
    loops = [loop for instrs in (program.instrs, *routines) for loop in timed_as_one(instrs)]
    if loops:
        whole = _measured(executable, arrays, repeat, whole_loops=True)
        numbers = {id(call): number for number, call in enumerate(program.native_calls)}
        for loop in loops:
            inside = [numbers[id(call)] for call in native_calls_of([loop])]
            called = calls[inside, 0].sum()
            calls[inside, 0] *= whole[inside[0], 0] / called if called else 0.0
    total = float(calls[:, 0].sum())
    records = zip(program.native_calls, describe_kernels(executable), strict=True)
    rows = zip(records, calls.tolist(), strict=True)
    found = tuple(_row(call, k, t, round(n), total) for (call, k), (t, n) in rows)
    sent = communication_of(program, [r.seconds for r in found], [r.runs for r in found])
    return Profile(found, total, sent)


def _measured(
    executable: Executable, arrays: Sequence[Array], repeat: int, *, whole_loops: bool
) -> Array:
    """Return the seconds and the runs of each call: medians over `repeat` steps."""
    program, target = executable.program, executable.options.target
    module = emit_module(program, target, timed=True, whole_loops=whole_loops)
    timed = TimedProgram(executable, str(module), arrays)
    spent = np.zeros((len(program.native_calls), 2))  # seconds and runs
    samples = []
    with timed.state_kept():
        for _ in range(repeat + 1):
            spent[:] = 0.0
            timed.run(spent)
            samples.append(spent.copy())
    medians: Array = np.median(samples[1:], axis=0)  # the first run meets cold caches
    return medians


def _row(
    call: NativeCall, record: KernelRecord, seconds: float, runs: int, total: float
) -> ProfileRow:
    # Of a function of C there are no flops, so that any dtype will do.
    dtype = kernel_dtype(call.kernel) if isinstance(call, Launch) else float32
    least = machine_limits().seconds(dtype, record.flops, record.bytes)
    return ProfileRow(record, runs, seconds, seconds / total, least * runs)
