"""What the tests of gradients share: a value, the only gradient of a call, and ops made up."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.graph.build import apply_node
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, OpDef, Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.traverse import topological
from symgrad.graph.types import Array, TensorType
from symgrad.passes.gradients.reverse_mode import gradients

VECTOR = np.array([0.5, -1.0, 2.0], np.float32)


def gradient_of(ys: Any, x: Any, *arguments: Any, **options: Any) -> Tensor:
    """Return the gradient with respect to one x, which must be there."""
    found: list[Tensor | None] = gradients(ys, x, *arguments, **options)
    (g,) = found
    assert g is not None, f"{x!r} has no gradient"
    return g


def value_of(tensor: Tensor | None, given: Mapping[Tensor, Any] | None = None) -> Array:
    """Compute `tensor` with the reference, for the values of the placeholders in `given`."""
    assert tensor is not None, "there is no gradient"
    arrays = {t: np.asarray(v, t.dtype.numpy) for t, v in (given or {}).items()}
    outputs, _updates = evaluate(Graph(tensor, list(arrays)), list(arrays.values()))
    return outputs[0]


def ops_below(tensor: Tensor) -> list[str]:
    """Return the ops of the nodes that `tensor` depends on, in topological order."""
    return [node.op for node in topological([tensor])]


def made_node(*inputs: Tensor, gives: tuple[TensorType, ...], grad: Any) -> Node:
    """Make a node of an op that exists only here, with results of the types `gives`."""

    def infer(*_inputs: TensorType) -> tuple[TensorType, ...]:
        return gives

    return apply_node(OpDef("made", infer, None, grad, _no_kernel), inputs, {})


def _no_kernel(*_inputs: TensorType) -> Any:
    raise AssertionError("an op that is made up is not compiled")


def calls_made(action: Callable[[], object]) -> int:
    """Count the calls of Python functions that `action` makes: a clock that never jitters."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    # The collector runs finalizers, and when it comes is not for the action to say.
    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count
