"""Data-parallel training: gradients averaged over ranks in buckets, variables that start equal.

A bucket is the gradients of one dtype, in the order in which the backward makes them, laid one
behind the other: one call for many small gradients, of which each alone would be all latency. A
large one is a bucket of its own, since laying it beside others would be a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.distributed.communicator import Communicator
from symgrad.distributed.pending import start_sum
from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import divide
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.types import read_states, write_states

BUCKET_BYTES = 4 << 20
# From how many bytes on a gradient is a bucket of its own: where messages are sent, and where ranks
# add in memory that they share, which takes a microsecond or two to begin.
ALONE_BYTES, ALONE_BYTES_IN_MEMORY = 1 << 20, 64 << 10


def _required(subject: str, comm: object) -> Communicator:
    """Return `comm`; raises `DTypeError` for what is no communicator."""
    if not isinstance(comm, Communicator):
        problem = f"data_parallel is {comm!r}, no communicator"
        hint = "sg.distributed.world() is that of all ranks"
        raise DTypeError(subject, problem, hint=hint, source=user_source())
    return comm


def start_equal(subject: str, variables: Sequence[Variable], given: object) -> Communicator:
    """Give `variables` the values of rank 0; return the communicator whose ranks all call it.

    Raises `DTypeError` where `given` is no communicator, and `GraphError` on all ranks if one of
    them has other names, dtypes or shapes.
    """
    comm = _required(subject, given)
    signature = [f"{v.name} {v.type}" for v in variables]
    for rank, other in enumerate(comm.mpi.allgather(signature)):
        if other != signature:
            mine, theirs = _first_difference(signature, other)
            problem = f"variable {theirs} of rank {rank} is {mine} on rank {comm.rank}"
            raise GraphError(subject, problem, source=user_source())
    states = [v.state for v in variables]
    values = read_states(states) if comm.rank == 0 else None
    received = comm.mpi.bcast(values)
    write_states(states, received)
    return comm


def _first_difference(mine: Sequence[str], theirs: Sequence[str]) -> tuple[str, str]:
    for a, b in zip(mine, theirs, strict=False):
        if a != b:
            return a, b
    place = min(len(mine), len(theirs))
    return "".join(mine[place : place + 1]) or "none", "".join(theirs[place : place + 1]) or "none"


def averaged(
    subject: str, gradients: Sequence[Tensor | None], comm: Communicator
) -> list[Tensor | None]:
    """Return the means over ranks of the gradients that there are.

    All sums are started before the first is waited for.
    """
    comm.share_memory()
    alone = ALONE_BYTES_IN_MEMORY if comm.has_shared_memory else ALONE_BYTES
    pending = []
    for bucket in buckets(gradients, alone):
        parts = [g for place in bucket if (g := gradients[place]) is not None]
        pending.append((bucket, parts, start_sum(subject, _joined(parts), comm)))
    means: dict[int, Tensor] = {}
    for bucket, parts, total in pending:
        mean = divide(cast(total.wait(), parts[0].dtype), comm.size)
        means.update(zip(bucket, _separated(mean, parts), strict=True))
    return [means.get(place) for place in range(len(gradients))]


def buckets(gradients: Sequence[Tensor | None], alone_bytes: int = ALONE_BYTES) -> list[list[int]]:
    """Return groups of places: those of the last variables, made first, come first.

    Gradients of `alone_bytes` and more are groups of their own.
    """
    made: list[list[int]] = []
    alone: list[list[int]] = []
    filled, last = 0, None
    for place in reversed(range(len(gradients))):
        g = gradients[place]
        if g is None:
            continue
        size = g.type.nbytes
        if size >= alone_bytes:
            alone.append([place])
            continue
        if last != g.dtype or filled + size > BUCKET_BYTES:
            made.append([])
            filled, last = 0, g.dtype
        made[-1].append(place)
        filled += size
    return sorted([*made, *alone], key=min, reverse=True)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    return concat([reshape(g, (g.type.count,)) for g in parts])


def _separated(whole: Tensor, parts: Sequence[Tensor]) -> list[Tensor]:
    if len(parts) == 1:
        return [whole]
    sizes = np.cumsum([0, *(g.type.count for g in parts)])
    return [
        reshape(narrow(whole, 0, int(start), g.type.count), g.shape)
        for g, start in zip(parts, sizes[:-1], strict=True)
    ]
