"""Loop fission: products that need no loop variable are computed for all iterations at once.

Before:

    %0, %1 = scan %n, %h, %xs, %w, %u {capacity = 8, carried = 1, scanned = 1} {
      body(%p0, %x, %w, %u) {
        %0 = einsum %x, %w {spec = "ij,jk->ik"}
        %1 = einsum %p0, %u {spec = "ij,jk->ik"}
        %2 = add %0, %1
        return %2
      }
    }

After, with the iterations as rows of one product:

    %0 = einsum %xs, %w {spec = "lij,jk->lik"}
    %1 = scan %n, %h, %0, %u {...} {
      body(%p0, %p1, %u) { %0 = einsum %p0, %u; %1 = add %p1, %0; return %1 }
    }

What depends on slices and invariants only is built with the axis of the iterations by
`batching/vmap.py`. It pays where an operand of a product does not change, since it is read and
packed once and not in each iteration; what is element by element goes along where it needs no more
memory (`loops/min_cut.py`). The new stacks, and what lies between them and those that are there,
take no more than `allowed_bytes`. The loop runs a known
number of times, so nothing is computed in vain and nothing fails that would not have.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.cost_model import PER_BYTE_AGAIN, PER_BYTE_READ, PER_BYTE_WRITTEN
from symgrad.graph.batch_rules import Entry, rule_of
from symgrad.graph.build import derived_from
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract, Map
from symgrad.graph.traverse import topological
from symgrad.passes.batching.vmap import build_batched
from symgrad.passes.costs import (
    bytes_of,
    kernel_spec,
)
from symgrad.passes.loops.extend_loop import (
    Extension,
    allowed_bytes,
    extend_counted,
    region_of_body,
)
from symgrad.passes.loops.min_cut import cheapest_cut
from symgrad.passes.rewrites.rewrite import Rewrites

RULE = "hoist-scanned"


def hoist_scanned(graph: Graph, rewrites: Rewrites) -> Graph:
    """Split loops: return `graph` with products of slices and invariants computed before them."""
    return extend_counted(graph, lambda loop: _extension(loop, _Scanned(loop), rewrites))


def _extension(loop: Node, scanned: _Scanned, rewrites: Rewrites) -> Extension | None:
    """Build before `loop` what pays there; return what the loop gets."""
    kept = scanned.kept()
    total = sum(map(bytes_of, kept)) + scanned.between(kept)
    allowed = allowed_bytes(loop)
    fits = total <= allowed
    for tensor in kept:
        where = "before the loop" if fits else "in the loop"
        reason = f"{where}: stacks of {total} bytes an iteration, at most {allowed}"
        rewrites.explain(RULE, tensor.node, reason)
    chosen = [t for t in kept if fits and rewrites.allow(RULE, t.node)]
    if not chosen:
        return None
    stacks = dict(zip(chosen, scanned.build(chosen), strict=True))
    places = LoopView(loop).places_of_stacks
    # What the loop would only copy from one stack to another does not pass it.
    results = {loop.outputs[places[t]]: stack for t, stack in stacks.items() if t in places}
    return Extension(slices=dict(stacks), results=lambda _new: results)


class _Scanned:
    """The nodes of a body that depend on slices and invariants, and what they cost in it."""

    def __init__(self, loop: Node) -> None:
        self._loop = loop
        view = LoopView(loop)
        self._body = view.body
        self._width = view.changing
        self._slices = set(self._body.inputs[view.carried : self._width])
        self._changing = set(self._body.inputs[: view.carried])
        self._sliced = set(self._slices)
        self._nodes: list[Node] = []
        for node in self._body.nodes:
            self._enter(node)

    def _enter(self, node: Node) -> None:
        is_sliced = any(t in self._sliced for t in node.inputs)
        is_movable = rule_of(node) is not None and not graphs_of(node)
        if any(t in self._changing for t in node.inputs) or (is_sliced and not is_movable):
            self._changing.update(node.outputs)
        elif is_sliced:
            self._sliced.update(node.outputs)
            self._nodes.append(node)

    def kept(self) -> list[Tensor]:
        """Return what to compute before the loop."""
        own = set(self._nodes)
        read = [t for node in self._body.nodes if node not in own for t in node.inputs]
        ends = dict.fromkeys(t for t in (*read, *self._body.outputs) if t.node in own)
        needed = [t for t in ends if any(map(self._saved_by, self._cone(t)))]
        if not needed:
            return []
        cone = set(self._cone(*needed))
        found = cheapest_cut(
            [n for n in self._nodes if n in cone],
            needed,
            compute=lambda n: self._saved_by(n) + isinstance(kernel_spec(n), Map),
            keep=lambda t: (PER_BYTE_READ + PER_BYTE_WRITTEN) * bytes_of(t),
            read=lambda t: PER_BYTE_READ * bytes_of(t) if t in self._slices else 0,
        )
        return [t for t in found if any(map(self._saved_by, self._cone(t)))]

    def between(self, kept: Sequence[Tensor]) -> int:
        """Return the bytes of the largest result on the way to `kept` that is in memory.

        What products read and give is; of all iterations at once there is one at a time.
        """
        cone = [n for n in self._cone(*kept) if isinstance(kernel_spec(n), Contract)]
        found = {t for n in cone for t in (*n.inputs, *n.outputs) if t in self._sliced}
        return max(map(bytes_of, found.difference(kept, self._slices)), default=0)

    def _cone(self, *tensors: Tensor) -> list[Node]:
        own = set(self._nodes)
        return [n for n in topological(tensors, stop=self._slices) if n in own]

    def _saved_by(self, node: Node) -> int:
        """Return what an iteration saves if `node` is part of one product: reading an operand."""
        if not isinstance(kernel_spec(node), Contract):
            return 0
        fixed = [t for t in node.inputs if t not in self._sliced]
        return PER_BYTE_AGAIN * sum(map(bytes_of, fixed))

    def build(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Build `tensors` for all iterations at once, where the loop is."""
        inside = Graph(tensors, self._body.inputs, region=region_of_body(self._body))
        operands = LoopView(self._loop).operands
        entries = [
            Entry(t, inner in self._slices)
            for inner, t in zip(self._body.inputs, operands, strict=True)
        ]
        size = LoopView(self._loop).capacity
        assert isinstance(size, int), f"{self._loop!r}: its sizes are known by now"
        with derived_from(self._loop):
            return [e.tensor for e in build_batched(inside, entries, size)]
