"""Reverse sweep (backpropagation): vector-Jacobian products, rule by rule, from ys down to xs.

Which tensors have a gradient that an x needs is found from xs up, by activity analysis. Then nodes
are met in the reverse of a topological order: what arrives at a tensor is added up, and the rule of
its op carries it on. What a rule returns is checked here. Arguments of a user's are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Any

from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.graph.build import derived_from
from symgrad.graph.folding import folding
from symgrad.graph.gradient_registry import gradient_rule, has_gradient
from symgrad.graph.node import Node, Tensor
from symgrad.graph.opdef import ARRIVED, DIFFERENTIATE, WANTED, takes_differentiate
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.masks import Term, add_masked, carry_masked, takes_mask
from symgrad.graph.ops.stack_sums import add_stacks
from symgrad.graph.ops.stand_in import differentiated_inputs
from symgrad.graph.traverse import NOTHING_OUTSIDE, operands_of, topological
from symgrad.graph.types import is_unbounded
from symgrad.passes.gradients.aggregate import AggregationMethod, add_all
from symgrad.passes.gradients.folding import fold_identity
from symgrad.passes.rewrites.value_numbering import find_twins


def differentiate(
    ys: Sequence[Tensor], xs: Sequence[Tensor], seeds: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Do what `gradients` does on arguments that are right, and without leaving the region."""
    order = topological(ys)
    live = live_tensors(order, xs)
    arrived = ArrivedGradients(twin_of=find_twins(order, [*ys, *xs]))
    sweep(ys, seeds, order, live, arrived)
    return [arrived.total(x) for x in xs]


def live_tensors(
    order: Sequence[Node],
    xs: Sequence[Tensor],
    stops: Collection[Tensor] = frozenset(),
    outer: Mapping[Tensor, Tensor] = NOTHING_OUTSIDE,
) -> set[Tensor]:
    """Activity analysis: return the tensors whose gradient that of an x needs, found from xs up.

    Stopped tensors and ops without a gradient end the way, so nothing is built, nor missed, for
    what lies above them. An x is live even where it is stopped itself: it collects and passes
    nothing on.
    """
    live = {x for x in xs if x.dtype.is_trainable}
    for node in order:
        if any(t in live for t in _ways_on(node, outer)):
            live.update(t for t in node.outputs if t.dtype.is_trainable and t not in stops)
    return live


def _ways_on(node: Node, outer: Mapping[Tensor, Tensor]) -> Sequence[Tensor]:
    """Return the operands that a gradient which arrives at `node` goes on to."""
    operands = operands_of(node, outer)
    if operands is not node.inputs:
        return operands  # what stands for a tensor from around has no rule, and passes it on
    return differentiated_inputs(node) if has_gradient(node) else ()


class ArrivedGradients:
    """Cotangent accumulators: what the consumers of each tensor contribute, in order of arrival.

    What is contributed to a tensor of `twin_of` goes to the one that it is equal to.
    """

    __slots__ = ("_method", "_terms", "_twin_of", "_unions")

    def __init__(
        self,
        method: AggregationMethod = AggregationMethod.DEFAULT,
        twin_of: Mapping[Tensor, Tensor] = NOTHING_OUTSIDE,
    ) -> None:
        self._method = method
        self._twin_of = twin_of
        self._terms: dict[Tensor, list[Tensor]] = {}
        self._unions: dict[frozenset[Term], Tensor] = {}

    def is_twin(self, tensor: Tensor) -> bool:
        """Return whether the gradient of `tensor` is part of that of another one."""
        return tensor in self._twin_of

    def add(self, tensor: Tensor, g: Tensor) -> None:
        self._terms.setdefault(self._twin_of.get(tensor, tensor), []).append(g)

    def take(self, tensor: Tensor) -> Tensor | None:
        """Pop the cotangent that `total` returns: the caller now owns it."""
        total = self.total(tensor)
        self._terms.pop(self._twin_of.get(tensor, tensor), None)
        return total

    def total(self, tensor: Tensor) -> Tensor | None:
        """Return the cotangent, the sum of what arrived, or None; the same tensor at every call."""
        tensor = self._twin_of.get(tensor, tensor)
        terms = self._terms.get(tensor)
        if terms is None:
            return None
        if len(terms) > 1:
            with building_gradient_of(tensor.node):
                terms[:] = [self._sum(tensor, terms)]
        return terms[0]

    def _sum(self, tensor: Tensor, terms: Sequence[Tensor]) -> Tensor:
        if is_unbounded(tensor.type):
            return add_stacks(tensor, terms)
        if not takes_mask(tensor):
            return add_all(terms, self._method)
        return add_masked(terms, lambda each: add_all(each, self._method), self._unions)


