"""Custom gradients and rematerialisation: ops that stand for some of their operands.

They have a gradient that those operands do not have.

`custom_gradient` calls a function of the user's, `recompute` computes once more what it needs.
Neither computes anything: both are replaced by what they stand for before code is made, and
`after` is what keeps apart what is computed now and what is computed again. `linear_in` stands for
a gradient that is not None when it is differentiated in turn. What users call is in
`symgrad/passes/gradients/custom_gradient.py` and `symgrad/frontend/recompute.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from symgrad.graph.batch_rules import Entry, Operands
from symgrad.graph.build import apply, apply_node, rebuild_here
from symgrad.graph.graph import Graph
from symgrad.graph.nested import inline
from symgrad.graph.node import Attrs, Grads, Node, Tensor
from symgrad.graph.opdef import define, elementwise
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.masks import read_mask
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.subgraph import Arrived, Differentiate, inline_argument, is_zero
from symgrad.graph.traverse import topological
from symgrad.graph.types import Array, NestedGraph, PythonFunction, TensorType

GradientOf = Callable[[Node, Sequence[Tensor | None]], Sequence[Tensor | None]]


def stands_for(node: Node) -> tuple[Tensor, ...] | None:
    """Return the operands that the results of `node` are; None for an op that computes them."""
    if node.definition is custom_gradient_op:
        first = node.attrs["first"]
        assert isinstance(first, int), f"{node!r} does not say where its results are"
        return node.inputs[first : first + len(node.outputs)]
    if node.definition is recompute_op:
        return node.inputs[len(node.inputs) - len(node.outputs) :]
    return node.inputs[:1] if node.definition is linear_in_op else None


def differentiated_inputs(node: Node) -> tuple[Tensor, ...]:
    """Return the inputs that the rule of `node` gives gradients to, if there are any.

    That is all of them, but for a custom gradient its arguments: what it stands for, and the
    parameters of the regions it is in, it only reads.
    """
    if node.definition is not custom_gradient_op:
        return node.inputs
    first = node.attrs["first"]
    assert isinstance(first, int), f"{node!r} does not say how many inputs it differentiates"
    return node.inputs[:first]


def _refuse_kernel() -> NoReturn:
    raise AssertionError("what stands for its operands is replaced by them before code is made")


# ---------------------------------------------------------------------------- custom_gradient


def custom_gradient_node(
    xs: Sequence[Tensor],
    ys: Sequence[Tensor],
    others: Sequence[Tensor],
    gradient: GradientOf,
    name: str,
) -> Node:
    """Make the node that stands for `ys`, with `gradient(node, gs)` as that of `xs`.

    `others` are operands as well: what `gradient` finds there in a copy of the node.
    """
    function = PythonFunction(name, gradient)
    attrs: Attrs = {"first": len(xs), "count": len(ys), "function": function}
    return apply_node(custom_gradient_op, (*xs, *ys, *others), attrs)


def _custom_gradient_infer(
    *operands: TensorType, first: int, count: int, function: PythonFunction
) -> tuple[TensorType, ...]:
    return operands[first : first + count]


def _custom_gradient_reference(
    *operands: Array, first: int, count: int, function: PythonFunction
) -> tuple[Array, ...]:
    return operands[first : first + count]


def _custom_gradient_grad(
    node: Node, *gs: Tensor | None, first: int, count: int, function: PythonFunction
) -> Grads:
    return (*function.call(node, gs), *(None,) * (len(node.inputs) - first))


def _custom_gradient_kernel(
    *_operands: TensorType, first: int, count: int, function: PythonFunction
) -> NoReturn:
    _refuse_kernel()


custom_gradient_op = define(
    "custom_gradient",
    infer=_custom_gradient_infer,
    reference=_custom_gradient_reference,
    grad=_custom_gradient_grad,
    kernel=_custom_gradient_kernel,
    has_zero_for_zero=False,  # a user is free to give anything
    of_pairs="each",
)


# ---------------------------------------------------------------------------------- recompute


def recompute_node(
    xs: Sequence[Tensor],
    captures: Sequence[Tensor],
    ys: Sequence[Tensor],
    forward: Graph,
    *,
    keeps_results: bool = False,
) -> Node:
    """Make the node that stands for `ys`, which `forward` computes from `xs` and `captures`.

    One that `keeps_results` does not compute them again where its gradient reads them.
    """
    attrs: Attrs = {"forward": forward, "arguments": len(xs), "keeps_results": keeps_results}
    return apply_node(recompute_op, (*xs, *captures, *ys), attrs)


def _graph(forward: NestedGraph) -> Graph:
    assert isinstance(forward, Graph), "what is computed again is a graph"
    return forward


def _recompute_infer(
    *operands: TensorType, forward: NestedGraph, arguments: int, keeps_results: bool
) -> tuple[TensorType, ...]:
    return operands[len(_graph(forward).inputs) :]


def _recompute_reference(
    *operands: Array, forward: NestedGraph, arguments: int, keeps_results: bool
) -> tuple[Array, ...]:
    return operands[len(_graph(forward).inputs) :]


def _recompute_grad(
    node: Node,
    *gs: Tensor | None,
    forward: NestedGraph,
    arguments: int,
    keeps_results: bool,
    differentiate: Differentiate,
    wanted: Sequence[bool],
    arrived: Arrived,
) -> Grads:
    graph = _graph(forward)
    # What is captured, weights mostly, is needed again anyway: to wait for it would be to copy it.
    operands = [
        _wait_for(inline_argument(t), gs if position < arguments else ())
        for position, t in enumerate(node.inputs[: len(graph.inputs)])
    ]
    again = inline(graph, operands)
    ys, seeds = zip(*((y, g) for y, g in zip(again, gs, strict=True) if g is not None), strict=True)
    asked = [t for t, is_asked in zip(operands, wanted, strict=False) if is_asked]
    derivatives = differentiate(ys, asked, seeds)
    if keeps_results:
        results = map(inline_argument, node.inputs[len(graph.inputs) :])
        given = set(operands)
        kept = {y: result for y, result in zip(again, results, strict=True) if y not in given}
        derivatives = _reading(kept, derivatives, operands)
    found = dict(zip(asked, derivatives, strict=True))
    grads = _finish_together(node, [found.get(t) for t in operands], arguments)
    return (*grads, *(None,) * len(gs))


def _reading(
    kept: Mapping[Tensor, Tensor], found: Sequence[Tensor | None], stop: Sequence[Tensor]
) -> list[Tensor | None]:
    """Return what was `found` with results that are `kept` in the place of those computed again."""
    mapping = dict(kept)
    for node in topological([t for t in found if t is not None], stop={*stop, *kept}):
        if any(t in mapping for t in node.inputs):
            operands = tuple(mapping.get(t, t) for t in node.inputs)
            mapping.update(zip(node.outputs, rebuild_here(node, operands).outputs, strict=True))
    return [None if t is None else mapping.get(t, t) for t in found]


def _finish_together(
    node: Node, grads: Sequence[Tensor | None], arguments: int
) -> list[Tensor | None]:
    """Make the gradients from which the way back goes on wait for those where it ends.

    Otherwise the next part of the way could be taken first, and meanwhile all that the gradients
    of weights read would be kept: what was computed again from every part.
    """
    goes_on = [
        position < arguments and not operand.node.definition.is_leaf
        for position, operand in enumerate(node.inputs[: len(grads)])
    ]
    ends = [g for g, does in zip(grads, goes_on, strict=True) if not does]
    return [
        _wait_for(g, ends) if does and g is not None else g
        for g, does in zip(grads, goes_on, strict=True)
    ]


def _wait_for(x: Tensor, gs: Sequence[Tensor | None]) -> Tensor:
    """Return `x`, with its mask if it has one, once all of `gs` have been computed."""
    found = read_mask(x)
    if found is not None:
        mask, inner = found
        return mask.select(_wait_for(inner, gs))
    for g in gs:
        if g is not None and not is_zero(g):
            x = after(x, g)
    return x


def _recompute_kernel(
    *_operands: TensorType, forward: NestedGraph, arguments: int, keeps_results: bool
) -> NoReturn:
    _refuse_kernel()


def _recompute_tangent(
    node: Node,
    *tangents: Tensor | None,
    forward: NestedGraph,
    arguments: int,
    keeps_results: bool,
) -> Sequence[Tensor | None]:
    # It stands for its last operands: there is nothing to keep for later.
    return tangents[len(tangents) - len(node.outputs) :]


recompute_op = define(
    "recompute",
    infer=_recompute_infer,
    reference=_recompute_reference,
    grad=_recompute_grad,
    kernel=_recompute_kernel,
    tangent=_recompute_tangent,
    gradient_mask="read",
    of_pairs="each",
)


# -------------------------------------------------------------------------------------- after


def after(x: Tensor, other: Tensor) -> Tensor:
    """Optimization barrier: return `x` for use once `other` has been computed.

    No rule sees through this, so what is computed from it is not what is computed from `x`.
    """
    return apply(after_op, x, broadcast_to(_one_element(other), x.shape))


def _one_element(x: Tensor) -> Tensor:
    """Return an element of `x`, or the sum of them where there may be none."""
    if any(not isinstance(n, int) or n == 0 for n in x.shape):
        return sum_over(x)
    ones = (1,) * x.ndim
    return reshape(slice_axes(x, (0,) * x.ndim, ones, ones), ())


def _after_batch(operands: Operands) -> Tensor | Entry:
    """Keep what is the same for all cases so: to wait for one of them is to wait for all."""
    x, other = operands.entries
    if x.is_batched or operands.size == 0:
        return operands.apply(*operands.lifted())
    waited_for = other.tensor
    one = slice_axes(
        waited_for, (0,) * waited_for.ndim, (1, *waited_for.shape[1:]), (1,) * waited_for.ndim
    )
    return Entry(operands.apply(x.tensor, reshape(one, waited_for.shape[1:])), False)


after_op = elementwise(
    "after",
    infer=lambda x, _other: x,
    reference=lambda x, _other: x,
    grad=lambda _node, g: (g, None),
    body=lambda _s, x, _other: x,
    batch=_after_batch,
    of_pairs="each",
)


# ---------------------------------------------------------------------------------- linear_in


def linear_in(g: Tensor, x: Tensor) -> Tensor:
    """Return `g`, which has a gradient by `x` also where it does not depend on it: zeros.

    Both are of one type.
    """
    return apply(linear_in_op, g, x)


linear_in_op = elementwise(
    "linear_in",
    infer=lambda g, _x: g,
    reference=lambda g, _x: g,
    grad=lambda node, g: (g, filled_like(node.inputs[1], 0)),
    body=lambda _s, g, _x: g,
    of_pairs="each",
)
