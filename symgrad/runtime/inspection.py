"""What a compiled step is made of and where its time goes: data that prints as tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from symgrad.codegen.kernel_costs import kernel_bytes, kernel_flops, kernel_parts, schedule_text
from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.program import Call
from symgrad.graph.kernel_spec import Map, Reshape, Scatter, View
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array, aligned_empty
from symgrad.passes.partition import Group, Partition
from symgrad.passes.row_updates import why_dense
from symgrad.runtime.executable import Executable
from symgrad.runtime.jit import emit_object, load_object, optimize
from symgrad.runtime.openmp import openmp, runtime_symbols
from symgrad.runtime.provenance import lines_of


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One call of a kernel in a step.

    `name` is the kernel's in the text of the stages; equal kernels share it. `ops` are the ops it
    computes and `lines` the user's lines they come from; `flops` and `bytes` are of one call.
    `parts` is into how many parts its work is cut for threads, and `threads` how many take them:
    one where no OpenMP runtime was found.
    """

    name: str
    label: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    flops: int
    bytes: int
    schedule: str
    parts: int
    threads: int


class Kernels(tuple[KernelRecord, ...]):
    """The calls of a step, in order."""

    __slots__ = ()

    def __str__(self) -> str:
        head = ("kernel", "computes", "flops", "bytes", "threads", "schedule", "lines")
        rows = [
            (r.name, r.label, f"{r.flops:,}", f"{r.bytes:,}", _threads(r), r.schedule,
             ", ".join(r.lines[:3]))
            for r in self
        ]  # fmt: skip
        table = _table(head, rows)
        if all(r.threads == r.parts for r in self):
            return table
        return f"{table}\n\nNo OpenMP runtime was found: one thread takes all parts of a kernel."


def _threads(record: KernelRecord) -> str:
    """Return how many threads share a call; nothing where none are to."""
    return str(record.threads) if record.parts > 1 else ""


def describe_kernels(executable: Executable) -> Kernels:
    """Return a record for each call of the program."""
    return Kernels(_record(call) for call in executable.program.calls)


def _record(call: Call) -> KernelRecord:
    nodes = call.group.nodes if call.group is not None else ()
    parts = kernel_parts(call.kernel)
    return KernelRecord(
        call.kernel.name,
        call.label,
        tuple(n.op for n in nodes),
        lines_of(nodes),
        kernel_flops(call.kernel),
        kernel_bytes(call.kernel),
        schedule_text(call.kernel),
        parts,
        parts if parts == 1 or openmp().name is not None else 1,
    )


# ------------------------------------------------------------------------------------- memory


