"""The calls of a step, of kernels and of functions of C: what each computes and takes, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from symgrad.codegen.kernel_costs import kernel_bytes, kernel_flops, kernel_parts, schedule_text
from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.program.language import ExternInstr, Launch
from symgrad.codegen.program.source_map import SourceMap
from symgrad.codegen.schedule.reasons import schedule_reasons
from symgrad.codegen.target import Target
from symgrad.display.panels import long_table, panel
from symgrad.display.units import bytes_text, count_text
from symgrad.errors import Source
from symgrad.graph.node import Node
from symgrad.passes.costs import picoseconds
from symgrad.passes.fusion.partition import FusionGroup
from symgrad.records import dataclass
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.tables import table
from symgrad.runtime.provenance import lines_of, scopes_of, source_of

_NAMED = 3  # lines, and reasons, that the table names


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One call of a kernel, or of a function of C, in a step.

    `name` is the kernel's in the text of the stages; equal kernels share it. `ops` are the ops it
    computes and `lines` the user's lines they come from; `flops` and `bytes` are of one call.
    `boundary` says why its results are in memory, and not part of the kernels that read them,
    `reasons` why its loops are scheduled as they are, first what was weighed if several kernels
    became this one.
    `parts` is into how many parts its work is cut for threads, and `threads` how many take them at
    the most: no more than this process has cores. `scopes` are the name scopes of the ops, and
    `origins` the lines with the share of the work that the cost model sees in the ops of each; a
    call that only copies or fills is of no line. What a function of C computes is not known: its
    `flops` are 0, and its `bytes` those of its operands and results.
    """

    name: str
    label: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    flops: int
    bytes: int
    schedule: str
    boundary: tuple[str, ...]
    reasons: tuple[str, ...]
    parts: int
    threads: int
    scopes: tuple[str, ...] = ()
    origins: tuple[tuple[Source | None, float], ...] = ((None, 1.0),)


class Kernels(tuple[KernelRecord, ...]):
    """The calls of a step, in order."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return what notebooks show: equal calls as one row."""
        counts = Counter(record.name for record in self)
        first = {record.name: record for record in reversed(self)}
        rows = [
            (f"{name} \u00d7{count}" if count > 1 else name, first[name].label,
             count_text(first[name].flops), bytes_text(first[name].bytes),
             first[name].schedule, ", ".join(first[name].lines[:_NAMED]))
            for name, count in counts.items()
        ]  # fmt: skip
        headers = ("kernel", "computes", "flops", "bytes", "schedule", "lines")
        title = f"{len(counts)} kernels, {len(self)} calls"
        return panel(title, long_table(headers, rows, right=(2, 3)))

    def __str__(self) -> str:
        head = (
            "kernel",
            "computes",
            "flops",
            "bytes",
            "threads",
            "schedule",
            "lines",
            "boundary",
            "why so scheduled",
        )
        rows = [
            (r.name, r.label, f"{r.flops:,}", f"{r.bytes:,}", threads_text(r), r.schedule,
             ", ".join(r.lines[:_NAMED]), "; ".join(r.boundary[:_NAMED]),
             "; ".join(r.reasons[:_NAMED]))
            for r in self
        ]  # fmt: skip
        return table(head, rows)


def threads_text(record: KernelRecord) -> str:
    """Return how many threads share a call; nothing where none are to."""
    return str(record.threads) if record.parts > 1 else ""


def describe_kernels(executable: Executable) -> Kernels:
    """Return a record for each call of the program."""
    sources, target = executable.sources, executable.options.target
    boundaries = {g: reasons for p in sources.partitions for g, reasons in p.boundaries()}
    calls, cores = executable.program.native_calls, usable_cores()
    return Kernels(
        _of_kernel(call, sources, boundaries, target, cores)
        if isinstance(call, Launch)
        else _of_function(call, sources)
        for call in calls
    )


def _of_kernel(
    call: Launch,
    sources: SourceMap,
    boundaries: Mapping[FusionGroup, tuple[str, ...]],
    target: Target,
    cores: int,
) -> KernelRecord:
    nodes = sources.nodes_of(call)
    reasons = (reason for group in sources.groups_of(call) for reason in boundaries[group])
    parts = kernel_parts(call.kernel)
    return KernelRecord(
        call.name,
        call.label,
        tuple(n.op for n in nodes),
        lines_of(nodes),
        kernel_flops(call.kernel),
        kernel_bytes(call.kernel),
        schedule_text(call.kernel),
        tuple(dict.fromkeys(reasons)),
        (*_fusion_reasons(call), *schedule_reasons(call.kernel, target)),
        parts,
        min(parts, cores),
        scopes_of(nodes),
        _origins(nodes),
    )


def _fusion_reasons(call: Launch) -> tuple[str, ...]:
    """Return what several kernels read and write, and what the one does that they became."""
    apart = [*_came_of(call)]
    if len(apart) == 1:
        return ()
    before = sum(kernel_bytes(launch.kernel) for launch in apart)
    return (
        f"one of {len(apart)} kernels, which read and write {before:,} bytes: "
        f"{kernel_bytes(call.kernel):,} as one",
    )


def _came_of(call: Launch) -> Iterator[Launch]:
    """Yield the launches that passes over programs made one of; itself if they made none."""
    if not call.fused:
        yield call
    for launch in call.fused:
        yield from _came_of(launch)


def _of_function(call: ExternInstr, sources: SourceMap) -> KernelRecord:
    nodes = sources.nodes_of(call)
    return KernelRecord(
        call.name,
        call.label,
        tuple(n.op for n in nodes),
        lines_of(nodes),
        flops=0,
        bytes=sum(argument.type.nbytes for argument in (*call.inputs, *call.outputs)),
        schedule="a function of C",
        boundary=("a function of C takes and gives arrays",),
        reasons=(),
        parts=1,
        threads=1,
        scopes=scopes_of(nodes),
        origins=_origins(nodes),
    )


def _origins(nodes: Sequence[Node]) -> tuple[tuple[Source | None, float], ...]:
    """Divide a call among the lines of its ops, by what these cost where nothing is fused."""
    prices: dict[Source | None, int] = {}
    for node in nodes:
        source = source_of(node)
        prices[source] = prices.get(source, 0) + picoseconds(node)
    total = sum(prices.values())
    if not total:  # nothing but moves elements, of which none is the dearer
        return tuple((source, 1 / len(prices)) for source in prices) or ((None, 1.0),)
    return tuple((source, price / total) for source, price in prices.items() if price)
