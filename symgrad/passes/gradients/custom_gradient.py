"""Custom VJP: functions that bring their own gradient, `custom_gradient` and others.

What such a function returns is one node that stands for its results. The rule of that node calls
the function's own gradient; a new call each time that `gradients` meets it, as for any rule.

A gradient closes over tensors. Where the node has been built again elsewhere, as loops and
branches do with their bodies for the way back, those are computed again from its operands. For
that the node has as operands, beside arguments and results, all parameters of the regions it is
in: whatever is built there is computed from these and from what lies around.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any

from symgrad.errors import DTypeError, GraphError, Source, user_source
from symgrad.frontend.call_arguments import CallArguments
from symgrad.frontend.control import require_callables
from symgrad.frontend.nests import flatten, flatten_with_nones, unflatten
from symgrad.frontend.user_functions import AnyFunction, called
from symgrad.graph.build import (
    are_same,
    current_region,
    enter,
    inside,
    outer_tensors,
    rebuild_here,
    require_visible,
)
from symgrad.graph.gradient_registry import has_gradient
from symgrad.graph.leaf import Variable, placeholder_op
from symgrad.graph.nested import Traced, inline
from symgrad.graph.node import Node, Region, Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.stand_in import custom_gradient_node, differentiated_inputs
from symgrad.graph.traverse import operands_of, topological
from symgrad.records import dataclass
from symgrad.suggestions import known_as

_SUBJECT = "custom_gradient"


@known_as("custom_vjp", "custom_jvp")
def custom_gradient(f: AnyFunction) -> CustomGradient:
    """Give `f` the gradient it returns: `f(*xs)` is `(ys, grad_fn)`, and the call returns ys.

    `grad_fn(*dys)` is given one gradient for each tensor of ys, and returns one tensor or None for
    each argument: as a tuple, or in the nest of the arguments, or alone if there is one. If `f`
    uses trainable variables that are no arguments, it is called as `grad_fn(*dys, variables=...)`
    and returns `(dxs, dvariables)`. Tensors that `f` uses otherwise get no gradient.

    >>> @sg.custom_gradient
    ... def clipped_exp(x):
    ...     y = sg.exp(x)
    ...     return y, lambda dy: sg.clip(dy * y, -10, 10)
    >>> x = sg.placeholder((), name="x")
    >>> sg.run(sg.gradients(clipped_exp(x), x), {x: 5.0})
    [array(10., dtype=float32)]
    """
    require_callables(_SUBJECT, f=f)
    return CustomGradient(f)


def grad_pass_through(f: AnyFunction) -> CustomGradient:
    """Return `f` with the gradient of the identity: that of each result goes to an argument.

    There are as many results as arguments, of the same shapes. Variables in `f` get no gradient.

    >>> x = sg.placeholder((), name="x")
    >>> y = 3 * sg.grad_pass_through(sg.round)(x)
    >>> sg.run([y, *sg.gradients(y, x)], {x: 0.6})
    [array(3., dtype=float32), array(3., dtype=float32)]
    """
    require_callables("grad_pass_through", f=f)

    @functools.wraps(f)
    def passed_through(*args: Any) -> tuple[Any, AnyFunction]:
        def gradient(*dys: Tensor, variables: Sequence[Variable] = ()) -> Any:
            return (dys, (None,) * len(variables)) if variables else dys

        return f(*args), gradient

    return CustomGradient(passed_through)


class CustomGradient:
    """A function with its own gradient; in a class it is a method like any other."""

    def __init__(self, function: AnyFunction) -> None:
        # First, since it copies attributes: those of one of these that `function` wraps, too.
        functools.update_wrapper(self, function)
        self._function = function

    def __get__(self, instance: object, owner: type | None = None) -> CustomGradient:
        if instance is None:
            return self
        return CustomGradient(MethodType(self._function, instance))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results; arguments given by keyword stand where the signature has them."""
        given = CallArguments(_SUBJECT, self._function, args, kwargs)
        # Another tensor than the argument: `f` may use that one too, as it uses a variable.
        xs = [identity(t) for t in given.tensors]
        ys, grad_fn = _read_results(self._function(*given.with_tensors(xs)))
        leaves, nest = flatten(ys)
        if not leaves:
            return ys
        results = [as_tensor(leaf) for leaf in leaves]
        for position, y in enumerate(results):
            require_visible(_SUBJECT, f"result {position}", y)
        variables = _variables_used(results, xs)
        if variables:
            _require_variables_keyword(grad_fn, variables)
        call = _Call(
            name=getattr(self._function, "__name__", "function"),
            grad_fn=grad_fn,
            given=given,
            variables=variables,
            region=current_region(),
            operands=[enter(t) for t in (*xs, *variables, *results, *_parameters())],
            source=user_source(),
        )
        first = len(xs) + len(variables)
        operands = call.operands
        node = custom_gradient_node(
            operands[:first],
            operands[first : first + len(results)],
            operands[first + len(results) :],
            call.gradient,
            call.name,
        )
        return unflatten(nest, node.outputs)


