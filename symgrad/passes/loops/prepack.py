"""Weight prepacking: a factor that each iteration of a loop reads lies in panels before the loop.

Before, with a row of `%w` of 4096 bytes:

    %0 = scan %n, %h, %w {carried = 1} {
      body(%p0, %w : f32[256, 1024]) { %0 = einsum %p0, %w {spec = "ab,bc->ac"}; return %0 }
    }

After:

    %0 = reshape %w {shape = [256, 16, 64]}
    %1 = permute_dims %0 {axes = [1, 0, 2]}
    %2 = scan %n, %h, %1 {carried = 1} {
      body(%p0, %p1 : f32[16, 256, 64]) {
        %0 = einsum %p0, %p1 {spec = "ab,dbc->adc"}
        %1 = reshape %0 {shape = [32, 1024]}
        return %1
      }
    }

The steps of a sum over `b` lie apart in `%w`: where that is a page, each meets another one and the
same few sets of the first-level cache, which the next rows of the product therefore read from
further away. In panels they lie one after another, also those of a weight that is multiplied
transposed, as in the gradient of such a loop, which is transposed on the way. A product alone does
not read its factor often enough to pay for bringing it into that order; a loop does.
"""

from __future__ import annotations

from symgrad.cost_model.products import (
    LEAST_PACKED_TRIPS,
    PACKED_ROWS,
    PACKED_STEP_BYTES,
    PACKED_TERM_BYTES,
)
from symgrad.graph.build import derived_from, inside, with_attrs
from symgrad.graph.compare import has_nested_graphs
from symgrad.graph.graph import Graph, transform
from symgrad.graph.loop_view import LOOPS, LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.contraction import LABELS, contract, einsum_op
from symgrad.graph.ops.structure import permute_dims, reshape
from symgrad.graph.structures import Contract
from symgrad.passes.costs import kernel_spec
from symgrad.passes.loops.extend_loop import (
    Extension,
    is_static,
    trips_of,
    with_extensions,
)
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.records import dataclass

RULE = "prepack"


