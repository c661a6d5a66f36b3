"""Sparse updates of embeddings: an optimizer moves the rows that were used, and no others.

The gradient of `take(w, i)` is a scatter of rows into zeros, as large as w. Before:

    %0 = scatter_add %zeros, %g, %i {axis = 0} : f32[100000, 64]
    %1 = multiply %rate, %0 : f32[100000, 64]
    %2 = subtract %w, %1 : f32[100000, 64]
    update %w = %2

After, with the sum of the rows of %g that meet, in %s:

    %0 = gather %w, %i {axis = 0} : f32[32, 64]
    %1 = multiply %rate, %s : f32[32, 64]
    %2 = subtract %0, %1 : f32[32, 64]
    %3 = scatter_set %w, %2, %i {axis = 0} : f32[100000, 64]
    update %w = %3

That is allowed where the rule gives a row with the gradient 0 its old value again, and so for every
variable that the gradient moves: SGD and Adagrad do, momentum, Adam and a decay of weights do not.
Rows that meet are added first, in the order in which the scatter would have added them, and only
then scaled and rounded: the result is that of the dense update bit for bit. Two things may differ.
A row that was not used keeps its value also where a rate that is no finite number would make it
nan; and a -0 in such a row stays -0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from symgrad.cost_model import ROWS_SHARE
from symgrad.graph import dtypes
from symgrad.graph.bodies import body_of
from symgrad.graph.build import derived_from, rebuild
from symgrad.graph.dtypes import DType, bool_, is_lossless
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import equal, less, where
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import (
    gather,
    iota,
    scatter_add_op,
    scatter_rows,
    set_rows,
)
from symgrad.graph.ops.reduction import min as min_over
from symgrad.graph.ops.structure import broadcast_to, broadcast_to_op, reshape
from symgrad.graph.ops.subgraph import is_zero
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.graph.types import State, static
from symgrad.passes.rewrites.rewrite import IS_RESULT, Rewrites
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class _Zero:
    """What an element is where the gradient is 0: 0, of either sign."""


@dataclass(frozen=True, slots=True)
class _Old:
    """What an element is where the gradient is 0: the old value of a variable."""

    state: State


_AtZero = _Zero | _Old | None  # None for anything else


class _Element(NamedTuple):
    """What a scalar expression is where the gradient is 0; a bool for a comparison of zeros."""

    dtype: DType
    value: _AtZero | bool


class _AtZeros:
    """A `Scalars` that says what the body of a Map gives where the gradient is 0."""

    def call(self, name: str, *args: _Element) -> _Element:
        dtype = bool_ if SCALAR_OPS[name].gives == "bool" else args[0].dtype
        zeros = [isinstance(a.value, _Zero) for a in args]
        value: _AtZero | bool = None
        match name:
            case "add" if any(zeros):
                value = args[1].value if zeros[0] else args[0].value
            case "sub" if zeros[1]:
                value = args[0].value
            case "mul" if any(zeros):
                value = _Zero()
            case "div" | "neg" | "abs" | "sqrt" if zeros[0]:
                value = _Zero()
            case "eq" | "le" | "ge" | "ne" | "lt" | "gt" if all(zeros):
                value = name in ("eq", "le", "ge")
        return _Element(dtype, value)

    def select(self, condition: _Element, chosen: _Element, otherwise: _Element) -> _Element:
        if isinstance(condition.value, bool):
            return chosen if condition.value else otherwise
        return chosen if chosen == otherwise else _Element(chosen.dtype, None)

    def cast(self, element: _Element, dtype: DType) -> _Element:
        value = element.value
        # As long as nothing of the old value is lost on the way, the last dtype is its own again.
        is_lost = isinstance(value, _Old) and not is_lossless(value.state.type.dtype, dtype)
        is_kept = isinstance(value, _Zero | _Old) and not is_lost
        return _Element(dtype, value if is_kept else None)

    def const(self, value: float, dtype: DType) -> _Element:
        return _Element(dtype, None if dtype.is_bool or value != 0 else _Zero())

    def dtype_of(self, element: _Element) -> DType:
        return element.dtype


def row_updates(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with updates of single rows where only those change."""
    found = [node.output for node in graph.nodes if _is_row_sparse(node)]
    for gradient in found:
        moved = _moved_by(graph, gradient)
        if isinstance(moved, str) or not rewrites.allow("row-updates", gradient.node):
            continue
        with derived_from(gradient.node):
            rows = _Rows(gradient)
            new = {u: Update(u.variable, rows.updated(u)) for u in moved}
        updates = [new.get(update, update) for update in graph.updates]
        graph = Graph(graph.outputs, graph.inputs, updates, name=graph.name, region=graph.region)
    return graph


