"""Subcommand `lint`: what a program has that it is unlikely to want, though none of it is wrong.

Each row of `_CHECKS` reads the graph as it was built. What is wrong is refused when it is built or
compiled, and is not looked for here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from symgrad.commands.loading import Loaded
from symgrad.errors import Source
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.ops.conversion import astype_op
from symgrad.graph.types import ArrayLiteral

_LARGE = 1 << 20  # bytes of a constant

Finding = tuple[Source | None, str]


def lint_text(loaded: Loaded) -> str:
    """Return what was found, a line each, with the user's line; nothing if all is well."""
    graph = loaded.step.graph
    found = [
        f"{'' if source is None else f'{source.file}:{source.line}: '}{check}: {problem}\n"
        for check, look in _CHECKS.items()
        for source, problem in look(graph)
    ]
    return "".join(dict.fromkeys(found))


def _unread_inputs(graph: Graph) -> Iterator[Finding]:
    """Find inputs on which nothing depends, and which each call must be given all the same."""
    read = {t for node in graph.nodes for t in node.inputs} | set(graph.roots)
    for tensor in graph.inputs:
        if tensor not in read:
            yield tensor.node.source, f"nothing reads the input {tensor.name or tensor.type}"


def _unmoved_variables(graph: Graph) -> Iterator[Finding]:
    """Find trainable variables that a step leaves as they are, though it moves others."""
    moved = {update.variable.state for update in graph.updates}
    if not any(state.trainable for state in moved):
        return
    for variable in graph.variables:
        if variable.trainable and variable.dtype.is_float and variable.state not in moved:
            yield variable.node.source, f"{variable.name} is trainable and no update moves it"


def _promotions(graph: Graph) -> Iterator[Finding]:
    """Find where float32 becomes float64, which makes all that follows twice as slow."""
    for node in graph.nodes:
        if node.definition is astype_op and node.origin is None and _is_promotion(node):
            name = node.inputs[0].name or node.inputs[0].node.op
            yield node.source, f"{name}: {node.inputs[0].type} becomes float64"


def _is_promotion(node: Node) -> bool:
    return node.inputs[0].dtype is dtypes.float32 and node.output.dtype is dtypes.float64


def _large_constants(graph: Graph) -> Iterator[Finding]:
    """Find large constants: a program has a copy, and is another one for other values."""
    for node in graph.nodes:
        literal = node.attrs.get("value")
        if isinstance(literal, ArrayLiteral) and literal.array.nbytes >= _LARGE:
            size = f"{literal.array.nbytes / 2**20:.1f} MiB"
            hint = "a variable that is not trainable, or an input, is not part of the program"
            yield node.source, f"a constant of {size}: {hint}"


_CHECKS: Mapping[str, Callable[[Graph], Iterator[Finding]]] = {
    "unread-input": _unread_inputs,
    "unmoved-variable": _unmoved_variables,
    "promotion": _promotions,
    "large-constant": _large_constants,
}
