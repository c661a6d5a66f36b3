"""Constant folding: compute now what depends on constants only.

Before:

    %0 = constant {value = [1.0, 2.0]} : f32[2]
    %1 = exp %0 : f32[2]
    %2 = multiply %x, %1 : f32[2]

After:

    %0 = constant {value = [2.7182817, 7.389056]} : f32[2]
    %1 = multiply %x, %0 : f32[2]

The reference computes, so a folded function is as accurate as NumPy's. A program never becomes
bigger: what only repeats or moves elements is left to the kernels that use it, unless it is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from symgrad.cost_model import MAX_FOLDED, SMALL_CONSTANT
from symgrad.errors import SymgradError
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph, transform
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Node, Tensor, make_node
from symgrad.graph.structures import traits_of
from symgrad.graph.types import Array, ArrayLiteral
from symgrad.passes.rewrites.rewrite import Rewrites, with_inputs


def fold_constants(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with constants in the place of nodes whose operands are known."""
    known = _KnownValues()

    def fold(node: Node, inputs: tuple[Tensor, ...]) -> Node:
        new = with_inputs(node, inputs)
        if not known.has_all(new.inputs) or not _may_be_computed(new):
            return new
        is_worth_it = _is_worth_it(new)
        if not is_worth_it and new.definition.traits.only_moves:
            known.add_view(new)
            return new
        value = _computed(new, [known.of(t) for t in new.inputs])
        if value is None:
            return new
        if is_worth_it and rewrites.allow("fold-constants", node):
            new = _constant_like(new, value)
        known.add(new.output, value)
        return new

    return transform(graph, fold)


class _KnownValues:
    """What tensors hold that depend on constants only; of a view that stays, if it is asked for."""

    def __init__(self) -> None:
        self._values: dict[Tensor, Array] = {}
        self._views: dict[Tensor, Node] = {}

    def has_all(self, tensors: Iterable[Tensor]) -> bool:
        for tensor in tensors:  # most nodes have an operand that is not known, the first one
            if tensor not in self._values and tensor not in self._views:
                return False
        return True

    def add(self, tensor: Tensor, value: Array) -> None:
        self._values[tensor] = value

    def add_view(self, node: Node) -> None:
        """Note a view of what is known."""
        self.of(node.inputs[0])  # so that no view waits for another one
        self._views[node.output] = node

    def of(self, tensor: Tensor) -> Array:
        if tensor not in self._values:
            view = self._views[tensor]
            value = _computed(view, [self._values[t] for t in view.inputs])
            assert value is not None, f"{view!r} only moves elements"
            self._values[tensor] = value
        return self._values[tensor]


def _may_be_computed(node: Node) -> bool:
    """Return whether what `node` gives, whose operands are known, is to be known."""
    if node.definition.is_leaf:
        return node.definition is constant_op
    if node.definition.reference is None or len(node.outputs) != 1:
        return False
    if not node.output.type.is_static:
        return False
    if node.definition.calls_outside or graphs_of(node):
        return False  # what may run for long, or for ever, or do more than compute
    sizes = [t.type.count for t in node.inputs]
    return node.output.type.count <= max(SMALL_CONSTANT, *sizes, 0) and sum(sizes) <= MAX_FOLDED


def _computed(node: Node, operands: Sequence[Array]) -> Array | None:
    """Return what `node` computes of `operands`, None if that is an error."""
    literal = node.attrs.get("value")
    if node.definition is constant_op and isinstance(literal, ArrayLiteral):
        return literal.array
    reference = node.definition.reference
    assert reference is not None, f"{node!r} computes something"
    try:
        with np.errstate(all="ignore"):
            return np.asarray(reference(*operands, **node.attrs))
    except SymgradError:
        return None  # an index out of range: an error of the run that meets it


def _is_worth_it(node: Node) -> bool:
    """Return whether a constant is better than `node`, whose value is known."""
    if node.definition.kernel is None:
        return False
    spec = node.definition.kernel(*(t.type for t in node.inputs), **node.attrs)
    constants = [t.type.count for t in node.inputs if t.node.definition is constant_op]
    if traits_of(spec).is_free:
        return node.output.type.count <= min(SMALL_CONSTANT, max(constants, default=0))
    return node.output.type.count <= max(SMALL_CONSTANT, *constants, 0)


def _constant_like(node: Node, value: Array) -> Node:
    literal = ArrayLiteral(value)
    assert literal.type == node.output.type, f"{node!r}: the reference gives {literal.type}"
    return make_node(
        constant_op,
        (),
        {"value": literal},
        (literal.type,),
        name=node.name,
        source=node.source,
        origin=node,
        region=node.region,
    )
