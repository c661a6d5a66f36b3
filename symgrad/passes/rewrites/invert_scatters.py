"""Scatter to gather: sums of elements whose places are known are read instead of added up.

The gradient of looking up constant places adds each element to where it came from, one after the
other, since elements meet. Before, with a constant %i in which each of 0..7 is 35 times:

    %0 = broadcast_to 0.0 : f64[8]
    %1 = multiply %a, %b : f64[56, 5]
    %2 = scatter_add %0, %1, %i {axis = 0} : f64[8]

After, where the 35 elements that meet in one place are found by a constant %j, the inverse of %i:

    %1 = gather %a, %j {axis = 0} : f64[35, 8]
    %2 = gather %b, %j {axis = 0} : f64[35, 8]
    %3 = multiply %1, %2 : f64[35, 8]
    %4 = sum %3 {axes = [0]} : f64[8]

That has vectors, and sums in the order of the scatter. What is scattered is not made before: the
gather moves up through what is elementwise and used by nothing else, or cheap and of one tensor and
constants, and through broadcasts, reshapes and other lookups of constant places. Nothing is done
where places have different numbers of elements, as in most graphs of edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from symgrad.cost_model import CHEAP_FLOPS, LEAST_INVERTED, LEAST_PLACES_INVERTED
from symgrad.graph.build import derived_from, rebuild
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import constant_node, constant_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.gathering import gather, gather_op, scatter_add_op
from symgrad.graph.ops.structure import (
    broadcast_to,
    broadcast_to_op,
    reduce_sum,
    reshape,
    reshape_op,
)
from symgrad.graph.types import Array, ArrayLiteral
from symgrad.passes.costs import flops_per_element, kernel_spec
from symgrad.passes.rewrites.rewrite import Rewrites, with_inputs
from symgrad.records import dataclass

RULE = "invert-scatters"

_Key = tuple[Tensor, int]


def invert_scatters(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with gathers in the place of scatters to known places that have as many."""
    found = {
        node: inverse
        for node in graph.nodes
        if node.definition is scatter_add_op and (inverse := _inverse(node)) is not None
    }
    found = {node: inverse for node, inverse in found.items() if rewrites.allow(RULE, node)}
    if not found:
        return graph
    uses = Counter(t for node in graph.nodes for t in node.inputs)
    uses.update(graph.roots)
    mapping: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        inputs = tuple([mapping[t] for t in node.inputs])
        if node in found:
            with derived_from(node):
                mapping[node.output] = _gathered(node, found[node], _Picking(mapping, uses))
        else:
            mapping.update(zip(node.outputs, with_inputs(node, inputs).outputs, strict=True))
    return graph.with_roots(mapping)


def _inverse(node: Node) -> Array | None:
    """Return which elements are added in each place, None if these are not known or not as many.

    The last axis is that of places, in row-major order, the first that of the elements of one.
    """
    base, updates, *indices = node.inputs
    if node.attrs["axis"] != 0 or len(indices) != base.ndim or not _is_zero(base):
        return None
    places = _known_places(base, indices)
    count = updates.type.count if updates.type.is_static else 0
    if places is None or count < LEAST_INVERTED or base.type.count < LEAST_PLACES_INVERTED:
        return None
    times = np.bincount(places, minlength=base.type.count)
    if times.min() != times.max():
        return None
    return np.argsort(places, kind="stable").reshape(base.type.count, -1).T


def _is_zero(base: Tensor) -> bool:
    while base.node.definition is broadcast_to_op:
        (base,) = base.node.inputs
    value = _literal(base)
    return value is not None and value.size > 0 and not any(value.tobytes())  # -0.0 would stay


def _literal(tensor: Tensor) -> Array | None:
    literal = tensor.node.attrs.get("value") if tensor.node.definition is constant_op else None
    return literal.array if isinstance(literal, ArrayLiteral) else None


def _known_places(x: Tensor, indices: Sequence[Tensor]) -> Array | None:
    """Return where in all of `x`, in row-major order, constant indices lead, None if outside."""
    sizes = x.type.static_shape if x.type.is_static else ()
    values = [_literal(index) for index in indices]
    if not sizes or len(values) != len(sizes):
        return None
    places = np.zeros((), np.int64)
    for value, size in zip(values, sizes, strict=True):
        if value is None or np.any((value < -size) | (value >= size)):
            return None
        places = places * size + np.where(value < 0, value + size, value)
    return places.reshape(-1)


