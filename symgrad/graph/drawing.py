"""Graph drawing: nested boxes of name scopes, lines and ops, as a picture in SVG.

What is where is decided by `display/layers.py`, level by level; here are the texts and the marks.
Colours are those of the text around, so that a picture fits light and dark pages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from symgrad.display.layers import Layered, place_in_layers
from symgrad.display.markup import Html, joined, tag
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.outline import Outline, cut_to, outline_of
from symgrad.records import dataclass

Calls = Callable[[Node], Collection[int]]

_CHARACTER, _SMALL_CHARACTER = 7.3, 5.6  # widths at 12 and at 9 pixels
_OP_HEIGHT, _MARGIN, _TOP = 34, 14, 28
_GAP = (12.0, 22.0)
_LONGEST = 34  # characters of a text in a box
_MOST_BOXES = 90  # in a picture that is not zoomed

STYLE = Html(
    ".sg-drawing{max-width:100%;height:auto;--sg-paper:var(--jp-layout-color0,var(--paper,Canvas))}"
    ".sg-drawing text{fill:currentColor;font:12px ui-monospace,Menlo,Consolas,monospace}"
    ".sg-drawing .t{font-size:9px;opacity:.75}"
    ".sg-drawing rect{fill:color-mix(in srgb,currentColor 5%,var(--sg-paper));"
    "stroke:currentColor;stroke-opacity:.35}"
    ".sg-drawing .g>rect{fill:color-mix(in srgb,#d9822b 14%,var(--sg-paper))}"
    ".sg-drawing .leaf>rect{fill:color-mix(in srgb,#3b7dd8 20%,var(--sg-paper))}"
    ".sg-drawing path{fill:none;stroke:currentColor;stroke-opacity:.4}"
    ".sg-drawing .up{stroke-dasharray:3 3;stroke-opacity:.3}"
)


@dataclass(frozen=True, slots=True)
class _Placed:
    """An outline with places for its children, and those of groups placed themselves."""

    outline: Outline
    inner: Layered
    parts: tuple[_Placed | Node, ...]

    @property
    def size(self) -> tuple[float, float]:
        """The box around the children and the name above them."""
        if not self.parts:
            return _width_of(self.outline.name, "") + 12, _OP_HEIGHT
        width = max(self.inner.width, _width_of(self.outline.name, ""))
        return width + 2 * _MARGIN, self.inner.height + _MARGIN + _TOP


def draw_graph(graph: Graph) -> Html:
    """Return a picture of `graph` that fits a page: scopes are closed where there are too many."""
    outline = cut_to(outline_of(graph), _MOST_BOXES)
    return joined([tag("style", STYLE), draw_outline(outline, _no_calls)])


def draw_outline(outline: Outline, calls: Calls, *, is_fixed: bool = True) -> Html:
    """Return a picture of `outline`, in which what `calls` names is an attribute of an op's box.

    A picture that is not fixed in size fills what it is put into.
    """
    placed = _place(outline)
    width, height = placed.inner.width + 2 * _GAP[0], placed.inner.height + 2 * _GAP[0]
    inside = tag("g", _draw_inside(placed, calls), transform=f"translate({_GAP[0]} {_GAP[0]})")
    return tag(
        "svg",
        tag("title", f"the graph of {outline.name}"),
        inside,
        class_="sg-drawing",
        role="img",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}" if is_fixed else None,
        height=f"{height:.0f}" if is_fixed else None,
    )


def _no_calls(_node: Node) -> Collection[int]:
    return ()


def _place(outline: Outline) -> _Placed:
    parts = tuple(c if isinstance(c, Node) else _place(c) for c in outline.children)
    sizes = [_size_of(p) if isinstance(p, Node) else p.size for p in parts]
    return _Placed(outline, place_in_layers(sizes, outline.edges, _GAP), parts)


def _size_of(node: Node) -> tuple[float, float]:
    return _width_of(*_texts_of(node)) + 12, _OP_HEIGHT


def _width_of(text: str, small: str) -> float:
    return max(_CHARACTER * len(_short(text)), _SMALL_CHARACTER * len(_short(small)))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\u2026"


def _texts_of(node: Node) -> tuple[str, str]:
    name = node.name or node.op
    return name.rpartition("/")[2] or name, ", ".join(str(t.type) for t in node.outputs)


def _draw_inside(placed: _Placed, calls: Calls) -> Html:
    sizes = [_size_of(p) if isinstance(p, Node) else p.size for p in placed.parts]
    places = list(zip(placed.inner.corners, sizes, strict=True))
    lines: dict[str | None, list[str]] = {None: [], "up": []}
    for a, b in placed.outline.edges:
        is_up = places[b][0][1] <= places[a][0][1]
        lines["up" if is_up else None].append(
            _line(*(places[i] for i in ((b, a) if is_up else (a, b))))
        )
    drawn = [tag("path", d="".join(d), class_=kind) for kind, d in lines.items() if d]
    for part, (x, y) in zip(placed.parts, placed.inner.corners, strict=True):
        draw = _draw_op(part, calls) if isinstance(part, Node) else _draw_group(part, calls)
        drawn.append(tag("g", *draw[1:], transform=f"translate({x:.0f} {y:.0f})", **draw[0]))
    return joined(drawn)


_Spot = tuple[tuple[float, float], tuple[float, float]]  # a corner, and width and height


def _line(upper: _Spot, lower: _Spot) -> str:
    """Return the path from the bottom of a box to the top of one below it."""
    (x, y), (w, h) = upper
    (to_x, to_y), (to_w, _) = lower
    x, y, to_x = x + w / 2, y + h, to_x + to_w / 2
    bend = max((to_y - y) / 2, 4)
    middle = f"{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f}"
    return f"M{x:.0f} {y:.0f}C{middle} {to_x:.0f} {to_y:.0f}"


_Drawn = tuple[dict[str, str | None], *tuple[Html, ...]]  # attributes, and what is inside


def _draw_op(node: Node, calls: Calls) -> _Drawn:
    text, type_ = _texts_of(node)
    width, height = _size_of(node)
    kind = "leaf" if node.definition.is_leaf else "op g" if node.origin is not None else "op"
    at = "" if node.source is None else f" at {node.source}"
    return (
        {"class_": kind, "data_c": _numbers(calls(node))},
        tag("title", f"{node.op}: {type_}{at}"),
        tag("rect", width=f"{width:.0f}", height=f"{height:.0f}", rx=5),
        tag("text", _short(text), x=6, y=15),
        tag("text", _short(type_), x=6, y=28, class_="t"),
    )


def _draw_group(placed: _Placed, calls: Calls) -> _Drawn:
    outline, (width, height) = placed.outline, placed.size
    found = {call for op in outline.ops for call in calls(op)}
    kind = f"group{' g' if outline.is_gradient else ''}{'' if placed.parts else ' shut'}"
    left = (width - placed.inner.width) / 2
    inner = tag("g", _draw_inside(placed, calls), transform=f"translate({left:.0f} {_TOP})")
    return (
        {"class_": kind, "data_c": _numbers(sorted(found)), "data_name": outline.name},
        tag("rect", width=f"{width:.0f}", height=f"{height:.0f}", rx=8),
        tag("text", _short(outline.name), x=8, y=17 if placed.parts else 21),
        *((inner,) if placed.parts else ()),
    )


def _numbers(calls: Collection[int]) -> str | None:
    return " ".join(map(str, calls)) or None