def why_dense(graph: Graph, gradient: Tensor) -> str | None:
    """Return why `gradient` moves all rows of a variable; None if it is no scatter of rows."""
    if not _is_row_sparse(gradient.node):
        return None
    moved = _moved_by(graph, gradient)
    return moved if isinstance(moved, str) else None


def _is_row_sparse(node: Node) -> bool:
    """Return whether `node` adds few rows, chosen by one index tensor, to zeros."""
    if node.definition is not scatter_add_op or len(node.inputs) != 3 or node.attrs["axis"] != 0:
        return False
    base, _updates, indices = node.inputs
    is_static = base.type.is_static and indices.type.is_static
    if not is_static or not is_zero(base) or not indices.type.count:
        return False
    return ROWS_SHARE * indices.type.count <= static(base.shape[0])


def _moved_by(graph: Graph, gradient: Tensor) -> list[Update] | str:
    """Return the updates that depend on `gradient`, or why they are not of single rows."""
    expressions = {u: _expression(u.value, gradient) for u in graph.updates}
    moved = [u for u, nodes in expressions.items() if nodes is not None]
    if not moved:
        return "no rule of an optimizer uses it element by element"
    user = _other_user(graph, gradient, {n for u in moved for n in expressions[u] or ()})
    if user is not None:
        return user
    for update in moved:
        obstacle = _obstacle(update, expressions[update] or [], gradient)
        if obstacle is not None:
            return obstacle
    return moved


def _other_user(graph: Graph, gradient: Tensor, inside: set[Node]) -> str | None:
    """Return what uses the gradient, or what is made of it in `inside`, beside the updates."""
    whole = {gradient}
    for node in graph.nodes:
        if not whole.isdisjoint(node.inputs):
            if node not in inside and not _is_map(node):
                return f"the {node.op} that uses it needs all of it"
            whole.update(node.outputs)
    return None if whole.isdisjoint(graph.outputs) else IS_RESULT


def _expression(value: Tensor, gradient: Tensor) -> list[Node] | None:
    """Return the elementwise nodes that make `value` of `gradient` and others, operands first.

    None if it is not made of `gradient` in this way.
    """
    nodes: dict[Node, bool] = {}  # True when all operands have been seen
    pending = [value.node]
    has_gradient = False
    while pending:
        node = pending[-1]
        if node in nodes or not _is_map(node):
            has_gradient |= node is gradient.node
            if node in nodes and not nodes[node]:
                nodes[node] = True
                nodes[node] = nodes.pop(node)  # to the end: after its operands
            pending.pop()
            continue
        nodes[node] = False
        pending.extend(t.node for t in node.inputs)
    return list(nodes) if has_gradient else None


def _is_map(node: Node) -> bool:
    return node.definition.is_elementwise and bool(node.inputs)


