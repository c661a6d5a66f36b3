"""Effect threading: impure calls hand a token on, so that data says in which order they are made.

Before, where two calls have nothing to do with each other:

    %0 = extern %x {function = extern "f", order = 4, ...} : f32[8]
    %1 = extern %y {function = extern "f", order = 3, ...} : f32[8]
    return %0, %1

After:

    %effects = variable {name = "effects", trainable = false} : u8[0]
    %0, %1 = extern %y, %effects {function = extern "f", is_threaded = true, order = 0, ...}
        : f32[8], u8[0]
    %2, %3 = extern %x, %1 {function = extern "f", is_threaded = true, order = 1, ...}
        : f32[8], u8[0]
    update %effects = %3
    return %2, %0

A token has no elements. The last one is the new value of a variable of no elements, which stands
for the world: so what updates it is never dead, and no pass has to know of effects. A branch takes
the token and gives it, and to a loop it is a loop variable. Numbers count from 0 in each graph, as
digests do not depend on what was built before.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.build import with_attrs
from symgrad.graph.effects import has_effects, in_effect_order, order_of
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import Variable, placeholder_op, variable_op
from symgrad.graph.loop_view import LOOPS, LoopView
from symgrad.graph.node import Node, Tensor, make_node
from symgrad.graph.ops.extern import TOKEN
from symgrad.graph.structures import Extern
from symgrad.graph.types import Attr, State
from symgrad.passes.loops.extend_loop import region_of_body

# All programs have it: no two of them run at one moment.
EFFECTS = State.zeros(TOKEN, name="effects", trainable=False)


def thread_effects(graph: Graph) -> Graph:
    """Return `graph` with a token that goes through its impure calls, in their order."""
    if not has_effects(graph):
        return graph
    return _Threading().program(graph)


class _Threading:
    """What has been made of the nested graphs so far: a graph of several nodes stays one."""

    def __init__(self) -> None:
        self._made: dict[tuple[Graph, int, int | None], Graph] = {}

    def program(self, graph: Graph) -> Graph:
        node = make_node(
            variable_op, (), {"state": EFFECTS}, (TOKEN,), name="effects", tensor_class=Variable
        )
        first = node.output
        assert isinstance(first, Variable), "a state is read by a variable"
        mapping, last = self._threaded(graph, first)
        whole = graph.with_roots(mapping)
        updates = (*whole.updates, Update(first, last))
        return Graph(whole.outputs, whole.inputs, updates, name=graph.name)

    def _threaded(self, graph: Graph, token: Tensor) -> tuple[dict[Tensor, Tensor], Tensor]:
        """Return what stands for each tensor of `graph`, and the last token."""
        mapping: dict[Tensor, Tensor] = {}
        number = 0
        for node in in_effect_order(graph):
            inputs = tuple(mapping[t] for t in node.inputs)
            if order_of(node) is None:
                is_same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
                new = node if is_same else with_attrs(node, inputs, node.attrs)
                mapping.update(zip(node.outputs, new.outputs, strict=True))
                continue
            if node.definition.structure is Extern:
                attrs = {**node.attrs, "order": number, "is_threaded": True}
                new = with_attrs(node, (*inputs, token), attrs)
                number += 1
                place = len(node.outputs)
            elif node.definition in LOOPS:
                new, place = self._loop(node, inputs, token)
            else:
                attrs = {key: self._behind(attr) for key, attr in node.attrs.items()}
                new, place = with_attrs(node, (*inputs, token), attrs), len(node.outputs)
            token = new.outputs[place]
            rest = (*new.outputs[:place], *new.outputs[place + 1 :])
            mapping.update(zip(node.outputs, rest, strict=True))
        return mapping, token

    def _loop(self, node: Node, inputs: Sequence[Tensor], token: Tensor) -> tuple[Node, int]:
        """Give a loop one more loop variable, behind the others: return where its result is."""
        view = LoopView(node)
        place = len(inputs) - len(view.operands) + view.carried
        attrs: dict[str, Attr] = {**node.attrs, "carried": view.carried + 1}
        attrs["body"] = self._nested(view.body, view.carried, view.carried)
        if view.condition is not None:
            attrs["condition"] = self._nested(view.condition, view.carried, None)
        new = with_attrs(node, (*inputs[:place], token, *inputs[place:]), attrs)
        return new, view.first_stack

    def _behind(self, attr: Attr) -> Attr:
        """Return an attribute with graphs that take a token behind all else, and give it so."""
        if isinstance(attr, tuple) and attr and all(isinstance(part, Graph) for part in attr):
            return tuple(map(self._behind, attr))
        if not isinstance(attr, Graph):
            return attr
        return self._nested(attr, len(attr.inputs), len(attr.outputs))

    def _nested(self, graph: Graph, place: int, result: int | None) -> Graph:
        """Return `graph` with a token as the input at `place`, and as the output at `result`.

        A condition gives none: a loop goes on with the token of its body.
        """
        key = graph, place, result
        if key not in self._made:
            region = region_of_body(graph)
            attrs: dict[str, Attr] = {"dtype": TOKEN.dtype, "shape": TOKEN.shape}
            first = make_node(placeholder_op, (), attrs, (TOKEN,), region=region).output
            mapping, last = self._threaded(graph, first)
            inputs = [mapping.get(t, t) for t in graph.inputs]
            outputs = [mapping[t] for t in graph.outputs]
            if result is not None:
                outputs.insert(result, last)
            inputs.insert(place, first)
            self._made[key] = Graph(outputs, inputs, name=graph.name, region=region)
        return self._made[key]
