"""Constants that are known while a pattern is found: what follows from constants alone.

Indices of a gather, conditions and masks decide what depends on what. A tensor is known if it is
made of constants by ops that run no graphs of their own, or if whoever runs a graph has bound it,
as an iteration of a loop binds its counter. Values are computed when they are asked for, by the
references of the ops.
"""

from __future__ import annotations

import numpy as np

from symgrad.errors import SymgradError
from symgrad.graph.compare import graphs_of
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import Array, ArrayLiteral


class KnownValues:
    """The tensors of one graph that are known. Nodes are told to `visit` after their operands."""

    def __init__(self) -> None:
        self._known: set[Tensor] = set()
        self._values: dict[Tensor, Array] = {}

    def bind(self, tensor: Tensor, value: Array | None) -> None:
        """Say that `tensor` has this value, if there is one."""
        if value is not None:
            self._known.add(tensor)
            self._values[tensor] = value

    def visit(self, node: Node) -> None:
        """Find out whether the results of a node are known."""
        if node.definition is constant_op:
            self._known.update(node.outputs)
        elif not node.definition.is_leaf and all(t in self._known for t in node.inputs):
            self._known.update(node.outputs if _is_evaluated(node) else ())

    def is_known(self, tensor: Tensor) -> bool:
        """Return whether `of` gives a value, unless computing it fails."""
        return tensor in self._known

    def of(self, tensor: Tensor) -> Array | None:
        """Return the value of a tensor, None if it is not known."""
        if tensor in self._values or tensor not in self._known:
            return self._values.get(tensor)
        pending = [tensor.node]
        while pending:
            node = pending[-1]
            missing = [t for t in node.inputs if t not in self._values]
            if node.outputs[0] in self._values:
                pending.pop()
            elif missing:
                pending += [t.node for t in missing]
            elif not self._evaluate(node):
                self._known.difference_update(t for n in pending for t in n.outputs)
                return None
        return self._values[tensor]

    def _evaluate(self, node: Node) -> bool:
        """Compute the results of a node; return whether that did not fail."""
        literal = node.attrs.get("value")
        if node.definition is constant_op and isinstance(literal, ArrayLiteral):
            self._values[node.output] = literal.array
            return True
        reference = node.definition.reference
        assert reference is not None, f"{node!r} cannot be evaluated"
        try:
            with np.errstate(all="ignore"):
                found = reference(*(self._values[t] for t in node.inputs), **node.attrs)
        except SymgradError:
            return False  # an index out of range: an error of the run that meets it
        results = found if isinstance(found, tuple) else (found,)
        self._values.update(zip(node.outputs, map(np.asarray, results), strict=True))
        return True


def _is_evaluated(node: Node) -> bool:
    definition = node.definition
    has_reference = definition.reference is not None and not definition.calls_outside
    return has_reference and not graphs_of(node) and all(t.type.is_static for t in node.outputs)
