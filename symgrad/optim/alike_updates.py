"""Trace replay: a formula is built for one variable, and copied for others like it.

A rule moves a thousand variables by one formula, of which only the sizes differ. To build it goes
through operators, promotion, broadcasting and inference for each of its ops; a copy has the same
ops and dtypes, and of each shape that of its variable. So it is for formulas that are elementwise,
and for rules of ours, which do not ask how large a variable is: what they build is found to be
elementwise here, or is built for each variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from symgrad.graph.build import current_region
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Update
from symgrad.graph.inference import interned_type
from symgrad.graph.leaf import Variable, placeholder_op, variable_node
from symgrad.graph.node import Attrs, Node, Tensor, make_node
from symgrad.graph.ops.structure import broadcast_to_op
from symgrad.graph.source_lines import line_of
from symgrad.graph.traverse import topological
from symgrad.graph.types import Shape, TensorType
from symgrad.optim.optimizer import Pair
from symgrad.optim.slots import Asked, Slots
from symgrad.records import dataclass

BuildUpdates = Callable[[Tensor, Variable], list[Update]]

MIN_ALIKE = 4  # variables: a formula for fewer is built sooner than it is taken apart


def build_alike(pairs: Sequence[Pair], slots: Slots, build: BuildUpdates) -> list[Update]:
    """Return what `build` gives for each pair of a gradient and a variable, in their order."""
    if current_region() is not None:  # what is around it is captured, and no operand itself
        return [update for g, w in pairs for update in build(g, w)]
    counts = Counter(_kind(g, w) for g, w in pairs)
    templates: dict[Hashable, _Template | None] = {}
    updates = []
    for g, w in pairs:
        kind = _kind(g, w)
        if counts[kind] >= MIN_ALIKE and kind not in templates:
            templates[kind] = _taken_apart(g, w, slots, build)
        template = templates.get(kind)
        updates += build(g, w) if template is None else template.updates_of(g, w, slots)
    return updates


def _kind(g: Tensor, w: Variable) -> Hashable:
    """Return what variables of one formula have in common."""
    return g.dtype, w.dtype, w.type.shape == (), w.state.sharding is None


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    """The formula for one variable.

    `given` are its gradient, the variable and its slots, of the kinds and with the starts in
    `asked`; `nodes` depend on these, or have their shape; `values` are the new ones of `targets`,
    which are places among what is given. Numbers in the shape of a variable are one node for all of
    that shape, in `spread`.
    """

    given: Sequence[Tensor]
    asked: Sequence[Asked]
    nodes: Sequence[Node]
    targets: Sequence[int]
    values: Sequence[Tensor]
    spread: dict[tuple[Node, Shape], Tensor]

    def updates_of(self, g: Tensor, w: Variable, slots: Slots) -> list[Update]:
        variables = [w, *(slots.of(w, kind, start) for kind, start in self.asked)]
        made: dict[Tensor, Tensor] = dict(zip(self.given, (g, *variables), strict=True))
        shape = w.type.shape
        types: dict[DType, TensorType] = {}
        for node in self.nodes:
            (like,) = node.outputs
            if node.definition is not broadcast_to_op:
                made[like] = _copied(node, made, _typed(like.type.dtype, shape, types))
                continue
            if (node, shape) not in self.spread:
                type_ = _typed(like.type.dtype, shape, types)
                self.spread[node, shape] = _copied(node, made, type_, {"shape": shape})
            made[like] = self.spread[node, shape]
        values = [made.get(value, value) for value in self.values]
        return [
            Update(variables[target], value)
            for target, value in zip(self.targets, values, strict=True)
        ]


def _typed(dtype: DType, shape: Shape, types: dict[DType, TensorType]) -> TensorType:
    if dtype not in types:
        types[dtype] = interned_type(TensorType(dtype, shape))
    return types[dtype]


def _copied(
    node: Node, made: dict[Tensor, Tensor], type_: TensorType, attrs: dict[str, Shape] | None = None
) -> Tensor:
    """Return the result of the op of `node` on what was made for its operands."""
    return make_node(
        node.definition,
        tuple([made.get(t, t) for t in node.inputs]),
        node.attrs if attrs is None else attrs,
        (type_,),
        source=None if node.source is None else line_of(node.source.scope),
        origin=node.origin,
        gradient_key=node.gradient_key,
    ).outputs[0]


def _taken_apart(g: Tensor, w: Variable, slots: Slots, build: BuildUpdates) -> _Template | None:
    """Return the formula that `build` makes, None if a copy of it might not be what it makes."""
    # Tensors that nothing else is: the gradient may be a number that the formula has as well, and
    # a learning rate may be made of the variable.
    placeholder: Attrs = {"dtype": g.dtype, "shape": g.shape}
    stand_in = make_node(placeholder_op, (), placeholder, (g.type,)).outputs[0]
    w = variable_node(w.state, w.node.name)
    with slots.noted() as noted:
        updates = build(stand_in, w)
    asked = [*noted.values()]
    variables = [w, *(slots.of(w, kind, start) for kind, start in asked)]
    given = [stand_in, *variables]
    nodes = _nodes_of(updates, given, w.type.shape)
    if nodes is None:
        return None
    places = {variable: place for place, variable in enumerate(variables)}
    targets = [places[u.variable] for u in updates]
    return _Template(given, asked, nodes, targets, [u.value for u in updates], {})


def _nodes_of(
    updates: Sequence[Update], given: Sequence[Tensor], shape: Shape
) -> list[Node] | None:
    """Return the nodes that are others for another variable, None if they are not elementwise."""
    own = set(given)
    nodes = []
    for node in topological([u.value for u in updates], given):
        if not any(t in own for t in node.inputs):
            is_spread = node.definition is broadcast_to_op and not node.inputs[0].type.shape
            if all(not t.type.shape for t in node.outputs):
                continue  # a scalar, the same for all
            if not is_spread or node.outputs[0].type.shape != shape:
                return None
        elif not _is_plain_map(node):
            return None
        own.update(node.outputs)
        nodes.append(node)
    return nodes


def _is_plain_map(node: Node) -> bool:
    is_about_shapes = any(isinstance(attr, tuple) for attr in node.attrs.values())
    return node.definition.is_elementwise and node.name is None and not is_about_shapes