def prepack(graph: Graph, rewrites: Rewrites) -> Graph:
    """Pack before loops: return `graph` with factors that do not change in panels."""
    if not has_nested_graphs(graph):
        return graph
    extensions: dict[Node, Extension] = {}

    def packed(loop: Node, inputs: tuple[Tensor, ...]) -> Node | None:
        if loop.definition not in LOOPS or not is_static(loop):
            return None
        trips = trips_of(loop)
        if trips is not None and trips < LEAST_PACKED_TRIPS:
            return None
        found = _products(LoopView(loop), rewrites.panel_bytes)
        products = [product for product in found if _pays(product, rewrites)]
        allowed = [product for product in products if rewrites.allow(RULE, product.node)]
        if not allowed:
            return None
        new, extension = _with_panels(loop, inputs, allowed)
        extensions[new] = extension
        return new

    return with_extensions(transform(graph, packed), extensions)


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of the body with `weight`, of which one axis is the last of the result.

    `labels` are those of the other factor, `summed` and `kept` those of the weight, which lies
    transposed if its rows are what is kept.
    """

    node: Node
    weight: Tensor
    labels: str
    summed: str
    kept: str
    out: str
    is_transposed: bool
    panel_bytes: int

    @property
    def terms(self) -> int:
        """The terms of a sum."""
        return self.weight.type.static_shape[self.is_transposed]

    @property
    def columns(self) -> int:
        """The columns of the result, all of which have a sum with the same terms of the other."""
        return self.weight.type.static_shape[not self.is_transposed]

    @property
    def panel(self) -> int:
        """The columns of a panel."""
        return self.panel_bytes // self.weight.dtype.numpy.itemsize


def _products(view: LoopView, panel_bytes: int) -> list[_Product]:
    """Return the products of a body with a matrix that is the same in each iteration."""
    fixed = set(view.body.inputs[view.changing :])
    found = []
    for node in view.body.nodes:
        if node.definition is einsum_op:
            spec = kernel_spec(node)
            assert isinstance(spec, Contract), f"{node!r} is no contraction"
            first, second = node.inputs
            ways = [(first, spec.lhs, second, spec.rhs), (second, spec.rhs, first, spec.lhs)]
            found += [
                _Product(node, weight, labels, own[at], own[1 - at], spec.out, at == 1, panel_bytes)
                for other, labels, weight, own in ways
                if weight in fixed and other not in fixed and len(own) == 2
                for at in (0, 1)
                if _is_matrix(labels, own[at], own[1 - at], spec.out)
            ]
    return found


def _is_matrix(labels: str, summed: str, kept: str, out: str) -> bool:
    """Return whether a factor is summed over one axis, its other one staying as the last."""
    if summed == kept:
        return False
    is_plain = labels.count(summed) == 1 and summed not in out and kept not in labels
    return is_plain and out[-1:] == kept and sorted(out[:-1]) == sorted(labels.replace(summed, ""))


def _pays(product: _Product, rewrites: Rewrites) -> bool:
    terms, columns = product.terms, product.columns
    rows = product.node.output.type.count // max(columns, 1)
    step = product.weight.type.static_shape[1] * product.weight.dtype.numpy.itemsize
    pays = (
        product.weight.dtype.is_float
        and step >= PACKED_STEP_BYTES
        and columns % product.panel == 0
        and terms * product.weight.dtype.numpy.itemsize >= PACKED_TERM_BYTES
        and rows >= PACKED_ROWS
    )
    length = product.weight.type.static_shape[0]
    reason = (
        f"{'packed before the loop' if pays else 'left'}: {rows} rows of a product with {length} "
        f"rows of {step} bytes, from {PACKED_ROWS} rows and {PACKED_STEP_BYTES} bytes on"
    )
    rewrites.explain(RULE, product.node, reason)
    return pays


def _with_panels(
    loop: Node, inputs: tuple[Tensor, ...], products: list[_Product]
) -> tuple[Node, Extension]:
    """Return `loop` with panels made in its body, and the extension that makes them before it."""
    body = LoopView(loop).body
    product_of = {product.node: product for product in products}
    panels: dict[tuple[Tensor, bool], Tensor] = {}

    def replaced(node: Node, operands: tuple[Tensor, ...]) -> Node | None:
        product = product_of.get(node)
        if product is None:
            return None
        key = product.weight, product.is_transposed
        with derived_from(node):
            if key not in panels:
                panels[key] = _in_panels(*key, product.panel)
            (other,) = (t for t in operands if t is not product.weight)
            return _product_of(product, other, panels[key]).node

    with inside(body.region):
        made = transform(body, replaced)
    new = with_attrs(loop, inputs, {**loop.attrs, "body": made})
    outer = dict(zip(body.inputs, LoopView(new).operands, strict=True))
    before = {}
    for (weight, is_transposed), packed in panels.items():
        panel = packed.type.static_shape[-1]
        with derived_from(packed.node):
            before[packed] = _in_panels(outer[weight], is_transposed, panel)
    return new, Extension(invariants=before)


def _in_panels(weight: Tensor, is_transposed: bool, panel: int) -> Tensor:
    first, second = weight.type.static_shape
    if is_transposed:
        return permute_dims(reshape(weight, (first // panel, panel, second)), (0, 2, 1))
    return permute_dims(reshape(weight, (first, second // panel, panel)), (1, 0, 2))


def _product_of(product: _Product, other: Tensor, panels: Tensor) -> Tensor:
    """Build the product with the panels of a weight, and give it its shape again."""
    used = product.labels + product.summed + product.kept + product.out
    panel = next(label for label in LABELS if label not in used)
    out = product.out[:-1] + panel + product.kept
    own = panel + product.summed + product.kept
    found = contract(other, panels, product.labels, own, out)
    return reshape(found, product.node.output.type.static_shape)