def _read_results(returned: Any) -> tuple[Any, AnyFunction]:
    if isinstance(returned, tuple | list) and len(returned) == 2 and callable(returned[1]):
        return returned[0], returned[1]
    raise DTypeError(
        _SUBJECT,
        f"the function returned {returned!r}, not results and their gradient, a function",
        source=user_source(),
    )


def _parameters() -> Iterator[Tensor]:
    """Yield the parameters of all regions that are open."""
    region = current_region()
    while region is not None:
        yield from region.params
        region = region.parent


def _variables_used(ys: Sequence[Tensor], xs: Collection[Tensor]) -> list[Variable]:
    """Return the trainable variables that `ys` are computed from, other than by way of `xs`.

    What counts is a way that a gradient could take.
    """
    outer = outer_tensors()
    order = topological(ys, xs, outer)
    reached = {y for y in ys if y.dtype.is_trainable}
    for node in reversed(order):
        if any(t in reached for t in node.outputs):
            reached.update(t for t in _differentiable(node, outer) if t.dtype.is_trainable)
    found = (t for node in order for t in node.outputs if t in reached)
    return [t for t in found if isinstance(t, Variable) and t.trainable]


def _differentiable(node: Node, outer: dict[Tensor, Tensor]) -> Sequence[Tensor]:
    """Return the operands that `node` may give a gradient to."""
    operands = operands_of(node, outer)
    if operands is not node.inputs:
        return operands
    return differentiated_inputs(node) if has_gradient(node) else ()


