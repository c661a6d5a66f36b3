"""Ops that only tests have, each declared by its record alone: what passes know, it says.

They are declared while `new_ops` is open and forgotten behind it, so that no other test meets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import symgrad as sg
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, OpDef, Tensor
from symgrad.graph.opdef import OPS, define, elementwise
from symgrad.graph.ops.structure import Axes, drop_axes, kept_shape
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import AxisMap, Reduce, ScalarExpr, View
from symgrad.graph.types import Array, TensorType, static


@dataclass(frozen=True, slots=True)
class NewOps:
    """Three elementwise ops, a View and a Reduce."""

    step_op: OpDef
    blend_op: OpDef
    inverse_op: OpDef
    mirror_op: OpDef
    squares_op: OpDef

    def step(self, x: Tensor, g: Tensor) -> Tensor:
        """Return `x - 2 * g`."""
        return apply(self.step_op, x, g)

    def blend(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `x * y * e**(x + y)`, for which the order of operands does not matter."""
        return apply(self.blend_op, x, y)

    def inverse(self, x: Tensor) -> Tensor:
        """Return `1 / x`."""
        return apply(self.inverse_op, x)

    def mirror(self, x: Tensor) -> Tensor:
        """Return `x` with its last axis turned round."""
        return apply(self.mirror_op, x)

    def squares(self, x: Tensor, axes: Axes) -> Tensor:
        """Return the sum of squares over `axes`."""
        return apply(self.squares_op, x, axes=axes)


@contextmanager
def new_ops() -> Iterator[NewOps]:
    """Declare the ops."""
    known = set(OPS)
    try:
        yield NewOps(_step(), _blend(), _inverse(), _mirror(), _squares())
    finally:
        for name in OPS.keys() - known:
            del OPS[name]


def _first(x: TensorType, *_others: TensorType) -> TensorType:
    return x


def _step() -> OpDef:
    def grad(_node: Node, g: Tensor) -> Grads:
        return g, g * -2.0

    return elementwise(
        "test.step",
        infer=_first,
        reference=lambda x, g: np.asarray(x - (g + g)),
        grad=grad,
        body=lambda s, x, g: s.call("sub", x, s.call("add", g, g)),
    )


def _blend() -> OpDef:
    def body(s: Scalars[ScalarExpr], x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
        return s.call("mul", s.call("exp", s.call("add", x, y)), s.call("mul", x, y))

    def grad(node: Node, g: Tensor) -> Grads:
        x, y = node.inputs
        e, whole = sg.exp(x + y), node.output
        return g * (whole + e * y), g * (whole + e * x)

    return elementwise(
        "test.blend",
        infer=_first,
        reference=lambda x, y: np.asarray(np.exp(x + y) * (x * y)),
        grad=grad,
        body=body,
        commutes="yes",
    )


def _inverse() -> OpDef:
    def body(s: Scalars[ScalarExpr], x: ScalarExpr) -> ScalarExpr:
        return s.call("div", s.const(1, s.dtype_of(x)), x)

    def reference(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / x)

    def grad(node: Node, g: Tensor) -> Grads:
        return (-(g * node.output * node.output),)

    return elementwise("test.inverse", infer=_first, reference=reference, grad=grad, body=body)


def _mirror() -> OpDef:
    def kernel(x: TensorType) -> View:
        last = x.ndim - 1
        turned = AxisMap.axis(last, -1, static(x.shape[last]) - 1)
        return View((*map(AxisMap.axis, range(last)), turned))

    def grad(node: Node, g: Tensor) -> Grads:
        return (apply(node.definition, g),)

    return define(
        "test.mirror",
        infer=_first,
        reference=lambda x: np.ascontiguousarray(x[..., ::-1]),
        grad=grad,
        kernel=kernel,
    )


def _squares() -> OpDef:
    def infer(x: TensorType, *, axes: Axes) -> TensorType:
        return x.with_shape(drop_axes(x, axes))

    def reference(x: Array, *, axes: Axes) -> Array:
        return np.asarray(np.sum(x * x, axis=axes))

    def grad(node: Node, g: Tensor, *, axes: Axes) -> Grads:
        (x,) = node.inputs
        spread = sg.broadcast_to(sg.reshape(g, kept_shape(x.type, axes)), x.shape)
        return (2.0 * x * spread,)

    def kernel(x: TensorType, *, axes: Axes) -> Reduce:
        return Reduce(
            axes,
            dtypes=(x.dtype,),
            identity=(0,),
            item=lambda s, item, _position: (s.call("mul", item, item),),
            combine=lambda s, a, b: (s.call("add", a[0], b[0]),),
            finish=lambda _s, total: total[0],
        )

    return define("test.squares", infer=infer, reference=reference, grad=grad, kernel=kernel)
