"""Loop fusion of loops over parts of a batch: what is computed of each part goes on in the cache.

Before, a factorisation by parts, and what its results are for:

    %0 = reshape %a {shape = [125, 8, 16, 16]} : f64[125, 8, 16, 16]
    %1 = scan %n, %0 {capacity = 125, carried = 0, scanned = 1} { ... } : f64[125, 8, 16, 1]
    %2 = reshape %1 {shape = [1000, 16, 1]} : f64[1000, 16, 1]
    %3 = multiply %2, %s : f64[1000, 16, 1]
    %4 = reshape %3 {shape = [125, 8, 16, 1]} : f64[125, 8, 16, 1]
    %5 = scan %n, %0, %4 {capacity = 125, carried = 0, scanned = 2} { ... } : f64[125, 8, 16, 1]

After:

    %1, %2 = scan %n, %0, %6 {capacity = 125, carried = 0, scanned = 2} {
      body(%p0, %p1) { ...; %2 = reshape %1; %3 = multiply %2, %p1; %4 = reshape %3; ... }
    }

Loops are one that run as often, have no loop variable, and of whose results each iteration reads
its own part. What lies between them, what makes their operands and what makes results of the
program of theirs is computed by parts where it only moves elements, takes few operations an element
or is a product of small matrices; whether it can be is what `propagate` says of a tensor that is
cut along its first axis.
A forward pass and its gradient then have one factorisation, since bodies are made of equal nodes.
No element is computed otherwise than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from symgrad.cost_model import LEAST_PART_BYTES, MOST_FLOPS_IN_PARTS, MOST_TERMS_IN_PARTS
from symgrad.graph.build import apply_node, derived_from
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.nested import Traced, inline
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.scan import scan_loop, scan_op
from symgrad.graph.ops.structure import reshape
from symgrad.graph.structures import Contract, KernelSpec, Map, Place, View
from symgrad.graph.types import TensorType
from symgrad.passes.costs import flops_per_element, kernel_spec
from symgrad.passes.loops.extend_loop import is_static, trips_of
from symgrad.passes.placement.propagate import (
    WHOLE,
    Cut,
    Placement,
    Situation,
    attrs_of_part,
    propagate,
)
from symgrad.passes.rewrites.rewrite import Rewrites, with_inputs

RULE = "fuse-parts"
_CUT = Cut(0)


def fuse_parts(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with its loops over parts of a batch fused, with what is between them."""
    done: set[Node] = set()
    while True:
        loops = (n for n in graph.nodes if n not in done and _parts_of(n))
        first = next(loops, None)
        if first is None:
            return graph
        done.add(first)
        cluster = _Cluster(graph, first)
        if len(cluster.nodes) == 1 or not rewrites.allow(RULE, first):
            continue
        rewrites.explain(RULE, first, f"{len(cluster.nodes)} nodes go by {cluster.parts} parts")
        graph = _fused(graph, cluster, done)


def _parts_of(node: Node) -> int | None:
    """Return how many parts a loop goes through that does to each what it does to others."""
    if node.definition is not scan_op or LoopView(node).carried or not is_static(node):
        return None
    trips = trips_of(node)
    return trips if trips is not None and trips > 1 else None


