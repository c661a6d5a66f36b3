"""Declaring ops: one record an op, checked when it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from symgrad.graph.node import Grad, Infer, Kernel, OpDef, Reference
from symgrad.graph.structures import Body, Map
from symgrad.graph.types import Array, TensorType

OPS: dict[str, OpDef] = {}
# The ops that treat each element alike, wherever it stands.
ELEMENTWISE: set[str] = set()

# What a gradient rule that differentiates nested graphs is given to do so; it is no attribute.
DIFFERENTIATE = "differentiate"
WANTED = "wanted"
# A function that takes over what has arrived so far as the gradient of an operand: the rule then
# goes on adding to it, and what it returns for that operand holds it.
ARRIVED = "arrived"


def define(
    name: str,
    *,
    infer: Infer,
    reference: Reference | None,
    grad: Grad,
    kernel: Kernel | None,
) -> OpDef:
    """Declare an op.

    Fails at import if the name is taken, or if the rules do not take the same attributes: that is
    what a type checker cannot see.
    """
    assert name not in OPS, f"op {name} is declared twice"
    expected = _attributes(infer)
    for rule in (reference, grad, kernel):
        if callable(rule):
            found = _attributes(rule)
            assert found == expected, f"op {name}: attributes {found} and {expected} differ"
    OPS[name] = OpDef(name, infer, reference, grad, kernel)
    return OPS[name]


def _attributes(rule: Callable[..., Any]) -> set[str]:
    parameters = inspect.signature(rule).parameters.values()
    names = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    return names - {DIFFERENTIATE, WANTED, ARRIVED}


def elementwise(
    name: str,
    *,
    infer: Infer,
    reference: Callable[..., Array],
    grad: Grad,
    body: Body,
) -> OpDef:
    """Declare an op of the Map structure, whose operands all have the shape of the result."""

    def kernel(*_operands: TensorType) -> Map:
        return Map(body)

    ELEMENTWISE.add(name)
    return define(name, infer=infer, reference=reference, grad=grad, kernel=kernel)


def takes_differentiate(rule: Grad) -> bool:
    """Return whether a gradient rule wants to be handed the gradients pass."""
    return callable(rule) and DIFFERENTIATE in inspect.signature(rule).parameters
