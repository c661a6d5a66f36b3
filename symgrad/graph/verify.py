"""Verifier of the graph IR: what a well-formed graph is, as a check between passes.

A violation is a bug of symgrad and not of the user, so it is an AssertionError. Shapes that only
meet when sizes are known are not checked here: inference does that again, on known sizes.
"""

from __future__ import annotations

from collections import Counter

from symgrad.errors import SymgradError
from symgrad.graph.compare import graphs_in, graphs_of
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.graph import Graph, Update
from symgrad.graph.inference import infer_types
from symgrad.graph.leaf import Variable, placeholder_op, variable_op
from symgrad.graph.node import Node, Region, Tensor
from symgrad.graph.sizes import Size
from symgrad.graph.types import ArrayLiteral, Attr, PythonFunction, State, TensorType
from symgrad.records import dataclass

# Exactly these: a np.float64 is a float too, but does not print as one.
_ATOMS = (
    type(None),
    bool,
    int,
    float,
    str,
    DType,
    Size,
    ArrayLiteral,
    State,
    PythonFunction,
    ForeignFunction,
    Graph,
)


_VERIFIED = "verified"


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where a check is; its text, which takes longer than most checks, is made if one fails."""

    position: int
    node: Node
    graph: Graph

    def __str__(self) -> str:
        return f"node {self.position} of graph {self.graph.name!r}, {self.node!r}"


def verify(graph: Graph) -> None:
    """Raise AssertionError, naming node and reason, unless `graph` is well formed.

    It is if each node comes once and after its operands, is used, and has the types its op infers;
    if all of it belongs to one region, or to none; if inputs are the placeholders; if updates give
    variables values of their type, at most one each; and if the graphs nested in it, which see
    only their inputs, are well formed too and have no state.
    """
    # A graph never changes, and many nodes and passes hand on the graphs nested in them.
    if _VERIFIED not in graph.derived:
        _verify(graph)
        graph.derived[_VERIFIED] = True


def _verify(graph: Graph) -> None:
    _verify_inputs(graph)
    inputs = set(graph.inputs)
    known: set[Tensor] = set()
    seen: set[Node] = set()
    for position, node in enumerate(graph.nodes):
        where = _Place(position, node, graph)
        assert node not in seen, f"{where}: it is in the graph twice"
        seen.add(node)
        _verify_operands(node, known, where)
        _verify_attrs(node, where)
        _verify_nested(node, where)
        _verify_outputs(node, where)
        if node.definition is placeholder_op:
            assert node.output in inputs, f"{where}: a placeholder that is not among the inputs"
        known.update(node.outputs)
    _verify_roots(graph, known)
    _verify_use(graph)


def _verify_inputs(graph: Graph) -> None:
    nodes = set(graph.nodes)
    for position, tensor in enumerate(graph.inputs):
        where = f"input {position} of graph {graph.name!r}, {tensor!r}"
        assert tensor.node.definition is placeholder_op, f"{where}: it is no placeholder"
        assert tensor.node in nodes, f"{where}: its node is missing from the nodes"
    repeated = [t for t, count in Counter(graph.inputs).items() if count > 1]
    assert not repeated, f"graph {graph.name!r}: inputs {repeated} are given more than once"


def _region_of(graph: Graph) -> Region | None:
    """Return the region of `graph`: that of its inputs, or of its results where it has none."""
    ends = (*graph.inputs, *graph.roots)
    return ends[0].node.region if ends else None


def _verify_operands(node: Node, known: set[Tensor], where: _Place) -> None:
    for position, operand in enumerate(node.inputs):
        assert operand in known, (
            f"{where}: operand {position}, {operand!r}, is used before it is defined"
        )
        owner = operand.node.region
        assert owner is node.region, (
            f"{where}: operand {position}, {operand!r}, belongs to {_region_name(owner)}"
        )


def _region_name(region: Region | None) -> str:
    return "the top level" if region is None else f"region {region.name!r}"


def _verify_attrs(node: Node, where: _Place) -> None:
    for name, value in node.attrs.items():
        wrong = _illegal_part(value)
        assert not wrong, f"{where}: attribute {name} has {wrong[0]!r}, a {type(wrong[0])}"
        graphs = graphs_in(value)
        is_plain = not graphs or not isinstance(value, tuple) or len(graphs) == len(value)
        assert is_plain, f"{where}: attribute {name} mixes graphs with other values"


def _illegal_part(value: Attr) -> list[object]:
    """Return the first part of `value` that no attribute may have, in a list; else none."""
    pending: list[object] = [value]
    while pending:
        part = pending.pop()
        if type(part) is tuple:
            pending.extend(part)
        elif type(part) not in _ATOMS:
            return [part]
    return []


def _verify_nested(node: Node, where: _Place) -> None:
    for label, graph in graphs_of(node):
        assert not graph.variables, f"{where}: {label} has variables"
        region = _region_of(graph)
        is_nested = region is not None and region is not node.region
        assert is_nested or not graph.nodes, f"{where}: {label} is in no region of its own"
        try:
            verify(graph)
        except AssertionError as error:
            raise AssertionError(f"{where}: {label}: {error}") from error


def _verify_outputs(node: Node, where: _Place) -> None:
    for index, output in enumerate(node.outputs):
        assert output.node is node, f"{where}: output {index} belongs to {output.node!r}"
        assert output.index == index, (
            f"{where}: output {index} takes itself for output {output.index}"
        )
        if node.definition is variable_op:
            assert isinstance(output, Variable), (
                f"{where}: output {index} of a variable is a plain tensor"
            )
    inferred, stated = _infer(node, where), tuple(t.type for t in node.outputs)
    assert inferred == stated, (
        f"{where}: the op infers {_listed(inferred)}, the outputs are {_listed(stated)}"
    )


def _listed(types: tuple[TensorType, ...]) -> str:
    return ", ".join(map(str, types))


def _infer(node: Node, where: _Place) -> tuple[TensorType, ...]:
    try:
        return infer_types(node.definition, [t.type for t in node.inputs], node.attrs)
    except (SymgradError, TypeError, ValueError) as error:
        raise AssertionError(f"{where}: the op refuses its operands: {error}") from error


def _verify_roots(graph: Graph, known: set[Tensor]) -> None:
    for position, output in enumerate(graph.outputs):
        where = f"output {position} of graph {graph.name!r}, {output!r}"
        assert output in known, f"{where}: no node of the graph defines it"
        region = output.node.region
        assert region is _region_of(graph), f"{where}: it belongs to {_region_name(region)}"
    states: set[State] = set()
    for position, update in enumerate(graph.updates):
        where = f"update {position} of graph {graph.name!r}, of {update.variable!r}"
        assert update.value in known, f"{where}: no node of the graph defines the new value"
        assert isinstance(update.variable, Variable), f"{where}: it is no variable"
        assert update.variable.state not in states, f"{where}: it has another update"
        states.add(update.variable.state)
        _verify_update_types(update, where)


def _verify_update_types(update: Update, where: str) -> None:
    want, given = update.variable.type, update.value.type
    assert want == update.variable.state.type, f"{where}: its type is not that of its state"
    sizes = [(m, n) for m, n in zip(want.shape, given.shape, strict=False) if isinstance(n, int)]
    fits = want.dtype == given.dtype and want.ndim == given.ndim and all(m == n for m, n in sizes)
    assert fits, f"{where}: {given} is given to {want}"


def _verify_use(graph: Graph) -> None:
    used = {t.node for t in (*graph.roots, *graph.inputs)}
    used.update(t.node for node in graph.nodes for t in node.inputs)
    idle = [node for node in graph.nodes if node not in used]
    assert not idle, f"graph {graph.name!r}: nothing uses {idle[0]!r}"
