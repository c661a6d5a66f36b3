"""Loop-invariant code motion (LICM): compute before a loop what is the same in every iteration.

Before:

    %0, %1 = scan %n, %x, %w {carried = 1, scanned = 0} {
      body(%p0, %w) { %0 = exp %w; %1 = multiply %p0, %0; return %1 }
    }

After:

    %0 = exp %w
    %1, %2 = scan %n, %x, %0 {...} { body(%p0, %p1) { %0 = multiply %p0, %p1; return %0 } }

A node of a body or condition is invariant if its operands are, or invariants of the loop. What
leaves the loop must be read in each iteration, so the cheaper way is chosen (`loops/min_cut.py`): a
number that is broadcast stays in. So does what can fail, or run for ever, unless the loop is known
to run. Nested graphs are optimized before the graph they are in; so what leaves an inner loop may
leave an outer one as well.
"""

from __future__ import annotations

from symgrad.cost_model import LIKELY_TRIPS, PER_BYTE_READ, PER_BYTE_WRITTEN
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LOOPS, LoopView
from symgrad.graph.nested import inline
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.contraction import einsum_op
from symgrad.graph.ops.while_loop import while_loop_op
from symgrad.graph.structures import Map, checked_axes
from symgrad.graph.types import UNBOUNDED
from symgrad.passes.costs import (
    bytes_of,
    kernel_spec,
    picoseconds,
)
from symgrad.passes.loops.extend_loop import (
    Extension,
    is_static,
    region_of_body,
    trips_of,
    with_extensions,
)
from symgrad.passes.loops.min_cut import cheapest_cut
from symgrad.passes.rewrites.rewrite import Rewrites

RULE = "licm"


def licm(graph: Graph, rewrites: Rewrites) -> Graph:
    """Move invariant code out: return `graph` with loops that read what does not change."""
    extensions = {}
    for loop in graph.nodes:
        if loop.definition in LOOPS and is_static(loop):
            invariants = _hoisted(loop, LoopView(loop).body, rewrites)
            condition = LoopView(loop).condition
            tests = {} if condition is None else _hoisted(loop, condition, rewrites)
            if invariants or tests:
                extensions[loop] = Extension(invariants=invariants, tests=tests)
    return with_extensions(graph, extensions)


def _hoisted(loop: Node, nested: Graph, rewrites: Rewrites) -> dict[Tensor, Tensor]:
    """Build before `loop` what is cheaper there; return it for the tensors of `nested`."""
    invariant = _invariant(loop, nested)
    own = set(invariant)
    read = [t for node in nested.nodes if node not in own for t in node.inputs]
    needed = dict.fromkeys(t for t in (*read, *nested.outputs) if t.node in own)
    if not needed:
        return {}
    prices = _HoistPrices(loop, nested)
    kept = cheapest_cut(
        invariant, needed, compute=prices.compute, keep=prices.keep, read=_price_of_reading
    )
    for tensor in dict.fromkeys([*needed, *kept]):
        where = "before the loop" if tensor in kept else "in the loop"
        reason = (
            f"{where}: {bytes_of(tensor)} bytes to read, {prices.keep(tensor)} ps an iteration, "
            f"{prices.compute(tensor.node)} ps to compute"
        )
        rewrites.explain(RULE, tensor.node, reason)
    chosen = [t for t in kept if rewrites.allow(RULE, t.node)]
    inside = Graph(chosen, nested.inputs, region=region_of_body(nested))
    return dict(zip(chosen, inline(inside, LoopView(loop).operands), strict=True))


class _HoistPrices:
    """What it costs one iteration of `loop` to compute in `nested`, and to keep before the loop."""

    def __init__(self, loop: Node, nested: Graph) -> None:
        capacity = LoopView(loop).capacity
        is_known = isinstance(capacity, int) and 0 < capacity < UNBOUNDED
        self._trips = capacity if is_known and isinstance(capacity, int) else LIKELY_TRIPS
        products = (n for n in nested.nodes if n.definition is einsum_op)
        self._factors = {t for n in products for t in n.inputs}

    def compute(self, node: Node) -> int:
        price = picoseconds(node)
        if any(t in self._factors for t in node.outputs) and isinstance(kernel_spec(node), Map):
            price += (PER_BYTE_READ + PER_BYTE_WRITTEN) * bytes_of(
                node.output
            )  # a factor is in memory
        return price

    def keep(self, tensor: Tensor) -> int:
        once = PER_BYTE_WRITTEN * bytes_of(tensor) + picoseconds(tensor.node)
        return _price_of_reading(tensor) + once // self._trips + 1


def _price_of_reading(tensor: Tensor) -> int:
    return PER_BYTE_READ * bytes_of(tensor)


def _invariant(loop: Node, nested: Graph) -> list[Node]:
    """Return the nodes that may leave: those that depend on no loop variable and on no slice."""
    changing = set(nested.inputs[: LoopView(loop).changing])
    runs = bool(trips_of(loop))
    found = []
    for node in nested.nodes:
        if any(t in changing for t in node.inputs) or not (runs or may_run_in_vain(node)):
            changing.update(node.outputs)
        elif not node.definition.is_leaf:
            found.append(node)
    return found


def may_run_in_vain(node: Node) -> bool:
    """Return whether nothing is amiss if `node` runs though its result is not needed."""
    if node.definition is while_loop_op:
        return False  # it may run for ever
    nested = [inner for _, graph in graphs_of(node) for inner in graph.nodes]
    if nested:
        return all(map(may_run_in_vain, nested))
    return not checked_axes(kernel_spec(node))
