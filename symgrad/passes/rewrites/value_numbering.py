"""Global value numbering (GVN): nodes of equal op, attributes and operands compute the same.

Nothing is rewritten here. `rewrites/cse.py` puts one node in the place of those that are equal;
`gradients/reverse_mode.py` differentiates only the first of them, so that a gradient is as large as
the merged graph and not as the one that was written down.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from symgrad.graph.effects import order_of
from symgrad.graph.gradient_registry import is_registered
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import attr_key


def value_key(node: Node, operands: list[int]) -> Hashable:
    """Return the key that equal nodes share, and no others; `operands` are their value numbers.

    Placeholders are never equal: each is an argument of its own.
    """
    if is_commutative(node):
        operands.sort()
    attrs = node.attrs
    names = sorted(attrs) if len(attrs) > 1 else attrs
    named = tuple([(name, attr_key(attrs[name])) for name in names]) if attrs else ()
    return node.definition.name, tuple(operands), named


def is_commutative(node: Node) -> bool:
    """Return whether the operands of `node` may be exchanged without changing a bit."""
    commutes = node.definition.commutes
    if commutes != "but zeros":
        return commutes == "yes"
    return not any([t.type.dtype.is_float for t in node.inputs])  # else there are two zeros


def find_twins(order: Sequence[Node], distinct: Collection[Tensor]) -> Mapping[Tensor, Tensor]:
    """Return for each redundant tensor of `order` the first one that is equal to it.

    Nodes of the tensors in `distinct` have no equals, and neither have those with a gradient that
    a user registered: it is called for every node; nor have impure calls.
    """
    alone = {t.node for t in distinct}
    first: dict[Hashable, Node] = {}
    twin_of: dict[Tensor, Tensor] = {}
    number: dict[Tensor, int] = {}
    for node in order:
        if node in alone or node.definition is placeholder_op or is_registered(node.gradient_key):
            continue
        if order_of(node) is not None:
            continue
        operands = [number.setdefault(twin_of.get(t, t), len(number)) for t in node.inputs]
        key = value_key(node, operands), node.gradient_key, node.region
        found = first.setdefault(key, node)
        if found is not node:
            twin_of.update(zip(node.outputs, found.outputs, strict=True))
    return twin_of
