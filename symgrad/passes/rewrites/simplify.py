"""Algebraic simplification: rewrite each node by the first rule that applies, until none does.

Before:

    %0 = constant {value = 1.0} : f32[]
    %1 = broadcast_to %0 {shape = [4]} : f32[4]
    %2 = multiply %x, %1 : f32[4]
    %3 = negative %2 : f32[4]
    %4 = add %y, %3 : f32[4]

After:

    %0 = subtract %y, %x : f32[4]

The rules are in `rewrites/algebra.py`, `rewrites/structure.py`, `rewrites/reductions.py` and
`rewrites/windows.py`. Equal constants become one on the way.
"""

from __future__ import annotations

from symgrad.graph.graph import Graph
from symgrad.passes.rewrites.algebra import ALGEBRA
from symgrad.passes.rewrites.joins import JOINS
from symgrad.passes.rewrites.reductions import REDUCTION
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.passes.rewrites.rules import RuleTable, apply_rules
from symgrad.passes.rewrites.slices import SLICES
from symgrad.passes.rewrites.structure import STRUCTURE
from symgrad.passes.rewrites.windows import WINDOWS

# Views go first: seen through fewer of them, more equations match.
RULES = RuleTable((*STRUCTURE, *SLICES, *JOINS, *WINDOWS, *REDUCTION, *ALGEBRA), one_constant=True)


def simplify(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` rewritten by all rules that hold here."""
    return apply_rules(graph, RULES, rewrites)
