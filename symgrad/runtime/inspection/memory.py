"""The memory plan of a step: the arena and what is in it, and which gradients are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tabulate import tabulate

from symgrad.graph.kernel_spec import Map, Reshape, Scatter, View
from symgrad.graph.node import Tensor
from symgrad.passes.partition import Group, Partition
from symgrad.passes.row_updates import why_dense
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.tables import table


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
        parts = [head, table(("offset", "bytes", "alive in calls"), rows)]
        parts.append(f"gradient buffers: {self.gradient_bytes:,} bytes")
        if self.gradients:
            cells = [(g.variable, f"{g.bytes:,}", g.reason) for g in self.gradients]
            parts.append(table(("gradient of", "bytes", "is in memory since"), cells))
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
