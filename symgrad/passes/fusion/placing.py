"""Copy elision: results of a product, fold or scan that a concat, pad or interleave takes.

Before, a kernel copies them to where they belong:

    group 0 (%x, %w) { %0 = matmul %x, %w : f32[64, 32] } -> %0
    group 1 (%0, %y) { %1 = concat %0, %y {axis = 1} : f32[64, 48] } -> %1

After, the kernel that computes %0 writes it there, and group 1 writes the rest of %1 only. That is
done to what nobody else reads, where the elements that lie side by side still fill cache lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from symgrad.cost_model import LEAST_ROW_PLACED
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Place
from symgrad.graph.types import is_unbounded
from symgrad.passes.fusion.draft import Drafts
from symgrad.passes.fusion.partition import FusionGroup, Placed
from symgrad.passes.fusion.windows import fills_around


def placed_results(
    drafts: Drafts,
    groups: Sequence[FusionGroup],
    taken: Collection[Tensor],
    overwriting: Collection[Tensor],
) -> dict[Tensor, Placed]:
    """Return which results of groups are written straight into the result of the Place they go to.

    What is `taken` shares a place with something else already, and in what is `overwriting` there
    is something else before.
    """
    if not any(isinstance(drafts.specs[g.anchor], Place) for g in groups if g.anchor is not None):
        return {}
    homes = {t: group for group in groups for t in group.outputs}
    kept = {*map(drafts.stored, drafts.roots), *taken}
    found: dict[Tensor, Placed] = {}
    for tensor, uses in _readers(drafts, groups).items():
        home = homes[tensor].anchor if tensor in homes else None
        if home is None or not _writes_at_once(drafts, home):
            continue
        if tensor in kept or len(uses) != 1:
            continue
        ((node, number, is_anchor),) = uses
        spec = drafts.specs[node]
        if not isinstance(spec, Place) or not is_anchor or node.inputs[number] is not tensor:
            continue
        if node.output not in overwriting and keeps_rows(tensor, node, spec, number):
            found[tensor] = Placed(node, spec, number)
    return found


def _writes_at_once(drafts: Drafts, anchor: Node) -> bool:
    """Return whether a kernel writes each element of its results when it is finished, and once."""
    traits = drafts.traits(anchor)
    return traits.home == "kernel" and not traits.writes_piecewise


def _readers(
    drafts: Drafts, groups: Iterable[FusionGroup]
) -> dict[Tensor, list[tuple[Node, int, bool]]]:
    """Return what reads each tensor in memory: a node, as which operand, and if it is an anchor."""
    found: dict[Tensor, list[tuple[Node, int, bool]]] = {}
    for group in groups:
        within = set(group.nodes)
        for node in group.nodes:
            read = [i for i, operand in enumerate(node.inputs) if operand.node not in within]
            for number in read:
                uses = found.setdefault(drafts.stored(node.inputs[number]), [])
                uses.append((node, number, node is group.anchor))
    return found


def keeps_rows(tensor: Tensor, node: Node, spec: Place, number: int) -> bool:
    """Return whether what lies side by side in an operand of a Place does so in the result.

    What is filled is filled when the operand is there already, so it must lie around that.
    """
    if spec.adds or tensor.ndim == 0 or is_unbounded(node.output.type):
        return False
    if spec.fill is not None and not fills_around(spec):
        return False
    last = spec.operands[number][-1]
    row = tensor.type.static_shape[-1] * tensor.dtype.itemsize
    return last.terms == ((tensor.ndim - 1, 1),) and row >= LEAST_ROW_PLACED
