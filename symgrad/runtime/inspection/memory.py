"""The memory plan of a step: the arena and what is in it, and which gradients are in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from symgrad.display.markup import html_table
from symgrad.display.panels import bar, long_table, panel
from symgrad.display.units import bytes_text
from symgrad.graph.node import Tensor
from symgrad.graph.structures import Map
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.passes.rewrites.row_updates import why_dense
from symgrad.records import dataclass
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.tables import plain_table, table

_SHOWN = 8  # rows of what was fused away


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
class FusedRecord:
    """Results of one op and type that kernels hold in registers: how many, and bytes of all."""

    op: str
    type: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory a step takes besides its inputs and outputs, in bytes.

    `peak_bytes` is the sum of the arena, the state and the constants: all are allocated when the
    step is compiled, and nothing is allocated while it runs. `gradients` are the gradients that
    are in memory at all. `fused` are results of ops that never are, since the kernel that computes
    them also does what is done to them; the largest first.
    """

    peak_bytes: int
    arena_bytes: int
    state_bytes: int
    constant_bytes: int
    buffers: tuple[BufferRecord, ...]
    gradients: tuple[GradientRecord, ...]
    fused: tuple[FusedRecord, ...]

    @property
    def fused_bytes(self) -> int:
        """The bytes that results of ops would take and do not."""
        return sum(f.bytes for f in self.fused)

    @property
    def gradient_bytes(self) -> int:
        """The bytes of the gradients that go through memory."""
        return sum(g.bytes for g in self.gradients)

    def _repr_html_(self) -> str:
        """Return what notebooks show: where the bytes are, and the gradients among them."""
        kinds = (
            ("arena", self.arena_bytes),
            ("state", self.state_bytes),
            ("constants", self.constant_bytes),
            ("gradients, in the arena", self.gradient_bytes),
            ("fused away, never in memory", self.fused_bytes),
        )
        most = max(max(size for _, size in kinds), 1)
        rows = [(name, bytes_text(size), bar(size / most)) for name, size in kinds]
        parts = [html_table(("", "bytes", ""), rows, right=(1,))]
        if self.gradients:
            found = [(g.variable, bytes_text(g.bytes), g.reason) for g in self.gradients]
            parts.append(long_table(("gradient of", "bytes", "is in memory since"), found, (1,)))
        return panel(f"{bytes_text(self.peak_bytes)} at the most", *parts)

    def __str__(self) -> str:
        sizes = [
            ("peak", f"{self.peak_bytes:,}"),
            ("arena", f"{self.arena_bytes:,}"),
            ("state", f"{self.state_bytes:,}"),
            ("constants", f"{self.constant_bytes:,}"),
        ]
        head = plain_table(("memory", "bytes"), sizes, ("left", "right"))
        buffers = [(b.offset, f"{b.bytes:,}", f"{b.first} to {b.last}") for b in self.buffers]
        parts = [head, table(("offset", "bytes", "alive in calls"), buffers)]
        parts.append(f"gradient buffers: {self.gradient_bytes:,} bytes")
        if self.gradients:
            cells = [(g.variable, f"{g.bytes:,}", g.reason) for g in self.gradients]
            parts.append(table(("gradient of", "bytes", "is in memory since"), cells))
        count = sum(f.count for f in self.fused)
        parts.append(f"fused away: {count} results, {self.fused_bytes:,} bytes never in memory")
        if self.fused:
            rows = [(f.op, f.type, f.count, f"{f.bytes:,}") for f in self.fused[:_SHOWN]]
            parts.append(table(("op", "type", "results", "bytes"), rows))
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
        tuple(_gradients_in_memory(executable.partition)),
        _fused(executable.sources.partitions),
    )


def _fused(partitions: Iterable[Partition]) -> tuple[FusedRecord, ...]:
    """Return what groups compute and do not leave in memory, but for what only moves elements."""
    found: Counter[tuple[str, TensorType]] = Counter()
    for partition in partitions:
        for group in partition.groups:
            outputs = set(group.outputs)
            computing = (n for n in group.nodes if not partition.traits(n).is_free)
            inner = (t for node in computing for t in node.outputs if t not in outputs)
            found.update((t.node.op, t.type) for t in inner)
    records = (FusedRecord(op, str(t), n, n * t.nbytes) for (op, t), n in found.items())
    return tuple(sorted(records, key=lambda record: -record.bytes))


def _writes_rows(partition: Partition, group: FusionGroup) -> bool:
    return group.anchor is not None and partition.traits(group.anchor).writes_rows


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


def _read_by_element(partition: Partition, group: FusionGroup) -> list[Tensor]:
    """Return what the Maps of `group` read from memory, perhaps through views."""
    operands: set[Tensor] = set()
    for node in reversed(group.nodes):
        is_seen = partition.traits(node).only_moves and node.output in operands
        if is_seen or isinstance(partition.specs[node], Map):
            operands.update(node.inputs)
    stored = {partition.stored(t) for t in operands}
    return [t for t in group.inputs if t in stored]
