"""Loop fission for sums: products of all iterations are added up behind a loop, as one product.

Before, where the second loop variable is only ever added to:

    %0, %1 = scan %n, %z, %dw, %hs {carried = 2, reverse = true, scanned = 1} {
      body(%p0, %p1, %h) {
        ...
        %5 = einsum %h, %4 {spec = "ij,ik->jk"}
        %6 = add %p1, %5
        return %4, %6
      }
    }

After, one product over all iterations and all that each summed over:

    %0, %1 = scan %n, %z, %hs {carried = 1, ...} { body(%p0, %h) { ...; return %4, %4 } }
    %2 = einsum %hs, %1 {spec = "ijk,ijl->kl"}
    %3 = add %dw, %2

A loop variable qualifies if nothing else reads it and all that is added to it are products of
factors that change from iteration to iteration, and if the stacks that are new cost less than
writing the sum in each iteration. A plain sum stays in: its operand is in cache there. The loop
runs a known number of times: otherwise stacks have slices nobody wrote. That leaves out the
gradient of a `while_loop`, in whose segments with checkpoints sums would be taken in another order
than without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from symgrad.cost_model import ADDED_PER_STACKED
from symgrad.graph.build import derived_from
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add, add_op
from symgrad.graph.ops.contraction import LABELS, contract, einsum_op
from symgrad.graph.ops.conversion import identity_op
from symgrad.graph.ops.subgraph import is_zero
from symgrad.passes.costs import bytes_of
from symgrad.passes.loops.extend_loop import (
    Extension,
    allowed_bytes,
    extend_counted,
)
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.records import dataclass

RULE = "sink-sums"


def sink_sums(graph: Graph, rewrites: Rewrites) -> Graph:
    """Sink sums: return `graph` with sums of products over iterations behind the loops."""
    return extend_counted(graph, lambda loop: _Sinking(loop, rewrites).extension())


@dataclass(frozen=True, slots=True)
class _Sum:
    """What each iteration adds to the loop variable at `position`."""

    position: int
    terms: Sequence[Node]


class _Sinking:
    """The sums of one loop, and where their factors are stacked."""

    def __init__(self, loop: Node, rewrites: Rewrites) -> None:
        self._loop = loop
        self._rewrites = rewrites
        self._body = LoopView(loop).body
        self._carried = LoopView(loop).carried
        end = LoopView(loop).changing
        slices = self._body.inputs[self._carried : end]
        self._slices = dict(zip(slices, LoopView(loop).operands[self._carried : end], strict=True))
        self._varying = _dependents(self._body, self._body.inputs[:end])
        self._uses = Counter(t for node in self._body.nodes for t in node.inputs)
        self._uses.update(self._body.outputs)
        self._extension = Extension()

    def extension(self) -> Extension | None:
        """Return what the loop gets, None if no sum leaves it."""
        found = [s for i in range(self._carried) if (s := self._sum_at(i)) is not None]
        chosen = [s for s in found if self._take(s)]
        if not chosen:
            return None
        outputs = self._loop.outputs
        self._extension.results = lambda new: {
            outputs[s.position]: self._result(s, new) for s in chosen
        }
        return self._extension

    def _sum_at(self, position: int) -> _Sum | None:
        """Return what is added to a loop variable, if that is all that happens to it."""
        variable, following = self._body.inputs[position], self._body.outputs[position]
        on_way = _dependents(self._body, [variable])
        terms: list[Node] = []
        while following is not variable:
            operands = [t for t in following.node.inputs if t in on_way]
            is_sum = following.node.definition in (add_op, identity_op)
            if not is_sum or len(operands) != 1 or self._uses[following] != 1:
                return None
            terms += [t.node for t in following.node.inputs if t not in on_way]
            (following,) = operands
        is_one = self._uses[variable] == 1 and bool(terms)
        return _Sum(position, terms) if is_one and all(map(self._is_sinkable, terms)) else None

    def _is_sinkable(self, term: Node) -> bool:
        return term.definition is einsum_op and all(t in self._varying for t in term.inputs)

    def _take(self, found: _Sum) -> bool:
        """Have the factors stacked, if that costs less than adding in each iteration."""
        new = dict.fromkeys(t for n in found.terms for t in n.inputs if not self._is_stacked(t))
        sums = [n.output for n in found.terms]
        total = sum(map(bytes_of, (*self._extension.stacks, *new)))
        saved, spent = sum(map(bytes_of, sums)), sum(map(bytes_of, new))
        allowed = allowed_bytes(self._loop)
        pays = _is_cheaper(spent, saved) and total <= allowed
        node = found.terms[0]
        reason = (
            f"{'sunk' if pays else 'left'}: {spent} bytes stacked, {saved} added to; "
            f"stacks of {total} bytes an iteration, at most {allowed}"
        )
        self._rewrites.explain(RULE, node, reason)
        if not pays or not self._rewrites.allow(RULE, node):
            return False
        for tensor in new:
            self._extension.record(self._loop, tensor)
        return True

    def _is_stacked(self, tensor: Tensor) -> bool:
        return (
            tensor in self._slices
            or tensor in LoopView(self._loop).places_of_stacks
            or tensor in self._extension.stacks
        )

    def _result(self, found: _Sum, new: Node) -> Tensor:
        """Build the sum on the stacks of the extended loop."""
        total = LoopView(new).operands[found.position]
        for term in found.terms:
            with derived_from(term):
                stacks = [self._stack(t, new) for t in term.inputs]
                whole = _over_iterations(term, stacks)
                total = whole if is_zero(total) else add(total, whole)
        return total

    def _stack(self, tensor: Tensor, new: Node) -> Tensor:
        if tensor in self._slices:
            position = list(map(id, self._slices)).index(id(tensor))
            return LoopView(new).operands[self._carried + position]
        return new.outputs[self._extension.place(self._extension.record(self._loop, tensor))]


def _is_cheaper(stacked: int, added: int) -> bool:
    """Return whether to stack so many bytes in each iteration costs less than to add to so many."""
    return ADDED_PER_STACKED * stacked <= added


def _over_iterations(term: Node, stacks: Sequence[Tensor]) -> Tensor:
    spec = term.attrs["spec"]
    assert isinstance(spec, str), f"{term!r} has no spec"
    factors, _, out = spec.partition("->")
    lhs, _, rhs = factors.partition(",")
    time = next(label for label in LABELS if label not in spec)
    return contract(stacks[0], stacks[1], time + lhs, time + rhs, out)


def _dependents(body: Graph, tensors: Sequence[Tensor]) -> Mapping[Tensor, None]:
    """Return what depends on `tensors`, themselves included."""
    found = dict.fromkeys(tensors)
    for node in body.nodes:
        if any(t in found for t in node.inputs):
            found.update(dict.fromkeys(node.outputs))
    return found
