"""Op registry: one record an op, checked when it is declared.

What follows from the structure of an op is filled in here, so that a record states only what is
the op's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn, get_args

from symgrad.call_errors import declare_part
from symgrad.graph.node import (
    Batch,
    Commutes,
    Grad,
    GradientMask,
    Infer,
    KernelRule,
    Narrow,
    OfPairs,
    OpDef,
    Reference,
    Tangent,
    ValueRange,
)
from symgrad.graph.structures import Body, KernelSpec, Map, Nested, Reshape, Scan, View, While
from symgrad.graph.types import Array, TensorType

OPS: dict[str, OpDef] = {}

# What a gradient rule that differentiates nested graphs is given to do so; it is no attribute.
DIFFERENTIATE = "differentiate"
WANTED = "wanted"
# A function that takes over what has arrived so far as the gradient of an operand: the rule then
# goes on adding to it, and what it returns for that operand holds it.
ARRIVED = "arrived"

Structure = type[KernelSpec] | None


def define(
    name: str,
    *,
    infer: Infer,
    reference: Reference | None,
    grad: Grad,
    kernel: KernelRule | None,
    batch: Batch | None = None,
    tangent: Tangent | None = None,
    narrow: Narrow | None = None,
    value_range: ValueRange | None = None,
    commutes: Commutes = "no",
    gradient_mask: GradientMask | None = None,
    of_pairs: OfPairs | None = None,
    has_zero_for_zero: bool | None = None,
    is_always_recomputed: bool = False,
) -> OpDef:
    """Declare an op; see `OpDef`. What is not given follows from the structure, or is safe.

    `kernel` says by its return annotation which structure it is.

    Fails at import if the name is taken, or if the rules do not take the same attributes: that is
    what a type checker cannot see.
    """
    assert name not in OPS, f"op {name} is declared twice"
    assert callable(grad) or grad == "none", f"op {name}: its gradient is {grad!r}"
    expected = _attributes(infer)
    for rule in (reference, grad, kernel, batch, tangent, narrow, value_range):
        if callable(rule):
            found = _attributes(rule)
            assert found == expected, f"op {name}: attributes {found} and {expected} differ"
    structure = _structure(name, kernel)
    adds_to_gradients = structure in (While, Scan)  # to what has arrived at invariants before
    declare_part(name)
    OPS[name] = OpDef(
        name,
        infer,
        reference,
        grad,
        kernel,
        structure,
        batch=batch,
        tangent=tangent,
        narrow=narrow,
        value_range=value_range,
        commutes=commutes,
        gradient_mask=gradient_mask or _gradient_mask(structure),
        of_pairs=of_pairs or _of_pairs(structure),
        has_zero_for_zero=not adds_to_gradients if has_zero_for_zero is None else has_zero_for_zero,
        is_always_recomputed=is_always_recomputed,
    )
    return OPS[name]


def _attributes(rule: Callable[..., Any]) -> set[str]:
    # Not by `inspect.signature`, which takes ten times as long, for a thousand rules.
    code = inspect.unwrap(rule).__code__
    names = {*code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]}
    return names - {DIFFERENTIATE, WANTED, ARRIVED}


def _structure(name: str, kernel: KernelRule | None) -> Structure:
    """Return the structure that `kernel` says it returns, which needs no sizes to be known."""
    if kernel is None:
        return None
    stated = kernel.__annotations__.get("return")
    if isinstance(stated, str):
        stated = inspect.unwrap(kernel).__globals__.get(stated)
    if stated is NoReturn:
        return None  # the op stands for its operands
    found: Structure = next((s for s in get_args(KernelSpec) if s is stated), None)
    assert found is not None, f"op {name}: its kernel rule returns {stated}, which is no structure"
    return found


def _gradient_mask(structure: Structure) -> GradientMask:
    if structure is Map:
        return "pointwise"
    return "read" if structure in get_args(Nested) else "mixed"


def _of_pairs(structure: Structure) -> OfPairs:
    """Return how an op of a structure takes complex operands, if its record does not say it."""
    return "each" if structure in (View, Reshape) else "none"


def elementwise(
    name: str,
    *,
    infer: Infer,
    reference: Callable[..., Array],
    grad: Grad,
    body: Body,
    batch: Batch | None = None,
    tangent: Tangent | None = None,
    commutes: Commutes = "no",
    of_pairs: OfPairs = "none",
) -> OpDef:
    """Declare an op of the Map structure, whose operands all have the shape of the result."""
    structure = Map(body)

    def kernel(*_operands: TensorType) -> Map:
        return structure

    return define(
        name,
        infer=infer,
        reference=reference,
        grad=grad,
        kernel=kernel,
        batch=batch,
        tangent=tangent,
        commutes=commutes,
        of_pairs=of_pairs,
    )


def takes_differentiate(op: OpDef, rule: Grad) -> bool:
    """Return whether a gradient rule of `op` wants to be handed the gradients pass."""
    # What stands in for the rule of the op is a user's function, and is not to be kept alive.
    return _rule_takes_differentiate(op) if rule is op.grad else _has_differentiate(rule)


@cache
def _rule_takes_differentiate(op: OpDef) -> bool:
    return _has_differentiate(op.grad)


def _has_differentiate(rule: Grad) -> bool:
    return callable(rule) and DIFFERENTIATE in inspect.signature(rule).parameters
