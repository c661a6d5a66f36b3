"""Rematerialisation, save or recompute: a loop stacks what a later one would compute again.

It does so where that is cheaper.

Before, a loop and its gradient, which has the loop variable as the loop found it:

    %0, %1 = scan %n, %x, %w {capacity = 8, carried = 1, scanned = 0} {
      body(%p0, %w) { %0 = einsum %p0, %w; %1 = tanh %0; return %1, %p0 }
    }
    %2 = scan %n, %g, %1, %w {capacity = 8, carried = 1, scanned = 1} {
      body(%p0, %p1, %w) { %0 = einsum %p1, %w; %1 = tanh %0; ... }
    }

After, the product is computed once:

    %0, %1 = scan ... { ... return %1, %1 }
    %2 = scan %n, %g, %1 ... { body(%p0, %p1) { ... } }

Loops that run as often, for the same reason, have slices that belong together. A node of the later
one is the same as one of the earlier if op and attributes are, and the operands are: slices of one
stack, one invariant, what the earlier loop has stacked. So the bodies must be as they were built,
and this runs before other passes. What is the same is kept or computed again, whichever is cheaper
(`loops/min_cut.py`), where pieces side by side that elementwise ops read cost little, since what
computes them writes them there; the price of memory doubles until what is kept takes no more than
`allowed_bytes`. Nested graphs are computed again at all times: so a loop with checkpoints, whose
segments are loops in its body, goes on recording one segment at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import field

from symgrad.cost_model import PER_BYTE_READ, PER_BYTE_WRITTEN
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LOOPS, LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.conversion import identity_op
from symgrad.graph.sizes import Dim
from symgrad.graph.types import attr_key
from symgrad.passes.costs import (
    bytes_of,
    picoseconds_fused,
)
from symgrad.passes.loops.extend_loop import (
    Extension,
    allowed_bytes,
    is_static,
    with_extensions,
)
from symgrad.passes.loops.min_cut import NEVER, cheapest_cut
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.passes.rewrites.value_numbering import is_commutative
from symgrad.records import dataclass

RULE = "rematerialise"

Trips = tuple[Tensor, Dim]


def rematerialise(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with loops that read what earlier ones have saved for them."""
    loops = [n for n in graph.nodes if n.definition in LOOPS]
    if len(loops) < 2 or not all(map(is_static, loops)):
        return graph
    extensions: dict[Node, Extension] = {}
    values = _Values()
    for loop in loops:
        values.enter(loop)
        _choose(loop, values, extensions, rewrites)
        values.leave(loop)
    return with_extensions(graph, extensions)


@dataclass(slots=True)
class _Values:
    """Numbers for the tensors of a body: equal numbers, equal values in each iteration.

    `numbers` are of the loop entered last, since one graph may be the body of several loops.
    `found` is which loop computes a value first, and as what, for loops that run as often.
    """

    numbers: dict[Tensor, int] = field(default_factory=dict)
    found: dict[tuple[Trips, int], tuple[Node, Tensor]] = field(default_factory=dict)
    _by_key: dict[Hashable, int] = field(default_factory=dict)

    def enter(self, loop: Node) -> None:
        """Give numbers to what is in the body of `loop`."""
        self.numbers.clear()
        view = LoopView(loop)
        carried, width = view.carried, view.changing
        pairs = zip(view.body.inputs, view.operands, strict=True)
        for position, (inner, outer) in enumerate(pairs):
            key: Hashable = ("invariant", outer)
            if position < carried:
                key = ("loop variable", loop, position)
            elif position < width:
                key = ("slice", trips(loop), outer)
            self.numbers[inner] = self._number(key)
        for node in LoopView(loop).body.nodes:
            if node.outputs[0] not in self.numbers:
                self._enter_node(node)

    def _enter_node(self, node: Node) -> None:
        operands = [self.numbers[t] for t in node.inputs]
        if node.definition is identity_op:
            self.numbers[node.output] = operands[0]
            return
        if is_commutative(node):
            operands.sort()
        attrs = tuple((name, attr_key(node.attrs[name])) for name in sorted(node.attrs))
        for tensor in node.outputs:
            key = node.op, tuple(operands), attrs, tensor.index
            self.numbers[tensor] = self._number(key)

    def leave(self, loop: Node) -> None:
        """Let later loops find what `loop` computes, and know what its stacks are of."""
        for node in LoopView(loop).body.nodes:
            for tensor in node.outputs:
                self.found.setdefault((trips(loop), self.numbers[tensor]), (loop, tensor))
        stacks = loop.outputs[LoopView(loop).first_stack :]
        for stack, inner in zip(stacks, LoopView(loop).stacked, strict=True):
            self._by_key["slice", trips(loop), stack] = self.numbers[inner]

    def _number(self, key: Hashable) -> int:
        return self._by_key.setdefault(key, len(self._by_key))

    def source(self, loop: Node, tensor: Tensor) -> tuple[Node, Tensor] | None:
        """Return where an earlier loop computes what `tensor` is in the body of `loop`."""
        return self.found.get((trips(loop), self.numbers[tensor]))


