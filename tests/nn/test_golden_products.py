"""Last layers, sequences, grouped and scaled products beside PyTorch, values and gradients.

What PyTorch computed is in `tests/data/torch_products.npz`, which
`tests/golden_torch/make_products.py` wrote.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.evaluators import Evaluator, evaluate_native, evaluate_reference

Array = np.ndarray[Any, Any]

_FILE = Path(__file__).parents[1] / "data" / "torch_products.npz"
with np.load(_FILE) as _stored:
    _GOLDEN: dict[str, Array] = {name: _stored[name] for name in _stored.files}
_CONFIGS: list[dict[str, Any]] = json.loads(str(_GOLDEN.pop("configs")))
# Sums of some hundred terms that are added up in another order.
_TOLERANCES = {"float64": (1e-9, 1e-9), "float32": (1e-5, 1e-4)}


def _arrays_of(name: str, kind: str) -> dict[str, Array]:
    start = f"{name}/{kind}."
    return {key.removeprefix(start): a for key, a in _GOLDEN.items() if key.startswith(start)}


def _build(config: dict[str, Any]) -> tuple[list[Tensor], list[Tensor], list[Array]]:
    """Return inputs, the result with its gradients, and what PyTorch has for these."""
    name = config["name"]
    xs = {k: sg.placeholder(a.shape, a.dtype) for k, a in _arrays_of(name, "x").items()}
    y = getattr(sg.nn, config["layer"])(**xs, **config["kwargs"])
    slopes = _arrays_of(name, "d")
    grads = sg.gradients(y, [xs[k] for k in slopes], sg.constant(_GOLDEN[f"{name}/seed"]))
    wanted = [*_arrays_of(name, "y").values(), *slopes.values()]
    return list(xs.values()), [y, *(g for g in grads if g is not None)], wanted


def _check(layer: str, evaluator: Evaluator, every: int) -> None:
    configs = [config for config in _CONFIGS if config["layer"] == layer][::every]
    built = [_build(config) for config in configs]
    given = [a for config in configs for a in _arrays_of(config["name"], "x").values()]
    graph = Graph([y for _, ys, _ in built for y in ys], [x for xs, _, _ in built for x in xs])
    found = iter(evaluator(graph, given))
    for config, (_, _, wanted) in zip(configs, built, strict=True):
        for place, want in enumerate(wanted):
            result, what = next(found), f"{config}, result {place}"
            assert (result.shape, result.dtype) == (want.shape, want.dtype), what
            np.testing.assert_allclose(result, want, *_TOLERANCES[want.dtype.name], err_msg=what)


_LAYERS = {
    "linear_cross_entropy": 16, "conv_tbc": 9, "grouped_mm": 16, "scaled_mm": 8, "scaled_matmul": 8
}  # fmt: skip


def test_every_layer_has_as_many_configurations_as_it_should_have() -> None:
    assert Counter(config["layer"] for config in _CONFIGS) == _LAYERS


@pytest.mark.parametrize("layer", _LAYERS)
def test_every_configuration_gives_what_torch_gives(layer: str) -> None:
    _check(layer, evaluate_reference, 1)


@pytest.mark.parametrize("layer", _LAYERS)
def test_machine_code_gives_what_torch_gives_in_some_configurations(layer: str) -> None:
    _check(layer, evaluate_native, 5)


def test_rows_of_no_group_are_zeros_and_have_no_gradient() -> None:
    a, b = sg.placeholder((150, 2)), sg.placeholder((2, 2, 3))
    y = sg.nn.grouped_mm(a, b, [70, 140])
    da, db = sg.gradients(y, [a, b])
    assert da is not None
    assert db is not None
    rows = np.ones((150, 2), np.float32)
    rows[140:] = np.nan
    value, of_a, of_b = sg.compile([a, b], [y, da, db])(rows, np.ones((2, 2, 3), np.float32))
    assert not value[140:].any()
    assert not of_a[140:].any()
    np.testing.assert_array_equal(of_b, 70.0)


def test_groups_of_rows_whose_number_is_not_known() -> None:
    a, b = sg.placeholder((None, 2)), sg.placeholder((2, 2, 3))
    offsets = sg.placeholder((2,), "int32")
    step = sg.compile([a, b, offsets], sg.nn.grouped_mm(a, b, offsets))
    weights = np.stack([np.ones((2, 3)), np.full((2, 3), 10.0)]).astype(np.float32)
    for rows in (5, 70, 300):
        found = step(np.ones((rows, 2), np.float32), weights, [3, 5])
        np.testing.assert_array_equal(found[:6, 0], [2, 2, 2, 20, 20, 0][:rows])
    assert step(np.ones((0, 2), np.float32), weights, [0, 0]).shape == (0, 3)
    found = step(np.ones((4, 2), np.float32), weights, [3, 500])
    np.testing.assert_array_equal(found[:, 0], [2, 2, 2, 20])


def test_products_of_quantized_matrices() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-127, 128, shape).astype(np.int8) for shape in ((4, 256), (256, 3)))
    scales = rng.uniform(0.5, 2, (4, 2)), rng.uniform(0.5, 2, (1, 3))
    found = sg.run(sg.nn.scaled_mm(a, b, *scales, dtype="bfloat16"))
    wanted = (a * np.repeat(scales[0], 128, 1)) @ (b * scales[1])
    assert found.dtype == sg.bfloat16.numpy
    np.testing.assert_allclose(found.astype(np.float64), wanted, 2**-8)


X, W = sg.zeros((4, 6)), sg.zeros((2, 6, 3))
ROWS: list[tuple[Any, type[Exception], str]] = [
    (lambda: sg.nn.grouped_mm(X, W), sg.GraphError, "offsets are not given"),
    (lambda: sg.nn.grouped_mm(W, sg.zeros((2, 3, 3)), [1]), sg.GraphError, "offsets are given"),
    (lambda: sg.nn.grouped_mm(X, W, [1.0, 2.0]), sg.DTypeError, "offsets: f32"),
    (lambda: sg.nn.grouped_mm(X, W, [1]), sg.ShapeError, "grouped_mm: sizes differ: 2"),
    (lambda: sg.nn.grouped_mm(X, W[:, 1:], [1, 2]), sg.ShapeError, "grouped_mm: sizes differ: 5"),
    (lambda: sg.nn.grouped_mm(X[0], W, [1, 2]), sg.ShapeError, "two or three axes"),
    (lambda: sg.nn.scaled_mm(X, W[0], sg.ones((4, 4)), 1.0), sg.ShapeError, "a_scales: .* axis 1"),
    (lambda: sg.nn.scaled_mm(X, X, 1.0, 1.0), sg.ShapeError, "scaled_mm"),
    (lambda: sg.nn.scaled_matmul(X, X, 1.0, 1.0), sg.ShapeError, "need 3 axes"),
    (lambda: sg.nn.scaled_matmul(W, W, W[:, :1], W), sg.ShapeError, "a_scales: .* axis 1"),
    (lambda: sg.nn.scaled_mm(sg.zeros((4, 6), "complex64"), W[0], 1.0, 1.0), sg.DTypeError,
     "complex"),
    (lambda: sg.nn.conv_tbc(X, W), sg.ShapeError, "time, batch and channels"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ROWS, ids=[row[2] for row in ROWS])
def test_what_does_not_fit_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