@dataclass(frozen=True, slots=True)
class BufferRecord:
    """A temporary: its place in the arena, and the first and last call that touch it."""

    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class GradientRecord:
    """A gradient, or a part of one, that goes through memory, and the reason.

    It is what the kernel that updates `variable` reads element by element, is as large as the
    variable, and was computed in the same step.
    """

    variable: str
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory a step takes besides its inputs and outputs, in bytes.

    `peak_bytes` is the sum of the arena, the state and the constants: all are allocated when the
    step is compiled, and nothing is allocated while it runs. `gradients` are the gradients that
    are in memory at all.
    """

    peak_bytes: int
    arena_bytes: int
    state_bytes: int
    constant_bytes: int
    buffers: tuple[BufferRecord, ...]
    gradients: tuple[GradientRecord, ...]

    @property
    def gradient_bytes(self) -> int:
        """The bytes of the gradients that go through memory."""
        return sum(g.bytes for g in self.gradients)

    def __str__(self) -> str:
        head = tabulate(
            [
                ("peak", f"{self.peak_bytes:,}"),
                ("arena", f"{self.arena_bytes:,}"),
                ("state", f"{self.state_bytes:,}"),
                ("constants", f"{self.constant_bytes:,}"),
            ],
            headers=("memory", "bytes"),
            colalign=("left", "right"),
        )
        rows = [(b.offset, f"{b.bytes:,}", f"{b.first} to {b.last}") for b in self.buffers]
        parts = [head, _table(("offset", "bytes", "alive in calls"), rows)]
        parts.append(f"gradient buffers: {self.gradient_bytes:,} bytes")
        if self.gradients:
            cells = [(g.variable, f"{g.bytes:,}", g.reason) for g in self.gradients]
            parts.append(_table(("gradient of", "bytes", "is in memory since"), cells))
        return "\n\n".join(parts)


def describe_memory(executable: Executable) -> Memory:
    """Return the memory plan of the program."""
    program = executable.program
    buffers = tuple(
        BufferRecord(program.offsets[b], b.type.nbytes, *life)
        for b, life in program.lifetimes.items()
    )
    state = sum(s.array.nbytes for s in executable.program.variables)
    constants = sum(c.array.nbytes for c in executable.program.constants)
    return Memory(
        program.arena_bytes + state + constants,
        program.arena_bytes,
        state,
        constants,
        buffers,
        tuple(_gradients_in_memory(program.partition)),
    )


def _writes_rows(partition: Partition, group: Group) -> bool:
    return group.anchor is not None and isinstance(partition.specs[group.anchor], Scatter)


def _gradients_in_memory(partition: Partition) -> Iterator[GradientRecord]:
    writer = {t: group for group in partition.groups for t in group.outputs if group.nodes}
    seen: set[Tensor] = set()
    for update in sorted(partition.graph.updates, key=lambda u: not u.variable.trainable):
        group = writer.get(partition.stored(update.value))
        if group is None or _writes_rows(partition, group):
            continue
        for tensor in _read_by_element(partition, group):
            is_large = 1 < tensor.type.count == update.variable.type.count
            if is_large and tensor in writer and tensor not in seen:
                seen.add(tensor)
                reason = why_dense(partition.graph, tensor) or partition.reasons.get(tensor, "")
                yield GradientRecord(update.variable.state.name, tensor.type.nbytes, reason)


def _read_by_element(partition: Partition, group: Group) -> list[Tensor]:
    """Return what the Maps of `group` read from memory, perhaps through views."""
    operands: set[Tensor] = set()
    for node in reversed(group.nodes):
        spec = partition.specs[node]
        is_seen = isinstance(spec, View | Reshape) and node.output in operands
        if is_seen or isinstance(spec, Map):
            operands.update(node.inputs)
    stored = {partition.stored(t) for t in operands}
    return [t for t in group.inputs if t in stored]


# ------------------------------------------------------------------------------------ profile


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One call: how often it ran, the seconds of all these runs, and their share of the step.

    In a loop a call runs many times, in a branch perhaps never. Time and runs are medians over the
    steps; reading the clock is part of the time, some 20 ns a run.
    """

    kernel: KernelRecord
    runs: int
    seconds: float
    share: float

    @property
    def gflops(self) -> float:
        """Arithmetic in 10**9 operations a second."""
        return self._rate(self.kernel.flops)

    @property
    def gbytes(self) -> float:
        """Traffic in 10**9 bytes a second."""
        return self._rate(self.kernel.bytes)

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
                _threads(row.kernel),
                f"{row.runs:,}",
                f"{row.seconds * 1e6:.2f}",
                f"{row.share:.1%}",
                f"{row.gflops:.1f}",
                f"{row.gbytes:.1f}",
            )
            for row in sorted(self.rows, key=lambda r: -r.seconds)
        ]
        rows.append(("", "all", "", "", f"{self.seconds * 1e6:.2f}", "100.0%", "", ""))
        head = ("kernel", "computes", "threads", "runs", "us", "share", "GFLOP/s", "GB/s")
        return _table(head, rows)


def profile(executable: Executable, arrays: Sequence[Array], repeat: int) -> Profile:
    """Run the program `repeat` times with a clock around each call.

    The program is compiled once more for this. The state is put back as it was.
    """
    run, spent = _timed_run(executable, arrays)
    kept = [s.array.copy() for s in executable.program.variables]
    samples = []
    try:
        for _ in range(repeat + 1):
            spent[:] = 0.0
            run()
            samples.append(spent.copy())
    finally:
        for state, old in zip(executable.program.variables, kept, strict=True):
            state.array[...] = old
    calls = np.median(samples[1:], axis=0)  # the first run meets cold caches
    total = float(calls[:, 0].sum())
    rows = zip(describe_kernels(executable), calls.tolist(), strict=True)
    return Profile(tuple(ProfileRow(k, round(n), t, t / total) for k, (t, n) in rows), total)


def _timed_run(executable: Executable, arrays: Sequence[Array]) -> tuple[Callable[[], None], Array]:
    options = executable.options
    text = str(emit_module(executable.program, options.target, timed=True))
    module = optimize(text, options.target, options.opt_level)
    image = emit_object(module, options.target, options.opt_level)
    code = load_object(image, [STEP], runtime_symbols(text))
    step = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(code.address(STEP))
    outputs = [aligned_empty(t.type.static_shape, t.dtype.numpy) for t in executable.graph.outputs]
    spent = np.zeros((len(executable.program.calls), 2))  # seconds and runs
    inputs_table, outputs_table = _table_of(arrays), _table_of(outputs)
    tables = (inputs_table, outputs_table, executable.table, spent)

    def run() -> None:
        kept_alive = (code, outputs, arrays)
        status = step(*(t.ctypes.data for t in tables))
        assert kept_alive
        if status:
            executable.raise_failure(status)

    return run, spent


def _table_of(arrays: Sequence[Array]) -> Array:
    return np.array([a.ctypes.data for a in arrays], np.int64)


def _table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table, without the column of threads if it says nothing."""
    kept = [i for i, h in enumerate(headers) if h != "threads" or any(row[i] for row in rows)]
    headers, rows = [headers[i] for i in kept], [[row[i] for i in kept] for row in rows]
    right = {"threads", "runs", "us", "share", "GFLOP/s", "GB/s", "flops", "bytes", "offset"}
    align = ["right" if h in right else "left" for h in headers]
    return str(
        tabulate(rows, headers=headers, colalign=align if rows else None, disable_numparse=True)
    )
