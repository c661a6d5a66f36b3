"""Layout assignment for gathers: what is gathered lies in memory as what it becomes is read.

The seeds of a Jacobian by tangents are the first axis of all that is computed, and its last one
in the result. Before, with 26 seeds and %i of 10000 indices:

    %1 = gather %0, %i {axis = 1} : f64[26, 10000, 3]
    %2 = multiply %1, %a : f64[26, 10000, 3]
    %3 = permute_dims %2 {axes = [1, 2, 0]} : f64[10000, 3, 26]

After, where each index stands for a run of 78 elements and not for 26 of 3:

    %1 = permute_dims %0 {axes = [1, 2, 0]} : f64[900, 3, 26]
    %2 = gather %1, %i {axis = 0} : f64[10000, 3, 26]
    %3 = multiply %2, %b : f64[10000, 3, 26]

A permutation rises through what is elementwise, concats, broadcasts, reshapes that join axes, and
gathers, as far as nothing else reads these, if it meets a gather of longer rows and what it has to
permute in the end has no more elements than what it permuted before. The results of products count
as none: those are written in any order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from symgrad.graph.build import derived_from, rebuild
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.contraction import einsum_op
from symgrad.graph.ops.gathering import gather, gather_op
from symgrad.graph.ops.slicing import concat, concat_op
from symgrad.graph.ops.structure import (
    broadcast_to,
    broadcast_to_op,
    permute_dims,
    permute_dims_op,
    reshape,
    reshape_op,
)
from symgrad.graph.types import static
from symgrad.passes.rewrites.rewrite import Rewrites, with_inputs
from symgrad.passes.rewrites.structure import axes_of

RULE = "lay-out-gathers"

# Of each axis of a permuted tensor, which one of the tensor it is.
_Permutation = tuple[int, ...]


def lay_out_gathers(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with permutations of what is gathered before the gathers."""
    roots = [node for node in graph.nodes if node.definition is permute_dims_op]
    if not roots or not any(node.definition is gather_op for node in graph.nodes):
        return graph
    uses = Counter(t for node in graph.nodes for t in node.inputs)
    uses.update(graph.roots)
    mapping: dict[Tensor, Tensor] = {}
    rising: dict[Node, _Rising] = {}
    for root in roots:
        moved = _Rising(root, uses)
        if not moved.has_longer_rows:
            continue
        rewrites.explain(RULE, root, moved.reason)
        if moved.pays and rewrites.allow(RULE, root):
            rising[root] = moved
    if not rising:
        return graph
    for node in graph.nodes:
        inputs = tuple([mapping[t] for t in node.inputs])
        if node in rising:
            mapping[node.output] = rising[node].built(mapping)
        else:
            mapping.update(zip(node.outputs, with_inputs(node, inputs).outputs, strict=True))
    return graph.with_roots(mapping)


class _Rising:
    """How far up a permutation can rise: what lies on its way, and what it then permutes."""

    def __init__(self, root: Node, uses: Counter[Tensor]) -> None:
        self.root = root
        self._order: list[Tensor] = []  # what is computed in another order, from the root up
        self._axes: dict[Tensor, _Permutation] = {}
        self._leaves: dict[tuple[Tensor, _Permutation], None] = {}
        self._rows: list[tuple[int, int]] = []  # of what is gathered, before and permuted
        self._rise(uses)
        self._before = static(root.output.type.count)
        moved = {t for t, axes in self._leaves if not self._is_free(t, axes)}
        self._after = sum(static(t.type.count) for t in moved)

    def _rise(self, uses: Counter[Tensor]) -> None:
        wanted: dict[Tensor, list[_Permutation]] = {}
        pending = [(self.root.inputs[0], axes_of(self.root))]
        while pending:
            tensor, axes = pending.pop()
            met = wanted.setdefault(tensor, [])
            met.append(axes)
            if len(met) < uses[tensor] or len(set(met)) > 1:
                continue
            operands = _operand_axes(tensor, axes)
            if operands is not None:
                del wanted[tensor]
                self._order.append(tensor)
                self._axes[tensor] = axes
                if tensor.node.definition is gather_op:
                    self._rows.append(_lengths_of_rows(tensor, operands))
                pending += operands
        self._leaves = {(tensor, axes): None for tensor, met in wanted.items() for axes in met}
        self._whole = {t for t, met in wanted.items() if len(met) == uses[t] and len(set(met)) == 1}

    @property
    def has_longer_rows(self) -> bool:
        """Whether something is gathered by longer runs of elements where it is permuted."""
        return any(after > before for before, after in self._rows)

    @property
    def pays(self) -> bool:
        """Whether no more is permuted than was before."""
        return self._after <= self._before

    @property
    def reason(self) -> str:
        """What was weighed: lengths of rows, and how many elements are permuted."""
        where = "before the gathers" if self.pays else "behind the gathers"
        rows = ", ".join(f"{after} elements, behind {before}" for before, after in self._rows)
        return (
            f"{where}: it moves {self._after:,} elements before them, {self._before:,} behind "
            f"them; before them a row that is gathered has {rows}"
        )

    def _is_free(self, tensor: Tensor, axes: _Permutation) -> bool:
        """Return whether `tensor` permuted costs nothing: a constant, a product, a reshape."""
        moved = [a for a in axes if tensor.shape[a] != 1]
        if tensor.node.definition is constant_op or moved == sorted(moved):
            return True
        return tensor.node.definition is einsum_op and tensor in self._whole

    def built(self, mapping: dict[Tensor, Tensor]) -> Tensor:
        """Return what stands for the permuted tensor, over what stands for all others."""
        with derived_from(self.root):
            made = {key: permute_dims(mapping[key[0]], key[1]) for key in self._leaves}
        for tensor in reversed(self._order):
            axes = self._axes[tensor]
            operands = _operand_axes(tensor, axes)
            assert operands is not None, f"{tensor} was found to have them"
            with derived_from(tensor.node):
                made[tensor, axes] = _permuted(
                    tensor, axes, [made[key] for key in operands], mapping
                )
        return made[self.root.inputs[0], axes_of(self.root)]


