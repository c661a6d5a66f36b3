"""Simplify: rewrite each node by the first rule that applies, until none does.

Before:

    %0 = constant {value = 1.0} : f32[]
    %1 = broadcast_to %0 {shape = [4]} : f32[4]
    %2 = multiply %x, %1 : f32[4]
    %3 = negative %2 : f32[4]
    %4 = add %y, %3 : f32[4]

After:

    %0 = subtract %y, %x : f32[4]

The rules are in `rules_algebra.py`, `rules_structure.py` and `rules_reduction.py`. Equal constants
become one on the way.
"""

from __future__ import annotations

from symgrad.graph.graph import Graph
from symgrad.passes.rewrites import Rewrites
from symgrad.passes.rules import RuleTable, apply_rules
from symgrad.passes.rules_algebra import ALGEBRA
from symgrad.passes.rules_reduction import REDUCTION
from symgrad.passes.rules_structure import STRUCTURE

# Views go first: seen through fewer of them, more equations match.
RULES = RuleTable((*STRUCTURE, *REDUCTION, *ALGEBRA), one_constant=True)


def simplify(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` rewritten by all rules that hold here."""
    return apply_rules(graph, RULES, rewrites)
