"""NumPy's functions on tensors build graph, and what cannot be built is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend import namespace
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.evaluators import evaluate_reference

A = np.linspace(-0.9, 0.9, 12, dtype=np.float32).reshape(3, 4)
B = np.linspace(0.5, 2.0, 12, dtype=np.float32).reshape(3, 4)

_CALLS: dict[str, Any] = {
    "add": lambda x, y: np.add(x, y),
    "subtract": lambda x, y: np.subtract(1, x),
    "multiply": lambda x, y: np.multiply(x, B),
    "array first": lambda x, y: B - x,
    "scalar first": lambda x, y: np.float32(2) * x,
    "divide": lambda x, y: np.divide(x, y),
    "floor_divide": lambda x, y: np.floor_divide(x, y),
    "mod": lambda x, y: np.mod(x, y),
    "power": lambda x, y: np.power(y, x),
    "maximum": lambda x, y: np.maximum(x, 0),
    "exp": lambda x, y: np.exp(x),
    "log": lambda x, y: np.log(y),
    "tanh": lambda x, y: np.tanh(x),
    "abs": lambda x, y: np.abs(x),
    "sign": lambda x, y: np.sign(x),
    "greater": lambda x, y: np.greater(x, 0),
    "logical_and": lambda x, y: np.logical_and(x > 0, y > 1),
    "bits of bools": lambda x, y: ((x > 0) & (y > 1)) ^ np.bitwise_or(x > y, x < 0.5),
    "bits": lambda x, y: np.bitwise_and(x.astype("int32"), 6) | (1 ^ y.astype("int32")),
    "shifts": lambda x, y: np.left_shift(3, y.astype("int32")) >> 1,
    "shifted back": lambda x, y: (y.astype("int64") << 2) + np.right_shift(9, y.astype("int64")),
    "invert": lambda x, y: ~(x > 0),
    "isnan": lambda x, y: np.isnan(x),
    "isinf": lambda x, y: np.isinf(x / 0),
    "matmul": lambda x, y: np.matmul(x, B.T),
    "array at tensor": lambda x, y: A @ y.T,
    "add.reduce": lambda x, y: np.add.reduce(x),
    "maximum.reduce": lambda x, y: np.maximum.reduce(x, axis=1, keepdims=True),
    "multiply.outer": lambda x, y: np.multiply.outer(x[0], y[0]),
    "sum": lambda x, y: np.sum(x, axis=0),
    "sum of all": lambda x, y: np.sum(x),
    "prod": lambda x, y: np.prod(y, axis=1, keepdims=True),
    "mean": lambda x, y: np.mean(x, axis=(0, 1)),
    "max": lambda x, y: np.max(x, 1),
    "amin": lambda x, y: np.min(x),
    "any": lambda x, y: np.any(x > 0, axis=1),
    "argmax": lambda x, y: np.argmax(x, axis=1),
    "clip": lambda x, y: np.clip(x, 0, 0.5),
    "round": lambda x, y: np.round(x),
    "where": lambda x, y: np.where(x > 0, x, y),
    "reshape": lambda x, y: np.reshape(x, (4, -1)),
    "transpose": lambda x, y: np.transpose(x),
    "transpose with axes": lambda x, y: np.transpose(x, (1, 0)),
    "moveaxis": lambda x, y: np.moveaxis(x, 0, 1),
    "swapaxes": lambda x, y: np.swapaxes(x, 0, 1),
    "broadcast_to": lambda x, y: np.broadcast_to(x, (2, 3, 4)),
    "expand_dims": lambda x, y: np.expand_dims(x, 1),
    "squeeze": lambda x, y: np.squeeze(x[:1]),
    "flip": lambda x, y: np.flip(x, 0),
    "roll": lambda x, y: np.roll(x, 1, axis=1),
    "tile": lambda x, y: np.tile(x, (2, 1)),
    "repeat": lambda x, y: np.repeat(x, 2, axis=0),
    "concatenate": lambda x, y: np.concatenate([x, B], axis=1),
    "stack": lambda x, y: np.stack([x, y]),
    "split": lambda x, y: np.split(x, 2, axis=1)[0],
    "pad": lambda x, y: np.pad(x, ((1, 0), (0, 2))),
    "triu": lambda x, y: np.triu(x, 1),
    "dot": lambda x, y: np.dot(x, B.T),
    "outer": lambda x, y: np.outer(x, y),
    "tensordot": lambda x, y: np.tensordot(x, y, axes=2),
    "einsum": lambda x, y: np.einsum("ij,kj->ik", x, y),
    "trace": lambda x, y: np.trace(x),
    "diagonal": lambda x, y: np.diagonal(x, 1),
    "take": lambda x, y: np.take(x, [2, 0], axis=1),
    "take_along_axis": lambda x, y: np.take_along_axis(x, np.array([[1], [0], [2]]), axis=1),
    "zeros_like": lambda x, y: np.zeros_like(x),
    "full_like": lambda x, y: np.full_like(x, 2),
    "method T": lambda x, y: x.T,
    "method reshape": lambda x, y: x.reshape(2, 6),
    "method transpose": lambda x, y: x.transpose(1, 0),
    "method clip": lambda x, y: x.clip(0, 1),
    "method dot": lambda x, y: x.dot(B.T),
    "method take": lambda x, y: x.take([1], axis=0),
    "method flatten": lambda x, y: x.flatten(),
    "method argmin": lambda x, y: x.argmin(1),
    "builtin abs": lambda x, y: abs(x),
    "builtin pow": lambda x, y: 2**x,
    "builtin divmod parts": lambda x, y: x // y + x % y,
}


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS.keys())
def test_a_call_gives_for_tensors_what_it_gives_for_arrays(call):
    x, y = sg.placeholder(A.shape), sg.placeholder(B.shape)
    result = call(x, y)
    assert isinstance(result, Tensor)
    (found,) = evaluate_reference(Graph(result, [x, y]), [A, B])
    with np.errstate(all="ignore"):
        expected = call(A, B)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.isnat(x),
        lambda x: np.linalg.tensorinv(x),
        lambda x: np.sin(x, out=np.zeros((3, 4), np.float32)),
        lambda x: np.add.accumulate(x, out=np.zeros((3, 4), np.float32)),
        lambda x: np.sum(x, out=np.zeros((), np.float32)),
        lambda x: np.add.reduceat(x, [0, 1]),
        lambda x: np.unique(x),
    ],
)
def test_what_has_no_counterpart_is_a_type_error_and_not_an_object_array(call):
    with pytest.raises(TypeError):
        call(sg.placeholder((3, 4)))


@pytest.mark.parametrize("call", [np.asarray, bool, float, int, complex, np.array])
def test_a_tensor_has_no_value(call):
    with pytest.raises(sg.DTypeError, match="has no value"):
        call(sg.placeholder(()))


def test_a_tensor_of_known_length_is_iterated():
    x = sg.placeholder((2, 3))
    first, second = x
    assert first.shape == second.shape == (3,)
    assert len(x) == 2
    with pytest.raises(sg.DTypeError, match="an iterator"):
        iter(sg.placeholder((None, 3)))


def test_the_array_namespace_has_what_it_names():
    xp = sg.placeholder((2,)).__array_namespace__()
    assert xp is namespace
    assert all(hasattr(xp, name) for name in namespace.__all__)
    assert xp.sum(sg.placeholder((2, 3)), axis=0).shape == (3,)
    with pytest.raises(sg.GraphError, match=r"version 2999\.12 was asked for"):
        sg.placeholder((2,)).__array_namespace__(api_version="2999.12")


def test_a_tensor_is_a_key_and_compares_by_building_graph():
    x, y = sg.placeholder((2,)), sg.placeholder((2,))
    assert {x: 1, y: 2}[y] == 2
    assert (x == y).dtype == sg.bool
