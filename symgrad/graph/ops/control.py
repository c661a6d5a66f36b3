"""Control flow: the ops whose attributes are graphs, and their gradients.

`switch_case` runs one of several branches, `while_loop` a body for as long as a condition holds.
The graphs see the world through their inputs only: what a branch or a body captures is an operand
of the op. What users call is in `symgrad/graph/control.py`.

Note [Gradient of a loop]
The gradient of a loop is a loop that runs as often, backwards. Its loop variables are the number
of iterations that are left, the gradient of each loop variable and the sum so far of the gradient
of each invariant. It needs the loop variables as each iteration found them: the forward loop is
built once more with these as stacks, and the body is computed again from them. A pass makes one
loop of the two forward loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.errors import DTypeError, NoGradientError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply_node
from symgrad.graph.creation import zeros_like
from symgrad.graph.graph import Graph
from symgrad.graph.kernel_spec import Branches, Loop
from symgrad.graph.nested import Traced, inline, union_of_captures
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import constant, meet_shapes
from symgrad.graph.ops.arithmetic import add, subtract
from symgrad.graph.ops.comparison import greater
from symgrad.graph.ops.indexing import take
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array, NestedGraph, TensorType

Differentiate = Callable[
    [Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor | None]
]


def _graph(nested: NestedGraph) -> Graph:
    assert isinstance(nested, Graph), "a nested graph is a graph"
    return nested


def _check_operands(op: str, graph: Graph, operands: Sequence[TensorType]) -> None:
    wanted = [t.type for t in graph.inputs]
    assert len(wanted) == len(operands), f"{op}: {graph.name} takes {len(wanted)} operands"
    for position, (want, given) in enumerate(zip(wanted, operands, strict=True)):
        if want.dtype != given.dtype:
            raise DTypeError(op, f"operand {position} of {graph.name}: {given}, not {want}")
        meet_shapes(op, f"operand {position}", given, f"that of {graph.name}", want)


# -------------------------------------------------------------------------------- switch_case


def branch(index: Tensor, functions: Sequence[Traced], name: str | None = None) -> Node:
    """Make the node that runs one of `functions`, traced without parameters."""
    captures = union_of_captures(functions)
    graphs = tuple(f.graph(captures) for f in functions)
    return apply_node(switch_case_op, (index, *captures), {"branches": graphs}, name=name)


def _switch_case_infer(
    index: TensorType, *operands: TensorType, branches: tuple[NestedGraph, ...]
) -> tuple[TensorType, ...]:
    if index != TensorType(dtypes.int64, ()):
        raise DTypeError("switch_case", f"the index is {index}, not {dtypes.int64.short}[]")
    graphs = [_graph(b) for b in branches]
    for graph in graphs:
        _check_operands("switch_case", graph, operands)
    first, *others = graphs
    results = [t.type for t in first.outputs]
    for other in others:
        results = [
            _met(position, first.name, a, other.name, b.type)
            for position, (a, b) in enumerate(zip(results, other.outputs, strict=True))
        ]
    return tuple(results)


def _met(position: int, a_name: str, a: TensorType, b_name: str, b: TensorType) -> TensorType:
    if a.dtype != b.dtype:
        raise DTypeError("cond", f"output {position} is {a} in {a_name} and {b} in {b_name}")
    try:
        return a.with_shape(meet_shapes("cond", a_name, a, b_name, b))
    except ShapeError as error:
        raise ShapeError(
            "cond", f"output {position} is {a} in {a_name} and {b} in {b_name}"
        ) from error


def _switch_case_reference(
    index: Array, *operands: Array, branches: tuple[NestedGraph, ...]
) -> tuple[Array, ...]:
    chosen = int(index) if 0 <= index < len(branches) else len(branches) - 1
    results, _ = evaluate(_graph(branches[chosen]), operands)
    return tuple(results)


def _switch_case_grad(
    node: Node,
    *gs: Tensor | None,
    branches: tuple[NestedGraph, ...],
    differentiate: Differentiate,
) -> Grads:
    index, *operands = node.inputs
    graphs = [_graph(b) for b in branches]
    found: list[list[Tensor | None]] = []
    functions = []
    for graph in graphs:
        function = Traced(f"{graph.name}_grad", ())
        functions.append(function)
        with function.open():
            found.append(_grads_of_graph(graph, operands, gs, differentiate))
    has_path = [any(grads[i] is not None for grads in found) for i in range(len(operands))]
    for function, grads in zip(functions, found, strict=True):
        with function.open():
            chosen = [
                zeros_like(x) if g is None else g
                for x, g, wanted in zip(operands, grads, has_path, strict=True)
                if wanted
            ]
        function.give(chosen)
    if not any(has_path):
        return (None,) * len(node.inputs)
    results = iter(branch(index, functions).outputs)
    return (None, *(next(results) if wanted else None for wanted in has_path))


def _grads_of_graph(
    graph: Graph,
    operands: Sequence[Tensor],
    gs: Sequence[Tensor | None],
    differentiate: Differentiate,
) -> list[Tensor | None]:
    """Build `graph` again on `operands` and return the gradients with respect to them.

    `gs` are those of its outputs, None for one that is not trainable.
    """
    arguments = [inline_argument(t) for t in operands]
    outputs = inline(graph, arguments)
    pairs = [(y, g) for y, g in zip(outputs, gs, strict=True) if g is not None]
    if not pairs:
        return [None] * len(operands)
    ys, seeds = zip(*pairs, strict=True)
    return list(differentiate(ys, arguments, seeds))


def inline_argument(tensor: Tensor) -> Tensor:
    """Return a tensor of this region that stands for `tensor` and for nothing else.

    Two operands may be one tensor, and each has a gradient of its own.
    """
    from symgrad.graph.ops.conversion import identity

    return identity(tensor)


def _switch_case_kernel(
    _index: TensorType, *_operands: TensorType, branches: tuple[NestedGraph, ...]
) -> Branches:
    return Branches(branches)


switch_case_op = define(
    "switch_case",
    infer=_switch_case_infer,
    reference=_switch_case_reference,
    grad=_switch_case_grad,
    kernel=_switch_case_kernel,
)


# --------------------------------------------------------------------------------- while_loop


def loop(initial: Sequence[Tensor], condition: Traced, body: Traced, capacity: int) -> Node:
    """Make the node of a loop; the body's outputs beyond the loop variables are stacked."""
    captures = union_of_captures((condition, body))
    return apply_node(
        while_loop_op,
        (*initial, *captures),
        {
            "condition": condition.graph(captures),
            "body": body.graph(captures),
            "carried": len(initial),
            "capacity": capacity,
        },
    )


