"""Function call: the op that runs a graph of its own, and its gradient.

A function uses nothing but its inputs: what it captures is an operand of the call. All
calls of a function share one graph, and all their gradients one graph that is derived from it.

Beside what a function returns, its graph gives what is costly to compute, such as products,
reductions and exponentials: the gradient reads that, and computes all else again. A result that
nobody reads is dropped from all calls when a program is compiled, so what is not differentiated
pays for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from symgrad.cost_model import CHEAP_FLOPS, MOST_KEPT
from symgrad.graph.bodies import flops_of_map
from symgrad.graph.build import apply, apply_node, are_same, gradient_keys_in_force, rebuild
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.nested import Traced, inline
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.masks import masked, split_mask, uniform_mask
from symgrad.graph.ops.subgraph import (
    Arrived,
    Differentiate,
    check_operands,
    graph_of,
    is_zero,
)
from symgrad.graph.reference import evaluate
from symgrad.graph.structures import Call
from symgrad.graph.traverse import topological
from symgrad.graph.types import Array, NestedGraph, TensorType, is_unbounded
from symgrad.records import dataclass

Found = Sequence[Tensor | None]
# From the operands of a function, its results and the further operands, to what is derived.
Derive = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Found]


def is_costly(node: Node) -> bool:
    """Return whether it is better to keep what `node` gives than to compute it again."""
    definition = node.definition
    if definition.is_always_recomputed:
        return False
    return not definition.is_fusible or flops_of_map(node) > CHEAP_FLOPS


def call(callee: Graph, operands: Sequence[Tensor]) -> Node:
    """Make the node that runs `callee` on `operands`."""
    return apply_node(call_op, tuple(operands), {"callee": callee})


def callee_of(node: Node) -> Graph:
    """Return the graph that a call runs."""
    callee = node.attrs["callee"]
    assert isinstance(callee, Graph), f"{node!r} calls nothing"
    return callee


def with_intermediates(graph: Graph) -> Graph:
    """Return `graph` with what is costly in it appended to its outputs, once each.

    What the functions it calls have kept is among that, as long as it is not too much: there is
    twice as much of it with each level of functions that call another twice. Calls whose results
    are left out are made again by the gradient.
    """
    given = set(graph.outputs)
    more: list[Tensor] = []
    for node in graph.nodes:
        costly = node.outputs if is_costly(node) else ()
        new = [t for t in costly if t not in given and not is_unbounded(t.type)]
        if node.definition is not call_op or len(more) + len(new) <= MOST_KEPT:
            more += new
    if not more:
        return graph
    return Graph([*graph.outputs, *more], graph.inputs, name=graph.name, region=graph.region)


def _call_infer(*operands: TensorType, callee: NestedGraph) -> tuple[TensorType, ...]:
    graph = graph_of(callee)
    check_operands("call", graph, operands)
    return tuple(t.type for t in graph.outputs)


def _call_reference(*operands: Array, callee: NestedGraph) -> tuple[Array, ...]:
    results, _ = evaluate(graph_of(callee), operands)
    return tuple(results)


def _call_grad(
    node: Node,
    *gs: Tensor | None,
    callee: NestedGraph,
    differentiate: Differentiate,
    wanted: Sequence[bool],
    arrived: Arrived,
) -> Grads:
    has_seed = [g is not None and not _stands_for_none(node, g) for g in gs]
    seeds, conditions = _split_seeds(graph_of(callee), gs, has_seed)
    has_mask = [condition is not None for condition in conditions]

    def derive(xs: Sequence[Tensor], ys: Sequence[Tensor], given: Sequence[Tensor]) -> Found:
        masks = iter(given[len(seeds) :])
        masked_seeds = [
            masked(seed, next(masks) if has else None)
            for seed, has in zip(given, has_mask, strict=False)
        ]
        seeded = [y for y, is_seeded in zip(ys, has_seed, strict=True) if is_seeded]
        asked = [x for x, is_asked in zip(xs, wanted, strict=True) if is_asked]
        found = iter(differentiate(seeded, asked, masked_seeds))
        split = [_split_result(next(found) if is_asked else None) for is_asked in wanted]
        return [*(g for g, _ in split), *(condition for _, condition in split)]

    key = ("gradient", tuple(has_seed), tuple(has_mask), tuple(wanted))
    further = [*seeds, *(c for c in conditions if c is not None)]
    found = call_derived(node, "grad", key, further, derive)
    of_inputs, masks = found[: len(node.inputs)], found[len(node.inputs) :]
    return tuple(map(_joined_result, node.inputs, of_inputs, masks))


def _split_result(g: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return what a derived function gives of a gradient: it, and its mask as a condition.

    A condition alone, which nobody reads, says that the gradient is zeros that stand for none.
    """
    return (None, uniform_mask(g, False)) if g is not None and is_zero(g) else split_mask(g)


def _joined_result(x: Tensor, g: Tensor | None, condition: Tensor | None) -> Tensor | None:
    """Return the gradient of `x` that `_split_result` took apart."""
    if g is None:
        return None if condition is None else filled_like(x, 0)
    return masked(g, condition)


