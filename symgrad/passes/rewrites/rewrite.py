"""Optimization fuel: a count, a limit and a trace of what the passes over graphs change.

Every pass asks here before each change, so that the first N changes of a program can be made and
no others: halving N finds the one that broke it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from symgrad.cost_model.products import PANEL_BYTES
from symgrad.graph.build import are_same, rebuild
from symgrad.graph.node import Node, Tensor
from symgrad.records import dataclass

IS_RESULT = "it is a result of the program"  # why a tensor is in memory


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change that was made: the `number`-th, by `rule`, to a node or to what a text begins."""

    number: int
    rule: str
    place: Node | str

    def __str__(self) -> str:
        place = self.place if isinstance(self.place, str) else _described(self.place)
        return f"{self.number}: {self.rule} at {place}"


@dataclass(frozen=True, slots=True)
class Decision:
    """An optimization remark: what a pass that weighs costs has decided about `node`, and why."""

    rule: str
    node: Node
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {_described(self.node)}: {self.reason}"


def _described(node: Node) -> str:
    return f"{node!r}" if node.source is None else f"{node!r} ({node.source})"


class Rewrites:
    """The changes to one program. `limit` is the most that are made; `sink` is told of each.

    `fast_math` allows those that hold only over the reals, `checks_numerics` asks for those that
    check what a program gives and stores. Panels of weights have rows of `panel_bytes`.
    `on_decision` is told what has been weighed, whether it led to a change or not.
    """

    def __init__(
        self,
        *,
        fast_math: bool = False,
        checks_numerics: bool = False,
        panel_bytes: int = PANEL_BYTES,
        limit: int | None = None,
        sink: Callable[[Rewrite], None] | None = None,
        on_decision: Callable[[Decision], None] | None = None,
    ) -> None:
        self.fast_math = fast_math
        self.checks_numerics = checks_numerics
        self.panel_bytes = panel_bytes
        self.count = 0
        # By tables of rules, the nodes to which none applies, whatever uses them: passes in turns
        # meet most nodes again.
        self.at_rest: dict[Hashable, set[Node]] = {}
        self._limit = limit
        self._sink = sink
        self._on_decision = on_decision

    def explain(self, rule: str, node: Node, reason: str) -> None:
        """Tell why `rule` has changed `node`, or has not."""
        if self._on_decision is not None:
            self._on_decision(Decision(rule, node, reason))

    def allow(self, rule: str, place: Node | str) -> bool:
        """Return whether `rule` may change `place`, and count it as done if so."""
        if self._limit is not None and self.count >= self._limit:
            return False
        self.count += 1
        if self._sink is not None:
            self._sink(Rewrite(self.count, rule, place))
        return True


def with_inputs(node: Node, inputs: tuple[Tensor, ...]) -> Node:
    """Return `node` applied to `inputs`: the same node if they are its own."""
    is_same = inputs is node.inputs or are_same(inputs, node.inputs)
    return node if is_same else rebuild(node, inputs)
