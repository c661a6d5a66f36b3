"""Alpha-beta model of ranks: what a step takes on other numbers of them than it was measured on.

What ranks compute is measured. What they send is priced by a network in which a message of n bytes
takes `latency + n / bandwidth`, with the algorithms that libraries of MPI have for collectives
(R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in
MPICH", 2005). Each rank computes as much as it did, of a batch of its own: that is weak scaling.
Where ranks of a machine have more threads than it has cores, they take turns.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence

from symgrad.codegen.native.cores import usable_cores
from symgrad.graph.foreign_functions import ProcessGroup
from symgrad.graph.types import State
from symgrad.records import dataclass
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.communication import Message, messages_of
from symgrad.runtime.inspection.profile import Profile


@dataclass(frozen=True, slots=True)
class Network:
    """What lies between ranks: seconds until a message begins to arrive, and bytes a second then.

    `progress` is the share of a message that moves while a rank computes: all of it where hardware
    or a thread of the library does it, none where the library moves messages in calls alone.
    """

    latency: float
    bandwidth: float
    progress: float = 1.0

    def seconds(self, function: str, count: int, ranks: int) -> float:
        """Return how long a collective of `count` bytes takes, of the whole that all ranks have."""
        if ranks == 1:
            return 0.0
        rounds, share = math.ceil(math.log2(ranks)), (ranks - 1) / ranks
        start, move = self.latency, count / self.bandwidth
        by_tree = rounds * (start + move)
        match _operation(function):
            case "allreduce":
                return min(by_tree, 2 * rounds * start + 2 * share * move)
            case "bcast" | "reduce":
                return min(by_tree, (rounds + ranks - 1) * start + 2 * share * move)
            case "allgather" | "reduce_scatter_block":
                return rounds * start + share * move
            case "alltoall":
                return (ranks - 1) * start + share * move
            case "barrier":
                return rounds * start
            case _:  # a message from one rank to another
                return start + move


def _operation(function: str) -> str:
    """Return the collective that a function of MPI makes or starts: `MPI_Iallreduce`, allreduce."""
    name = function.removeprefix("MPI_")
    return (name[1:] if _starts(function) else name).lower()


def _starts(function: str) -> bool:
    return function.startswith("MPI_I")


def whole_bytes(message: Message, measured: int, ranks: int) -> int:
    """Return the bytes of a message on another number of ranks than it was measured on.

    What is started in the background is sums of gradients and parts of one state, whatever the
    number of ranks. Else each rank gives as much as before, and what is of all grows with them.
    """
    grows = _operation(message.function) in ("allgather", "reduce_scatter_block", "alltoall")
    if grows and message.waited is None:
        return message.bytes * ranks // measured
    return message.bytes


@dataclass(frozen=True, slots=True)
class Prediction:
    """A step on so many ranks: its seconds, those it computes and those of messages; memory."""

    ranks: int
    seconds: float
    computed_seconds: float
    message_seconds: float
    memory_bytes: int

    @property
    def efficiency(self) -> float:
        """The share of the step in which a rank computes."""
        return self.computed_seconds / self.seconds if self.seconds else 1.0

    @property
    def hidden(self) -> float:
        """The share of the time of messages in which a rank computes."""
        if not self.message_seconds:
            return 1.0
        waited = self.seconds - self.computed_seconds
        return max(0.0, 1 - waited / self.message_seconds)


@dataclass(frozen=True, slots=True)
class SharedCores:
    """The cores of a machine, and how many of the ranks that were measured run threads there."""

    cores: int
    ranks: int
    threads: int

    def slowdown(self, ranks: int) -> float:
        """Return how many times as long a rank computes, if there are `ranks` on all machines.

        A kernel takes the median of its times, which is that of a core of its own where kernels
        are shorter than a turn, some milliseconds.
        """
        return max(1.0, min(ranks, self.ranks) * self.threads / self.cores)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the calls of a step have taken on `rank`, one of `measured`, and what they send.

    `assumed_bytes` are those of gradients that the step does not send, and would.
    """

    executable: Executable
    profile: Profile
    messages: Sequence[Message]
    measured: int
    rank: int
    shared: SharedCores
    assumed_bytes: int

    def predict(self, network: Network, ranks: int) -> Prediction:
        """Return what a step takes on `ranks`, each message on its way while others compute.

        A network carries one message of a rank after another.
        """
        starts = {m.call: m for m in self.messages}
        waits = {m.waited for m in self.messages if m.waited is not None}
        on_way: dict[int, tuple[float, float]] = {}  # when it began to move, and for how long
        slowdown = self.shared.slowdown(ranks)
        now = carried = computed = sent = 0.0
        for number, row in enumerate(self.profile.rows):
            message = starts.get(number)
            if message is not None:
                whole = whole_bytes(message, self.measured, ranks)
                spent = row.runs * network.seconds(message.function, whole, ranks)
                began, sent = max(now, carried), sent + spent
                carried = began + spent
                if message.waited is None:
                    now = carried
                else:
                    on_way[message.waited] = began, spent
            elif number in waits:
                began, spent = on_way[number]
                now += max(0.0, spent - network.progress * max(0.0, now - began))
            else:
                spent = row.seconds * slowdown
                now, computed = now + spent, computed + spent
        if self.assumed_bytes:
            spent = network.seconds("MPI_Allreduce", self.assumed_bytes, ranks)
            now, sent = now + spent, sent + spent
        return Prediction(ranks, now, computed, sent, self._memory(ranks))

    def _memory(self, ranks: int) -> int:
        """Return the bytes of the arena, of inputs and results, and of the state of a rank."""
        program, graph = self.executable.program, self.executable.graph
        constants = sum(c.array.nbytes for c in program.constants)
        arrays = sum(t.type.nbytes for t in (*graph.inputs, *graph.outputs))
        state = sum(_bytes_on(s, ranks) for s in program.variables)
        return program.arena_bytes + constants + arrays + state


def _bytes_on(state: State, ranks: int) -> int:
    """Return the bytes that a rank has of a state, of which each of `ranks` may have a part."""
    if state.sharding is None:
        return state.array.nbytes
    return -(-state.array.nbytes * state.sharding.group.size // ranks)


def make_plan(executable: Executable, profile: Profile) -> Plan:
    """Return what is known of a step; one that sends nothing is taken to average its gradients.

    All ranks of a step that sends call it.
    """
    messages = messages_of(executable.program)
    largest = max((m.group for m in messages), key=lambda group: group.size, default=None)
    moved = {u.variable.state for u in executable.graph.updates if u.variable.trainable}
    assumed = 0 if messages else sum(state.array.nbytes for state in moved)
    measured, rank = (1, 0) if largest is None else (largest.size, largest.rank)
    shared = _shared_cores(largest, executable.options.threads.count)
    return Plan(executable, profile, messages, measured, rank, shared, assumed)


def _shared_cores(group: ProcessGroup | None, threads: int) -> SharedCores:
    """Return which cores the ranks of this machine have; all ranks of `group` call it."""
    has_set = hasattr(os, "sched_getaffinity")
    chosen = frozenset(os.sched_getaffinity(0) if has_set else range(os.cpu_count() or 1))
    own = platform.node(), chosen, usable_cores()
    ranks = [own] if group is None else group.exchange(own)
    here = [(cores, usable) for node, cores, usable in ranks if node == own[0]]
    # Ranks that have the same cores have one quota of them.
    usable = sum(dict(here).values())
    return SharedCores(min(usable, len(chosen.union(*dict(here)))), len(here), threads)