def _obstacle(update: Update, nodes: Sequence[Node], gradient: Tensor) -> str | None:
    """Return why `update` is not one of single rows."""
    name = update.variable.state.name
    shape = gradient.shape
    for tensor in (t for node in nodes for t in node.inputs):
        is_inside = tensor is gradient or tensor.node in nodes
        if not is_inside and not (_is_repeated(tensor) or _is_leaf(tensor)):
            return f"the new {name} is made of something else with a value for each row"
        if tensor.shape != shape:
            return f"the new {name} has another shape than the gradient"
    at_zero: dict[Tensor, _AtZero] = {gradient: _Zero()}
    for node in nodes:
        at_zero[node.output] = _at_zero(node, [_of_operand(t, at_zero) for t in node.inputs])
    if at_zero[update.value] != _Old(update.variable.state):
        return f"{name} also changes where the gradient is 0"
    return None


def _is_repeated(tensor: Tensor) -> bool:
    """Return whether all rows of `tensor` are one, repeated."""
    if tensor.node.definition is not broadcast_to_op:
        return False
    (operand,) = tensor.node.inputs
    return operand.ndim < tensor.ndim or operand.shape[0] == 1


def _is_leaf(tensor: Tensor) -> bool:
    return tensor.node.definition.is_leaf


def _of_operand(tensor: Tensor, at_zero: Mapping[Tensor, _AtZero]) -> _AtZero:
    if tensor in at_zero:
        return at_zero[tensor]
    if is_zero(tensor):
        return _Zero()
    state = tensor.node.attrs.get("state")
    return _Old(state) if isinstance(state, State) else None


def _at_zero(node: Node, operands: Sequence[_AtZero]) -> _AtZero:
    """Return what an elementwise `node` gives for operands that are what `operands` says."""
    pairs = zip(node.inputs, operands, strict=True)
    found: _Element = body_of(node)(_AtZeros(), *(_Element(t.dtype, x) for t, x in pairs))
    return None if isinstance(found.value, bool) else found.value


class _Rows:
    """The rows that a gradient moves: where they are, and what is added to each.

    There is one row for each index. Those that meet are equal in everything.
    """

    def __init__(self, gradient: Tensor) -> None:
        self._gradient = gradient
        base, updates, indices = gradient.node.inputs
        count = indices.type.count
        self._row = gradient.shape[1:]
        self._indices = reshape(indices, (count,))
        same = _first_or_last_of_equal(self._indices, static(base.shape[0]))
        added = reshape(updates, (count, *self._row))
        total = scatter_rows(filled_like(added, 0), added, [same], 0)
        self._of: dict[Tensor, Tensor] = {gradient: gather(total, [same], 0)}

    def updated(self, update: Update) -> Tensor:
        """Return the new value of a variable: the old one with new rows."""
        for node in _expression(update.value, self._gradient) or ():
            if node.output not in self._of:
                inputs = tuple(self._rows_of(t) for t in node.inputs)
                self._of[node.output] = rebuild(node, inputs).output
        return set_rows(update.variable, self._of[update.value], [self._indices], 0)

    def _rows_of(self, tensor: Tensor) -> Tensor:
        if tensor not in self._of:
            if _is_repeated(tensor):
                (operand,) = tensor.node.inputs
                shape = (self._indices.shape[0], *self._row)
                self._of[tensor] = broadcast_to(operand, shape)
            else:
                self._of[tensor] = gather(tensor, [self._indices], 0)
        return self._of[tensor]


def _first_or_last_of_equal(indices: Tensor, rows: int) -> Tensor:
    """Return for each index the position of one among those that mean the same row.

    Few indices are compared with each other; many leave their positions in a table of all rows, in
    which each finds the last one that was there.
    """
    count = indices.type.count
    if count * count > rows:
        table = set_rows(filled((rows,), 0, dtypes.int64), iota((count,), 0), [indices], 0)
        return gather(table, [indices], 0)
    from_end = less(indices, filled_like(indices, 0))
    counted = where(from_end, add(indices, filled_like(indices, rows)), indices)
    square = (count, count)
    is_same = equal(
        broadcast_to(reshape(counted, (count, 1)), square), broadcast_to(counted, square)
    )
    return min_over(where(is_same, iota(square, 1), filled(square, count, dtypes.int64)), axis=1)
