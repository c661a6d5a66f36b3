"""Cost model of nodes, for decisions and for reports: flops, and time as far as it can be told.

Nodes are counted here; the prices are those of `cost_model`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

from symgrad.cost_model import (
    FLOPS_OF_MULTIPLY_ADD,
    FOREIGN_CALL,
    LIKELY_TRIPS,
    PER_BYTE_AGAIN,
    PER_BYTE_READ,
    PER_BYTE_WRITTEN,
    PER_COMPARISON,
    PER_ELEMENT_REDUCED,
    PER_FLOP,
    PER_FLOP_OF_PRODUCT,
)
from symgrad.graph.bodies import flops_of_body
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import (
    Call,
    ColumnMap,
    Contract,
    Extern,
    Gather,
    Iota,
    KernelSpec,
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
from symgrad.graph.types import UNBOUNDED, is_unbounded


def flops_per_element(node: Node, spec: KernelSpec | None) -> int:
    """Return the flops of one element of a Map; 0 for the structures that only move elements."""
    if not isinstance(spec, Map):
        return 0
    return flops_of_body(spec.body, [t.dtype for t in node.inputs])


def kernel_spec(node: Node) -> KernelSpec | None:
    """Return the structure of `node`, whose sizes are known; None for a leaf."""
    kernel = node.definition.kernel
    return None if kernel is None else kernel(*[t.type for t in node.inputs], **node.attrs)


def flops_of_contract(node: Node, spec: Contract) -> int:
    """Return the multiplications and additions of a product."""
    lhs, rhs = (operand.type.static_shape for operand in node.inputs)
    sizes = spec.sizes(lhs, rhs)
    return FLOPS_OF_MULTIPLY_ADD * math.prod(sizes.values())


def picoseconds(node: Node) -> int:
    """Return about how long `node` takes, whose sizes are known, its operands being in cache."""
    nested = [graph for _, graph in graphs_of(node)]
    if nested:
        return _picoseconds_of_nested(node, nested)
    return _picoseconds_of_kernel(node, kernel_spec(node))


def picoseconds_fused(node: Node, users: Sequence[Node]) -> int:
    """Return the same of a node that `users` read: Maps read pieces where others have left them.

    The kernels that compute the pieces write each in its place, so nothing is moved for that.
    """
    if _is(node, Place) and all(_is(user, Map) for user in users):
        return 2 * PER_BYTE_AGAIN * sum(t.type.nbytes for t in node.outputs)  # stored and loaded
    return picoseconds(node)


def _is(node: Node, structure: type) -> bool:
    """Return whether a node has a structure: one with nested graphs has none, or none yet."""
    return not graphs_of(node) and isinstance(kernel_spec(node), structure)


def _flops_written_out(node: Node, spec: Map | ColumnMap) -> int:
    if isinstance(spec, ColumnMap):
        shape = node.output.type.static_shape
        return spec.flops * math.prod(shape[axis] for axis in spec.around(shape))
    return flops_per_element(node, spec) * node.output.type.count


def _picoseconds_of_kernel(node: Node, spec: KernelSpec | None) -> int:
    match spec:
        case None | View() | Reshape() | Iota():
            return 0
        case Map() | ColumnMap():
            return PER_FLOP * _flops_written_out(node, spec)
        case Reduce() | PrefixScan():
            return _picoseconds_of_fold(node, spec)
        case Contract():
            read = sum(map(bytes_of, node.inputs))
            return PER_FLOP_OF_PRODUCT * flops_of_contract(node, spec) + PER_BYTE_AGAIN * read
        case Place() | Gather() | Scatter():  # what moves elements about
            return (PER_BYTE_READ + PER_BYTE_WRITTEN) * sum(t.type.nbytes for t in node.outputs)
        case Sort() | Search():
            return PER_COMPARISON * _comparisons(node, spec)
        case Call(graph):  # what it is expanded to
            assert isinstance(graph, Graph), "an expansion is a graph"
            return _picoseconds_of_graph(graph)
        case Extern():
            return FOREIGN_CALL
        case Switch() | While() | Scan():
            raise AssertionError(f"{node!r} has no graphs of its own")
        case _:
            assert_never(spec)


def _picoseconds_of_fold(node: Node, spec: Reduce | PrefixScan) -> int:
    if isinstance(spec, PrefixScan):
        return (PER_ELEMENT_REDUCED + PER_FLOP * _flops_of_scan(spec)) * node.output.type.count
    return PER_ELEMENT_REDUCED * node.inputs[0].type.count


def _flops_of_scan(spec: PrefixScan) -> int:
    """Return the flops of combining one more element."""
    return flops_of_body(lambda s: spec.combine(s, spec.dtypes, spec.dtypes), [])


def _comparisons(node: Node, spec: Sort | Search) -> int:
    """Return how many comparisons it takes to find the place of each element in its row."""
    rows, placed = node.inputs[0].type, node.inputs[-1].type
    size = rows.static_shape[spec.axis if isinstance(spec, Sort) else -1]
    return placed.count * size.bit_length()


def _picoseconds_of_nested(node: Node, nested: Sequence[Graph]) -> int:
    """Return what the graphs of `node` take, as often as they run."""
    capacity = node.attrs.get("capacity", 1)
    trips = capacity if isinstance(capacity, int) and 0 < capacity < UNBOUNDED else LIKELY_TRIPS
    return sum(map(_picoseconds_of_graph, nested)) * trips


def _picoseconds_of_graph(graph: Graph) -> int:
    # Found once: a function may be called by others in very many ways.
    if picoseconds not in graph.derived:
        graph.derived[picoseconds] = sum(map(picoseconds, graph.nodes))
    return int(graph.derived[picoseconds])


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of a tensor, of a stack without a bound those of a slice."""
    shape = tensor.shape[1:] if is_unbounded(tensor.type) else tensor.shape
    return tensor.type.with_shape(shape).nbytes
