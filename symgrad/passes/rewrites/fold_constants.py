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

from collections.abc import Mapping

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
    values: dict[Tensor, Array] = {}

    def fold(node: Node, inputs: tuple[Tensor, ...]) -> Node:
        new = with_inputs(node, inputs)
        value = _value(new, values)
        if value is None:
            return new
        if _is_worth_it(new) and rewrites.allow("fold-constants", node):
            new = _constant_like(new, value)
        values[new.output] = value
        return new

    return transform(graph, fold)


def _value(node: Node, values: Mapping[Tensor, Array]) -> Array | None:
    """Return what `node` computes, None if that is not known or not to be known."""
    if not all([t in values for t in node.inputs]):
        return None
    literal = node.attrs.get("value")
    if node.definition is constant_op and isinstance(literal, ArrayLiteral):
        return literal.array
    reference = node.definition.reference
    if reference is None or node.definition.is_leaf or len(node.outputs) != 1:
        return None
    operands = [values[t] for t in node.inputs]
    if not node.output.type.is_static:
        return None
    if graphs_of(node) or node.definition.calls_outside:
        return None  # what may run for long, or for ever, or do more than compute
    sizes = [x.size for x in operands]
    if node.output.type.count > max(SMALL_CONSTANT, *sizes, 0) or sum(sizes) > MAX_FOLDED:
        return None
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