def sweep(
    ys: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    order: Sequence[Node],
    live: Collection[Tensor],
    arrived: ArrivedGradients,
    stops: Collection[Tensor] = frozenset(),
    outer: Mapping[Tensor, Tensor] = NOTHING_OUTSIDE,
) -> None:
    """Backpropagate: carry the seeds from `ys` down to all of `live`, into `arrived`.

    In the reverse of a topological order every consumer of a tensor comes before the node that
    makes it, so a gradient is complete when it is asked for, each rule is called once, and the
    order of the terms of a sum is fixed by the graph. Only consumers of a stopped tensor may come
    later, since the order does not follow it: its gradient is not asked for before the end.
    """
    for y, seed in zip(ys, seeds, strict=True):
        if y in live:
            arrived.add(y, filled_from(y, 1) if seed is None else seed)
    for node in reversed(order):
        if arrived.is_twin(node.outputs[0]):
            continue
        if not any(t in live for t in _ways_on(node, outer)):
            continue  # the node may have a gradient all the same: it is an x
        operands = operands_of(node, outer)
        if operands is node.inputs:
            _carry_through(node, arrived, live, stops)
        elif node.outputs[0] not in stops:
            g = arrived.total(node.outputs[0])
            if g is not None:
                arrived.add(operands[0], g)


def _carry_through(
    node: Node, arrived: ArrivedGradients, live: Collection[Tensor], stops: Collection[Tensor]
) -> None:
    """Call the rule of `node` on the gradients of its outputs, if there are any."""
    gs = [None if t in stops else arrived.total(t) for t in node.outputs]
    if all([g is None for g in gs]):
        return
    # What a user has written builds what it says.
    is_ours = node.gradient_key is None and node.definition.structure is not None
    with building_gradient_of(node), folding(fold_identity if is_ours else None):
        filled = [
            filled_from(t, 0) if g is None and t.dtype.is_trainable else g
            for t, g in zip(node.outputs, gs, strict=True)
        ]
        wanted = [t in live for t in node.inputs]
        grads = carry_masked(node, filled, lambda gs: call_rule(node, gs, wanted, arrived.take))
        for operand, g in zip(node.inputs, grads, strict=True):
            if g is not None and operand in live:
                arrived.add(operand, match_shape(g, operand.shape))


def call_rule(
    node: Node,
    gs: Sequence[Tensor | None],
    wanted: Sequence[bool],
    arrived: Callable[[Tensor], Tensor | None] = lambda _: None,
) -> tuple[Tensor | None, ...]:
    """Return the vector-Jacobian product (VJP) of `node` for `gs`: what its rule gives, checked.

    `wanted` says of each input whether anyone asks for its gradient; `arrived` takes over what
    there is of it already.
    """
    rule = gradient_rule(node)
    more: dict[str, Any] = {}
    if takes_differentiate(node.definition, rule):
        more = {DIFFERENTIATE: differentiate, WANTED: wanted, ARRIVED: arrived}
    grads = _as_tuple(node, rule(node, *gs, **node.attrs, **more))
    for position, g in enumerate(grads):
        if g is not None:
            _check_fit(node, position, g)
    return grads


def _as_tuple(node: Node, returned: Any) -> tuple[Any, ...]:
    grads = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    if len(grads) != len(node.inputs):
        raise GraphError(
            node.op,
            f"the gradient returned {len(grads)} results for {len(node.inputs)} inputs",
            source=node.source,
        )
    return grads


def _check_fit(node: Node, position: int, g: Any) -> None:
    """Raise unless `g` can be the gradient of input `position` of `node`."""
    wanted = node.inputs[position].type
    if isinstance(g, Tensor) and g.type is wanted:
        return
    subject = f"gradient of {node.op}"
    if not isinstance(g, Tensor):
        raise DTypeError(
            subject, f"result {position} is {g!r}, not a tensor or None", source=node.source
        )
    if wanted.dtype.is_trainable and g.dtype != wanted.dtype:
        raise DTypeError(
            subject,
            f"dtypes differ: result {position}: {g.type}, input {position}: {wanted}",
            source=node.source,
        )
    try:
        meet_shapes(subject, f"result {position}", g.type, f"input {position}", wanted)
    except ShapeError as error:
        error.source = node.source
        raise


def filled_from(x: Tensor, value: int) -> Tensor:
    """Return a tensor of the shape of `x` that is `value` everywhere, derived from its node."""
    with derived_from(x.node):
        return filled_like(x, value)


def of_its_own(g: Tensor | None, met: Set[Node]) -> Tensor | None:
    """Return a tensor equal to `g` that is none of the program that is differentiated.

    The gradient of a product by x is its other factor itself (`gradients/folding.py`), and whoever
    then differentiates by the gradient, or stops it, does not mean all other uses of that factor.
    """
    return identity(g) if g is not None and g.node in met else g


class building_gradient_of(derived_from):  # noqa: N801  # called as a function
    """Derive what is built inside from `node`, in its scope, and tell errors where they arose."""

    __slots__ = ()

    def __init__(self, node: Node) -> None:
        super().__init__(node, f"{node.name or node.definition.name}_grad")

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        error = raised[1]
        if isinstance(error, Exception):
            node = self._node
            place = "" if node.source is None else f" ({node.source})"
            error.add_note(f"while building the gradient of {node.op}{place}")
