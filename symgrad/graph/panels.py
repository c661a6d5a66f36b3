"""Rich display of tensors and graphs: what notebooks show of them, as HTML."""

from __future__ import annotations

from symgrad.display.markup import Html, tag
from symgrad.display.panels import facts, panel
from symgrad.display.units import bytes_text
from symgrad.graph.drawing import draw_graph
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Node, Tensor


def tensor_panel(tensor: Tensor) -> Html:
    """Return what a tensor is, which op gives it of what, and where it was built."""
    node = tensor.node
    rows: list[tuple[object, object]] = [
        ("type", f"{tensor.type}{_size_text(tensor)}"),
        ("op", node.op),
        ("name", tensor.name),
        ("of", ", ".join(_named(t) for t in node.inputs)),
        ("name scope", node.scope),
        ("gradient of", _described(node.origin)),
        ("built at", node.source),
    ]
    if isinstance(tensor, Variable):
        rows.append(("value", _value_text(tensor)))
        rows.append(("trainable", tensor.trainable))
    shown = [(name, value) for name, value in rows if value not in (None, "")]
    return panel(type(tensor).__name__, facts(shown))


def graph_panel(graph: Graph) -> Html:
    """Return what a graph takes, gives and updates, and a drawing of it."""
    rows = [
        ("inputs", ", ".join(map(_named, graph.inputs))),
        ("outputs", ", ".join(map(_named, graph.outputs))),
        ("updates", ", ".join(_named(u.variable) for u in graph.updates)),
        ("ops", f"{len(graph.nodes):,}"),
    ]
    shown = [(name, value) for name, value in rows if value]
    drawing = tag("details", tag("summary", "drawing"), draw_graph(graph), open="")
    return panel(f"Graph {graph.name}", facts(shown), drawing)


def _named(tensor: Tensor) -> str:
    return f"{tensor.name or tensor.node.op}: {tensor.type}"


def _described(node: Node | None) -> str:
    return "" if node is None else f"{node.op} ({node.source})"


def _size_text(tensor: Tensor) -> str:
    return f", {bytes_text(tensor.type.nbytes)}" if tensor.type.is_static else ""


def _value_text(variable: Variable) -> str:
    text = " ".join(str(variable.value).split())
    return text if len(text) <= 120 else f"{text[:119]}\u2026"
