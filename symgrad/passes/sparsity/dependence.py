"""Index propagation: which elements of some tensors each element of a graph depends on.

Before, with x of 3 elements:
    %d = slice %x {start = [1], ...} : f64[2]
    %s = multiply %d, %d : f64[2]
    %y = sum %s {axes = [0]} : f64[]

After `dependences("jacobian", [%d, %s, %y], x)`:
    %d: {1} {2}    %s: {1} {2}    %y: {1, 2}

This makes a sparsity pattern. It follows from the structures of ops, and holds for whatever values
their operands have; of known values only that is used which
`symgrad/passes/sparsity/known_values.py` finds. An element may be said to depend on more than it
does, never on less. Graphs within nodes are walked by
`symgrad/passes/sparsity/nested_dependences.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import assert_never

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.stand_in import stands_for
from symgrad.graph.structures import (
    Call,
    ColumnMap,
    Contract,
    Extern,
    Gather,
    Iota,
    Map,
    Place,
    PrefixScan,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Search,
    Sort,
    Switch,
    View,
    While,
)
from symgrad.graph.traverse import topological
from symgrad.passes.costs import kernel_spec
from symgrad.passes.sparsity.combined_indices import (
    Dependent,
    computed,
    contracted,
    of_columns,
    scanned_along,
)
from symgrad.passes.sparsity.index_sets import IndexSets, Numbers
from symgrad.passes.sparsity.known_values import KnownValues
from symgrad.passes.sparsity.moved_indices import gathered, placed, scattered, seen
from symgrad.passes.sparsity.nested_dependences import (
    DependenceScope,
    through_branches,
    through_call,
    through_scan,
    through_while,
)

Found = list[Numbers | None]


def dependences(subject: str, ys: Sequence[Tensor], x: Tensor) -> tuple[IndexSets, list[Numbers]]:
    """Return for each y the sets of the elements of `x` that its elements depend on.

    The walk ends at `x`. Raises `ShapeError`, in the name of the function `subject`, for a size on
    the way that is not known.
    """
    sets = IndexSets(x.type.count, subject)
    scope = DependenceScope(
        sets, {x: sets.singletons(x.type.static_shape)}, KnownValues(), propagate
    )
    propagate(topological(ys, stop=[x]), scope, ys)
    found = [scope.numbers.get(y) for y in ys]
    return sets, [
        np.zeros(y.type.static_shape, np.int64) if numbers is None else numbers
        for y, numbers in zip(ys, found, strict=True)
    ]


def propagate(nodes: Sequence[Node], scope: DependenceScope, kept: Iterable[Tensor]) -> None:
    """Find what the results of nodes depend on; what is not `kept` is dropped after its last use.

    Nodes are given after their operands, of which those from elsewhere are in the scope.
    """
    uses = Counter(t for node in nodes for t in node.inputs)
    uses.update(kept)
    for node in nodes:
        scope.known.visit(node)
        if any(t in scope.numbers for t in node.inputs) or _counts(node, scope):
            found = zip(node.outputs, _of_node(node, scope), strict=True)
            scope.numbers.update({t: n for t, n in found if n is not None and uses[t]})
        for t in node.inputs:
            uses[t] -= 1
            if not uses[t]:
                scope.numbers.pop(t, None)


def _counts(node: Node, scope: DependenceScope) -> bool:
    """Return whether a loop without dependences may count something that others need."""
    is_loop = node.definition.structure in (While, Scan)
    gives_integers = any(not t.dtype.is_trainable for t in node.outputs)
    return is_loop and gives_integers and any(scope.known.is_known(t) for t in node.inputs)


def _of_node(node: Node, scope: DependenceScope) -> Found:
    """Return what the results of a node depend on, None for nothing."""
    operands: Found = [scope.numbers.get(t) for t in node.inputs]
    instead = stands_for(node)
    if instead is not None:
        return [scope.numbers.get(t) for t in instead]
    _require_sizes(node, scope.sets.subject)
    spec = kernel_spec(node)
    match spec:
        case None:
            raise AssertionError(f"{node!r} is a leaf and depends on nothing")
        case Extern():
            return _of_all(node, operands, scope.sets)
        case Switch():
            return through_branches(node, spec, scope)
        case Call():
            return through_call(node, spec, scope)
        case Scan():
            return through_scan(node, spec, scope)
        case While():
            return through_while(node, spec, scope)
        case Map() | Iota() | View() | Reshape() | Place() | Reduce() | PrefixScan():
            return [_of_elements(node, spec, operands, scope)]
        case Contract() | ColumnMap() | Gather() | Scatter() | Sort() | Search():
            return [_of_many(node, spec, operands, scope)]
        case _:
            assert_never(spec)


def _of_all(node: Node, operands: Found, sets: IndexSets) -> Found:
    """Return what results depend on of which nothing is known: on all that any operand does."""
    totals = [n if n is None else sets.union_over(n, range(n.ndim)) for n in operands]
    total = sets.union_of_all(totals)
    if total is None:
        return [None] * len(node.outputs)
    return [np.broadcast_to(total, t.type.static_shape) for t in node.outputs]


def _require_sizes(node: Node, subject: str) -> None:
    for tensor in (*node.inputs, *node.outputs):
        if not tensor.type.is_static:
            raise ShapeError(
                subject,
                f"the pattern depends on {node.op}: {tensor.type}, whose size is not known",
                hint="give placeholders ints as their shapes, or leave sparsity out",
                source=user_source(),
            )


def _of_elements(
    node: Node,
    spec: Map | Iota | View | Reshape | Place | Reduce | PrefixScan,
    operands: Found,
    scope: DependenceScope,
) -> Numbers | None:
    shape = node.output.type.static_shape
    match spec:
        case Map(body):
            values = [partial(scope.known.of, t) for t in node.inputs]
            dtypes = [t.dtype for t in node.inputs]
            pairs = zip(dtypes, operands, values, strict=True)
            return computed(scope.sets, body, [Dependent(*each) for each in pairs])
        case Iota():
            return None
        case View(index):
            return seen(_only(operands), index, shape)
        case Reshape():
            return _only(operands).reshape(shape)
        case Place():
            return placed(scope.sets, operands, spec, shape)
        case Reduce(axes):
            return scope.sets.union_over(_only(operands), axes)
        case PrefixScan():
            return scanned_along(scope.sets, operands, spec)
        case _:
            assert_never(spec)


def _of_many(
    node: Node,
    spec: Contract | ColumnMap | Gather | Scatter | Sort | Search,
    operands: Found,
    scope: DependenceScope,
) -> Numbers | None:
    sets, inputs, shape = scope.sets, node.inputs, node.output.type.static_shape
    match spec:
        case Contract():
            values = [partial(scope.known.of, t) for t in inputs]
            shapes = inputs[0].type.static_shape, inputs[1].type.static_shape
            return contracted(sets, operands, values, spec, shapes)
        case ColumnMap():
            return of_columns(sets, operands, spec, shape)
        case Gather():
            if operands[0] is None:
                return None
            indices = [scope.known.of(t) for t in inputs[1:]]
            places = inputs[1].type.static_shape
            return gathered(sets, operands[0], indices, spec, places)
        case Scatter():
            indices = [scope.known.of(t) for t in inputs[2:]]
            return scattered(sets, operands[0], operands[1], indices, spec, shape)
        case Sort(axis):
            total = np.expand_dims(sets.union_over(_only(operands), (axis,)), axis)
            return np.broadcast_to(total, shape)
        case Search():
            return None  # a position, which no small change of a float moves
        case _:
            assert_never(spec)


def _only(operands: Mapping[int, Numbers] | Found) -> Numbers:
    numbers = operands[0]
    assert numbers is not None, "an operand that depends on nothing was looked at"
    return numbers
