"""Scalarisation of complex ops: what a complex tensor is made of, and the registry of rules.

A complex tensor is a `Parts` of real ones. An op that takes complex operands says in its record how
(`of_pairs`); where that is by a rule, the rule is registered here. Rules are in
`graph/ops/complex_*.py`, the pass that applies them is `passes/calls/split_complex.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from symgrad.graph.node import Node, OpDef, Tensor
from symgrad.graph.types import NestedGraph
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The real and the imaginary part of a complex tensor, of its shape."""

    re: Tensor
    im: Tensor


# What stands for a tensor: itself, or its parts where it is complex.
Split = Tensor | Parts
SplitGraph = Callable[[NestedGraph], NestedGraph]
# From a node, what stands for its operands, and what makes graphs nested in it real, to what stands
# for its results. In a nested graph that was made real each part is an input or output of its own.
PairRule = Callable[[Node, Sequence[Split], SplitGraph], Sequence[Split]]

ElementRule = TypeVar("ElementRule", bound=Callable[..., Split])

PAIR_RULES: dict[OpDef, PairRule] = {}


def splits_node(*definitions: OpDef) -> Callable[[PairRule], PairRule]:
    """Register the decorated function as the rule of ops that take complex operands by one."""

    def register(rule: PairRule) -> PairRule:
        for definition in definitions:
            assert definition.of_pairs == "rule", f"{definition} has no rule of its own"
            assert definition not in PAIR_RULES, f"{definition} has two rules"
            PAIR_RULES[definition] = rule
        return rule

    return register


def splits(definition: OpDef) -> Callable[[ElementRule], ElementRule]:
    """Register the decorated function of operands and attributes, which gives the one result."""

    def register(function: ElementRule) -> ElementRule:
        def rule(node: Node, operands: Sequence[Split], _split: SplitGraph) -> Sequence[Split]:
            return [function(*operands, **node.attrs)]

        splits_node(definition)(rule)
        return function

    return register


def flattened(operands: Sequence[Split]) -> list[Tensor]:
    """Return tensors, and in the place of each pair its two parts."""
    parts = ([x.re, x.im] if isinstance(x, Parts) else [x] for x in operands)
    return [part for each in parts for part in each]


def joined(outputs: Sequence[Tensor], parts: Sequence[Tensor]) -> list[Split]:
    """Return what stands for `outputs`, of which `parts` are the tensors and the parts of pairs."""
    left = iter(parts)
    return [Parts(next(left), next(left)) if t.dtype.is_complex else next(left) for t in outputs]
