"""What the fuse pass decides: which nodes are computed together, and what goes through memory.

A `Group` becomes one kernel. A tensor that a group gives to another group, to the caller or to a
variable is in memory, in its own buffer or, where a node only gives it another shape, in the
buffer of the tensor it comes from; everything else lives in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from symgrad.graph.graph import Graph, Update
from symgrad.graph.kernel_spec import KernelSpec
from symgrad.graph.node import Node, Tensor

Specs = Mapping[Node, KernelSpec | None]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes computed by one kernel, each after its operands.

    `anchor` is the Reduce, Contract, Place or ScatterAdd among them, if there is one; `outputs`
    are the tensors it leaves in memory, `inputs` those it reads from there.
    """

    nodes: tuple[Node, ...]
    anchor: Node | None
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A program as groups in an order in which they can run.

    `storage` maps a tensor that is another shape of a tensor in memory to that tensor. `in_place`
    are the updates written over the old value at once; the others are copied when everything has
    been computed. `overwriting` maps the outputs of a loop's body that are written over the input
    whose next value they are to that input. `reasons` says why a tensor is in memory and not part of
    the kernel that uses it; `status` is what a program returns when an index of a node is out of range, never 0.
    A group without nodes copies a leaf that is a result.
    """

    graph: Graph
    specs: Specs
    groups: tuple[Group, ...]
    storage: Mapping[Tensor, Tensor]
    in_place: frozenset[Update]
    overwriting: Mapping[int, int]
    reasons: Mapping[Tensor, str]
    status: Mapping[Node, int]

    def stored(self, tensor: Tensor) -> Tensor:
        """Return the tensor whose buffer holds `tensor`."""
        while tensor in self.storage:
            tensor = self.storage[tensor]
        return tensor