def _split_seeds(
    graph: Graph, gs: Sequence[Tensor | None], has_seed: Sequence[bool]
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return the seeds there are, without their masks, and for each its mask as a condition.

    A seed of unknown size is one of the size of its result: a function is derived once.
    """
    seeds: list[Tensor] = []
    conditions: list[Tensor | None] = []
    for g, y, is_seeded in zip(gs, graph.outputs, has_seed, strict=True):
        seed, condition = split_mask(g)
        if is_seeded and seed is not None:
            # Zeros that arrived for want of a gradient must not be multiplied by what is infinite.
            condition = uniform_mask(seed, False) if is_zero(seed) else condition
            seeds.append(match_shape(seed, y.shape))
            conditions.append(None if condition is None else match_shape(condition, y.shape))
    return seeds, conditions


def _stands_for_none(node: Node, g: Tensor) -> bool:
    """Return whether `g` was filled in for a result of `node` that no gradient arrived at."""
    return g.node.origin is node and is_zero(g)


def _call_kernel(*_operands: TensorType, callee: NestedGraph) -> Call:
    return Call(callee)


call_op = define(
    "call",
    infer=_call_infer,
    reference=_call_reference,
    grad=_call_grad,
    kernel=_call_kernel,
    of_pairs="rule",
)


# ------------------------------------------------------------------------- derived functions


@dataclass(frozen=True, slots=True, eq=False)
class _Derived:
    """A function made of another one, for all its calls.

    `operands` are positions among the operands of a call, the further operands, the results of
    the call and `captures`; `results` says which of what was derived exists.
    """

    graph: Graph
    operands: tuple[int, ...]
    captures: tuple[Tensor, ...]
    results: tuple[bool, ...]

    def call(self, node: Node, further: Sequence[Tensor]) -> list[Tensor | None]:
        """Call it where `node`, a call of the other one, is."""
        if not any(self.results):
            return [None] * len(self.results)
        known = [*node.inputs, *further, *node.outputs, *self.captures]
        results = iter(call(self.graph, [known[i] for i in self.operands]).outputs)
        return [next(results) if exists else None for exists in self.results]


def call_derived(
    node: Node, suffix: str, key: Hashable, further: Sequence[Tensor], derive: Derive
) -> list[Tensor | None]:
    """Call what `derive` makes of the function that `node` calls; it is made once for each `key`.

    `further` are operands beside those of `node`. What `derive` reads of the function is computed
    again, or read from the results of `node` where it is costly.
    """
    callee = callee_of(node)
    full_key = (suffix, key, tuple(sorted(gradient_keys_in_force().items())))
    found = callee.derived.get(full_key)
    if found is None:
        types = [t.type for t in further]
        found = _derived(callee, f"{callee.name}_{suffix}", types, derive)
        # A gradient of the user's may use tensors of the place where it was asked for.
        if not found.captures:
            callee.derived[full_key] = found
    assert isinstance(found, _Derived), f"{full_key} of {callee.name} is something else"
    return found.call(node, further)


def _derived(callee: Graph, name: str, further: Sequence[TensorType], derive: Derive) -> _Derived:
    width = len(callee.inputs)
    traced = Traced(name, [*(t.type for t in callee.inputs), *further])
    with traced.open():
        xs = traced.params[:width]
        ys = inline(callee, xs)
        found = derive(xs, ys, traced.params[width:])
        present = [t for t in found if t is not None]
        kept = [
            copy if is_costly(y.node) else None for y, copy in zip(callee.outputs, ys, strict=True)
        ]
        present, read = _read_instead(present, kept)
    traced.give(present)
    captures = traced.captures
    candidates = [*traced.params, *(None if t is None else read.get(t) for t in kept)]
    candidates += [traced.region.captures[t] for t in captures]
    nodes = topological(traced.outputs)
    used = {n.output for n in nodes if n.definition is placeholder_op}
    positions = [i for i, t in enumerate(candidates) if t is not None and t in used]
    positions = _without_repeats(candidates, positions)
    graph = Graph(
        traced.outputs,
        [t for i in positions if (t := candidates[i]) is not None],
        name=name,
        region=traced.region,
    )
    is_there = tuple(t is not None for t in found)
    return _Derived(with_intermediates(graph), tuple(positions), tuple(captures), is_there)


def _without_repeats(candidates: Sequence[Tensor | None], positions: Sequence[int]) -> list[int]:
    """Return the first position of each tensor: one may be several results of a function."""
    first: dict[Tensor | None, int] = {}
    for i in positions:
        first.setdefault(candidates[i], i)
    return list(first.values())


def _read_instead(
    results: Sequence[Tensor], kept: Found
) -> tuple[list[Tensor], dict[Tensor, Tensor]]:
    """Return `results` computed from placeholders for those tensors of `kept` that they read."""
    ends = {t for t in kept if t is not None}
    order = topological(results, ends)
    reached = dict.fromkeys(t for t in (*results, *(t for n in order for t in n.inputs)))
    read = {t: apply(placeholder_op, dtype=t.dtype, shape=t.shape) for t in reached if t in ends}
    mapping = dict(read)
    for node in order:
        inputs = tuple(mapping.get(t, t) for t in node.inputs)
        is_same = are_same(inputs, node.inputs)
        new = node if is_same else rebuild(node, inputs)
        pairs = zip(node.outputs, new.outputs, strict=True)
        mapping.update((old, copy) for old, copy in pairs if old not in read)
    return [mapping[t] for t in results], read
