"""Reproducible reduction: sums over pieces of the global batch by a fixed binary tree.

The batch of all ranks is cut in as many pieces as the user says, whatever the number of ranks. The
gradient of each is made by the same code, a function of a piece, and what is added to what is
decided by the numbers of the pieces: those of one rank are a subtree, of which the sum is made
there, and the tops of the subtrees meet where ranks exchange their sums. So the bits of a mean do
not depend on how many ranks have made it.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.distributed.collectives import all_gather
from symgrad.distributed.communicator import Communicator
from symgrad.distributed.pending import start_exchange
from symgrad.distributed.shards import ScatterRows, gathered, scattered_by
from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.functional import function
from symgrad.graph.build import enter, rebuild_here
from symgrad.graph.dtypes import float32
from symgrad.graph.effects import has_effects
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import add, divide
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.stand_in import after
from symgrad.graph.ops.structure import reshape
from symgrad.graph.sizes import Dim, Size, unknown, unknowns_of
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.records import dataclass

DEFAULT_COUNT = 8  # of pieces, where the user does not say how many


@dataclass(frozen=True, slots=True, eq=False)
class PieceSums:
    """What the pieces of this rank give: sums of their losses and of gradients, None where none."""

    comm: Communicator
    pieces: int
    loss: Tensor
    gradients: Sequence[Tensor | None]

    def mean_loss(self) -> Tensor:
        """Return the mean loss of all pieces of all ranks."""
        return divide(_of_rows(all_gather(self.loss, self.comm)), self.pieces)

    def scatter(self, subject: str) -> ScatterRows:
        """Return what makes of gradients the rows of this rank of the means over all pieces."""
        return scattered_by(
            lambda rows: start_exchange(subject, rows, self.comm),
            lambda received: divide(_of_rows(received), self.pieces),
            self.comm,
        )

    def means(self, subject: str) -> list[Tensor | None]:
        """Return the means of gradients over all pieces of all ranks, whole on each rank."""
        places = [place for place, g in enumerate(self.gradients) if g is not None]
        given = [g for g in self.gradients if g is not None]
        rows = self.scatter(subject)(given)
        wholes = gathered(subject, rows, given, self.comm)
        found = dict(zip(places, wholes, strict=True))
        return [found.get(place) for place in range(len(self.gradients))]


def piece_count(subject: str, reproducible: object, comm: Communicator) -> int:
    """Return the number of pieces of the global batch that `reproducible` asks for.

    Raises `DTypeError` for what is no int, `GraphError` for one that is no power of two, or that
    the ranks of `comm` do not divide.
    """
    if reproducible is True:
        count = DEFAULT_COUNT
    elif type(reproducible) is int:
        count = reproducible
    else:
        problem = f"reproducible is {reproducible!r}, no number of pieces"
        raise DTypeError(subject, problem, source=user_source())
    if count < 1 or count & (count - 1):
        problem = f"reproducible is {count}, no power of two"
        raise GraphError(subject, problem, source=user_source())
    if count % comm.size:
        problem = f"{count} pieces are not shared evenly by {comm.size} ranks"
        hint = "let ranks be a power of two, and pieces at least as many"
        raise GraphError(subject, problem, hint=hint, source=user_source())
    return count


def piece_sums(
    subject: str, loss: Tensor, variables: Sequence[Variable], pieces: int, comm: Communicator
) -> PieceSums:
    """Return the sums over the pieces of this rank of the mean loss of each, and of its gradients.

    What has samples along its first axis is a placeholder of unknown length there. Raises
    `GraphError` where there is none, where `loss` is no scalar, and where it makes impure calls.
    """
    graph = Graph(loss)
    lengths = _lengths(subject, graph)
    own = pieces // comm.size
    piece = specialize(graph, {name: length // own for name, length in lengths.items()})
    has_gradient: list[bool] = []

    @function
    def of_piece(*arguments: Tensor) -> list[Tensor]:
        own_variables = arguments[: len(variables)]
        value = _inlined(piece, dict(zip((*variables, *piece.inputs), arguments, strict=True)))
        found = gradients(value, list(own_variables))
        has_gradient[:] = [g is not None for g in found]
        # No rule looks through a barrier, and joins a sum here with those of other pieces.
        wide = [after(_wide(g), value) for g in found if g is not None]
        return [after(value, wide[0]) if wide else value, *wide]

    stacks = [_stacked(t, own) for t in graph.inputs]
    parts = [of_piece(*variables, *_piece_of(stacks, graph, n)) for n in range(own)]
    total, *sums = [tree_sum(terms) for terms in zip(*parts, strict=True)]
    remaining = iter(sums)
    return PieceSums(comm, pieces, total, [next(remaining) if g else None for g in has_gradient])


def tree_sum(terms: Sequence[Tensor]) -> Tensor:
    """Return the sum of as many terms as a power of two: of the sums of the halves.

    (a, b, c, d) -> (a + b) + (c + d)
    """
    level = list(terms)
    while len(level) > 1:
        level = [add(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def _of_rows(x: Tensor) -> Tensor:
    return tree_sum([x[number] for number in range(x.type.static_shape[0])])


def _wide(g: Tensor) -> Tensor:
    return cast(g, float32) if g.dtype.is_half else g


def _lengths(subject: str, graph: Graph) -> dict[str, Dim]:
    """Return the unknown lengths of the batch by name."""
    (loss,) = graph.outputs
    if loss.shape:
        problem = f"loss is {loss.type}, and reproducible takes the mean of a batch, a scalar"
        raise GraphError(subject, problem, source=loss.node.source)
    if has_effects(graph):
        problem = "loss makes impure calls, whose results may depend on the number of ranks"
        raise GraphError(subject, problem, source=loss.node.source)
    found: dict[str, Dim] = {}
    for x in graph.inputs:
        if _is_batched(x):
            found[unknowns_of(x.shape[0])[0]] = x.shape[0]
    if not found:
        told = ", ".join(f"{x.name or 'an input'}: {x.type}" for x in graph.inputs) or "no input"
        problem = f"the loss depends on {told}, and on no batch that can be cut in pieces"
        hint = "make the first axis of what has samples unknown: sg.placeholder((None, 64))"
        raise GraphError(subject, problem, hint=hint, source=loss.node.source)
    return found


def _is_batched(x: Tensor) -> bool:
    length = x.shape[0] if x.shape else 0
    return isinstance(length, Size) and length == unknown(*unknowns_of(length)[:1])


def _stacked(x: Tensor, own: int) -> Tensor:
    """Return the pieces of an input along a new first axis; what has no samples as it is."""
    return reshape(x, (own, x.shape[0] // own, *x.shape[1:])) if _is_batched(x) else x


def _piece_of(stacks: Sequence[Tensor], graph: Graph, number: int) -> list[Tensor]:
    return [
        _row(stack, number) if _is_batched(x) else stack
        for stack, x in zip(stacks, graph.inputs, strict=True)
    ]


def _row(x: Tensor, number: int) -> Tensor:
    start, size = (number, *(0,) * (x.ndim - 1)), (1, *x.shape[1:])
    return reshape(slice_axes(x, start, size, (1,) * x.ndim), x.shape[1:])


def _inlined(graph: Graph, values: dict[Tensor, Tensor]) -> Tensor:
    """Build the nodes of `graph` again, on `values` in the place of inputs and variables.

    Other variables, such as the state of a generator, are read where they are.
    """
    mapping = dict(values)
    for node in graph.nodes:
        if node.outputs[0] in mapping:
            continue
        if isinstance(node.outputs[0], Variable):
            mapping[node.output] = enter(node.output)
        else:
            copy = rebuild_here(node, tuple(mapping[t] for t in node.inputs))
            mapping.update(zip(node.outputs, copy.outputs, strict=True))
    return mapping[graph.outputs[0]]
