"""Gradient checking: symbolic gradients against central differences in float64 or complex128.

The program is widened to float64 first, whatever its dtypes, so that differences mean something;
what it computes in float32 is for other tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import GraphError
from symgrad.graph import dtypes
from symgrad.graph.build import rebuild
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import require_int
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import (
    constant_node,
    constant_op,
    placeholder,
    placeholder_op,
    variable_op,
)
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array, ArrayLiteral, Attr
from symgrad.passes.gradients.reverse_mode import gradients

Point = dict[Tensor, Array]  # the values of placeholders and variables


def check_gradients(
    fn_or_ys: Callable[..., Any] | Tensor | Sequence[Tensor],
    xs: Any,
    feed: Mapping[Tensor, Any] | None = None,
    *,
    order: int = 1,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    step: float = 1e-5,
    seed: int = 0,
) -> None:
    """Raise AssertionError unless the gradients of ys with respect to xs are those of the program.

    Give a function and the arrays to call it on, or tensors ys and the placeholders and variables
    xs they depend on. Placeholders missing from `feed` get normal random values, variables have
    the value of their state. ys are weighted at random, and each x is moved by `step` along one
    random direction. With `order=2` the gradients are differentiated and checked in turn. The
    point must be away from kinks. A complex x is moved along a complex direction, and of a complex
    y the real part of what it is weighted with counts.

    >>> sg.testing.check_gradients(lambda x: sg.sin(x) * x, [np.array([1.0, 2.0])], order=2)
    """
    if require_int("check_gradients", "seed", seed) < 0:
        raise GraphError("check_gradients", f"seed is {seed}, it must not be negative")
    if not step > 0:
        raise GraphError("check_gradients", f"step is {step}, it must be more than 0")
    rng = np.random.default_rng(seed)
    if callable(fn_or_ys):
        fn_or_ys, xs, feed = _trace(fn_or_ys, _as_list(xs))
    ys, xs = _as_list(fn_or_ys), _as_list(xs)
    point = _starting_point(Graph([*ys, *xs]), feed or {}, rng)
    for x in xs:
        if x not in point or not x.dtype.is_trainable:
            raise GraphError("check_gradients", f"{x!r} is no float placeholder or variable")
    for level in range(1, require_int("check_gradients", "order", order) + 1):
        weights = [placeholder(y.shape, y.dtype) for y in ys]
        shapes = [value.shape for value in _Widened(ys)(point)]
        point |= {w: _normal(rng, w, shape) for w, shape in zip(weights, shapes, strict=True)}
        found = gradients(ys, xs, weights)
        for x, gradient in zip(xs, found, strict=True):
            label = f"gradient {level} with respect to {x!r}"
            direction = _normal(rng, x, point[x].shape)
            symbolic = _symbolic_slope(gradient, direction, point)
            numeric = _numeric_slope(ys, weights, x, direction * step, point) / step
            close = np.isclose(symbolic, numeric, rtol=float(rtol), atol=float(atol))
            assert close, f"{label}: {symbolic} along a direction, differences give {numeric}"
        ys = [g for g in found if g is not None]


def _normal(rng: np.random.Generator, like: Tensor, shape: tuple[int, ...]) -> Array:
    """Return normal random numbers, complex ones for a complex tensor."""
    found = rng.standard_normal(shape)
    return found + 1j * rng.standard_normal(shape) if like.dtype.is_complex else found


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


def _trace(
    function: Callable[..., Any], arrays: list[Any]
) -> tuple[list[Tensor], list[Tensor], dict[Tensor, Array]]:
    """Return the results of `function` on placeholders, the float ones of these, and a feed."""
    values = [np.asarray(a) for a in arrays]
    kinds = [dtypes.as_dtype(value.dtype) for value in values]
    inputs = [placeholder(v.shape, _widen(kind)) for v, kind in zip(values, kinds, strict=True)]
    ys = [as_tensor(y) for y in _as_list(function(*inputs))]
    return ys, [x for x in inputs if x.dtype.is_trainable], dict(zip(inputs, values, strict=True))


def _starting_point(graph: Graph, feed: Mapping[Tensor, Any], rng: np.random.Generator) -> Point:
    point: Point = {v: v.value.astype(_widen(v.dtype).numpy) for v in graph.variables}
    for tensor in graph.inputs:
        if tensor in feed:
            point[tensor] = np.asarray(feed[tensor]).astype(_widen(tensor.dtype).numpy)
        elif tensor.dtype.is_trainable and tensor.type.is_static:
            point[tensor] = _normal(rng, tensor, tensor.type.static_shape)
        else:
            raise GraphError("check_gradients", f"{tensor!r} must be fed")
    return point


def _symbolic_slope(gradient: Tensor | None, direction: Array, point: Point) -> float:
    if gradient is None:
        return 0.0
    (value,) = _Widened([gradient])(point)
    return float(np.sum(value * direction).real)


def _numeric_slope(
    ys: Sequence[Tensor], weights: Sequence[Tensor], x: Tensor, move: Array, point: Point
) -> float:
    program = _Widened(ys)
    ahead = program({**point, x: point[x] + move})
    behind = program({**point, x: point[x] - move})
    # The values are subtracted before they are summed, which loses fewer digits.
    terms = zip(weights, ahead, behind, strict=True)
    return sum(float(np.sum(point[w] * (a - b)).real) for w, a, b in terms) / 2


def _widen(dtype: DType) -> DType:
    if dtype.is_complex:
        return dtypes.complex128
    return dtypes.float64 if dtype.is_float else dtype


class _Widened:
    """A program in the widest floats and complex numbers, with variables as other inputs."""

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        self._leaves: list[Tensor] = []
        self._inputs: list[Tensor] = []
        mapping: dict[Tensor, Tensor] = {}
        for node in Graph(outputs).nodes:
            inputs = tuple(mapping[t] for t in node.inputs)
            mapping.update(zip(node.outputs, self._rebuild(node, inputs).outputs, strict=True))
        self._graph = Graph([mapping[t] for t in outputs], self._inputs)

    def _rebuild(self, node: Node, inputs: tuple[Tensor, ...]) -> Node:
        if node.definition in (placeholder_op, variable_op):
            dtype = _widen(node.output.dtype)
            self._leaves.append(node.output)
            self._inputs.append(placeholder(node.output.shape, dtype, node.name))
            return self._inputs[-1].node
        if node.definition is constant_op:
            return constant_node(_widen_literal(node.attrs["value"])).node
        return rebuild(node, inputs, _widen_attr)

    def __call__(self, point: Point) -> list[Array]:
        return evaluate(self._graph, [point[leaf] for leaf in self._leaves])[0]


def _widen_literal(value: Attr) -> ArrayLiteral:
    assert isinstance(value, ArrayLiteral), "a constant has a literal"
    return ArrayLiteral(value.array.astype(_widen(value.type.dtype).numpy))


def _widen_attr(attr: Attr) -> Attr:
    if isinstance(attr, tuple):
        return tuple(map(_widen_attr, attr))
    return _widen(attr) if isinstance(attr, DType) else attr
