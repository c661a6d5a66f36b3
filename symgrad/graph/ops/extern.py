"""Foreign function call: the op that calls a function of C, and nothing that users call.

What they call is in `symgrad/foreign.py`; a gradient is given there, or by an op that is computed
by such a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

from symgrad.errors import ForeignCallError, GraphError, NoGradientError, ShapeError, Source
from symgrad.graph.build import apply_node
from symgrad.graph.compare import graphs_of, nesting_nodes
from symgrad.graph.dtypes import DType, uint8
from symgrad.graph.effects import next_order
from symgrad.graph.foreign_calls import call_foreign
from symgrad.graph.foreign_functions import (
    ForeignFunction,
    Layout,
    PassedOperand,
    PassedWorkspace,
    plain_layout,
    read_layout,
)
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.structures import Extern
from symgrad.graph.types import Array, Attr, TensorType, static

# What impure calls hand on, so that each comes after the one before it.
TOKEN = TensorType(uint8, (0,))


def extern_node(
    function: ForeignFunction,
    inputs: Sequence[Tensor],
    types: Sequence[TensorType],
    *,
    layout: Sequence[tuple[Attr, ...]] | None = None,
    workspace: Dim = 0,
    copied: Sequence[tuple[int, int]] = (),
    is_pure: bool = True,
) -> Node:
    """Make the node that calls `function`, whose results have `types`.

    `layout` is what the function is passed (`graph/foreign_functions.py`): without one all
    operands, then all results, then the workspace, if it has bytes. `copied` are pairs of a result
    and an operand of its type, with which the result is filled before.
    """
    has_workspace = isinstance(workspace, Size) or workspace > 0
    plain = plain_layout(len(inputs), len(types), has_workspace=has_workspace)
    attrs: dict[str, Attr] = {
        "function": function,
        "layout": plain if layout is None else tuple(layout),
        "dtypes": tuple(t.dtype for t in types),
        "shapes": tuple(t.shape for t in types),
        "workspace": workspace,
        "copied": tuple(copied),
        "order": None if is_pure else next_order(),
        "is_threaded": False,
    }
    return apply_node(extern_op, tuple(inputs), attrs)


def _infer(
    *operands: TensorType,
    function: ForeignFunction,
    layout: tuple[Attr, ...],
    dtypes: tuple[DType, ...],
    shapes: tuple[Attr, ...],
    workspace: int | Size,
    copied: tuple[Attr, ...],
    order: int | None,
    is_threaded: bool,
) -> tuple[TensorType, ...]:
    assert len(dtypes) == len(shapes), "each result has a dtype and a shape"
    results = tuple(TensorType(d, _shape(s)) for d, s in zip(dtypes, shapes, strict=True))
    given = operands
    if is_threaded:
        assert order is not None, "a pure call has no place in an order"
        assert operands[-1:] == (TOKEN,), "the last operand of an ordered call is a token"
        given = operands[:-1]
    for result, operand in _pairs(copied):
        if results[result] != given[operand]:
            problem = f"result {result} is a copy of operand {operand}, but has another type"
            raise ShapeError("extern", f"{problem}: {results[result]}, {given[operand]}")
    if isinstance(workspace, int) and _is_known(layout):
        _check_layout(read_layout(_rows(layout)), len(given), len(results), workspace)
    return (*results, TOKEN) if is_threaded else results


def _shape(attr: Attr) -> tuple[Dim, ...]:
    assert isinstance(attr, tuple), "a shape is a list of sizes"
    sizes: list[Dim] = []
    for size in attr:
        assert isinstance(size, int | Size), "a shape is a list of sizes"
        assert isinstance(size, Size) or size >= 0, f"size {size} is negative"
        sizes.append(size)
    return tuple(sizes)


def _pairs(attr: tuple[Attr, ...]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for pair in attr:
        match pair:
            case (int(result), int(operand)) if min(result, operand) >= 0:
                pairs.append((result, operand))
            case _:
                raise AssertionError(f"{pair} is no pair of a result and an operand")
    return pairs


def _rows(layout: tuple[Attr, ...]) -> list[tuple[Attr, ...]]:
    rows = [row for row in layout if isinstance(row, tuple)]
    assert len(rows) == len(layout), "an argument is a list of a word and values"
    return rows


def _is_known(layout: tuple[Attr, ...]) -> bool:
    """Return whether no unknown size is passed."""
    return not any(isinstance(value, Size) for row in _rows(layout) for value in row)


def _check_layout(layout: Layout, inputs: int, outputs: int, workspace: int) -> None:
    for argument in layout:
        if isinstance(argument, PassedOperand):
            count = inputs if argument.place == "in" else outputs
            assert 0 <= argument.number < count, f"there is no {argument.place} {argument.number}"
        if isinstance(argument, PassedWorkspace):
            assert 0 <= argument.offset < workspace, f"the workspace has {workspace} bytes"


def _reference(
    *operands: Array,
    function: ForeignFunction,
    layout: tuple[Attr, ...],
    dtypes: tuple[DType, ...],
    shapes: tuple[Attr, ...],
    workspace: int | Size,
    copied: tuple[Attr, ...],
    order: int | None,
    is_threaded: bool,
) -> tuple[Array, ...]:
    inputs = [np.array(x, order="C") for x in operands]
    outputs = [
        np.zeros([static(n) for n in _shape(s)], d.numpy)
        for d, s in zip(dtypes, shapes, strict=True)
    ]
    for result, operand in _pairs(copied):
        outputs[result][...] = inputs[operand]
    size = static(workspace)
    status = call_foreign(function, read_layout(_rows(layout)), inputs, outputs, size)
    if status:
        raise ForeignCallError(*failed_call(function.name, status))
    return (*outputs, np.zeros(0, np.uint8)) if is_threaded else tuple(outputs)


def foreign_functions(graph: Graph) -> list[tuple[ForeignFunction, Source | None]]:
    """Return the functions and symbols that `graph` names, at any depth, each with a user's line.

    Raises `GraphError` where one name stands for several addresses.
    """
    if foreign_functions not in graph.derived:
        found: dict[str, tuple[ForeignFunction, Source | None]] = {}
        for node, function in functions_in(graph):
            first, _ = found.setdefault(function.name, (function, node.source))
            _require_one(first, function, node.source)
        graph.derived[foreign_functions] = [*found.values()]
    return list(graph.derived[foreign_functions])


def functions_in(graph: Graph) -> Iterator[tuple[Node, ForeignFunction]]:
    """Yield the functions and symbols that `graph` names, at any depth, each with its call."""
    seen = {graph}
    pending = [graph]
    while pending:
        looked_at = pending.pop()
        for node in nesting_nodes(looked_at):
            nested = [inner for _, inner in graphs_of(node) if inner not in seen]
            seen.update(nested)
            pending += nested
        for node in looked_at.nodes:
            if node.definition is extern_op:
                yield from ((node, function) for function in functions_of(node))


def functions_of(node: Node) -> Iterator[ForeignFunction]:
    """Yield the function that `node` calls and the symbols it passes; none for another op."""
    if node.definition is extern_op:
        values = (node.attrs["function"], node.attrs["layout"])
        for value in _flattened(values):
            if isinstance(value, ForeignFunction):
                yield value


def _flattened(attr: Attr) -> Iterator[Attr]:
    if isinstance(attr, tuple):
        for part in attr:
            yield from _flattened(part)
    else:
        yield attr


def _require_one(first: ForeignFunction, other: ForeignFunction, source: Source | None) -> None:
    if first != other:
        raise GraphError(
            f"extern {first.name}",
            f"the name stands for two functions in one program: at {first.address} and "
            f"{other.address}",
            hint="give each a name of its own",
            source=source,
        )


def failed_call(name: str, status: int) -> tuple[str, str]:
    """Return the subject and the problem of the error for a status other than 0."""
    return f"extern {name}", f"the function returned status {status}"


def _grad(
    node: Node,
    *_gs: Tensor | None,
    function: ForeignFunction,
    layout: tuple[Attr, ...],
    dtypes: tuple[DType, ...],
    shapes: tuple[Attr, ...],
    workspace: int | Size,
    copied: tuple[Attr, ...],
    order: int | None,
    is_threaded: bool,
) -> NoReturn:
    raise NoGradientError(
        f"extern {function.name}",
        "the function has no gradient",
        hint="give grad=, a function of the node and one gradient for each result",
        source=node.source,
    )


def _kernel(
    *_operands: TensorType,
    function: ForeignFunction,
    layout: tuple[Attr, ...],
    dtypes: tuple[DType, ...],
    shapes: tuple[Attr, ...],
    workspace: int | Size,
    copied: tuple[Attr, ...],
    order: int | None,
    is_threaded: bool,
) -> Extern:
    rows = read_layout(_rows(layout))
    return Extern(function, rows, static(workspace), tuple(_pairs(copied)), is_threaded)


extern_op = define(
    "extern",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    of_pairs="rule",
)
