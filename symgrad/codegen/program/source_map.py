"""Source map of a program: what its calls and statuses stand for in the graph it was built of.

Nothing runs by it. Errors, profiles and reports find the user's ops and lines through it, and the
reasons why groups are kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.kept_groups import Printed
from symgrad.codegen.program.language import Launch, NativeCall, Program
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import KernelSpec
from symgrad.passes.fusion.buffers import Buffer
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class SourceMap:
    """Where a program comes from.

    `partition` is the graph in groups, `nested` those of branches, bodies and functions, each after
    the graph it is in. `groups` says what a call computes: nothing, if it copies or fills.
    `failures` says which node each status stands for, `temporaries` in which buffer of the program
    a tensor of `partition` was put that lies in the arena. Passes over programs keep the calls, or
    leave in one which they made it of, so that it holds behind them as before.
    """

    partition: Partition
    nested: tuple[Partition, ...]
    groups: Mapping[NativeCall, FusionGroup]
    failures: Mapping[int, tuple[Node, KernelSpec | None]]
    temporaries: Mapping[Tensor, Buffer]

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """That of the program, then the nested ones."""
        return (self.partition, *self.nested)

    def groups_of(self, call: NativeCall) -> tuple[FusionGroup, ...]:
        """Return the groups that a call computes; several, if it is of launches that were fused."""
        found: list[FusionGroup] = []
        pending = [call]
        while pending:
            each = pending.pop()
            if isinstance(each, Launch) and each.fused:
                pending.extend(reversed(each.fused))
            elif each in self.groups:
                found.append(self.groups[each])
        return tuple(found)

    def nodes_of(self, call: NativeCall) -> tuple[Node, ...]:
        """Return the nodes that a call computes."""
        return tuple(node for group in self.groups_of(call) for node in group.nodes)


@dataclass(frozen=True, slots=True, eq=False)
class BuiltProgram:
    """A program, and where it comes from.

    `alone` are the kernels that threads share, by name, as they are where there is one thread.
    Of kernels that are `printed` the digests of their texts are known, by their names.
    """

    program: Program
    sources: SourceMap
    alone: Mapping[str, Kernel]
    printed: Mapping[str, Printed]
