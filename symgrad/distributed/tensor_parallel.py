"""Tensor parallelism: variables of which each rank of a group keeps a block along an axis.

Programs are built of whole variables. What a rank computes of them, and the collectives in between,
are decided when a program is compiled (`symgrad/passes/placement/`).
"""

from __future__ import annotations

from typing import Any

from symgrad.distributed.collectives import combined, gathered_rows, scattered_rows
from symgrad.distributed.communicator import Communicator
from symgrad.distributed.pending import rank_of
from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.state import cut_variable
from symgrad.graph.dtypes import float32
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.indexing import take
from symgrad.graph.ops.structure import permute_dims, reshape
from symgrad.graph.types import Sharding, read_states
from symgrad.records import dataclass


def shard(variable: Any, axis: int, comm: Any) -> Variable:
    """Return a variable like `variable`, of which each rank of `comm` keeps a block along `axis`.

    `variable` is one of any real dtype, which is to be used no more; its value on rank 0 is cut in
    as many equal blocks as there are ranks, and all of them call this. As a tensor the result is
    the whole, of the shape, dtype and name of `variable`, and a program is built of it as on one
    rank, with its gradient, which is whole as well. Compiled, a rank computes what follows from
    its block: a product with columns of a weight gives columns, one with rows a term of a sum, and
    the collectives that are needed are put in. Its slots of optimizers are cut alike; `value` is
    the block of this rank, and `sg.save` writes the whole. Other inputs and variables are the same
    on all ranks. Raises `DTypeError` for what is no variable, `ShapeError` for an axis that there
    is not or that ranks do not divide, `GraphError` for a variable that is cut already.

    >>> comm = sg.distributed.world()
    >>> w = sg.distributed.shard(sg.variable(np.ones((2, 4), "float32"), name="w"), 1, comm)
    >>> x = sg.placeholder((3, 2), name="x")
    >>> sg.compile([x], x @ w)(np.ones((3, 2), "float32")).shape, w.shape, w.value.shape
    ((3, 4), (2, 4), (2, 4))
    """
    if not isinstance(comm, Communicator):
        problem, hint = f"comm is {comm!r}, no communicator", "sg.distributed.world() is one"
        raise DTypeError("shard", problem, hint=hint, source=user_source())
    if not isinstance(variable, Variable) or variable.dtype.is_complex:
        problem = f"variable is {variable!r}, no real variable"
        hint = "cut the weights: what is computed of them follows"
        raise DTypeError("shard", problem, hint=hint, source=user_source())
    if variable.state.sharding is not None:
        raise GraphError("shard", f"{variable!r} is cut already", source=user_source())
    along = _read_axis(variable, axis, comm)
    state = variable.state
    value = comm.mpi.bcast(read_states([state])[0])
    if value.shape != state.array.shape:
        problem = f"{variable!r} is {value.shape} on rank 0"
        raise ShapeError("shard", problem, source=user_source())
    sharding = Sharding(comm, state, axis=along, calls=_Calls(comm))
    return cut_variable(value, sharding, state.name, is_trainable=state.trainable)


def _read_axis(tensor: Variable, axis: Any, comm: Communicator) -> int:
    if type(axis) is not int:
        raise DTypeError("shard", f"axis is {axis!r}, no int", source=user_source())
    if not -tensor.ndim <= axis < tensor.ndim:
        raise ShapeError("shard", f"axis {axis} of {tensor!r}", source=user_source())
    along = axis % tensor.ndim
    size = tensor.type.static_shape[along]
    if size % comm.size:
        problem = f"axis {axis} of {tensor!r} has {size} elements, which {comm.size} ranks do not"
        raise ShapeError("shard", f"{problem} share evenly", source=user_source())
    return along


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """What brings the parts of tensors together, and takes them apart, on the ranks of a group."""

    comm: Communicator

    def summed(self, x: Tensor) -> Tensor:
        """Return the sum of the terms of all ranks."""
        if x.dtype.is_half:
            return cast(self.summed(cast(x, float32)), x.dtype)
        return combined(x, self.comm, "SUM")

    def gathered(self, x: Tensor, axis: int) -> Tensor:
        """Return the blocks of all ranks, side by side along `axis`."""
        rows = gathered_rows(x, self.comm)
        order = [*range(1, axis + 1), 0, *range(axis + 1, x.ndim + 1)]
        shape = (*x.shape[:axis], self.comm.size * x.shape[axis], *x.shape[axis + 1 :])
        return reshape(permute_dims(rows, order), shape)

    def rank(self) -> Tensor:
        """Return the number of this rank."""
        return rank_of(self.comm)

    def block(self, x: Tensor, axis: int, rank: Tensor) -> Tensor:
        """Return the block of this rank of a whole tensor."""
        return take(self._blocks(x, axis), rank, axis=axis)

    def summed_block(self, x: Tensor, axis: int) -> Tensor:
        """Return the block of this rank of the sum of the terms of all ranks."""
        if x.dtype.is_half:
            return cast(self.summed_block(cast(x, float32), axis), x.dtype)
        order = [axis, *range(axis), *range(axis + 1, x.ndim + 1)]
        return scattered_rows(permute_dims(self._blocks(x, axis), order), self.comm)

    def _blocks(self, x: Tensor, axis: int) -> Tensor:
        """Return `x` with `axis` as two: the number of the block, and the place in it."""
        size = self.comm.size
        return reshape(x, (*x.shape[:axis], size, x.shape[axis] // size, *x.shape[axis + 1 :]))
