"""Overlap of communication and computation: a sum that is started, and waited for when needed.

The start and the wait of a non-blocking collective are two ordered calls. Both are handed what is
sent and what is received, so that memory stays as it is in between, and what reads the sum comes
after the wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.distributed.collectives import STATUS_BYTES, counted, group_symbol, reduction_symbol
from symgrad.distributed.communicator import Communicator
from symgrad.distributed.mpi_library import mpi_function
from symgrad.graph.dtypes import DType, float32, uint8
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.ops.stand_in import after
from symgrad.graph.types import TensorType

_REQUEST = TensorType(uint8, (8,))  # an int in MPICH, a pointer in Open MPI
_STATUS = TensorType(uint8, (STATUS_BYTES,))


@dataclass(frozen=True, slots=True, eq=False)
class PendingSum:
    """A sum over ranks on its way: `received` is nothing yet."""

    sent: Tensor
    received: Tensor
    request: Tensor
    dtype: DType

    def wait(self) -> Tensor:
        """Return the sum; to be built once."""
        node = extern_node(
            mpi_function("MPI_Wait"),
            [self.request, self.sent, self.received],
            [_STATUS],
            layout=[("in", 0), ("out", 0)],
            is_pure=False,
        )
        return cast(after(self.received, node.output), self.dtype)


def start_sum(subject: str, x: Tensor, comm: Communicator) -> PendingSum:
    """Start the sum of `x` over all ranks; half floats are added in float32. It has no gradient."""
    sent = cast(x, float32) if x.dtype.is_half else x
    layout = [
        *(("in", 0), ("out", 0), *counted(subject, sent.type)),
        *(reduction_symbol("SUM"), group_symbol(comm), ("out", 1)),
    ]
    node = extern_node(
        mpi_function("MPI_Iallreduce"), [sent], [sent.type, _REQUEST], layout=layout, is_pure=False
    )
    received, request = node.outputs
    return PendingSum(sent, received, request, x.dtype)
