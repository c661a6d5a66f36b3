"""Peephole rules about views, casts and marks: ops that move elements or return them.

They concern attributes, so each is a function of a node with examples, under the equation it
stands for. All hold bit for bit. What slices meet is in `rewrites/slices.py`; reductions and
products are in `rewrites/reductions.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from symgrad.errors import SymgradError
from symgrad.graph.build import apply, rebuild
from symgrad.graph.dtypes import DType, is_lossless
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, OpDef, Tensor
from symgrad.graph.ops.arithmetic import add, multiply, negative
from symgrad.graph.ops.comparison import where
from symgrad.graph.ops.conversion import (
    astype,
    astype_op,
    identity,
    identity_op,
    stop_gradient,
    stop_gradient_op,
)
from symgrad.graph.ops.marks import (
    match_shape_op,
    prevent_gradient,
    prevent_gradient_op,
    require_least_op,
)
from symgrad.graph.ops.slicing import flip, place_op, slice_axes, slice_op
from symgrad.graph.ops.structure import (
    broadcast_to,
    broadcast_to_op,
    permute_dims,
    permute_dims_op,
    reshape,
    reshape_op,
)
from symgrad.graph.types import Shape
from symgrad.passes.rewrites.rules import Holds, RewriteRule

NodeFunction = Callable[[Node], Tensor | None]
_SAMPLE = (2, 3, 4)  # the shape of the operands of examples


def structural(
    equation: str,
    *roots: OpDef,
    holds: Holds = Holds.BITWISE,
    examples: tuple[Callable[..., Tensor], ...],
    needs_sole_use: bool = False,
    sole: int = 0,
    operands: OpDef | None = None,
) -> Callable[[NodeFunction], RewriteRule]:
    """Make a function of a node a rule for the ops `roots`, for every op if there are none.

    `examples` are programs over operands of shape (2, 3, 4) of some dtypes, to whose
    result it applies. `operands` is the op that all operands must be results of, if it is one.
    """

    def may_match(ops: tuple[OpDef, ...]) -> bool:
        return operands is None or set(ops) == {operands}

    def make(function: NodeFunction) -> RewriteRule:
        def applies_to(node: Node) -> bool:
            ops = tuple(t.node.definition for t in node.inputs)
            return may_match(ops) and function(node) is not None

        def over(dtype: DType) -> list[Tensor]:
            made = (_build(example, dtype) for example in examples)
            return [t for t in made if t is not None and applies_to(t.node)]

        ops = roots or None
        return RewriteRule(equation, ops, holds, function, over, needs_sole_use, may_match, sole)

    return make


def _build(example: Callable[..., Tensor], dtype: DType) -> Tensor | None:
    """Return `example` over placeholders of `dtype`, None if its ops do not take that."""
    names = inspect.signature(example).parameters
    try:
        return example(*(placeholder(_SAMPLE, dtype, name) for name in names))
    except SymgradError:
        return None


def ints(node: Node, key: str) -> tuple[int, ...] | None:
    """Return an attribute that is a tuple of sizes or axes, None if not all of them are known."""
    value = node.attrs[key]
    assert isinstance(value, tuple), f"attribute {key} of {node!r} is no tuple"
    numbers = tuple(n for n in value if isinstance(n, int))
    return numbers if len(numbers) == len(value) else None


def axes_of(node: Node) -> tuple[int, ...]:
    """Return the attribute `axes`, which is always known."""
    axes = ints(node, "axes")
    assert axes is not None, f"axes of {node!r} are not known"
    return axes


def _has_one_element(x: Tensor) -> bool:
    return all(n == 1 for n in x.shape)


def _without_ones(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


# ----------------------------------------------------------------------------- what does nothing


@structural(
    "identity(x) -> x, and marks alike",
    identity_op,
    stop_gradient_op,
    prevent_gradient_op,
    require_least_op,
    examples=(
        identity,
        stop_gradient,
        prevent_gradient,
        lambda x: apply(
            require_least_op, x, size=3, least=1, about="f", problem="{x}", is_index=False
        ),
    ),
)
def _mark(node: Node) -> Tensor | None:
    # What is demanded of a size that is not known yet is found when it is.
    is_open = node.definition is require_least_op and not isinstance(node.attrs["size"], int)
    return None if is_open else node.inputs[0]


@structural(
    "view(x) -> x, for a view that changes nothing",
    reshape_op,
    broadcast_to_op,
    match_shape_op,
    astype_op,
    permute_dims_op,
    slice_op,
    place_op,
    examples=(
        lambda x: apply(reshape_op, x, shape=x.shape),
        lambda x: apply(broadcast_to_op, x, shape=x.shape),
        lambda x: apply(match_shape_op, x, shape=x.shape),
        lambda x: apply(permute_dims_op, x, axes=(0, 1, 2)),
    ),
)
def _unchanged(node: Node) -> Tensor | None:
    (x,) = node.inputs
    if x.type != node.output.type:
        return None
    if node.definition is permute_dims_op:
        return x if axes_of(node) == tuple(range(x.ndim)) else None
    if node.definition is slice_op:
        starts, steps = ints(node, "start"), ints(node, "step")
        is_whole = starts == (0,) * x.ndim and steps == (1,) * x.ndim
        return x if is_whole else None
    return x


# ---------------------------------------------------------------------------------- views of views


@structural(
    "reshape(reshape(x)) -> reshape(x)",
    reshape_op,
    operands=reshape_op,
    examples=(
        lambda x: reshape(reshape(x, (6, 4)), (2, 12)),
        lambda x: apply(reshape_op, reshape(x, (6, 4)), shape=x.shape),
    ),
)
def _reshape_of_reshape(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    return reshape(inner.inputs[0], node.output.shape)


@structural(
    "permute_dims(permute_dims(x)) -> permute_dims(x)",
    permute_dims_op,
    operands=permute_dims_op,
    examples=(
        lambda x: permute_dims(permute_dims(x, (1, 2, 0)), (1, 0, 2)),
        lambda x: permute_dims(permute_dims(x, (1, 2, 0)), (2, 0, 1)),
    ),
)
def _permute_of_permute(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    order = axes_of(inner)
    return permute_dims(inner.inputs[0], tuple(order[a] for a in axes_of(node)))


@structural(
    "permute_dims(x) -> reshape(x), if only axes of size 1 change places",
    permute_dims_op,
    examples=(lambda x: permute_dims(reshape(x, (2, 1, 3, 4)), (0, 2, 3, 1)),),
)
def _permute_of_unit_axes(node: Node) -> Tensor | None:
    (x,) = node.inputs
    moved = [a for a in axes_of(node) if x.shape[a] != 1]
    return reshape(x, node.output.shape) if moved == sorted(moved) else None


@structural(
    "broadcast_to(broadcast_to(x)) -> broadcast_to(x)",
    broadcast_to_op,
    operands=broadcast_to_op,
    examples=(lambda x: broadcast_to(broadcast_to(x, (5, 2, 3, 4)), (6, 5, 2, 3, 4)),),
)
def _broadcast_of_broadcast(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    return broadcast_to(inner.inputs[0], node.output.shape)


@structural(
    "broadcast_to(reshape(x)) -> broadcast_to(x), if the reshape only adds axes in front",
    broadcast_to_op,
    operands=reshape_op,
    examples=(lambda x: broadcast_to(reshape(x, (1, 1, 2, 3, 4)), (1, 5, 2, 3, 4)),),
)
def _broadcast_of_leading_axes(node: Node) -> Tensor | None:
    (x,) = node.inputs
    (source,) = x.node.inputs
    added = x.ndim - source.ndim
    is_in_front = added > 0 and x.shape == (1,) * added + source.shape
    return broadcast_to(source, node.output.shape) if is_in_front else None


@structural(
    "view(broadcast_to(x)) -> broadcast_to(x), for one element",
    reshape_op,
    permute_dims_op,
    slice_op,
    operands=broadcast_to_op,
    examples=(
        lambda x: reshape(broadcast_to(_one_element(x), (4, 6)), (8, 3)),
        lambda x: permute_dims(broadcast_to(_one_element(x), (4, 6)), (1, 0)),
        lambda x: flip(broadcast_to(_one_element(x), (4, 6))),
    ),
)
def _view_of_one_element(node: Node) -> Tensor | None:
    x = node.inputs[0]
    if not _has_one_element(x.node.inputs[0]):
        return None
    return broadcast_to(reshape(x.node.inputs[0], ()), node.output.shape)


def _one_element(x: Tensor) -> Tensor:
    return reshape(slice_axes(x, (1, 2, 3), (1, 1, 1), (1, 1, 1)), (1, 1))


# ---------------------------------------------------------------------------------- maps and casts


@structural(
    "f(broadcast_to(x), broadcast_to(y)) -> broadcast_to(f(x, y)), elementwise",
    examples=(
        lambda x: negative(broadcast_to(x, (5, 2, 3, 4))),
        lambda x, y: add(broadcast_to(x, (5, 2, 3, 4)), broadcast_to(y, (5, 2, 3, 4))),
        lambda x: multiply(broadcast_to(x, (5, 2, 3, 4)), 3),
        lambda x: where(True, broadcast_to(_one_element(x), (4, 5)), 0),
    ),
    operands=broadcast_to_op,
)
def _map_of_broadcasts(node: Node) -> Tensor | None:
    sources = [t.node.inputs[0] for t in node.inputs]
    shapes = {x.shape for x in sources if not _has_one_element(x)}
    if len(shapes) > 1 or any(t.shape != node.output.shape for t in node.inputs):
        return None
    if not node.definition.is_elementwise:
        return None
    shape: Shape = next(iter(shapes), ())
    same = (broadcast_to(reshape(x, ()), shape) if _has_one_element(x) else x for x in sources)
    return broadcast_to(rebuild(node, tuple(same)).output, node.output.shape)


@structural(
    "astype(astype(x)) -> astype(x), if the first loses nothing",
    astype_op,
    operands=astype_op,
    examples=(
        lambda x: astype(astype(x, "float64"), "float32"),
        lambda x: astype(astype(x, "float32"), "int32"),
        lambda x: astype(astype(x, "float64"), "int64"),
        lambda x: astype(astype(x, "int64"), "uint8"),
        lambda x: astype(astype(x, "int32"), "bool"),
    ),
)
def _cast_of_cast(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    (x,) = inner.inputs
    through, to = inner.output.dtype, node.output.dtype
    if not is_lossless(x.dtype, through):
        return None
    # Through a float, an integer that does not fit saturates; straight, it keeps its low bits.
    if x.dtype.is_integer and through.is_float and to.is_integer and not is_lossless(x.dtype, to):
        return None
    return astype(x, to)


STRUCTURE = (
    _mark,
    _unchanged,
    _reshape_of_reshape,
    _permute_of_permute,
    _permute_of_unit_axes,
    _broadcast_of_broadcast,
    _broadcast_of_leading_axes,
    _view_of_one_element,
    _map_of_broadcasts,
    _cast_of_cast,
)
