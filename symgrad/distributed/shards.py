"""Sharded optimizer state (ZeRO): each rank moves an equal part of every variable.

A variable of n elements is a matrix of `size` rows, filled up with zeros, of which row r is that of
rank r. Gradients are summed by a reduce_scatter, of which a rank gets its rows; new parts come back
by an all_gather. Both send the rows of many variables one behind the other, in buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from symgrad.distributed.communicator import Communicator
from symgrad.distributed.data_parallel import buckets
from symgrad.distributed.pending import Pending, rank_of, start_gather, start_scatter
from symgrad.graph.build import are_same, inside, rebuild
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable, variable_node
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import divide
from symgrad.graph.ops.indexing import take
from symgrad.graph.ops.padding import pad
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.traverse import topological
from symgrad.graph.types import Sharding, State, TensorType

Pair = tuple[Tensor, Variable]
Move = Callable[[list[Pair]], list[Update]]
ScatterRows = Callable[[Sequence[Tensor]], list[Tensor]]


def sharded_updates(
    subject: str,
    pairs: Sequence[Pair],
    parts: Mapping[State, Variable],
    comm: Communicator,
    move: Move,
    scatter: ScatterRows,
) -> list[Update]:
    """Return the updates of `pairs` and of slots, of which each rank computes its part.

    `parts` has for each variable one that stands for the part of it; `scatter` makes of gradients
    the rows of this rank; `move` returns updates of parts by these, and of slots.
    """
    gradients = scatter([g for g, _ in pairs])
    owners = [w for _, w in pairs]
    updates = move([(g, parts[w.state]) for g, w in zip(gradients, owners, strict=True)])
    rank = rank_of(comm)
    own: dict[Tensor, Tensor] = {
        parts[w.state]: take(_rows(w, comm.size), rank, axis=0) for w in owners
    }
    values = _substituted([u.value for u in updates], own)
    moved = {u.variable.state: v for u, v in zip(updates, values, strict=True)}
    wholes = gathered(subject, [moved.pop(parts[w.state].state) for w in owners], owners, comm)
    slots = [
        Update(u.variable, moved[u.variable.state]) for u in updates if u.variable.state in moved
    ]
    return [*(Update(w, whole) for w, whole in zip(owners, wholes, strict=True)), *slots]


def part_of(variable: Variable, comm: Communicator, *, is_reproducible: bool) -> Variable:
    """Return a variable that stands for the part of `variable` that this rank moves.

    It is in no program, since the part is read of the whole, and so takes no memory.
    """
    sharding = Sharding(comm, variable.state, is_reproducible)
    type_ = TensorType(variable.dtype, (sharding.part_length,))
    state = State.zeros(type_, name=variable.state.name, trainable=True)
    state.sharding = sharding
    with inside(None):
        return variable_node(state, variable.state.name)


def _rows(x: Tensor, size: int) -> Tensor:
    """Return the elements of `x` as a matrix of `size` rows, filled up with zeros."""
    count = x.type.count
    length = -(-count // size)
    flat = reshape(x, (count,))
    if length * size > count:
        flat = pad(flat, [(0, length * size - count)])
    return reshape(flat, (size, length))


def summed_parts(subject: str, comm: Communicator) -> ScatterRows:
    """Return what makes of gradients this rank's rows of their means over ranks."""
    return scattered_by(
        lambda rows: start_scatter(subject, rows, comm),
        lambda received: divide(received, comm.size),
        comm,
    )


def scattered_by(
    start: Callable[[Tensor], Pending], finish: Callable[[Tensor], Tensor], comm: Communicator
) -> ScatterRows:
    """Return what makes of tensors rows of this rank, by what is started and what has come.

    All buckets are started before the first is waited for.
    """

    def scatter(tensors: Sequence[Tensor]) -> list[Tensor]:
        matrices = [_rows(x, comm.size) for x in tensors]
        started = [
            (bucket, start(_beside([matrices[place] for place in bucket])))
            for bucket in buckets(matrices)
        ]
        return _separated(started, matrices, finish)

    return scatter


def gathered(
    subject: str, parts: Sequence[Tensor], owners: Sequence[Tensor], comm: Communicator
) -> list[Tensor]:
    """Return tensors of the shapes of `owners`, of which each rank has made a part."""
    started = []
    for bucket in buckets(parts):
        vectors = [parts[place] for place in bucket]
        started.append((bucket, start_gather(subject, _beside(vectors), comm)))
    matrices = _separated(started, parts, lambda matrix: matrix)
    return [
        reshape(narrow(reshape(m, (m.type.count,)), 0, 0, w.type.count), w.shape)
        for m, w in zip(matrices, owners, strict=True)
    ]


def _beside(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else concat(list(parts), axis=-1)


def _separated(
    started: Sequence[tuple[list[int], Pending]],
    parts: Sequence[Tensor],
    change: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """Wait for buckets, and return for each of `parts` its columns of what has come."""
    found: dict[int, Tensor] = {}
    for bucket, pending in started:
        received = change(pending.wait())
        lengths = [int(parts[place].type.static_shape[-1]) for place in bucket]
        starts = np.cumsum([0, *lengths[:-1]])
        for place, start, length in zip(bucket, starts, lengths, strict=True):
            found[place] = narrow(received, received.ndim - 1, int(start), length)
    return [found[place] for place in range(len(parts))]


def _substituted(roots: Sequence[Tensor], values: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """Return `roots` with leaves replaced."""
    mapping = dict(values)
    for node in topological(tuple(roots)):
        inputs = tuple([mapping.get(t, t) for t in node.inputs])
        if not are_same(inputs, node.inputs):
            made = rebuild(node, inputs)
            mapping.update(zip(node.outputs, made.outputs, strict=True))
    return [mapping.get(root, root) for root in roots]
