"""Operands of column maps: what is computed of them in the kernel, element by element.

    %1 = multiply %a, %s : f64[1000, 3, 3]
    %2 = reshape %1 {shape = [1000, 9]} : f64[1000, 9]
    %3 = permute_dims %2 {axes = [1, 0]} : f64[9, 1000]
    %4 = inverse_columns %3 {n = 3} : f64[1000, 9]

Elsewhere a reshape that makes one axis of two leaves its operand in memory, since an index would be
divided. Where the new axis is that of columns, whose elements are written out, its index is a
number, and the kernel of `%4` computes `%1`.
"""

from __future__ import annotations

import math

from symgrad.cost_model import MOST_WRITTEN_OUT
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import ColumnMap, Map, Reshape, View
from symgrad.passes.fusion.draft import Draft, Drafts, only_adds_ones


def makes_columns(drafts: Drafts, node: Node) -> bool:
    """Return whether a reshape makes one axis of its last ones, and that is the axis of columns."""
    old, new = node.inputs[0].type.static_shape, node.output.type.static_shape
    kept = len(new) - 1
    if len(old) <= len(new) or kept < 0 or new != (*old[:kept], math.prod(old[kept:])):
        return False
    users = drafts.wanted[node.output].values()
    return all(_is_along_columns(drafts, draft, node.output, kept) for draft in users)


def _is_along_columns(drafts: Drafts, draft: Draft, tensor: Tensor, axis: int) -> bool:
    """Return whether the anchor of `draft` is a column map that runs through `axis` of `tensor`."""
    if draft.anchor is None or not isinstance(drafts.specs[draft.anchor], ColumnMap):
        return False
    pending = [(tensor, axis)]
    while pending:
        tensor, axis = pending.pop()
        for node in (n for n in draft.nodes if any(t is tensor for t in n.inputs)):
            after = 0 if node is draft.anchor else _axis_after(drafts, node, axis)
            if after is None or (node is draft.anchor and axis != 0):
                return False
            if node is not draft.anchor:
                pending.append((node.output, after))
    return True


def _axis_after(drafts: Drafts, node: Node, axis: int) -> int | None:
    """Return the axis of the result of `node` that alone runs through `axis` of its operand."""
    spec = drafts.specs[node]
    if isinstance(spec, Map):
        return axis
    if isinstance(spec, View):
        terms = spec.index[axis].terms
        return terms[0][0] if len(terms) == 1 else None
    old, new = node.inputs[0].type.static_shape, node.output.type.static_shape
    if not isinstance(spec, Reshape) or not only_adds_ones(old, new):
        return None
    before = sum(n != 1 for n in old[:axis])
    longer = [place for place, n in enumerate(new) if n != 1]
    return longer[before] if before < len(longer) else None


def is_long_written_out(drafts: Drafts, node: Node, draft: Draft) -> bool:
    """Return whether a column map that computes `node` as well is much more code."""
    if draft.anchor is None or not isinstance(drafts.specs[draft.anchor], ColumnMap):
        return False
    flops = drafts.flops(node)
    if not flops:
        return False
    length = max(t.type.static_shape[0] for t in draft.anchor.inputs)
    before = sum(drafts.flops(n) for n in draft.nodes if n is not draft.anchor)
    return (before + flops) * length > MOST_WRITTEN_OUT