def _while_loop_infer(
    *operands: TensorType,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: int,
) -> tuple[TensorType, ...]:
    _check_operands("while_loop", _graph(condition), operands)
    _check_operands("while_loop", _graph(body), operands)
    (test,) = _graph(condition).outputs
    if test.type != TensorType(dtypes.bool_, ()):
        raise DTypeError("while_loop", f"the condition gives {test.type}, not bool[]")
    results = [t.type for t in _graph(body).outputs]
    carried_types = []
    for position, (before, after) in enumerate(
        zip(operands[:carried], results[:carried], strict=True)
    ):
        carried_types.append(_kept(position, before, after))
    stacks = (t.with_shape((capacity, *t.shape)) for t in results[carried:])
    return (TensorType(dtypes.int64, ()), *carried_types, *stacks)


def _kept(position: int, before: TensorType, after: TensorType) -> TensorType:
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


def _while_loop_reference(
    *operands: Array,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: int,
) -> tuple[Array, ...]:
    values, invariants = list(operands[:carried]), operands[carried:]
    results = _graph(body).outputs[carried:]
    stacks = [np.zeros((capacity, *t.type.static_shape), t.dtype.numpy) for t in results]
    count = 0
    while bool(evaluate(_graph(condition), [*values, *invariants])[0][0]):
        given, _ = evaluate(_graph(body), [*values, *invariants])
        values = given[:carried]
        for stack, item in zip(stacks, given[carried:], strict=True):
            stack[count] = item
        count += 1
    return (np.asarray(count), *values, *stacks)


