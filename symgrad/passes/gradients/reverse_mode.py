"""Reverse-mode automatic differentiation: the gradient of the sum of ys with respect to each x.

Before:
    %h = matmul %x, %w : f32[32, 10]
    %y = tanh %h : f32[32, 10]

After `gradients(y, w)`, beside what there was:
    %1 = constant {value = 1} : f32[]
    %2 = broadcast_to %1 {shape = [32, 10]} : f32[32, 10]
    ...                                                      the rule of tanh
    %8 = matmul %7, %2 : f32[784, 10]                        the rule of matmul

Nothing is rewritten: a gradient is more graph, and may be differentiated in turn. What an op's
gradient is stands with the op in `symgrad/graph/ops/`, and which rules are called, in which order
and on what, is decided in `gradients/sweep.py`; here is what users call.

Of equal nodes only the first is differentiated, for all of them, unless a user can tell them apart:
an x, a y, a stopped tensor. So what is written down a thousand times costs its gradient once.

The walk is linear in the ancestors of ys. (Tensors do not know their consumers, so it cannot begin
at xs; whatever else hangs on the graph costs nothing.) It has no recursion.

Inside a branch or a body the walk goes on from what stands for a tensor from around to that tensor;
what it builds belongs to the region that is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

from symgrad.collector import paused_collector
from symgrad.errors import GraphError, user_source
from symgrad.frontend.nests import unflatten
from symgrad.graph.build import initial_values, name_scope, outer_tensors
from symgrad.graph.node import Tensor
from symgrad.graph.spread_numbers import numbers_once
from symgrad.graph.traverse import topological
from symgrad.passes.gradients.aggregate import AggregationMethod
from symgrad.passes.gradients.arguments import (
    GradientArguments,
    UnconnectedGradients,
    read_arguments,
    read_xs,
)
from symgrad.passes.gradients.sweep import (
    ArrivedGradients,
    filled_from,
    live_tensors,
    of_its_own,
    sweep,
)
from symgrad.passes.rewrites.value_numbering import find_twins
from symgrad.suggestions import known_as

# A tensor or None, to be used as a tensor: in nearly all programs every x is connected, and a type
# that asks for a test of each gradient would be silenced. With "zero" it is typed as a tensor.
MaybeTensor: TypeAlias = Tensor | Any


@overload
def gradients(
    ys: Any,
    xs: Tensor | Sequence[Tensor],
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: AggregationMethod | int | None = None,
    stop_gradients: Any = None,
    *,
    unconnected_gradients: Literal["zero", UnconnectedGradients.ZERO],
) -> list[Tensor]: ...


@overload
def gradients(
    ys: Any,
    xs: Tensor | Sequence[Tensor],
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: AggregationMethod | int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = "none",
) -> list[MaybeTensor]: ...


@overload
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: AggregationMethod | int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = "none",
) -> Any: ...


@known_as("backward", "grads", "derivative")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: AggregationMethod | int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = "none",
) -> Any:
    """Return for each x the gradient of the sum of all elements of all ys, weighted by `grad_ys`.

    `xs` is a tensor, or a list or tuple of them, for which a list comes back; of any other nest,
    such as a dict, the gradients are in the same nest.

    A gradient is None, or zeros if `unconnected_gradients` is "zero", for an x that no y depends
    on through floats and differentiable ops. Derivatives are total: an x upstream of another one
    counts its way through it, unless that is among `stop_gradients`. New names are prefixed with
    `name`. `colocate_gradients_with_ops` and `gate_gradients` are accepted for compatibility and
    change nothing: there are no devices, and when an op runs is for the compiler to decide.

    Raises `ValueError` and `TypeError` for arguments that do not fit, `NoGradientError` where a
    gradient is needed that does not exist or was prevented.

    >>> x, w = sg.placeholder((2,), name="x"), sg.variable([3.0, 4.0], name="w")
    >>> dx, dw = sg.gradients(sg.sum(w * x**2), [x, w])
    >>> sg.run([dx, dw], {x: np.float32([1.0, 2.0])})
    [array([ 6., 16.], dtype=float32), array([1., 4.], dtype=float32)]
    """
    sources, nest = read_xs(xs)
    call = read_arguments(
        ys, sources, grad_ys, stop_gradients, aggregation_method, unconnected_gradients
    )
    with paused_collector():
        return unflatten(nest, _gradients(call, name))


def _gradients(call: GradientArguments, name: str) -> list[Tensor | None]:
    """Return what `gradients` does, one for each x."""
    with name_scope(name), numbers_once():
        outer = outer_tensors()
        order = topological(call.ys, call.stops, outer)
        live = live_tensors(order, call.xs, call.stops, outer)
        twin_of = find_twins(order, [*call.ys, *call.xs, *call.stops])
        arrived = ArrivedGradients(call.method, twin_of)
        sweep(call.ys, call.seeds, order, live, arrived, call.stops, outer)
        met = {*order, *(t.node for t in call.stops)}
        found = [of_its_own(arrived.total(x), met) for x in call.xs]
        _refuse_initial_values(call, found, outer)
        if call.unconnected is UnconnectedGradients.NONE:
            return found
        zeros = {x: filled_from(x, 0) for x, g in zip(call.xs, found, strict=True) if g is None}
        return [zeros[x] if g is None else g for x, g in zip(call.xs, found, strict=True)]


def _refuse_initial_values(
    call: GradientArguments, found: Sequence[Tensor | None], outer: Mapping[Tensor, Tensor]
) -> None:
    """Raise if a y depends on an x without gradient by way of what a loop variable starts with.

    Inside of the loop that is no way: the variable is another one in each iteration.
    """
    initials = initial_values()
    missing = [x for x, g in zip(call.xs, found, strict=True) if g is None]
    if not (initials and missing):
        return
    beyond = {**outer, **initials}
    order = topological(call.ys, call.stops, beyond)
    for x in missing:
        live = live_tensors(order, [x], call.stops, beyond)
        if any(y in live for y in call.ys):
            raise GraphError(
                "gradients",
                f"inside of the loop ys depend on {x!r} only through the initial value of a loop "
                "variable",
                hint="differentiate after the loop, or with respect to the loop variable",
                source=user_source(),
            )
