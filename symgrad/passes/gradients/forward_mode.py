"""Forward-mode automatic differentiation (JVP): from tangents of xs to those of ys.

Before:
    %h = multiply %x, %x : f32[3]
    %y = sum %h {axes = [0]} : f32[]

After `jvp(y, x, t)`, beside what there was:
    %1 = multiply %t, %x : f32[3]
    ...
    %4 = sum %3 {axes = [0]} : f32[]

An op says only how a gradient passes it, from its results to its operands. That is a linear map of
the gradient, so its transpose, which takes tangents of the operands to those of the results, is the
gradient of the gradient: see Note [Tangents by transposition]. Few ops have a rule of their own in
their records, where the transpose would be longer than it need be. Branches, calls and loops are in
`symgrad/passes/gradients/forward_control.py`: a loop carries the tangents of its variables along
and keeps nothing for later.

Nothing here is faster than `gradients` for a y of one element; it is for few xs and many ys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from symgrad.errors import GraphError, user_source
from symgrad.frontend.nests import describe, flatten, flatten_as, leaf_names, unflatten
from symgrad.graph.build import name_scope, outer_tensors
from symgrad.graph.gradient_registry import has_gradient
from symgrad.graph.node import Node, OpDef, Tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.branches import switch_case_op
from symgrad.graph.ops.calls import call_op
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.elementwise import filled_like, tangents_or_zeros
from symgrad.graph.ops.scan import scan_op
from symgrad.graph.ops.stand_in import differentiated_inputs
from symgrad.graph.ops.while_loop import while_loop_op
from symgrad.graph.traverse import NOTHING_OUTSIDE, operands_of, topological
from symgrad.passes.gradients.arguments import as_list, is_flat, read_seed, read_xs
from symgrad.passes.gradients.forward_control import (
    Push,
    Tangents,
    push_through_branches,
    push_through_call,
    push_through_scan,
    push_through_while_loop,
)
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.gradients.sweep import (
    ArrivedGradients,
    building_gradient_of,
    call_rule,
    live_tensors,
    of_its_own,
    sweep,
)
from symgrad.passes.loops.merge_loops import shared_loops
from symgrad.suggestions import known_as


def jvp(ys: Any, xs: Any, tangents: Any) -> Any:
    """Return the Jacobian-vector product (JVP): how ys change, to first order, along `tangents`.

    There is one tangent for each x, of its dtype and shape; None stands for zeros. A result has
    the type of its y, and is zeros for one that does not depend on xs through floats and
    differentiable ops. Derivatives are total, as those of `gradients`. For a tensor, a list or a
    tuple of ys a list comes back, and for any other nest the same nest; `tangents` have that of xs.

    Raises `ValueError` for too few or too many tangents and for one of another shape than its x,
    `TypeError` for one of another dtype.
    """
    outputs, nest = read_xs(ys, "ys")
    sources, given = _read_tangents("jvp", "tangents", xs, tangents)
    with name_scope("jvp"):
        found = push_forward(outputs, sources, given, outer_tensors())
        return unflatten(nest, tangents_or_zeros(outputs, found))


@known_as("hessian_vector_product")
def hvp(y: Any, xs: Any, vs: Any) -> Any:
    """Return the Hessian-vector product (HVP): the second derivative of the sum of `y`, times `vs`.

    That is the derivative of the gradient along `vs`, of which there is one for each x. The xs are
    taken not to depend on one another. A result has the type of its x, and is zeros where the
    gradient does not depend on xs. For a tensor, a list or a tuple of xs a list comes back, and for
    any other nest the same nest, which `vs` have as well.

    Raises what `jvp` raises for tangents.

    >>> x = sg.placeholder((2,), name="x")
    >>> (product,) = sg.hvp(sg.sum(x**3), [x], [sg.constant([1.0, 0.0])])
    >>> sg.run(product, {x: np.float32([1.0, 2.0])})
    array([6., 0.], dtype=float32)
    """
    nest = read_xs(xs)[1]
    sources, given = _read_tangents("hvp", "vs", xs, vs)
    with name_scope("hvp"):
        grads = gradients(y, sources)
        present = [g for g in grads if g is not None]
        pushed = push_forward(present, sources, given, outer_tensors())
        of_user = {v.node for v in given if v is not None}
        found = iter([of_its_own(t, of_user) for t in pushed])
        products = [None if g is None else next(found) for g in grads]
        return unflatten(nest, tangents_or_zeros(sources, products))


def _read_tangents(op: str, argument: str, xs: Any, tangents: Any) -> tuple[list[Tensor], Tangents]:
    """Return the xs as tensors, and a tangent for each of them, None for zeros."""
    sources, nest = read_xs(xs)
    if is_flat(xs):
        given = as_list(tangents)
        names = [(f"{argument}[{i}]", f"xs[{i}]") for i in range(len(sources))]
        if len(given) != len(sources):
            raise GraphError(
                op, f"there are {len(given)} {argument} for {len(sources)} xs", source=user_source()
            )
    else:
        try:
            given = flatten_as(nest, tangents)
        except ValueError as error:
            raise GraphError(
                op,
                f"{argument} are {describe(flatten(tangents)[1])}, and xs are {describe(nest)}",
                hint="None stands for zeros",
                source=user_source(),
            ) from error
        names = list(zip(leaf_names(argument, xs), leaf_names("xs", xs), strict=True))
    return sources, [
        None if value is None else read_seed(f"{op}: {place}", value, name, x)
        for x, value, (place, name) in zip(sources, given, names, strict=True)
    ]


def push_forward(
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    tangents: Tangents,
    outer: Mapping[Tensor, Tensor] = NOTHING_OUTSIDE,
) -> list[Tensor | None]:
    """Push tangents forward: return the tangent of each y, None for one that no tangent reaches."""
    order = topological(ys, outer=outer)
    needed = _tensors_on_the_way(order, ys, outer)
    seeds: dict[Tensor, Tensor] = {}
    for x, tangent in zip(xs, tangents, strict=True):
        if tangent is not None and x.dtype.is_trainable:
            seeds[x] = add(seeds[x], tangent) if x in seeds else tangent
    found = dict(seeds)
    # A loop and the copies of it that gradients have built have their tangents from one loop.
    shared = shared_loops(order)
    through: dict[Node, Tangents] = {}
    for node in order:
        if not any(t in needed for t in node.outputs):
            continue
        operands = operands_of(node, outer)
        given: Tangents = [found.get(t) for t in operands]
        if operands is not node.inputs:
            results = given
        elif node in shared:
            one, places = shared[node]
            if one not in through:
                through[one] = _push_through(one, given, needed)
            results = [through[one][i] for i in places]
        else:
            results = _push_through(node, given, needed)
        for output, tangent in zip(node.outputs, results, strict=True):
            if tangent is not None:
                found[output] = add(seeds[output], tangent) if output in seeds else tangent
    met = {*order}
    return [of_its_own(found.get(y), met) for y in ys]


def _tensors_on_the_way(
    order: Sequence[Node], ys: Sequence[Tensor], outer: Mapping[Tensor, Tensor]
) -> set[Tensor]:
    """Return the tensors whose tangent is needed for that of a y: from ys down, along floats."""
    needed = {y for y in ys if y.dtype.is_trainable}
    for node in reversed(order):
        operands = operands_of(node, outer)
        goes_on = operands is not node.inputs or has_gradient(node)
        if goes_on and any(t in needed for t in node.outputs):
            # Of a gradient of the user's, its arguments: what it stands for may have none.
            ways = differentiated_inputs(node) if operands is node.inputs else operands
            needed.update(t for t in ways if t.dtype.is_trainable)
    return needed


def _push_through(node: Node, tangents: Tangents, needed: Set[Tensor]) -> Tangents:
    """Return the tangents of the outputs of `node`, those `needed` at least, given its inputs'."""
    if all(t is None for t in tangents) or not has_gradient(node):
        return [None] * len(node.outputs)
    own = node.definition.tangent
    control = _CONTROL.get(node.definition)
    with building_gradient_of(node):
        if node.gradient_key is not None:
            return _transposed(node, tangents)
        if node.definition is call_op:
            return push_through_call(
                node, tangents, push_forward, [t in needed for t in node.outputs]
            )
        if control is not None:
            return control(node, tangents, push_forward)
        return _transposed(node, tangents) if own is None else own(node, *tangents, **node.attrs)