def _while_loop_grad(
    node: Node,
    _count: Tensor | None,
    *gs: Tensor | None,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: int,
    differentiate: Differentiate,
) -> Grads:
    if not capacity:
        raise NoGradientError(
            "while_loop",
            "the gradient needs a bound on the number of iterations",
            hint="give maximum_iterations",
            source=node.source,
        )
    return _BackwardLoop(node, gs, _graph(condition), _graph(body), carried, capacity).build(
        differentiate
    )


class _BackwardLoop:
    """The gradient of one loop: see Note [Gradient of a loop]."""

    def __init__(
        self,
        node: Node,
        gs: Sequence[Tensor | None],
        condition: Graph,
        body: Graph,
        carried: int,
        capacity: int,
    ) -> None:
        self._node = node
        self._gs = gs
        self._condition = condition
        self._body = body
        self._carried = carried
        self._capacity = capacity
        operands = node.inputs
        self._live = [i for i, t in enumerate(operands) if t.dtype.is_trainable]

    def build(self, differentiate: Differentiate) -> Grads:
        """Return the gradients of the operands of the loop."""
        operands = self._node.inputs
        saved = self._saved()
        initial = [
            self._seed(i) if i < self._carried else zeros_like(operands[i]) for i in self._live
        ]
        count = self._node.outputs[0]
        types = [t.type for t in (count, *initial)]
        condition = Traced("backward_cond", types)
        condition.run(lambda left, *_: [greater(left, constant(0, dtypes.int64))])
        body = Traced("backward_body", types)
        body.run(lambda left, *sums: self._step(saved, left, sums, differentiate))
        results = loop([count, *initial], condition, body, self._capacity).outputs[2:]
        grads: list[Tensor | None] = [None] * len(operands)
        for i, g in zip(self._live, results, strict=False):
            grads[i] = g
        return tuple(grads)

    def _seed(self, position: int) -> Tensor:
        g = self._gs[position]
        assert g is not None, "a trainable result has a gradient, zeros if nothing arrived"
        return g

    def _saved(self) -> tuple[Tensor, ...]:
        """Return stacks of the loop variables, as each iteration found them."""
        body = self._body
        recording = Graph(
            [*body.outputs, *body.inputs[: self._carried]],
            body.inputs,
            name=body.name,
            region=body.outputs[0].node.region,
        )
        attrs = {**self._node.attrs, "body": recording}
        again = apply_node(while_loop_op, self._node.inputs, attrs)
        return again.outputs[len(self._node.outputs) :]

    def _step(
        self,
        saved: Sequence[Tensor],
        left: Tensor,
        sums: Sequence[Tensor],
        differentiate: Differentiate,
    ) -> list[Tensor]:
        """Differentiate one iteration: the next values of `left` and of the gradients."""
        at = subtract(left, constant(1, dtypes.int64))
        found_state = [take(stack, at, axis=0) for stack in saved]
        operands = [*found_state, *self._node.inputs[self._carried :]]
        sum_of = dict(zip(self._live, sums, strict=True))
        gs: list[Tensor | None] = [sum_of.get(i) for i in range(self._carried)]
        for g in self._gs[self._carried :]:
            gs.append(None if g is None else take(g, at, axis=0))
        grads = _grads_of_graph(self._body, operands, gs, differentiate)
        following = []
        for i, total in zip(self._live, sums, strict=True):
            g = grads[i]
            if i < self._carried:
                following.append(zeros_like(total) if g is None else g)
            else:
                following.append(total if g is None else add(total, g))
        return [at, *following]


def _while_loop_kernel(
    *_operands: TensorType,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: int,
) -> Loop:
    return Loop(condition, body, carried, capacity)


while_loop_op = define(
    "while_loop",
    infer=_while_loop_infer,
    reference=_while_loop_reference,
    grad=_while_loop_grad,
    kernel=_while_loop_kernel,
)