def _gathered(node: Node, inverse: Array, picking: _Picking) -> Tensor:
    base, updates = node.inputs[:2]
    picked = picking.of(updates, inverse)
    return reshape(reduce_sum(picked, (0,)), base.shape)


@dataclass(frozen=True, slots=True, eq=False)
class _Picked:
    """The elements of a tensor at some places."""

    tensor: Tensor
    places: Array

    @property
    def key(self) -> _Key:
        """What is the same for the same places; the array is kept for as long as it is."""
        return self.tensor, id(self.places)


class _Picking:
    """Builds what the elements at some places are made of, over what stands for other tensors."""

    def __init__(self, mapping: dict[Tensor, Tensor], uses: Counter[Tensor]) -> None:
        self._mapping = mapping
        self._uses = uses
        self._operands: dict[_Key, list[_Picked]] = {}
        self._made: dict[_Key, Tensor] = {}

    def of(self, tensor: Tensor, places: Array) -> Tensor:
        """Return the elements of `tensor` at `places`, counted in row-major order."""
        wanted = _Picked(tensor, places)
        pending = [wanted]
        while pending:
            picked = pending[-1]
            if picked.key not in self._operands:
                self._operands[picked.key] = self._operands_of(picked)
            operands = self._operands[picked.key]
            missing = [operand for operand in operands if operand.key not in self._made]
            pending += missing
            if not missing:
                made = [self._made[operand.key] for operand in operands]
                self._made[picked.key] = self._built(picked, made)
                pending.pop()
        return self._made[wanted.key]

    def _operands_of(self, picked: _Picked) -> list[_Picked]:
        """Return of which elements of its operands those of a tensor are made, [] if of none."""
        tensor, places, node = picked.tensor, picked.places, picked.tensor.node
        if tensor.type.count == 1 or _literal(tensor) is not None:
            return []
        if node.definition is reshape_op:
            return [_Picked(node.inputs[0], places)]
        if node.definition is broadcast_to_op:
            return [_Picked(node.inputs[0], _before_broadcast(node, places))]
        if node.definition is gather_op and node.attrs["axis"] == 0:
            looked_up = _known_places(node.inputs[0], node.inputs[1:])
            if looked_up is not None:
                return [_Picked(node.inputs[0], looked_up[places])]
        if node.definition.is_elementwise and self._is_moved(tensor, places.size):
            return [_Picked(t, places) for t in dict.fromkeys(node.inputs)]
        return []

    def _built(self, picked: _Picked, operands: list[Tensor]) -> Tensor:
        tensor, places, node = picked.tensor, picked.places, picked.tensor.node
        if operands and node.definition.is_elementwise:
            made = dict(zip(dict.fromkeys(node.inputs), operands, strict=True))
            with derived_from(node):
                return rebuild(node, tuple([made[t] for t in node.inputs])).output
        if operands:
            return operands[0]
        value = _literal(tensor)
        if value is not None and value.size > 1:
            return constant_node(ArrayLiteral(value.reshape(-1)[places]))
        if tensor.type.count == 1:
            return broadcast_to(reshape(self._mapping[tensor], ()), places.shape)
        flat = reshape(self._mapping[tensor], (tensor.type.count,))
        return gather(flat, [constant_node(ArrayLiteral(places))], 0)

    def _is_moved(self, tensor: Tensor, count: int) -> bool:
        """Return whether an elementwise tensor is computed of what is gathered for it.

        What others use as well is computed twice by that, where one operand alone is no constant.
        """
        node = tensor.node
        if not node.inputs or count > tensor.type.count:
            return False
        if self._uses[tensor] == 1:
            return True
        read = [t for t in dict.fromkeys(node.inputs) if not _is_of_constants(t)]
        return len(read) == 1 and flops_per_element(node, kernel_spec(node)) <= CHEAP_FLOPS


def _is_of_constants(tensor: Tensor) -> bool:
    while tensor.node.definition in (broadcast_to_op, reshape_op):
        (tensor,) = tensor.node.inputs
    return tensor.node.definition is constant_op


def _before_broadcast(node: Node, places: Array) -> Array:
    """Return where in its operand what is at `places` of a broadcast comes from."""
    (x,) = node.inputs
    shape = node.output.type.static_shape
    at = np.unravel_index(places, shape)[len(shape) - x.ndim :]
    sizes = x.type.static_shape
    kept = [np.where(size == 1, 0, index) for index, size in zip(at, sizes, strict=True)]
    return np.ravel_multi_index(kept, sizes) if kept else np.zeros(places.shape, np.int64)
