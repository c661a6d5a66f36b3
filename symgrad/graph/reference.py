"""Reference interpreter: programs run by NumPy, for tests and to fold constants.

Slow and plain on purpose. No compiled program comes through here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.graph.effects import in_effect_order
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.sizes import Dim, Unknown, substitute
from symgrad.graph.types import Array, is_unbounded
from symgrad.records import dataclass


def evaluate(graph: Graph, inputs: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Return the outputs of `graph`, and the new values its updates would give.

    Unknown sizes are those of `inputs`. Variables have the value of their state, which stays.
    Raises `GraphError`, `ShapeError` or `DTypeError` for inputs that are not those of the graph.
    """
    sizes = bind_sizes(graph, inputs)
    program = specialize(graph, sizes)
    used = _used(program)
    uses = used.tensors.copy()
    values: dict[Tensor, Array] = dict(zip(program.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        found = _Results(used.calls)
        for node in in_effect_order(program):
            if node.definition is not placeholder_op:
                _run(node, found.of(node, values), values, uses)
    # Copies: a result may be a view of an input, of a constant or of another result.
    roots = [np.array(values[t]) for t in program.roots]
    return roots[: len(program.outputs)], roots[len(program.outputs) :]


@dataclass(frozen=True, slots=True)
class _Used:
    """How often each tensor of a program is used, and the keys of the calls it makes repeatedly."""

    tensors: Counter[Tensor]
    calls: frozenset[Hashable]


def _used(program: Graph) -> _Used:
    """Count uses; once for each graph, since the body of a loop is run again and again."""
    found = program.derived.get(_Used)
    if isinstance(found, _Used):
        return found
    tensors = Counter(t for node in program.nodes for t in node.inputs)
    tensors.update(program.roots)
    keys = Counter(map(_call_key, program.nodes))
    calls = frozenset(key for key, count in keys.items() if key is not None and count > 1)
    used = program.derived[_Used] = _Used(tensors, calls)
    return used


class _Results:
    """Computes nodes; of calls of one function on the same operands, the first one only.

    A function that calls another twice on what it is given, which does so in turn, and so on, would
    else take time that doubles with each of them.
    """

    def __init__(self, repeated: frozenset[Hashable]) -> None:
        self._repeated = repeated
        self._known: dict[Hashable, tuple[Array, ...]] = {}

    def of(self, node: Node, values: dict[Tensor, Array]) -> tuple[Array, ...]:
        """Return what `node` gives."""
        key = _call_key(node) if self._repeated else None
        if key not in self._repeated:
            return _results(node, values)
        if key not in self._known:
            self._known[key] = _results(node, values)
        return self._known[key]


def _call_key(node: Node) -> Hashable:
    """Return what equal calls of a function share, None for any other op."""
    callee = node.attrs.get("callee")
    return (callee, *map(id, node.inputs)) if isinstance(callee, Graph) else None


def _run(
    node: Node, results: Sequence[Array], values: dict[Tensor, Array], uses: Counter[Tensor]
) -> None:
    """Put the results of `node` into `values`, and drop the operands used for the last time."""
    for tensor, result in zip(node.outputs, results, strict=True):
        want = tensor.type
        shape = want.static_shape
        if is_unbounded(want):
            shape = (len(result), *shape[1:])  # as many slices as there were iterations
        is_right = result.dtype == want.dtype.numpy and result.shape == shape
        assert is_right, (
            f"{node!r}: the reference gives {result.dtype.name}{list(result.shape)} "
            f"in the place of {want}"
        )
        if uses[tensor]:
            values[tensor] = result
    for operand in node.inputs:
        uses[operand] -= 1
        if not uses[operand]:
            del values[operand]


def _results(node: Node, values: dict[Tensor, Array]) -> tuple[Array, ...]:
    reference = node.definition.reference
    assert reference is not None, f"{node!r} has no reference"
    results = reference(*(values[t] for t in node.inputs), **node.attrs)
    # NumPy gives scalars in the place of arrays without axes.
    return tuple(map(np.asarray, results if isinstance(results, tuple) else (results,)))


def bind_sizes(graph: Graph, inputs: Sequence[Array]) -> dict[str, int]:
    """Return the unknown sizes of `graph` that arrays given as its inputs have.

    Raises for arrays of another number, dtype or shape, with the name of the input.
    """
    if len(inputs) != len(graph.inputs):
        raise GraphError(
            graph.name, f"{len(inputs)} inputs are given, {len(graph.inputs)} are wanted"
        )
    sizes: dict[str, int] = {}
    for position, (tensor, array) in enumerate(zip(graph.inputs, inputs, strict=True)):
        if array.dtype != tensor.dtype.numpy:
            label = tensor.name or f"input {position}"
            raise DTypeError(label, f"{array.dtype.name} is given, {tensor.type} is wanted")
        if array.ndim != tensor.ndim:
            label = tensor.name or f"input {position}"
            raise ShapeError(label, f"shape {array.shape} is given, {tensor.type} is wanted")
        for dim, size in zip(tensor.shape, array.shape, strict=True):
            name = _unknown_name(dim)
            if name is not None:
                sizes.setdefault(name, size)
    for position, (tensor, array) in enumerate(zip(graph.inputs, inputs, strict=True)):
        wanted = tuple(substitute(dim, sizes) for dim in tensor.shape)
        if is_unbounded(tensor.type):
            # A tape that a nested graph reads: it has a slice for each iteration there was.
            wanted = (len(array), *wanted[1:])
        if wanted != array.shape:
            label = tensor.name or f"input {position}"
            text = ", ".join(map(str, wanted))
            raise ShapeError(
                label, f"shape {array.shape} is given, {tensor.type} is wanted: here [{text}]"
            )
    return sizes


def _unknown_name(dim: Dim) -> str | None:
    """Return the name of the unknown that `dim` is; None if it is known or a polynomial."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms
    if coefficient != 1 or len(monomial) != 1 or not isinstance(monomial[0], Unknown):
        return None
    return monomial[0].name
