"""Collective communication in graphs: ordered calls of MPI with their adjoints as gradients.

Each op is an impure call of a function of MPI by the structure Extern, so calls are made in the
order in which they were built, the same in the program of each rank. What differs between ranks,
such as whom to send to, is the value of a symbol and no part of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.distributed.communicator import Communicator
from symgrad.distributed.mpi_library import (
    mpi_function,
    rank_symbol,
    reduction_handle,
    type_handle,
)
from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph.dtypes import float32
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import divide
from symgrad.graph.ops.comparison import equal, isnan, logical_or, where
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.ops.marks import same_on_ranks
from symgrad.graph.sizes import Dim
from symgrad.graph.types import Attr, TensorType
from symgrad.passes.gradients.custom_gradient import custom_gradient

_CallArgument = tuple[Attr, ...]
_TAG: _CallArgument = ("int32", 0)
STATUS_BYTES = 64  # more than an MPI_Status has
_MAX_COUNT = 2**31 - 1  # of elements in one call


def all_reduce(x: Any, comm: Communicator, op: str = "sum") -> Tensor:
    """Combine `x` over all ranks, element by element; every rank gets the result.

    `op` is "sum", "mean", "max" or "min". Shape and dtype are those of `x`, which is the same on
    all ranks; the mean of ints is a float, and half floats are combined in float32. The gradient
    is that of the sum of what all ranks differentiate: of a sum the sum of the gradients of all
    ranks; of max and min it goes to the equal elements, in equal shares. Raises `DTypeError` for a
    bool, and for the extremes of complex numbers.

    >>> comm = sg.distributed.world()
    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run(sg.distributed.all_reduce(x, comm), {x: [1.0, 2.0]})
    array([1., 2.], dtype=float32)
    """
    x = _operand("all_reduce", x, comm)
    if op not in ("sum", "mean", "max", "min"):
        problem = f"op is {op!r}, not sum, mean, max or min"
        raise GraphError("all_reduce", problem, source=user_source())
    if x.dtype.is_bool or (x.dtype.is_complex and op in ("max", "min")):
        raise DTypeError("all_reduce", f"{op} of {x.type}", source=user_source())
    if op == "mean":
        return divide(all_reduce(x, comm), comm.size)
    if x.dtype.is_half:
        return cast(all_reduce(cast(x, float32), comm, op), x.dtype)
    return _summed(x, comm) if op == "sum" else _extreme(x, comm, op)


def _summed(x: Tensor, comm: Communicator) -> Tensor:
    return _differentiable(lambda a: combined(a, comm, "SUM"), lambda g: all_reduce(g, comm), x)


def _extreme(x: Tensor, comm: Communicator, op: str) -> Tensor:
    def run(a: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        result = combined(a, comm, op.upper())

        def gradient(g: Tensor) -> Tensor:
            chosen = logical_or(equal(a, result), isnan(a))
            shares = divide(all_reduce(g, comm), all_reduce(cast(chosen, g.dtype), comm))
            return where(chosen, shares, filled_like(g, 0))

        return result, gradient

    result: Tensor = custom_gradient(run)(x)
    return result


def combined(x: Tensor, comm: Communicator, reduction: str) -> Tensor:
    """Return what all ranks have, combined element by element; it has no gradient."""
    layout = [
        ("in", 0),
        ("out", 0),
        *counted("all_reduce", x.type),
        reduction_symbol(reduction),
        group_symbol(comm),
    ]
    return _call("MPI_Allreduce", [x], x.type, layout)


def all_gather(x: Any, comm: Communicator) -> Tensor:
    """Return the `x` of all ranks, stacked by rank along a new first axis; every rank gets it.

    Shape and dtype of `x` are the same on all ranks. The gradient is a `reduce_scatter`.

    >>> comm = sg.distributed.world()
    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run(sg.distributed.all_gather(x, comm), {x: [1.0, 2.0]})
    array([[1., 2.]], dtype=float32)
    """
    x = _operand("all_gather", x, comm)
    return _differentiable(lambda a: gathered_rows(a, comm), lambda g: reduce_scatter(g, comm), x)


def gathered_rows(x: Tensor, comm: Communicator) -> Tensor:
    """Return what all ranks have, along a new first axis; it has no gradient."""
    number = counted("all_gather", x.type)
    layout = [("in", 0), *number, ("out", 0), *number, group_symbol(comm)]
    return _call("MPI_Allgather", [x], x.type.with_shape((comm.size, *x.shape)), layout)


def reduce_scatter(x: Any, comm: Communicator) -> Tensor:
    """Sum `x` over all ranks and give each rank the part of its number along the first axis.

    The first axis of `x` has one element for each rank, and the result has not that axis. The
    gradient is an `all_gather`. Raises `ShapeError` for another length, `DTypeError` for a bool.

    >>> comm = sg.distributed.world()
    >>> x = sg.placeholder((1, 2), name="x")
    >>> sg.run(sg.distributed.reduce_scatter(x, comm), {x: [[1.0, 2.0]]})
    array([1., 2.], dtype=float32)
    """
    x = _operand("reduce_scatter", x, comm)
    _require_parts("reduce_scatter", x, comm)
    if x.dtype.is_bool:
        raise DTypeError("reduce_scatter", f"the sum of {x.type}", source=user_source())
    if x.dtype.is_half:
        return cast(reduce_scatter(cast(x, float32), comm), x.dtype)
    return _differentiable(lambda a: scattered_rows(a, comm), lambda g: all_gather(g, comm), x)


def scattered_rows(x: Tensor, comm: Communicator) -> Tensor:
    """Return this rank's row of the sum of what all have; it has no gradient."""
    part = x.type.with_shape(x.shape[1:])
    layout = [
        *(("in", 0), ("out", 0), *counted("reduce_scatter", part)),
        *(reduction_symbol("SUM"), group_symbol(comm)),
    ]
    return _call("MPI_Reduce_scatter_block", [x], part, layout)


