"""Loop fusion of reductions: the sum of a stack is carried by the loop that makes the stack.

Before, as where a bias is added to all rows of a sequence before a loop:

    %0, %1 = scan %n, %z, %hs {carried = 1, ...} { body(%p0, %h) { ...; return %4, %5 } }
    %2 = sum %1 {axes = [0, 1]}

After, with a loop variable more:

    %0, %2, %1 = scan %n, %z, %zeros, %hs {carried = 2, ...} {
      body(%p0, %p1, %h) { ...; %6 = sum %5 {axes = [0]}; %7 = add %p1, %6; return %4, %7, %5 }
    }

In an iteration the slice is in cache, and a stack that nobody else reads is never in memory. A loop
variable that is this sum already, as of a bias that is added in the loop, stands for it. Otherwise
it pays where all slices are more than a near cache holds, and the sum is small beside one. The loop
runs a known number of times, so each slice is written; sums of 16 bits would be rounded in each
iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.cost_model import LEAST_STACK_SUMMED, PER_BYTE_AGAIN, PER_BYTE_READ
from symgrad.graph.build import derived_from, inside
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add, add_op
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.structure import reduce_sum, sum_op
from symgrad.graph.ops.subgraph import is_zero
from symgrad.passes.costs import bytes_of
from symgrad.passes.loops.extend_loop import (
    Extension,
    LoopVariable,
    extend_counted,
    placeholder_inside,
    region_of_body,
)
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.records import dataclass

RULE = "carry-sums"


def carry_sums(graph: Graph, rewrites: Rewrites) -> Graph:
    """Carry sums: return `graph` with sums of stacks added up by the loops that make these."""
    sums: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.definition is sum_op and _takes_iterations(node):
            sums.setdefault(node.inputs[0].node, []).append(node)
    return extend_counted(graph, lambda loop: _extension(loop, sums.get(loop, ()), rewrites))


def _takes_iterations(node: Node) -> bool:
    return 0 in _axes(node) and not node.inputs[0].dtype.is_half


def _axes(node: Node) -> Sequence[int]:
    axes = node.attrs["axes"]
    assert isinstance(axes, tuple), f"{node!r} has no axes"
    return [a for a in axes if isinstance(a, int)]


def _extension(loop: Node, sums: Sequence[Node], rewrites: Rewrites) -> Extension | None:
    """Return what `loop` gets to carry those of `sums`, which are of its stacks, that pay."""
    first = LoopView(loop).first_stack
    carrying = _Carrying(loop)
    chosen = [n for n in sums if n.inputs[0].index >= first and carrying.take(n, rewrites)]
    return carrying.extension(chosen) if chosen else None


@dataclass(frozen=True, slots=True)
class _Total:
    """Where the total of a sum is among the loop variables: of those there were, or new ones."""

    position: int
    is_new: bool


class _Carrying:
    """The loop variables of one loop that are sums of its stacks."""

    def __init__(self, loop: Node) -> None:
        self._loop = loop
        self._view = LoopView(loop)
        self._variables: list[LoopVariable] = []
        self._totals: dict[Node, _Total] = {}

    def take(self, node: Node, rewrites: Rewrites) -> bool:
        """Find or make the loop variable that is the sum `node`, if that pays."""
        stacked = self._view.stacked[node.inputs[0].index - self._view.first_stack]
        position = self._found(node, stacked)
        if position is None:
            pays, reason = self._weighed(node, stacked)
        else:
            pays, reason = True, f"loop variable {position} of the loop is this sum already"
        rewrites.explain(RULE, node, reason)
        if not pays or not rewrites.allow(RULE, node):
            return False
        if position is None:
            self._totals[node] = _Total(len(self._variables), is_new=True)
            self._variables.append(self._made(node, stacked))
        else:
            self._totals[node] = _Total(position, is_new=False)
        return True

    def _found(self, node: Node, stacked: Tensor) -> int | None:
        """Return which loop variable starts with zeros and gets what each slice adds to `node`."""
        for position in range(self._view.carried):
            variable = self._view.body.inputs[position]
            following = self._view.body.outputs[position].node
            if following.definition is add_op and is_zero(self._view.operands[position]):
                terms = [t for t in following.inputs if t is not variable]
                if len(terms) == 1 and _is_sum(terms[0], stacked, _axes(node)):
                    return position
        return None

    def _weighed(self, node: Node, stacked: Tensor) -> tuple[bool, str]:
        """Return whether to add up a slice in an iteration is cheaper than behind the loop."""
        of_slice, of_sum, of_stack = map(bytes_of, (stacked, node.output, node.inputs[0]))
        behind, within = PER_BYTE_READ * of_slice, PER_BYTE_AGAIN * (of_slice + 2 * of_sum)
        pays = _is_cheaper(within, behind, of_stack)
        reason = (
            f"{'in the loop' if pays else 'behind the loop'}: {within} ps an iteration, "
            f"{behind} ps to read a slice of {of_stack} bytes, from {LEAST_STACK_SUMMED} on"
        )
        return pays, reason

    def _made(self, node: Node, stacked: Tensor) -> LoopVariable:
        with derived_from(node):
            start = filled_like(node.output, 0)
        region = region_of_body(self._view.body)
        variable = placeholder_inside(region, start, start.type)
        with inside(region), derived_from(node):
            following = add(variable, reduce_sum(stacked, _inner(_axes(node))))
        return LoopVariable(start, variable, following)

    def extension(self, chosen: Sequence[Node]) -> Extension:
        """Return what the loop gets, and where each of the sums is then."""
        carried, totals = self._view.carried, [self._totals[n] for n in chosen]
        positions = [t.position + carried if t.is_new else t.position for t in totals]

        def results(new: Node) -> Mapping[Tensor, Tensor]:
            return {n.output: new.outputs[i] for n, i in zip(chosen, positions, strict=True)}

        return Extension(variables=self._variables, results=results)


def _is_cheaper(within: int, behind: int, of_stack: int) -> bool:
    """Return whether to add in an iteration costs less than to read a slice behind the loop."""
    return of_stack >= LEAST_STACK_SUMMED and within < behind


def _is_sum(term: Tensor, of: Tensor, axes: Sequence[int]) -> bool:
    """Return whether `term` is what a slice `of` a stack adds to the sum of that over `axes`."""
    inner = _inner(axes)
    if not inner:
        return term is of
    node = term.node
    return node.definition is sum_op and node.inputs[0] is of and tuple(_axes(node)) == inner


def _inner(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the axes of a slice that are `axes` of its stack."""
    return tuple(a - 1 for a in axes if a > 0)