def _require_variables_keyword(grad_fn: AnyFunction, variables: Sequence[Variable]) -> None:
    parameters = inspect.signature(grad_fn).parameters.values()
    if any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters):
        return
    names = ", ".join(repr(v.name) for v in variables)
    raise DTypeError(
        _SUBJECT,
        f"the function uses the trainable variables {names}, and its gradient takes none",
        hint="let it take the keyword variables and return (gradients of arguments, of variables)",
        source=user_source(),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call of a function with its own gradient, and the node that stands for its results.

    `operands` are those of the node, in the region the call was made in.
    """

    name: str
    grad_fn: AnyFunction
    given: CallArguments
    variables: Sequence[Variable]
    region: Region | None
    operands: Sequence[Tensor]
    source: Source | None

    def gradient(self, node: Node, gs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Return the gradients of the arguments and of the variables, given those of results."""
        if are_same(node.inputs, self.operands):
            return self._differentiate(gs)
        return self._differentiate_copy(node, gs)

    def _differentiate(self, gs: Sequence[Tensor | None]) -> list[Tensor | None]:
        if not self.variables:
            return self._of_arguments(self._returned(gs, {}))
        returned = self._returned(gs, {"variables": list(self.variables)})
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise self._wrong(f"{returned!r}, not those of arguments and those of variables")
        of_arguments, of_variables = returned
        return [*self._of_arguments(of_arguments), *self._of_variables(of_variables)]

    def _returned(self, gs: Sequence[Tensor | None], keywords: Mapping[str, Any]) -> Any:
        label, hint = f"the gradient of {self.name}", "it is given one cotangent for each result"
        return called(_SUBJECT, label, self.grad_fn, gs, hint, keywords, self.source)

    def _of_arguments(self, returned: Any) -> list[Tensor | None]:
        """Read the gradients of the arguments, of which some may be nests, and some no tensors."""
        leaves = self.given.leaves
        flat = self._flat(returned)
        if len(flat) != len(leaves):
            raise self._wrong(f"{len(flat)} gradients for {len(leaves)} arguments")
        pairs = zip(leaves, flat, strict=True)
        return [_as_gradient(g, x) for x, g in pairs if isinstance(x, Tensor)]

    def _flat(self, returned: Any) -> list[Any]:
        values = self.given.values
        one_each = returned if isinstance(returned, tuple | list) else (returned,)
        if len(one_each) != len(values):
            return flatten_with_nones(returned)
        flat: list[Any] = []
        for value, g in zip(values, one_each, strict=True):
            flat += [None] * len(flatten(value)[0]) if g is None else flatten_with_nones(g)
        return flat

    def _of_variables(self, returned: Any) -> list[Tensor | None]:
        flat = flatten_with_nones(returned)
        if len(flat) != len(self.variables):
            raise self._wrong(f"{len(flat)} gradients for {len(self.variables)} variables")
        return [_as_gradient(g, v) for v, g in zip(self.variables, flat, strict=True)]

    def _wrong(self, what: str) -> GraphError:
        return GraphError(
            _SUBJECT, f"the gradient of {self.name} returned {what}", source=self.source
        )

    def _differentiate_copy(self, node: Node, gs: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Differentiate where the call was made, and put what that builds where `node` is."""
        given = [g for g in gs if g is not None]
        is_there: list[bool] = []

        def differentiate(*params: Tensor) -> list[Tensor]:
            rest = iter(params)
            found = self._differentiate([None if g is None else next(rest) for g in gs])
            is_there.extend(g is not None for g in found)
            return [g for g in found if g is not None]

        with inside(self.region):
            traced = Traced(f"{self.name}_grad", [g.type for g in given])
            traced.run(differentiate)
        captures = traced.captures
        built = iter(inline(traced.graph(captures), [*given, *self._settle(captures, node)]))
        return [next(built) if is_given else None for is_given in is_there]

    def _settle(self, captures: Sequence[Tensor], node: Node) -> list[Tensor]:
        """Return what `captures`, tensors of the call, are where `node` is."""
        with inside(self.region):
            outer = outer_tensors()
        settled: dict[Tensor, Tensor] = {}
        for old, new in zip(self.operands, node.inputs, strict=True):
            settled[old] = new
            while old in outer:
                old = outer[old]
                settled[old] = new
        here = current_region()
        for tensor in (*captures, *outer.values()):
            owner = tensor.node.region
            if owner is None or owner.encloses(here):
                settled.setdefault(tensor, tensor)
        for below in topological(captures, list(settled), outer):
            _settle_node(below, settled, outer)
        return [settled[t] for t in captures]


def _as_gradient(g: Any, x: Tensor) -> Tensor | None:
    return None if g is None else as_tensor(g, None if hasattr(g, "dtype") else x.dtype)


def _settle_node(node: Node, settled: dict[Tensor, Tensor], outer: dict[Tensor, Tensor]) -> None:
    """Compute `node` again from what its operands are here."""
    operands = operands_of(node, outer)
    values = tuple(enter(settled[t]) for t in operands)
    if operands is not node.inputs:
        settled.setdefault(node.outputs[0], values[0])
        return
    assert node.definition is not placeholder_op, f"{node!r} is no operand of the call"
    for old, new in zip(node.outputs, rebuild_here(node, values).outputs, strict=True):
        settled.setdefault(old, new)