def broadcast(x: Any, comm: Communicator, root: int = 0) -> Tensor:
    """Return the `x` of the rank `root` on every rank.

    Shape and dtype are the same on all ranks. The gradient of the root is the sum of those of all
    ranks, and that of the others is 0. Raises `GraphError` for a root that is no rank.

    >>> comm = sg.distributed.world()
    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run(sg.distributed.broadcast(x, comm), {x: [1.0, 2.0]})
    array([1., 2.], dtype=float32)
    """
    x = _operand("broadcast", x, comm)
    _require_rank("broadcast", "root", root, comm)

    def sent(a: Tensor) -> Tensor:
        layout = [("out", 0), *counted("broadcast", a.type), ("int32", root), group_symbol(comm)]
        return _call("MPI_Bcast", [a], a.type, layout, copied=[(0, 0)])

    return _differentiable(sent, lambda g: _summed_at(g, comm, root), x)


def _summed_at(x: Tensor, comm: Communicator, root: int) -> Tensor:
    """Return the sum over all ranks at `root`, and zeros elsewhere: the adjoint of a broadcast."""
    if x.dtype.is_half:
        return cast(_summed_at(cast(x, float32), comm, root), x.dtype)

    def reduced(a: Tensor) -> Tensor:
        number = counted("broadcast", a.type)
        layout = [
            *(("in", 0), ("out", 0), *number),
            *(reduction_symbol("SUM"), ("int32", root), group_symbol(comm)),
        ]
        return _call("MPI_Reduce", [a, filled_like(a, 0)], a.type, layout, copied=[(0, 1)])

    return _differentiable(reduced, lambda g: broadcast(g, comm, root), x)


def all_to_all(x: Any, comm: Communicator) -> Tensor:
    """Send part i along the first axis to rank i, and return what came, by the rank it came from.

    The first axis of `x` has one element for each rank, and so has that of the result. The gradient
    is an `all_to_all`. Raises `ShapeError` for another length.

    >>> comm = sg.distributed.world()
    >>> x = sg.placeholder((1, 2), name="x")
    >>> sg.run(sg.distributed.all_to_all(x, comm), {x: [[1.0, 2.0]]})
    array([[1., 2.]], dtype=float32)
    """
    x = _operand("all_to_all", x, comm)
    _require_parts("all_to_all", x, comm)

    def exchanged(a: Tensor) -> Tensor:
        number = counted("all_to_all", a.type.with_shape(a.shape[1:]))
        layout = [("in", 0), *number, ("out", 0), *number, group_symbol(comm)]
        return _call("MPI_Alltoall", [a], a.type, layout)

    return _differentiable(exchanged, lambda g: all_to_all(g, comm), x)


def send_recv(x: Any, comm: Communicator, permutation: Sequence[tuple[int, int]]) -> Tensor:
    """Send `x` from rank to rank, by pairs `(source, dest)` of ranks; zeros where nobody sends.

    All ranks call it with the same pairs, in which a rank is a source at most once and a
    destination at most once. The gradient goes the way back. Raises `GraphError` for a pair that is
    none, or a rank that comes twice.

    >>> comm = sg.distributed.world()
    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run(sg.distributed.send_recv(x, comm, [(0, 0)]), {x: [1.0, 2.0]})
    array([1., 2.], dtype=float32)
    """
    x = _operand("send_recv", x, comm)
    pairs = _read_pairs(permutation, comm)
    dests, sources = dict(pairs), {dest: source for source, dest in pairs}
    to = ("symbol", rank_symbol("dest", comm, dests))
    source = ("symbol", rank_symbol("source", comm, sources))

    def moved(a: Tensor) -> Tensor:
        number = counted("send_recv", a.type)
        layout = [
            *(("in", 0), *number, to, _TAG),
            *(("out", 0), *number, source, _TAG),
            *(group_symbol(comm), ("workspace", 0)),
        ]
        # What nobody sends to stays as it was filled.
        is_filled = len(pairs) < comm.size
        operands = [a, filled_like(a, 0)] if is_filled else [a]
        copied = [(0, 1)] if is_filled else []
        return _call("MPI_Sendrecv", operands, a.type, layout, copied, STATUS_BYTES)

    back = [(dest, source) for source, dest in pairs]
    return _differentiable(moved, lambda g: send_recv(g, comm, back), x)


