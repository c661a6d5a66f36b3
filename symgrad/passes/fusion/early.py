"""Saved activations in fusion: what a gradient makes of several arrays is made where these are.

Before, the kernel of a product leaves `%z` and `%t` in memory, of which a later one makes a slope:

    group 0 (%x, %w) { %z = matmul %x, %w; %t = tanh %z; %y = multiply %z, %t } -> %z, %t, %y
    group 1 (%z, %t, %g) { %s = ... %z, %t; %1 = multiply %g, %s } -> %1

After, the first kernel makes the slope, which is all that is kept for the second:

    group 0 (%x, %w) { %z = matmul %x, %w; %t = tanh %z; ...; %s = ... %z, %t } -> %s, %y
    group 1 (%s, %g) { %1 = multiply %g, %s } -> %1

And what a concat takes, made element by element of a product, is an epilogue of that, which writes
it where it belongs: the concat would read the product and write it again.

As `recompute.py`, this looks at a first draft of a partition, and has a say in the second.
"""

from __future__ import annotations

from collections import Counter

from symgrad.cost_model import FEW_OF_MANY, MAX_NODES
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract, Place, View
from symgrad.passes.fusion.draft import Draft, Drafts
from symgrad.passes.fusion.placing import keeps_rows
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Early:
    """A tensor that had better be made by the group that computes what it is made of."""

    tensor: Tensor
    beside: Tensor


def less_if_early(drafts: Drafts) -> list[Early]:
    """Return what groups make of arrays that others leave in memory for nothing else.

    It takes less memory than these.
    """
    found = []
    for draft in drafts.all:
        if draft.merged_into is not None or len(draft.nodes) == 1:
            continue
        for producer, arrays in _kept_for(drafts, draft):
            tensor = _made_of(drafts, draft, producer, arrays)
            found += [] if tensor is None else [Early(tensor, arrays[0])]
    return found


def placed_if_early(drafts: Drafts) -> list[Early]:
    """Return what a Place takes that is made of a product which nothing else reads."""
    found = []
    for draft in drafts.all:
        anchor = draft.anchor
        if draft.merged_into is not None or anchor is None:
            continue
        spec = drafts.specs[anchor]
        if not isinstance(spec, Place):
            continue
        for number, piece in enumerate(anchor.inputs):
            if piece.node in draft.nodes and keeps_rows(piece, anchor, spec, number):
                product = _product_of(drafts, draft, piece)
                found += [] if product is None else [Early(piece, product)]
    return found


def is_made_beside(drafts: Drafts, early: Early) -> bool:
    """Return whether both tensors of `early` are computed by one group."""
    homes = [drafts.home.get(t.node) for t in (early.tensor, early.beside)]
    first, second = (None if home is None else home.final() for home in homes)
    return first is not None and (first is second or early.beside.node in first.nodes)


def _kept_for(drafts: Drafts, draft: Draft) -> list[tuple[Draft, list[Tensor]]]:
    """Return groups that compute several arrays which are kept for `draft` alone, with these.

    They are around a product or a fold. Elementwise ones are cut where that is best for both sides.
    """
    found: dict[int, tuple[Draft, list[Tensor]]] = {}
    for tensor in drafts.read_from_memory(draft):
        home = drafts.home.get(tensor.node)
        if home is None or tensor in drafts.roots:
            continue
        producer = home.final()
        if producer.anchor is None or producer is draft:
            continue
        readers = {id(reader.final()) for reader in drafts.wanted[tensor].values()}
        if readers <= {id(producer), id(draft)}:
            found.setdefault(id(producer), (producer, []))[1].append(tensor)
    return [(producer, arrays) for producer, arrays in found.values() if len(arrays) > 1]


def _made_of(drafts: Drafts, draft: Draft, producer: Draft, arrays: list[Tensor]) -> Tensor | None:
    """Return the last that `draft` makes element by element of some of `arrays`, in less memory."""
    there = set(producer.nodes)
    there.update(t.node for t in drafts.read_from_memory(producer))
    for node in reversed(drafts.in_order(draft.nodes)):
        if node in draft.results or node is draft.anchor:
            continue
        cone = _cone(drafts, draft, node, there)
        if cone is None or len(producer.nodes) + len(cone) > MAX_NODES:
            continue
        others = draft.nodes - cone
        read_by_others = {t for other in others for t in other.inputs}
        read = {t for inner in cone for t in inner.inputs}
        spared = [t for t in arrays if t in read and t not in read_by_others]
        if len(spared) > 1 and sum(t.type.nbytes for t in spared) > node.output.type.nbytes:
            return node.output
    return None


def _cone(drafts: Drafts, draft: Draft, last: Node, there: set[Node]) -> set[Node] | None:
    """Return the nodes of `draft` that `last` needs, None if they need more than what is `there`.

    All are element by element, or repeat something small.
    """
    cone, pending = {last}, [last]
    while pending:
        node = pending.pop()
        if not _is_one_to_one(drafts, node):
            return None
        operands = {t.node for t in node.inputs}
        outer = operands - draft.nodes - there
        if any(drafts.traits(other).home != "memory" for other in outer):
            return None
        inner = (operands & draft.nodes) - cone
        cone |= inner
        pending += inner
    return cone


def _within(drafts: Drafts, draft: Draft, last: Node) -> set[Node] | None:
    """Return the nodes of `draft` that `last` needs, None if not all are element by element."""
    cone, pending = {last}, [last]
    while pending:
        node = pending.pop()
        if not _is_one_to_one(drafts, node):
            return None
        inner = {t.node for t in node.inputs} & draft.nodes - cone
        cone |= inner
        pending += inner
    return cone


def _product_of(drafts: Drafts, draft: Draft, piece: Tensor) -> Tensor | None:
    """Return the product that `draft` makes `piece` of, both of which nothing else there reads."""
    cone = _within(drafts, draft, piece.node)
    if cone is None or len(cone) >= MAX_NODES:
        return None
    others = Counter(id(t) for node in draft.nodes - cone for t in node.inputs)
    if others[id(piece)] != 1:
        return None
    read = dict.fromkeys(t for node in drafts.in_order(cone) for t in node.inputs)
    for tensor in read:
        is_product = isinstance(drafts.specs[tensor.node], Contract)
        if not is_product or tensor.shape != piece.shape or id(tensor) in others:
            continue
        readers = {id(reader.final()) for reader in drafts.wanted[tensor].values()}
        if readers == {id(draft)} and tensor not in drafts.roots:
            return tensor
    return None


def _is_one_to_one(drafts: Drafts, node: Node) -> bool:
    if len(node.outputs) != 1:
        return False
    if isinstance(drafts.specs[node], View):
        return node.inputs[0].type.count * FEW_OF_MANY <= node.output.type.count
    return drafts.traits(node).is_elementwise