def _operand_axes(tensor: Tensor, axes: _Permutation) -> list[tuple[Tensor, _Permutation]] | None:
    """Return which permutations of its operands `tensor` permuted is made of, None if of none."""
    node = tensor.node
    if (node.definition.is_elementwise or node.definition is concat_op) and node.inputs:
        return [(t, axes) for t in dict.fromkeys(node.inputs)]
    x = node.inputs[0] if node.inputs else None
    if x is None:
        return None
    if node.definition is broadcast_to_op:
        lead = tensor.ndim - x.ndim
        return [(x, tuple(a - lead for a in axes if a >= lead))]
    if node.definition is reshape_op:
        parts = _joined_axes(x.type.static_shape, tensor.type.static_shape)
        return None if parts is None else [(x, tuple(b for a in axes for b in parts[a]))]
    return _table_axes(node, axes) if node.definition is gather_op else None


def _joined_axes(sizes: Sequence[int], joined: Sequence[int]) -> list[list[int]] | None:
    """Return which of the axes `sizes` each of the axes `joined` is made of, None if of parts."""
    parts: list[list[int]] = []
    rest = list(range(len(sizes)))
    for number, size in enumerate(joined):
        part: list[int] = []
        is_last = number + 1 == len(joined)
        while rest and (math.prod(sizes[a] for a in part) < size or is_last or sizes[rest[0]] == 1):
            part.append(rest.pop(0))
        if math.prod(sizes[a] for a in part) != size:
            return None
        parts.append(part)
    return None if rest else parts  # a scalar has no axis for those of one element


def _table_axes(node: Node, axes: _Permutation) -> list[tuple[Tensor, _Permutation]] | None:
    """Return the permutation of what `node` gathers from, None where its indices would change."""
    x, index = node.inputs[0], node.inputs[1]
    first, count = _axis_of(node), len(node.inputs) - 1
    places = range(first, first + index.ndim)
    if not index.ndim or [a for a in axes if a in places] != [*places]:
        return None
    at = axes.index(first)
    if axes[at : at + index.ndim] != tuple(places):
        return None
    behind = index.ndim - count  # by how much axes behind the indices move
    outer = [a if a < first else a - behind for a in axes if a not in places]
    return [(x, (*outer[:at], *range(first, first + count), *outer[at:]))]


def _axis_of(node: Node) -> int:
    axis = node.attrs["axis"]
    assert isinstance(axis, int), f"the axis of {node!r} is a number"
    return axis


def _lengths_of_rows(
    tensor: Tensor, operands: list[tuple[Tensor, _Permutation]]
) -> tuple[int, int]:
    """Return by runs of how many elements `tensor` is gathered, as it is and permuted."""
    ((x, axes),) = operands
    last = _axis_of(tensor.node) + len(tensor.node.inputs) - 2
    before = math.prod(map(static, x.shape[last + 1 :]))
    return before, math.prod(static(x.shape[a]) for a in axes[axes.index(last) + 1 :])


def _permuted(
    tensor: Tensor, axes: _Permutation, operands: Sequence[Tensor], mapping: dict[Tensor, Tensor]
) -> Tensor:
    """Return `tensor` with other axes, of operands that have other axes."""
    node = tensor.node
    shape = tuple(tensor.shape[a] for a in axes)
    if node.definition is reshape_op:
        return reshape(operands[0], shape)
    if node.definition is broadcast_to_op:
        lead = tensor.ndim - node.inputs[0].ndim
        kept = [node.inputs[0].shape[a - lead] if a >= lead else 1 for a in axes]
        return broadcast_to(reshape(operands[0], tuple(kept)), shape)
    if node.definition is gather_op:
        places = [mapping[t] for t in node.inputs[1:]]
        return gather(operands[0], places, axes.index(_axis_of(node)))
    of = dict(zip(dict.fromkeys(node.inputs), operands, strict=True))
    if node.definition is concat_op:
        return concat([of[t] for t in node.inputs], axis=axes.index(_axis_of(node)))
    return rebuild(node, tuple(of[t] for t in node.inputs)).output