def _read_pairs(permutation: Sequence[tuple[int, int]], comm: Communicator) -> list[Any]:
    pairs = sorted(map(tuple, permutation))
    for pair in pairs:
        if len(pair) != 2:
            problem = f"{pair} is no pair of a source and a destination"
            raise GraphError("send_recv", problem, source=user_source())
        for role, rank in zip(("source", "dest"), pair, strict=True):
            _require_rank("send_recv", role, rank, comm)
    for role, ranks in zip(("source", "dest"), zip(*pairs, strict=True), strict=False):
        if len(set(ranks)) < len(ranks):
            problem = f"a rank is {role} of two pairs in {pairs}"
            raise GraphError("send_recv", problem, source=user_source())
    return pairs


def barrier(comm: Communicator, x: Any = None) -> Tensor | None:
    """Wait until all ranks have come here: now, or in a program where it computes the result.

    With `x` the result is `x`, of any dtype, behind a barrier that is made in the order of the
    other calls; its gradient is that of the identity. Without, the wait is at once and the result
    is None: for times that are measured, and files.

    >>> comm = sg.distributed.world()
    >>> sg.distributed.barrier(comm) is None
    True
    """
    require_communicator("barrier", comm)
    if x is None:
        comm.mpi.Barrier()
        return None

    def waited(a: Tensor) -> Tensor:
        return _call("MPI_Barrier", [a], a.type, [group_symbol(comm)], copied=[(0, 0)])

    return _differentiable(waited, lambda g: g, as_tensor(x))


def same(x: Any, comm: Communicator) -> Tensor:
    """Return `x`, and declare that its values are the same on all ranks of `comm`.

    Of that a condition of collectives needs to be sure, and nothing checks it: where it is not
    true, ranks wait for one another. `broadcast` makes it true. Any dtype; the gradient is that of
    the identity.

    >>> comm = sg.distributed.world()
    >>> steps = sg.placeholder((), "int64", name="steps")
    >>> sg.run(sg.distributed.same(steps, comm), {steps: 3})
    array(3)
    """
    return same_on_ranks(_operand("same", x, comm), comm.lineage[-1])


# --------------------------------------------------------------------------------------- calls


def _call(
    name: str,
    operands: Sequence[Tensor],
    result: TensorType,
    layout: Sequence[_CallArgument],
    copied: Sequence[tuple[int, int]] = (),
    workspace: int = 0,
) -> Tensor:
    node = extern_node(
        mpi_function(name),
        operands,
        [result],
        layout=layout,
        workspace=workspace,
        copied=copied,
        is_pure=False,
    )
    return node.output


def _differentiable(
    run: Callable[[Tensor], Tensor], gradient: Callable[[Tensor], Tensor], x: Tensor
) -> Tensor:
    if not (x.dtype.is_float or x.dtype.is_complex):
        return run(x)
    result: Tensor = custom_gradient(lambda a: (run(a), gradient))(x)
    return result


def counted(subject: str, type_: TensorType) -> tuple[_CallArgument, _CallArgument]:
    """Return how many elements there are, and of which type."""
    count: Dim = type_.size
    if isinstance(count, int) and count > _MAX_COUNT:
        problem = f"{type_} has {count} elements, and a call moves up to {_MAX_COUNT}"
        raise ShapeError(subject, problem, source=user_source())
    return ("int32", count), ("symbol", type_handle(type_.dtype))


def reduction_symbol(name: str) -> _CallArgument:
    """Return how a reduction is passed."""
    return "symbol", reduction_handle(name)


def group_symbol(comm: Communicator) -> _CallArgument:
    """Return how a communicator is passed."""
    return "symbol", comm.handle


def _operand(subject: str, x: Any, comm: Any) -> Tensor:
    require_communicator(subject, comm)
    return as_tensor(x)


def require_communicator(subject: str, comm: Any) -> None:
    """Raise `DTypeError` for what is no communicator."""
    if not isinstance(comm, Communicator):
        raise DTypeError(
            subject,
            f"comm is {comm!r}, no communicator",
            hint="sg.distributed.world() is that of all ranks",
            source=user_source(),
        )


def _require_rank(subject: str, role: str, rank: Any, comm: Communicator) -> None:
    if type(rank) is not int or not 0 <= rank < comm.size:
        problem = f"{role} is {rank!r}, no rank of {comm.size}"
        raise GraphError(subject, problem, source=user_source())


def _require_parts(subject: str, x: Tensor, comm: Communicator) -> None:
    if not x.shape or x.shape[0] != comm.size:
        problem = f"the first axis of {x.type} has not {comm.size} elements, one for each rank"
        raise ShapeError(subject, problem, source=user_source())
