"""Summation of the cotangents of tapes: of stacks without a bound, slice by slice in a loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import logical_or
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.masks import masked, split_mask
from symgrad.graph.ops.scan import scan_loop, scan_op
from symgrad.graph.ops.subgraph import is_zero
from symgrad.graph.types import UNBOUNDED


def add_stacks(stack: Tensor, terms: Sequence[Tensor]) -> Tensor:
    """Add stacks that have as many slices as `stack`, the result of a loop without a bound.

    Nothing is ever done to such a stack as a whole, so this is a loop too.
    """
    node = stack.node
    count = node.inputs[0] if node.definition is scan_op else node.outputs[0]
    terms = [t for t in terms if not is_zero(t)]
    if len(terms) < 2:
        return terms[0] if terms else filled_like(stack, 0)
    split = [split_mask(t) for t in terms]
    inner = [g for g, _ in split if g is not None]
    conditions = [condition for _, condition in split if condition is not None]
    is_masked = len(conditions) == len(terms)
    body = Traced("sum", [t.type.with_shape(t.shape[1:]) for t in (*inner, *conditions)])

    def sum_of(*slices: Tensor) -> list[Tensor]:
        masks = iter(slices[len(terms) :])
        each = [
            g if condition is None else masked(g, next(masks))
            for g, (_, condition) in zip(slices, split, strict=False)
        ]
        total = reduce(add, each)
        return [total, reduce(logical_or, slices[len(terms) :])] if is_masked else [total]

    body.run(sum_of)
    results = scan_loop(count, (), [*inner, *conditions], body, UNBOUNDED).outputs
    return masked(results[0], results[1] if is_masked else None)
