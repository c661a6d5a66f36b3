"""Overlap of communication and computation: what is started, and waited for when it is needed.

The start and the wait of a non-blocking collective are two ordered calls. Both are handed what is
sent and what is received, so that memory stays as it is in between, and what reads the result comes
after the wait. A sum is received in the place of what is sent. None of the calls has a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.distributed.collectives import STATUS_BYTES, counted, group_symbol, reduction_symbol
from symgrad.distributed.communicator import Communicator
from symgrad.distributed.mpi_library import in_place, mpi_function
from symgrad.distributed.node_memory import pending_function
from symgrad.graph.dtypes import float32, int32, uint8
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.ops.stand_in import after
from symgrad.graph.types import Attr, TensorType
from symgrad.records import dataclass

_REQUEST = TensorType(uint8, (8,))  # an int in MPICH, a pointer in Open MPI
_STATUS = TensorType(uint8, (STATUS_BYTES,))


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A result of a collective on its way: `received` is nothing yet.

    `sent` is what must stay as it is meanwhile, None where it has become `received`.
    """

    sent: Tensor | None
    received: Tensor
    request: Tensor

    def wait(self) -> Tensor:
        """Return the result; to be built once."""
        kept = [self.received] if self.sent is None else [self.sent, self.received]
        node = extern_node(
            pending_function("MPI_Wait"),
            [self.request, *kept],
            [_STATUS],
            layout=[("in", 0), ("out", 0)],
            is_pure=False,
        )
        return after(self.received, node.output)


def start_sum(subject: str, x: Tensor, comm: Communicator) -> Pending:
    """Start the sum of `x` over all ranks, in the place of `x`; that of half floats is float32."""
    terms = _wide(x)
    layout: list[tuple[Attr, ...]] = [
        *(("symbol", in_place()), ("out", 0), *counted(subject, terms.type)),
        *(reduction_symbol("SUM"), group_symbol(comm), ("out", 1)),
    ]
    node = extern_node(
        pending_function("MPI_Iallreduce"),
        [terms],
        [terms.type, _REQUEST],
        layout=layout,
        copied=[(0, 0)],
        is_pure=False,
    )
    return Pending(None, *node.outputs)


def start_scatter(subject: str, x: Tensor, comm: Communicator) -> Pending:
    """Start the sum of `x` over all ranks, of which each gets its row; half floats as float32."""
    sent = _wide(x)
    row = sent.type.with_shape(sent.shape[1:])
    layout = [
        *(("in", 0), ("out", 0), *counted(subject, row)),
        *(reduction_symbol("SUM"), group_symbol(comm), ("out", 1)),
    ]
    return _started("MPI_Ireduce_scatter_block", sent, row, layout)


def start_gather(subject: str, x: Tensor, comm: Communicator) -> Pending:
    """Start to gather the `x` of all ranks, each as a row."""
    number = counted(subject, x.type)
    layout = [("in", 0), *number, ("out", 0), *number, group_symbol(comm), ("out", 1)]
    stacked = x.type.with_shape((comm.size, *x.shape))
    return _started("MPI_Iallgather", x, stacked, layout)


def start_exchange(subject: str, x: Tensor, comm: Communicator) -> Pending:
    """Start to send row r of `x` to rank r, and to receive a row of each rank."""
    number = counted(subject, x.type.with_shape(x.shape[1:]))
    layout = [("in", 0), *number, ("out", 0), *number, group_symbol(comm), ("out", 1)]
    return _started("MPI_Ialltoall", x, x.type, layout)


def rank_of(comm: Communicator) -> Tensor:
    """Return the rank as an int32 scalar, which is no part of the program: it is asked for."""
    layout = [group_symbol(comm), ("out", 0)]
    function = mpi_function("MPI_Comm_rank")
    node = extern_node(function, [], [TensorType(int32, ())], layout=layout, is_pure=False)
    return node.output


def _wide(x: Tensor) -> Tensor:
    return cast(x, float32) if x.dtype.is_half else x


def _started(name: str, sent: Tensor, received: TensorType, layout: Sequence[Any]) -> Pending:
    results = [received, _REQUEST]
    node = extern_node(pending_function(name), [sent], results, layout=layout, is_pure=False)
    return Pending(sent, *node.outputs)