# Note [Tangents by transposition]
# What a rule makes of a gradient u is linear in u: it is J^T u, for each operand. The gradient of
# that with respect to u, seeded with tangents t of the operands, is J t. It does not contain u,
# which stands only for where a gradient would arrive, and of what the rule has built only that is
# needed which does not depend on u. The walk ends at the node's own tensors, so that the whole
# costs time linear in what the rule builds.


def _transposed(node: Node, tangents: Tangents) -> Tangents:
    # Not zeros as such, which a rule may leave out.
    us = [identity(filled_like(t, 0)) if t.dtype.is_trainable else None for t in node.outputs]
    grads = call_rule(node, us, [t is not None for t in tangents])
    pairs = [(g, t) for g, t in zip(grads, tangents, strict=True) if not (g is None or t is None)]
    order = topological([g for g, _ in pairs], {*node.inputs, *node.outputs})
    live = live_tensors(order, [u for u in us if u is not None])
    arrived = ArrivedGradients()
    sweep([g for g, _ in pairs], [t for _, t in pairs], order, live, arrived)
    return [None if u is None else arrived.total(u) for u in us]


# What runs graphs of its own is built once more, which takes the walk over a graph.
_CONTROL: Mapping[OpDef, Callable[[Node, Tangents, Push], Tangents]] = {
    scan_op: push_through_scan,
    switch_case_op: push_through_branches,
    while_loop_op: push_through_while_loop,
}