def trips(loop: Node) -> Trips:
    """Return a key of the trip count: loops with equal keys run as often, on stacks of one size."""
    view = LoopView(loop)
    count = loop.outputs[0] if view.is_while else loop.inputs[0]
    return count, view.capacity


def _choose(
    loop: Node, values: _Values, extensions: dict[Node, Extension], rewrites: Rewrites
) -> None:
    """Decide what `loop` reads that earlier loops have computed, and have them stack it."""
    body = LoopView(loop).body
    again = [n for n in body.nodes if n.inputs and values.source(loop, n.outputs[0])]
    needed = _needed(body, again)
    prices = _RecordPrices(loop, values)
    kept = prices.choose(again, needed)
    for tensor in kept:
        source = values.source(loop, tensor)
        assert source is not None, f"{tensor!r} is of no earlier loop"
        if rewrites.allow(RULE, tensor.node):
            earlier, saved = source
            stack = extensions.setdefault(earlier, Extension()).record(earlier, saved)
            slices = extensions.setdefault(loop, Extension()).slices
            slices.update((t, stack) for t in _equal(tensor, again, values))
    for tensor in dict.fromkeys([*needed, *kept]):
        what = f"{bytes_of(tensor)} bytes an iteration" if tensor in kept else "not"
        reason = f"kept: {what}, and {prices.compute(tensor.node)} ps to compute it again"
        if not graphs_of(tensor.node):  # which never is
            reason += f", {prices.keep(tensor)} ps to keep it"
        rewrites.explain(RULE, tensor.node, reason)


def _needed(body: Graph, again: Sequence[Node]) -> dict[Tensor, None]:
    """Return the results of `again` that the rest of `body` reads."""
    own = set(again)
    read = [t for node in body.nodes if node not in own for t in node.inputs]
    return dict.fromkeys(t for t in (*read, *body.outputs) if t.node in own)


def _equal(tensor: Tensor, nodes: Sequence[Node], values: _Values) -> list[Tensor]:
    number = values.numbers[tensor]
    return [t for n in nodes for t in n.outputs if values.numbers[t] == number]


class _RecordPrices:
    """What it costs one iteration of `loop` to compute, to keep and to read."""

    def __init__(self, loop: Node, values: _Values) -> None:
        self._loop = loop
        self._values = values
        view = LoopView(loop)
        self._slices = set(view.body.inputs[view.carried : view.changing])
        self._users: dict[Node, list[Node]] = {}
        for user in view.body.nodes:
            for operand in user.inputs:
                self._users.setdefault(operand.node, []).append(user)
        self._limit = allowed_bytes(loop)
        self._memory = 1  # times the price of writing

    def choose(self, nodes: Sequence[Node], needed: Collection[Tensor]) -> dict[Tensor, None]:
        """Return the results of `nodes` to keep."""
        while True:
            kept = cheapest_cut(
                nodes, needed, compute=self.compute, keep=self.keep, read=self._read
            )
            if sum(bytes_of(t) for t in kept if not self._is_stacked(t)) <= self._limit:
                return kept
            self._memory *= 2

    def compute(self, node: Node) -> int:
        """Return the price of computing `node` again, in the kernels of those that read it."""
        return picoseconds_fused(node, self._users.get(node, ()))

    def keep(self, tensor: Tensor) -> int:
        """Return the price of having `tensor` stacked and reading its slice."""
        if graphs_of(tensor.node):
            return NEVER
        written = 0 if self._is_stacked(tensor) else PER_BYTE_WRITTEN * self._memory
        return (PER_BYTE_READ + written) * bytes_of(tensor) + 1  # so that a slice stays one

    def _read(self, tensor: Tensor) -> int:
        return PER_BYTE_READ * bytes_of(tensor) if tensor in self._slices else 0

    def _is_stacked(self, tensor: Tensor) -> bool:
        source = self._values.source(self._loop, tensor)
        return source is not None and source[1] in LoopView(source[0]).places_of_stacks
