"""Scalarisation of complex ops: each complex tensor becomes a pair of real ones, its `Parts`.

Before:

    graph @step(%z: c64[3]) -> c64[3] {
      %0 = multiply %z, %z : c64[3]
      return %0
    }

After, where an input, a variable and an output is NumPy's array as reals with a trailing axis:

    graph @step(%z: f32[3, 2]) -> f32[3, 2] {
      %0 = slice %z {size = [3, 1], start = [0, 0], step = [1, 1]} : f32[3, 1]
      ...
      %8 = subtract %6, %7 : f32[3]
      ...
      return %14
    }

How an op is computed on pairs is in its record, `of_pairs`. The inputs and outputs of a nested
graph are in no array of NumPy's: each part is one of its own. Behind this pass there are no
complex numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.build import (
    apply,
    apply_node,
    are_same,
    derived_from,
    inside,
    rebuild,
    rebuild_here,
)
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import (
    Variable,
    constant_node,
    constant_op,
    placeholder_op,
    variable_node,
    variable_op,
)
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops import declare_all
from symgrad.graph.ops.slicing import stack
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.pair_rules import PAIR_RULES, Parts, Split, flattened
from symgrad.graph.structures import Call
from symgrad.graph.types import ArrayLiteral, Attr, NestedGraph
from symgrad.passes.calls.callees import graphs_within
from symgrad.passes.costs import kernel_spec


def split_complex(graph: Graph) -> Graph:
    """Return `graph` with a pair of real tensors in the place of each complex one."""
    if not _has_complex(graph):
        return graph
    declare_all()
    return _Splitting().program(graph)


def _has_complex(graph: Graph) -> bool:
    """Return whether a tensor of `graph`, or of a graph within, is complex."""
    found = graph.derived.get(_has_complex)
    if found is None:
        tensors = (
            t for inner in graphs_within(graph) for node in inner.nodes for t in node.outputs
        )
        found = graph.derived[_has_complex] = any(t.dtype.is_complex for t in tensors)
    return bool(found)


class _Splitting:
    """Makes a program real; a nested graph that several nodes have is made real once."""

    def __init__(self) -> None:
        self._made: dict[Graph, Graph] = {}

    def program(self, graph: Graph) -> Graph:
        """Return what stands for a program, whose ends are arrays of NumPy's."""
        values: dict[Tensor, Split] = {}
        wholes: dict[Tensor, Tensor] = {}  # what is in memory as a whole
        for node in graph.nodes:
            is_read = node.definition in (placeholder_op, variable_op)
            if is_read and node.output.dtype.is_complex:
                whole = wholes[node.output] = _whole_of(node)
                values[node.output] = Parts(_part(whole, 0), _part(whole, 1))
            else:
                self._split(node, values)

        def stored(tensor: Tensor) -> Tensor:
            value = values[tensor]
            if not isinstance(value, Parts):
                return value
            if tensor not in wholes:
                with derived_from(tensor.node):
                    wholes[tensor] = stack([value.re, value.im], axis=-1)
            return wholes[tensor]

        updates = [Update(_variable(u.variable, wholes), stored(u.value)) for u in graph.updates]
        inputs = [wholes.get(t, t) for t in graph.inputs]
        outputs = [stored(t) for t in graph.outputs]
        return Graph(outputs, inputs, updates, name=graph.name, region=graph.region)

    def nested(self, attr: NestedGraph) -> NestedGraph:
        """Return what stands for a nested graph, with each part an input or output of its own."""
        assert isinstance(attr, Graph), "a nested graph is a graph"
        if not _has_complex(attr):
            return attr
        if attr not in self._made:
            with inside(attr.region):
                self._made[attr] = self._nested(attr)
        return self._made[attr]

    def _nested(self, graph: Graph) -> Graph:
        values: dict[Tensor, Split] = {}
        for node in graph.nodes:
            if node.definition is placeholder_op and node.output.dtype.is_complex:
                type_ = node.output.type.with_dtype(node.output.dtype.real)
                re, im = (
                    apply(placeholder_op, dtype=type_.dtype, shape=type_.shape) for _ in range(2)
                )
                values[node.output] = Parts(re, im)
            else:
                self._split(node, values)
        inputs = flattened([values[t] for t in graph.inputs])
        outputs = flattened([values[t] for t in graph.outputs])
        return Graph(outputs, inputs, name=graph.name, region=graph.region)

    def _split(self, node: Node, values: dict[Tensor, Split]) -> None:
        """Add what stands for the results of a node."""
        operands = [values[t] for t in node.inputs]
        values.update(zip(node.outputs, self._results(node, operands), strict=True))

    def _results(self, node: Node, operands: Sequence[Split]) -> Sequence[Split]:
        if _is_real(node):
            return self._again(node, flattened(operands))
        with derived_from(node):
            if node.definition is constant_op:
                return [_constant(node)]
            if node.definition.of_pairs == "each":
                return _each(node, operands)
            if node.definition.of_pairs == "expansion":
                return self._expanded(node, operands)
            return PAIR_RULES[node.definition](node, operands, self.nested)

    def _expanded(self, node: Node, operands: Sequence[Split]) -> Sequence[Split]:
        """Return the results of an algorithm on complex numbers, each step made real."""
        spec = kernel_spec(node)
        assert isinstance(spec, Call), f"{node!r} is no algorithm"
        graph = spec.graph
        assert isinstance(graph, Graph), "an expansion is a graph"
        values: dict[Tensor, Split] = dict(zip(graph.inputs, operands, strict=True))
        for inner in graph.nodes:
            if inner.definition is placeholder_op:
                continue
            given = [values[t] for t in inner.inputs]
            # A node of no complex number belongs to the graph of the expansion, and is built here.
            made = self._here(inner, given) if _is_real(inner) else self._results(inner, given)
            values.update(zip(inner.outputs, made, strict=True))
        return [values[t] for t in graph.outputs]

    def _here(self, node: Node, operands: Sequence[Split]) -> Sequence[Split]:
        attrs = {key: self._attr(value) for key, value in node.attrs.items()}
        return rebuild_here(node, tuple(flattened(operands)), attrs).outputs

    def _again(self, node: Node, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the results of a node that takes and gives no complex numbers."""
        is_same = all(self.nested(inner) is inner for _, inner in graphs_of(node))
        if is_same and are_same(inputs, node.inputs):
            return node.outputs
        return rebuild(node, tuple(inputs), self._attr).outputs

    def _attr(self, attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(self._attr, attr))
        return self.nested(attr) if isinstance(attr, Graph) else attr


def _is_real(node: Node) -> bool:
    """Return whether a node takes and gives no complex numbers."""
    return not any(t.dtype.is_complex for t in (*node.inputs, *node.outputs))


def _each(node: Node, operands: Sequence[Split]) -> Sequence[Split]:
    """Apply the op of `node` to the real parts and to the imaginary parts."""
    real = tuple(x.re if isinstance(x, Parts) else x for x in operands)
    imag = tuple(x.im if isinstance(x, Parts) else x for x in operands)
    of_parts = (apply_node(node.definition, part, node.attrs).outputs for part in (real, imag))
    return [Parts(*pair) for pair in zip(*of_parts, strict=True)]


def _constant(node: Node) -> Parts:
    value = node.attrs["value"]
    assert isinstance(value, ArrayLiteral), "a constant has a value"
    parts = (value.array.real, value.array.imag)
    return Parts(*(constant_node(ArrayLiteral(part)) for part in parts))


def _whole_of(node: Node) -> Tensor:
    """Return the input or the variable that is a complex one as reals."""
    output = node.output
    with derived_from(node):
        if isinstance(output, Variable):
            return variable_node(output.state.reals, node.name)
        shape = (*output.shape, 2)
        return apply(placeholder_op, name=node.name, dtype=output.dtype.real, shape=shape)


def _variable(variable: Variable, wholes: dict[Tensor, Tensor]) -> Variable:
    """Return the variable to update in the place of `variable`, which need not be read."""
    if not variable.dtype.is_complex:
        return variable
    whole = wholes[variable] if variable in wholes else _whole_of(variable.node)
    assert isinstance(whole, Variable), "what stands for a variable is one"
    return whole


def _part(whole: Tensor, number: int) -> Tensor:
    """Return the real or the imaginary parts of what is in memory as a whole."""
    with derived_from(whole.node):
        return reshape(narrow(whole, whole.ndim - 1, number, 1), whole.shape[:-1])
