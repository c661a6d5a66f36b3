"""Side effects: which nodes call impure functions of C, and in which order these calls are made.

Such a call has a number, given when it was built: calls are made in the order of their numbers, as
far as operands allow it. A branch or a loop has the number of the last call in it, since what it
runs is built before it.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Sequence

from symgrad.graph.build import with_attrs
from symgrad.graph.compare import graphs_of, nesting_nodes
from symgrad.graph.graph import Graph, transform
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Extern
from symgrad.graph.types import Attr

_numbers = itertools.count()


def next_order() -> int:
    """Return the number of a call that is built now."""
    return next(_numbers)


def order_of(node: Node) -> int | None:
    """Return the number of an impure call, or of the last one in what `node` runs; None without."""
    if node.definition.structure is Extern:
        order = node.attrs["order"]
        return order if isinstance(order, int) else None
    nested = graphs_of(node) if node.attrs else None
    if not nested:
        return None
    found = [order for _, graph in nested if (order := _last_order(graph)) is not None]
    return max(found, default=None)


def _last_order(graph: Graph) -> int | None:
    if order_of not in graph.derived:  # found once: a function may be called in very many ways
        calls = [node for node in graph.nodes if node.definition.structure is Extern]
        given = map(order_of, (*calls, *nesting_nodes(graph)))
        found = [order for order in given if order is not None]
        graph.derived[order_of] = max(found, default=None)
    order = graph.derived[order_of]
    return order if isinstance(order, int) else None


def has_effects(graph: Graph) -> bool:
    """Return whether `graph` makes an impure call, at any depth."""
    return _last_order(graph) is not None


def in_effect_order(graph: Graph) -> Sequence[Node]:
    """Return the nodes of `graph` in an order in which impure calls come by their numbers.

    That is list scheduling: a call is made when all that can be computed without it has been.
    """
    if not has_effects(graph):
        return graph.nodes
    users: dict[Node, list[Node]] = {}
    waiting: Counter[Node] = Counter()
    for node in graph.nodes:
        for below in {t.node for t in node.inputs}:
            users.setdefault(below, []).append(node)
            waiting[node] += 1
    position = {node: i for i, node in enumerate(graph.nodes)}
    by_position = graph.nodes
    ready = [(_rank(node), position[node]) for node in graph.nodes if not waiting[node]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = by_position[heapq.heappop(ready)[1]]
        order.append(node)
        for user in users.get(node, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (_rank(user), position[user]))
    return order


def _rank(node: Node) -> int:
    order = order_of(node)
    return -1 if order is None else order


def renumbered(graph: Graph) -> Graph:
    """Return `graph` with new numbers for its impure calls, in their order: it is built again."""
    if not has_effects(graph):
        return graph
    found = sorted(set(_orders_in(graph)))
    return _with_orders(graph, {old: next_order() for old in found})


def _orders_in(graph: Graph) -> list[int]:
    found = []
    for node in graph.nodes:
        order = order_of(node)
        if order is not None:
            nested = [n for _, inner in graphs_of(node) for n in _orders_in(inner)]
            found += nested or [order]
    return found


def _with_orders(graph: Graph, new: dict[int, int]) -> Graph:
    def replace(node: Node, inputs: tuple[Tensor, ...]) -> Node | None:
        if order_of(node) is None:
            return None
        attrs: dict[str, Attr] = {k: _renumbered_attr(v, new) for k, v in node.attrs.items()}
        order = node.attrs.get("order")
        if node.definition.structure is Extern and isinstance(order, int):
            attrs["order"] = new[order]
        return with_attrs(node, inputs, attrs)

    return transform(graph, replace)


def _renumbered_attr(attr: Attr, new: dict[int, int]) -> Attr:
    if isinstance(attr, tuple) and attr and all(isinstance(part, Graph) for part in attr):
        return tuple(_renumbered_attr(part, new) for part in attr)
    if isinstance(attr, Graph) and has_effects(attr):
        return _with_orders(attr, new)
    return attr
