"""Masks: where `where` took the other side, a gradient is 0 and stays 0.

The gradient of `where(x > 0, log(x), 0)` reaches log as `where(x > 0, g, 0)`. The rule of log
divides that by x, and 0 / 0 is nan: a side that was not taken would spoil a gradient that does not
depend on it. So an elementwise rule is given g, and what it returns is selected by the same
condition again: it may be anything where the other side was taken. Nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symgrad.graph.build import apply
from symgrad.graph.node import Node, Tensor
from symgrad.graph.opdef import ELEMENTWISE
from symgrad.graph.ops.comparison import where_op
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.subgraph import is_zero

Grads = Sequence[Tensor | None]


@dataclass(frozen=True, slots=True)
class Mask:
    """A condition, and whether a gradient is 0 where it holds or where it does not."""

    condition: Tensor
    is_zero_where_true: bool

    def select(self, g: Tensor) -> Tensor:
        """Return `g` with 0 where the mask says so."""
        zero = filled_like(g, 0)
        sides = (zero, g) if self.is_zero_where_true else (g, zero)
        return apply(where_op, self.condition, *sides)


def read_mask(g: Tensor | None) -> tuple[Mask, Tensor] | None:
    """Return the mask of a gradient and what it selects, None if the gradient has none."""
    if g is None or g.node.definition is not where_op:
        return None
    condition, chosen, otherwise = g.node.inputs
    if is_zero(otherwise):
        return Mask(condition, False), chosen
    return (Mask(condition, True), otherwise) if is_zero(chosen) else None


def carry_masked(node: Node, gs: Grads, rule: Callable[[Grads], Grads]) -> Grads:
    """Return what `rule` makes of the gradients of the outputs of `node`, with their mask kept."""
    found = read_mask(gs[0]) if node.op in ELEMENTWISE and len(gs) == 1 else None
    if found is None:
        return rule(gs)
    mask, inner = found
    # A rule that hands on what it is given, as that of add, makes nothing that needs a mask.
    return [gs[0] if g is inner else None if g is None else mask.select(g) for g in rule([inner])]
