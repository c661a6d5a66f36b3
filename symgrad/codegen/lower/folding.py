"""Lowering of what folds elements: how two are combined, and prefix scans.

The loops of a Reduce or Contract are in `groups.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Accumulator,
    Atom,
    Const,
    For,
    Index,
    Let,
    Prefix,
    Ref,
    Stmt,
)
from symgrad.codegen.lower.scope import Names, Scope, constant
from symgrad.codegen.lower.values import GroupValues
from symgrad.graph.node import Node
from symgrad.graph.structures import PrefixScan

Combination = tuple[tuple[str, ...], tuple[str, ...], tuple[Let, ...], tuple[Atom, ...]]


def lower_combination(
    names: Names, identity: Sequence[Const], combine: Callable[..., tuple[Atom, ...]]
) -> Combination:
    """Return the names of two sides, what computes their combination, and its values."""
    left = tuple(Ref(names.value(), c.dtype) for c in identity)
    right = tuple(Ref(names.value(), c.dtype) for c in identity)
    scope = Scope(names)
    combined = combine(scope, left, right)
    lets = tuple(s for s in scope.statements if isinstance(s, Let))
    assert len(lets) == len(scope.statements), "combining takes scalar operations only"
    return tuple(r.name for r in left), tuple(r.name for r in right), lets, combined


def lower_prefix(
    values: GroupValues,
    names: Names,
    anchor: Node,
    spec: PrefixScan,
    store: Callable[[Scope, tuple[Index, ...]], None],
) -> tuple[Stmt, ...]:
    """Return loops over the other axes around the scan; `store` writes what is done with each.

    With `reverse` the scan counts from the end: element k of it stands at extent - 1 - k.
    """
    shape = anchor.output.type.static_shape
    extent = shape[spec.axis]
    variables = [values.loop(n) for n in shape]
    index = [Index() if n == 1 else index_of((v, 1)) for v, n in zip(variables, shape, strict=True)]
    if spec.reverse and extent > 1:
        index[spec.axis] = index_of((variables[spec.axis], -1), const=extent - 1)
    place = tuple(index)
    scope = Scope(names)
    elements = [values.value(scope, operand, place) for operand in anchor.inputs]
    items = spec.item(scope, *elements)
    identity = [constant(v, d) for v, d in zip(spec.identity, spec.dtypes, strict=True)]
    accumulators = tuple(Accumulator(names.value(), c) for c in identity)
    each = scope.inner()
    running = tuple(Ref(a.name, a.identity.dtype) for a in accumulators)
    each.remember((anchor.output, place), spec.finish(each, running, *elements))
    store(each, place)
    body: tuple[Stmt, ...] = (
        Prefix(
            accumulators,
            variables[spec.axis],
            extent,
            1,
            tuple(scope.statements),
            items,
            *lower_combination(names, identity, spec.combine),
            each=tuple(each.statements),
            exclusive=spec.exclusive,
            ordered=spec.in_order,
        ),
    )
    for axis in reversed(range(len(shape))):
        if axis != spec.axis:
            body = (For(variables[axis], shape[axis], body),)
    return body
