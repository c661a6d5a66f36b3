"""`scan`: the op that runs a graph a given number of times over slices of stacks.

It is the gradient of every loop, its own too: what makes a gradient of a loop is here. A body uses
nothing but its inputs: what it captures is an operand of the op. What users call is in
`symgrad/frontend/iteration.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply_node
from symgrad.graph.graph import Graph
from symgrad.graph.nested import Traced, union_of_captures
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.loop_totals import LoopTotals
from symgrad.graph.ops.masks import masked, read_mask, split_mask, takes_mask
from symgrad.graph.ops.subgraph import (
    Arrived,
    Differentiate,
    check_operands,
    grads_of_graph,
    graph_of,
    is_zero,
)
from symgrad.graph.reference import evaluate
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Scan
from symgrad.graph.types import (
    INT64_MAX,
    UNBOUNDED,
    Array,
    Attr,
    NestedGraph,
    TensorType,
    static,
)
from symgrad.records import dataclass

# Note [Gradient of a loop]
# The gradient of a loop is a scan that runs as often, in the other direction. Its loop variables
# are the gradient of each loop variable and the sum so far of the gradient of each invariant. It
# scans over the loop variables as each iteration found them: the forward loop is built once more
# with these as stacks, and the body is computed again from them. What the forward loop scanned, it
# scans too, and the gradients of the slices are its stacks. A pass makes one loop of the forward
# loops, and another one keeps what would be costly to compute again.


def kept_type(position: int, before: TensorType, after: TensorType) -> TensorType:
    """Return the type of loop variable `position`, `before` a body runs and `after`.

    Raises `DTypeError` or `ShapeError` if they differ.
    """
    text = f"loop variable {position} is {before} and the body gives {after}"
    if before.dtype != after.dtype:
        raise DTypeError("while_loop", text)
    try:
        shape = meet_shapes("while_loop", "it", before, "the next", after)
    except ShapeError as error:
        raise ShapeError(
            "while_loop", text, hint="collect what grows in a TensorArray of fixed size"
        ) from error
    return before.with_shape(shape)


def stacked_slices(
    slices: Sequence[dict[int, Array]], types: Sequence[TensorType], capacity: Dim, count: int
) -> list[Array]:
    """Return the slices of each stack as one array; of a stack without a bound, those there are."""
    size = count if capacity == UNBOUNDED else static(capacity)
    stacks = [np.zeros((size, *t.static_shape), t.dtype.numpy) for t in types]
    for stack, items in zip(stacks, slices, strict=True):
        for i, item in items.items():
            stack[i] = item
    return stacks


def scan_loop(
    count: Tensor,
    initial: Sequence[Tensor],
    scanned: Sequence[Tensor],
    body: Traced,
    capacity: Dim,
    *,
    reverse: bool = False,
) -> Node:
    """Make the node of a loop that runs `count` times over slices of `scanned`.

    `body` has the loop variables and then the slices as parameters.
    """
    captures = union_of_captures((body,))
    attrs: dict[str, Attr] = {
        "body": body.graph(captures),
        "carried": len(initial),
        "scanned": len(scanned),
        "capacity": capacity,
        "reverse": reverse,
    }
    return apply_node(scan_op, (count, *initial, *scanned, *captures), attrs)


def _scan_infer(
    count: TensorType,
    *operands: TensorType,
    body: NestedGraph,
    carried: int,
    scanned: int,
    capacity: Dim,
    reverse: bool,
) -> tuple[TensorType, ...]:
    if count != TensorType(dtypes.int64, ()):
        raise DTypeError("scan", f"the number of iterations is {count}, not i64[]")
    if isinstance(capacity, int) and capacity > INT64_MAX:
        raise ShapeError("scan", f"{capacity} iterations, an int64 counts to {INT64_MAX}")
    width = carried + scanned
    slices = [t.with_shape(t.shape[1:]) for t in operands[carried:width]]
    check_operands("scan", graph_of(body), [*operands[:carried], *slices, *operands[width:]])
    results = [t.type for t in graph_of(body).outputs]
    pairs = enumerate(zip(operands[:carried], results[:carried], strict=True))
    carried_types = [kept_type(position, before, after) for position, (before, after) in pairs]
    stacks = (t.with_shape((capacity, *t.shape)) for t in results[carried:])
    return (*carried_types, *stacks)


def _scan_reference(
    count: Array,
    *operands: Array,
    body: NestedGraph,
    carried: int,
    scanned: int,
    capacity: Dim,
    reverse: bool,
) -> tuple[Array, ...]:
    width = carried + scanned
    values, stacks, fixed = operands[:carried], operands[carried:width], operands[width:]
    results = graph_of(body).outputs[carried:]
    collected: list[dict[int, Array]] = [{} for _ in results]
    order = range(int(count) - 1, -1, -1) if reverse else range(int(count))
    for i in order:
        given, _ = evaluate(graph_of(body), [*values, *(s[i] for s in stacks), *fixed])
        values = tuple(given[:carried])
        for stack, item in zip(collected, given[carried:], strict=True):
            stack[i] = item
    return (*values, *stacked_slices(collected, [t.type for t in results], capacity, int(count)))


def _scan_grad(
    node: Node,
    *gs: Tensor | None,
    body: NestedGraph,
    carried: int,
    scanned: int,
    capacity: Dim,
    reverse: bool,
    differentiate: Differentiate,
    wanted: Sequence[bool],
    arrived: Arrived,
) -> Grads:
    width = carried + scanned
    operands = node.inputs[1:]
    graph = graph_of(body)
    backward = Backward(
        body=graph,
        count=node.inputs[0],
        state=recorded(node, graph, carried, capacity),
        slices=operands[carried:width],
        invariants=operands[width:],
        final=gs[:carried],
        stacked=gs[carried:],
        capacity=capacity,
        reverse=reverse,
        wanted=wanted[1:],
        arrived=arrived,
    )
    first, fixed, sliced = backward.build(differentiate)
    return (None, *first, *sliced, *fixed)


def _scan_kernel(
    *_operands: TensorType,
    body: NestedGraph,
    carried: int,
    scanned: int,
    capacity: Dim,
    reverse: bool,
) -> Scan:
    return Scan(body, carried, scanned, static(capacity), reverse)


scan_op = define(
    "scan",
    infer=_scan_infer,
    reference=_scan_reference,
    grad=_scan_grad,
    kernel=_scan_kernel,
    of_pairs="rule",
)


def recorded(node: Node, body: Graph, carried: int, capacity: Dim) -> tuple[Tensor, ...]:
    """Build a loop once more, with its loop variables as each iteration found them as stacks."""
    recording = Graph(
        [*body.outputs, *body.inputs[:carried]],
        body.inputs,
        name=body.name,
        region=body.region,
    )
    again = apply_node(
        node.definition, node.inputs, {**node.attrs, "body": recording, "capacity": capacity}
    )
    return again.outputs[len(node.outputs) :]


@dataclass(slots=True, eq=False)
class Backward:
    """The gradient of a loop in the making: see Note [Gradient of a loop].

    `state` and `slices` are the operands of the body that differ from iteration to iteration, as
    stacks; `final` and `stacked` the gradients of the last loop variables and of the stacks.
    `wanted` says of each operand of the body whether anyone asks for its gradient. The sums for
    the invariants start from what has `arrived` already: then a loop within a loop adds in the same
    order as one loop would, and its sums are the same to the bit.
    """

    body: Graph
    count: Tensor
    state: Sequence[Tensor]
    slices: Sequence[Tensor]
    invariants: Sequence[Tensor]
    final: Sequence[Tensor | None]
    stacked: Sequence[Tensor | None]
    capacity: Dim
    reverse: bool
    wanted: Sequence[bool]
    arrived: Arrived
    masked_slices: Sequence[int] = ()
    slices_of_zeros: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.stacked = [None if g is None or is_zero(g) else g for g in self.stacked]

    def build(self, differentiate: Differentiate) -> tuple[list[Tensor | None], ...]:
        """Return the gradients of the first loop variables, of the slices, of the invariants."""
        carried, sliced, fixed = self._asked()
        if not any(g is not None for g in self.stacked) and all(
            is_zero(_present(self.final[i])) for i in carried
        ):
            return self._nothing(carried, sliced, fixed)
        split = [split_mask(g) for g in self.stacked if g is not None]
        seeds = [_present(g) for g, _ in split]
        conditions = [condition for _, condition in split]
        totals = LoopTotals(
            [_present(self.final[i]) for i in carried],
            [_or_zeros(self.arrived(t), t) for t in (self.invariants[i] for i in fixed)],
            [takes_mask(self.invariants[i]) for i in fixed],
            any(c is not None for c in conditions),
        )
        stacks = [*self.state, *self.slices, *seeds, *(c for c in conditions if c is not None)]
        slices = [t.type.with_shape(t.shape[1:]) for t in stacks]
        while True:
            initial = totals.initial
            body = Traced(f"{self.body.name}_grad", [*(t.type for t in initial), *slices])
            step = partial(self._step, totals, conditions, (carried, sliced, fixed), differentiate)
            body.run(step)
            if totals.is_settled():
                break
        node = scan_loop(self.count, initial, stacks, body, self.capacity, reverse=not self.reverse)
        summed, rest = totals.results(node.outputs)
        results = iter([*summed, *self._joined(sliced, rest)])
        return tuple(
            [next(results) if i in chosen else None for i in range(size)]
            for chosen, size in (
                (carried, len(self.state)),
                (fixed, len(self.invariants)),
                (sliced, len(self.slices)),
            )
        )

    def _nothing(
        self, carried: Sequence[int], sliced: Sequence[int], fixed: Sequence[int]
    ) -> tuple[list[Tensor | None], ...]:
        """Return the gradients of a loop that no gradient has arrived at: zeros, without a loop."""
        arrived = {i: self.arrived(self.invariants[i]) for i in fixed}
        return (
            [self.final[i] if i in carried else None for i in range(len(self.state))],
            [
                _or_zeros(arrived[i], t) if i in fixed else None
                for i, t in enumerate(self.invariants)
            ],
            [filled_like(t, 0) if i in sliced else None for i, t in enumerate(self.slices)],
        )

    def _step(
        self,
        totals: LoopTotals,
        conditions: Sequence[Tensor | None],
        positions: tuple[list[int], list[int], list[int]],
        differentiate: Differentiate,
        *params: Tensor,
    ) -> list[Tensor]:
        """Return the totals and the gradients of the slices after one more iteration."""
        carried, sliced, fixed = positions
        sums, rest = totals.read(params)
        operands, width = len(self.state), len(self.state) + len(self.slices)
        masks = iter(rest[width + len(conditions) :])
        seeds = [
            g if condition is None else masked(g, next(masks))
            for g, condition in zip(rest[width:], conditions, strict=False)
        ]
        given = [*rest[:width], *seeds]
        grads = self._differentiate(sums, given, positions, differentiate)
        found = [
            *(_or_zeros(grads[i], given[i]) for i in carried),
            *(_present(grads[width + i]) for i in fixed),
        ]
        of_slices = [_or_zeros(grads[operands + i], given[operands + i]) for i in sliced]
        return [*totals.write(found, sums), *self._split(sliced, of_slices)]

    def _split(self, sliced: Sequence[int], grads: Sequence[Tensor]) -> list[Tensor]:
        """Return gradients of slices, without the masks that matter, and those masks behind."""
        pairs = list(zip(sliced, grads, strict=True))
        self.slices_of_zeros = [i for i, g in pairs if is_zero(g)]
        self.masked_slices = [
            i for i, g in pairs if takes_mask(self.slices[i]) and read_mask(g) is not None
        ]
        split = [split_mask(g) if i in self.masked_slices else (g, None) for i, g in pairs]
        return [*(_present(g) for g, _ in split), *(c for _, c in split if c is not None)]

    def _joined(self, sliced: Sequence[int], results: Sequence[Tensor]) -> list[Tensor]:
        """Return the stacks that `_split` has made of each slice, under their masks."""
        masks = iter(results[len(sliced) :])
        stacks = dict(zip(sliced, results, strict=False))
        for i in self.masked_slices:
            stacks[i] = masked(stacks[i], next(masks))
        # Zeros that stand for no gradient stay known as that.
        stacks.update((i, filled_like(self.slices[i], 0)) for i in self.slices_of_zeros)
        return list(stacks.values())

    def _asked(self) -> tuple[list[int], list[int], list[int]]:
        """Return the positions of the loop variables, slices and invariants to differentiate by.

        That is all loop variables: one may reach another in the next iteration.
        """
        width = len(self.state)
        middle = width + len(self.slices)
        return (
            [i for i, t in enumerate(self.state) if t.dtype.is_trainable],
            [i for i, t in enumerate(self.slices) if _is_wanted(t, self.wanted[width + i])],
            [i for i, t in enumerate(self.invariants) if _is_wanted(t, self.wanted[middle + i])],
        )

    def _differentiate(
        self,
        totals: Sequence[Tensor],
        given: Sequence[Tensor],
        positions: tuple[list[int], list[int], list[int]],
        differentiate: Differentiate,
    ) -> list[Tensor | None]:
        """Differentiate one iteration with respect to the operands at `positions`, each by kind."""
        width = len(self.state) + len(self.slices)
        carried, sliced, fixed = positions
        asked = {*carried, *(len(self.state) + i for i in sliced), *(width + i for i in fixed)}
        gs: list[Tensor | None] = [None] * len(self.state)
        for i, total in zip(carried, totals, strict=False):
            gs[i] = total
        sums: list[Tensor | None] = [None] * (width + len(self.invariants))
        for i, total in zip(fixed, totals[len(carried) :], strict=True):
            sums[width + i] = total
        seeds = iter(given[width:])
        gs += [None if g is None else next(seeds) for g in self.stacked]
        operands = [*given[:width], *self.invariants]
        is_asked = [i in asked for i in range(len(operands))]
        return grads_of_graph(self.body, operands, gs, is_asked, differentiate, sums)


def _is_wanted(operand: Tensor, is_asked: bool) -> bool:
    return is_asked and operand.dtype.is_trainable


def _present(g: Tensor | None) -> Tensor:
    assert g is not None, "a trainable result has a gradient, zeros if nothing arrived"
    return g


def _or_zeros(g: Tensor | None, like: Tensor) -> Tensor:
    return filled_like(like, 0) if g is None else g
