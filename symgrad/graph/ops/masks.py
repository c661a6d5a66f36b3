"""NaN-safe gradients of `where`: a cotangent is 0, and stays 0, on the side not taken.

The gradient of `where(x > 0, log(x), 0)` reaches log as `where(x > 0, g, 0)`. The rule of log
divides that by x, and 0 / 0 is nan: a side that was not taken would spoil a gradient that does not
depend on it. So an elementwise rule is given g, and what it returns is selected by the same
condition again: it may be anything where the other side was taken.

A mask is read off the nodes of a gradient, so it must be among them wherever a gradient goes. Where
ways meet again, the sum of masked terms has a mask of its own (`add_masked`). Ops that move
elements move those of the mask (`carry_masked`). What enters or leaves a nested graph of its own is
split into condition and gradient, and put together on the other side (`split_mask`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeGuard

from symgrad.graph.build import apply
from symgrad.graph.dtypes import bool_
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.comparison import logical_and_op, logical_not_op, logical_or_op, where_op
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.structure import broadcast_to_op
from symgrad.graph.ops.subgraph import is_zero
from symgrad.records import dataclass

Grads = Sequence[Tensor | None]
# A condition, and whether it must hold, or must not, for the gradient to be other than 0.
SignedCondition = tuple[Tensor, bool]
Term = frozenset[SignedCondition]


@dataclass(frozen=True, slots=True)
class Mask:
    """What must be so for an element of a gradient to be other than 0: all of `literals`."""

    literals: tuple[SignedCondition, ...]

    def select(self, g: Tensor) -> Tensor:
        """Return `g` with 0 where the mask says so."""
        zero = filled_like(g, 0)
        for condition, holds in reversed(self.literals):
            g = apply(where_op, condition, *((g, zero) if holds else (zero, g)))
        return g

    @property
    def condition(self) -> Tensor:
        """The mask as one tensor, which is false where it says 0."""
        return _all_of(self.literals)

    def bounded(self) -> Mask:
        """Return the mask as few literals: many are made one condition.

        Each op on the way selects by all of them again, and those of a chain of dropouts add up.
        """
        many = len(self.literals) > _MOST_LITERALS
        return Mask(((self.condition, True),)) if many else self


_MOST_LITERALS = 8


def read_mask(g: Tensor | None) -> tuple[Mask, Tensor] | None:
    """Return the mask of a gradient and what it selects, None if the gradient has none."""
    literals: list[SignedCondition] = []
    while g is not None and g.node.definition is where_op:
        condition, chosen, otherwise = g.node.inputs
        holds = is_zero(otherwise)
        if not (holds or is_zero(chosen)):
            break
        literals.append((condition, holds))
        g = chosen if holds else otherwise
    return (Mask(tuple(dict.fromkeys(literals))), g) if literals and g is not None else None


def takes_mask(tensor: Tensor) -> bool:
    """Return whether the mask of the gradient of `tensor` can matter further on.

    At a leaf of the program a gradient ends, and ops such as products mix what is masked with what
    is not.
    """
    node = tensor.node
    if node.definition.is_leaf:
        return node.region is not None  # what it stands for lies around
    return node.definition.gradient_mask != "mixed"


# ------------------------------------------------------------------------------------- rules


def carry_masked(node: Node, gs: Grads, rule: Callable[[Grads], Grads]) -> Grads:
    """Return what `rule` makes of the gradients of the outputs of `node`, with their mask kept."""
    if _stays_zero(node) and all(g is None or is_zero(g) for g in gs):
        return [None if of_x is None else filled_like(of_x, 0) for of_x in rule(gs)]
    (g, *others) = gs
    if g is None or others:
        return rule(gs)
    found = read_mask(g)
    if found is None:
        return rule(gs)
    mask, inner = found
    if node.definition.gradient_mask == "pointwise":
        # A rule that hands on what it is given, as that of add, makes nothing that needs a mask.
        found_of = rule([inner])
        if any(_needs_mask(of_x, inner) for of_x in found_of):
            mask = mask.bounded()
        return [
            g if of_x is inner else mask.select(of_x) if _needs_mask(of_x, inner) else of_x
            for of_x in found_of
        ]
    if node.gradient_key is not None or not any(map(takes_mask, node.inputs)):
        return rule(gs)
    if node.definition.gradient_mask == "moved":
        return _moved(node, mask, inner, rule)
    if node.definition is broadcast_to_op:
        return _summed(node, mask, inner, rule)
    return rule(gs)


def _needs_mask(of_x: Tensor | None, inner: Tensor) -> TypeGuard[Tensor]:
    return of_x is not None and of_x is not inner and not is_zero(of_x)


def _stays_zero(node: Node) -> bool:
    """Return whether zeros that stand for no gradient are that for the operands of `node` as well.

    A rule would multiply them by what may be infinite. What a user wrote is free to give anything,
    and loops add to what has arrived before.
    """
    return node.gradient_key is None and node.definition.has_zero_for_zero


def _moved(node: Node, mask: Mask, inner: Tensor, rule: Callable[[Grads], Grads]) -> Grads:
    move = node.definition.grad
    assert callable(move), f"{node!r} moves gradients by no rule"
    return [
        None if g is None or condition is None else masked(g, condition)
        for g, condition in zip(
            rule([inner]), move(node, mask.condition, **node.attrs), strict=True
        )
    ]


def _summed(node: Node, mask: Mask, inner: Tensor, rule: Callable[[Grads], Grads]) -> Grads:
    """Return the gradient of a broadcast: a sum, under those conditions that are the same in it."""
    outside: list[SignedCondition] = []
    within: list[SignedCondition] = []
    for condition, holds in mask.literals:
        made = condition.node
        if made.definition is broadcast_to_op and made.inputs[0].shape == node.inputs[0].shape:
            outside.append((made.inputs[0], holds))
        else:
            within.append((condition, holds))
    return [
        None if g is None else Mask(tuple(outside)).select(g)
        for g in rule([Mask(tuple(within)).select(inner)])
    ]


# -------------------------------------------------------------------------------------- sums


def add_masked(
    terms: Sequence[Tensor],
    add_all: Callable[[Sequence[Tensor]], Tensor],
    unions: dict[frozenset[Term], Tensor],
) -> Tensor:
    """Return the sum of `terms`, under a mask where every term is 0.

    `unions` keeps the conditions that are made for sums of terms under different masks.
    """
    found = [read_mask(t) for t in terms if not is_zero(t)]
    split = [pair for pair in found if pair is not None]
    if not found:
        return terms[0]  # zeros that stand for no gradient stay that
    if len(split) < len(found):
        return add_all(terms)
    # Literals are looked up in sets, never compared: a comparison of tensors builds a node.
    common = frozenset.intersection(*(frozenset(mask.literals) for mask, _ in split))
    shared = [literal for literal in split[0][0].literals if literal in common]
    rests = [tuple(t for t in mask.literals if t not in common) for mask, _ in split]
    total = add_all([Mask(rest).select(g) for rest, (_, g) in zip(rests, split, strict=True)])
    union = _simplified([frozenset(rest) for rest in rests])
    if frozenset() not in union:
        key = frozenset(union)
        if key not in unions:
            unions[key] = _any_of([_all_of(tuple(term)) for term in _in_order(union, rests)])
        shared.append((unions[key], True))
    return Mask(tuple(shared)).select(total)


def _in_order(
    union: Sequence[Term], rests: Sequence[tuple[SignedCondition, ...]]
) -> list[list[SignedCondition]]:
    """Return the terms with their literals in the order of `rests`, which a set does not have."""
    order = list(dict.fromkeys(literal for rest in rests for literal in rest))
    return [[literal for literal in order if literal in term] for term in union]


_MOST_TERMS = 16  # beyond, a condition is left as it is: to compare all pairs would take long


def _simplified(terms: Sequence[Term]) -> list[Term]:
    """Return terms that hold in the same places: `a or not a` is always, `a or a and b` is a."""
    found = list(dict.fromkeys(terms))
    if len(found) > _MOST_TERMS:
        return found
    while True:
        smaller = [reduce(_without_opposites, found, term) for term in found]
        kept = [t for t in dict.fromkeys(smaller) if not any(other < t for other in smaller)]
        if kept == found:
            return found
        found = kept


def _without_opposites(term: Term, other: Term) -> Term:
    """Return `term` without the literal that `other` makes up for where it does not hold."""
    for condition, holds in other:
        opposite = (condition, not holds)
        if opposite in term and other - {(condition, holds)} <= term:
            return term - {opposite}
    return term


def _all_of(literals: Sequence[SignedCondition]) -> Tensor:
    each = [c if holds else apply(logical_not_op, c) for c, holds in literals]
    return reduce(lambda a, b: apply(logical_and_op, a, b), each)


def _any_of(conditions: Sequence[Tensor]) -> Tensor:
    return reduce(lambda a, b: apply(logical_or_op, a, b), conditions)


# ----------------------------------------------------------------------------- nested graphs


def split_mask(g: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return a gradient without its mask, and its mask as a condition, None if it has none.

    So a gradient enters or leaves a nested graph; `masked` puts it together again.
    """
    found = read_mask(g)
    return (g, None) if found is None else (found[1], found[0].condition)


def masked(g: Tensor, condition: Tensor | None) -> Tensor:
    """Return `g` under the mask that `split_mask` took off."""
    return g if condition is None else Mask(((condition, True),)).select(g)


def uniform_mask(g: Tensor, value: bool) -> Tensor:
    """Return the condition of a gradient without a mask, or of one that is 0 everywhere."""
    return filled(g.shape, value, bool_)