class _Cluster:
    """The nodes of `graph` that are computed with the loop `first`, in the order of the graph."""

    def __init__(self, graph: Graph, first: Node) -> None:
        parts = _parts_of(first)
        assert parts is not None, f"{first!r} goes through no parts"
        self.graph = graph
        self.first = first
        self.parts = parts
        self.nodes: dict[Node, None] = {}
        self.users: dict[Tensor, list[Node]] = {}
        self.roots = frozenset(graph.roots)
        for node in graph.nodes:
            for tensor in dict.fromkeys(node.inputs):
                self.users.setdefault(tensor, []).append(node)
        self._grow()
        self._drop_ends()
        self._take_producers()
        self.nodes = {node: None for node in graph.nodes if node in self.nodes}

    def _grow(self) -> None:
        """Take what can be computed by parts of what the cluster has, and of nothing behind it."""
        behind: set[Tensor] = set()
        for node in self.graph.nodes:
            is_reader = any(t.node in self.nodes for t in node.inputs)
            is_behind = any(t in behind for t in node.inputs)
            if node is self.first or (not is_behind and self._joins(node, is_reader=is_reader)):
                self.nodes[node] = None
            elif is_behind or is_reader:
                behind.update(node.outputs)

    def _joins(self, node: Node, *, is_reader: bool) -> bool:
        if _parts_of(node) == self.parts:
            return not any(t.node in self.nodes for t in _fixed(node))
        given = [_CUT if t.node in self.nodes else WHOLE for t in node.inputs]
        return is_reader and self._flows(node, given)

    def _flows(self, node: Node, given: Sequence[Placement]) -> bool:
        """Return whether `node` makes parts of parts, and whatever is in the cluster is cut."""
        if len(node.outputs) != 1 or not node.output.type.is_static:
            return False
        spec = kernel_spec(node)
        if not _is_light(node, spec):
            return False
        shapes = [t.type.static_shape for t in node.inputs]
        size = node.output.type.static_shape
        flow = propagate(spec, Situation(given, shapes, size, self.parts, is_linear=False))
        if flow is None or flow.result != _CUT:
            return False
        for tensor, before, wanted in zip(node.inputs, given, flow.operands, strict=True):
            if wanted != before and (before == _CUT or not self._is_cut(tensor)):
                return False
        types = [
            self.type_of_part(t) if wanted == _CUT else t.type
            for t, wanted in zip(node.inputs, flow.operands, strict=True)
        ]
        return attrs_of_part(node, types, self.type_of_part(node.output)) is not None

    def type_of_part(self, tensor: Tensor) -> TensorType:
        """Return the type of what each iteration has of a tensor that is cut."""
        rows, *rest = tensor.type.static_shape
        return tensor.type.with_shape((rows // self.parts, *rest))

    def _is_cut(self, tensor: Tensor) -> bool:
        shape = tensor.type.static_shape
        return bool(shape) and shape[0] % self.parts == 0

    def _drop_ends(self) -> None:
        """Leave to kernels behind the loops what these compute anyway, where they read it."""
        for node in reversed(self.graph.nodes):
            if node in self.nodes and not _parts_of(node):
                is_read = any(user in self.nodes for user in self.users.get(node.output, ()))
                is_end = node.output in self.roots and self._is_large(node.output)
                if not is_read and not is_end:
                    del self.nodes[node]

    def _take_producers(self) -> None:
        """Take what is computed for the cluster alone, and moves elements within parts."""
        for node in reversed(self.graph.nodes):
            if node in self.nodes or len(node.outputs) != 1 or node.output in self.roots:
                continue
            given = [_CUT] * len(node.inputs)
            is_cut = bool(node.inputs) and all(map(self._is_cut, (*node.inputs, node.output)))
            if (
                is_cut
                and self._is_large(node.output)
                and self._is_alone(node)
                and self._flows(node, given)
            ):
                self.nodes[node] = None

    def _is_large(self, tensor: Tensor) -> bool:
        """Return whether a part of what is only made for a loop, or of its results, is worth it."""
        return self.type_of_part(tensor).nbytes >= LEAST_PART_BYTES

    def _is_alone(self, node: Node) -> bool:
        """Return whether the cluster alone reads what `node` computes, and reads it by parts."""
        users = self.users.get(node.output, ())
        is_read = bool(users) and all(user in self.nodes for user in users)
        return is_read and not any(node.output in _fixed(user) for user in users)

    def read_behind(self) -> list[Tensor]:
        """Return the results of the cluster that are read elsewhere."""
        return [
            tensor
            for node in self.nodes
            for tensor in node.outputs
            if tensor in self.roots or any(u not in self.nodes for u in self.users.get(tensor, ()))
        ]


def _fixed(node: Node) -> frozenset[Tensor]:
    """Return the operands that a loop over parts reads whole in each iteration."""
    if not _parts_of(node):
        return frozenset()
    return frozenset(LoopView(node).operands[LoopView(node).scanned :])


def _is_light(node: Node, spec: KernelSpec | None) -> bool:
    """Return whether a node moves elements, or takes few operations for each, or few terms."""
    if isinstance(spec, Map):
        return flops_per_element(node, spec) <= MOST_FLOPS_IN_PARTS
    if isinstance(spec, Contract):
        return spec.windows is None and _is_small_product(node, spec)
    return spec is not None and (spec.traits.is_free or isinstance(spec, Place))


def _is_small_product(node: Node, spec: Contract) -> bool:
    """Return whether a product scales elements, or is one of few terms for each matrix of both."""
    lhs, rhs = (t.type.static_shape for t in node.inputs)
    sizes = spec.sizes(lhs, rhs)
    terms = prod(sizes[label] for label in {*spec.lhs, *spec.rhs} - set(spec.out))
    is_of_each = spec.out[:1] == spec.lhs[:1] == spec.rhs[:1]
    return terms == 1 or (is_of_each and terms <= MOST_TERMS_IN_PARTS)


# ---------------------------------------------------------------------------- loop of a cluster


def _fused(graph: Graph, cluster: _Cluster, done: set[Node]) -> Graph:
    """Return `graph` with the loop of a cluster in its place, which is done."""
    loop, mapping = _loop_of(cluster)
    done.add(loop)
    for node in graph.nodes:
        if node not in cluster.nodes:
            new = with_inputs(node, tuple(mapping.get(t, t) for t in node.inputs))
            mapping.update(zip(node.outputs, new.outputs, strict=True))
            if node in done:
                done.add(new)
    return graph.with_roots(mapping)


def _loop_of(cluster: _Cluster) -> tuple[Node, dict[Tensor, Tensor]]:
    """Build one loop; return it, and what stands for the results that are read behind it."""
    builder = _BodyOfParts(cluster)
    wanted = cluster.read_behind()
    with derived_from(cluster.first):
        stacks = [builder.stack_of(t) for t in builder.scanned]
        slices = [t.type.with_shape(t.shape[1:]) for t in stacks]
        body = Traced(LoopView(cluster.first).body.name, slices)
        body.run(lambda *given: builder.results(given, wanted))
        count = cluster.first.inputs[0]
        loop = scan_loop(count, (), stacks, body, cluster.parts)
        pairs = zip(wanted, loop.outputs, strict=True)
        return loop, {t: reshape(stack, t.shape) for t, stack in pairs}


class _BodyOfParts:
    """The body of the loop of a cluster in the making: what stands for a part of each tensor."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._parts: dict[Tensor, Tensor] = {}
        self.scanned = list(dict.fromkeys(self._operands()))

    def _operands(self) -> Iterator[Tensor]:
        """Yield what is cut and comes from around, in the order of the nodes."""
        for node in self._cluster.nodes:
            for tensor in self._cut_operands(node):
                if tensor.node not in self._cluster.nodes and not self._is_repeated(tensor):
                    yield tensor

    def _cut_operands(self, node: Node) -> list[Tensor]:
        if _parts_of(node):
            return list(LoopView(node).operands[: LoopView(node).scanned])
        return [t for t, wanted in zip(node.inputs, self._wanted(node), strict=True) if wanted]

    def _wanted(self, node: Node) -> list[bool]:
        """Return which operands of a node are cut: all, but for those of a product that it has."""
        spec = kernel_spec(node)
        if not isinstance(spec, Contract):
            return [True] * len(node.inputs)
        return [spec.out[0] in labels for labels in (spec.lhs, spec.rhs)]

    def _is_repeated(self, tensor: Tensor) -> bool:
        """Return whether a tensor from around is a view that repeats its operand along the cut."""
        node = tensor.node
        spec = kernel_spec(node) if len(node.inputs) == 1 and len(node.outputs) == 1 else None
        if not isinstance(spec, View) or any(
            axis == 0 for index in spec.index for axis, _ in index.terms
        ):
            return False
        part = self._cluster.type_of_part(tensor)
        return attrs_of_part(node, [node.inputs[0].type], part) is not None

    def stack_of(self, tensor: Tensor) -> Tensor:
        """Return a tensor from around as a stack of its parts."""
        return reshape(tensor, (self._cluster.parts, *self._cluster.type_of_part(tensor).shape))

    def results(self, given: tuple[Tensor, ...], wanted: list[Tensor]) -> list[Tensor]:
        """Build the nodes of the cluster for a part of what it is given."""
        self._parts.update(zip(self.scanned, given, strict=True))
        for node in self._cluster.nodes:
            if _parts_of(node):
                self._build_loop(node)
            else:
                self._parts[node.output] = self._built(node)
        return [self._parts[t] for t in wanted]

    def _build_loop(self, node: Node) -> None:
        view = LoopView(node)
        slices = (self._part(t) for t in view.operands[: view.scanned])
        operands = [reshape(t, t.shape[1:]) for t in slices]
        found = inline(view.body, [*operands, *view.operands[view.scanned :]])
        self._parts.update(
            (t, reshape(part, (1, *part.shape)))
            for t, part in zip(node.outputs, found, strict=True)
        )

    def _built(self, node: Node) -> Tensor:
        cut = self._wanted(node)
        operands = tuple(
            self._part(t) if is_cut else t for t, is_cut in zip(node.inputs, cut, strict=True)
        )
        return self._rebuilt(node, operands)

    def _part(self, tensor: Tensor) -> Tensor:
        if tensor not in self._parts:
            # It repeats its operand, and is the same for all parts.
            self._parts[tensor] = self._rebuilt(tensor.node, tensor.node.inputs)
        return self._parts[tensor]

    def _rebuilt(self, node: Node, operands: tuple[Tensor, ...]) -> Tensor:
        part = self._cluster.type_of_part(node.output)
        attrs = attrs_of_part(node, [t.type for t in operands], part)
        assert attrs is not None, f"{node!r} can be computed by parts"
        with derived_from(node):
            return apply_node(node.definition, operands, attrs).output
