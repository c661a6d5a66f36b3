"""Layers that read at places beside PyTorch, values and gradients.

What PyTorch computed is in `tests/data/torch_places.npz`, which `tests/golden_torch/make_places.py`
wrote.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.evaluators import Evaluator, evaluate_native, evaluate_reference

Array = np.ndarray[Any, Any]

_FILE = Path(__file__).parents[1] / "data" / "torch_places.npz"
with np.load(_FILE) as _stored:
    _GOLDEN: dict[str, Array] = {name: _stored[name] for name in _stored.files}
_CONFIGS: list[dict[str, Any]] = json.loads(str(_GOLDEN.pop("configs")))
_TOLERANCE = 1e-9


def _arrays_of(name: str, kind: str) -> dict[str, Array]:
    start = f"{name}/{kind}."
    return {key.removeprefix(start): a for key, a in _GOLDEN.items() if key.startswith(start)}


def _build(config: dict[str, Any]) -> tuple[list[Tensor], list[Tensor], list[Array]]:
    """Return inputs, the result with its gradients, and what PyTorch has for these."""
    name = config["name"]
    xs = {k: sg.placeholder(a.shape, a.dtype) for k, a in _arrays_of(name, "x").items()}
    found = getattr(sg.nn, config["layer"])(**xs, **config["kwargs"])
    y, *others = found if isinstance(found, tuple) else (found,)
    slopes = _arrays_of(name, "d")
    grads = sg.gradients(
        y, [xs[k] for k in slopes], grad_ys=sg.constant(_GOLDEN[f"{name}/seed"]),
        unconnected_gradients="zero",
    )  # fmt: skip
    wanted = [*_arrays_of(name, "y").values(), *slopes.values()]
    return list(xs.values()), [y, *others, *grads], wanted


def _check(configs: Sequence[dict[str, Any]], evaluator: Evaluator) -> None:
    built = [_build(config) for config in configs]
    given = [a for config in configs for a in _arrays_of(config["name"], "x").values()]
    graph = Graph([y for _, ys, _ in built for y in ys], [x for xs, _, _ in built for x in xs])
    found = iter(evaluator(graph, given))
    for config, (_, _, wanted) in zip(configs, built, strict=True):
        for place, want in enumerate(wanted):
            result = next(found)
            what = f"{config}, result {place}"
            assert (result.shape, result.dtype) == (want.shape, want.dtype), what
            np.testing.assert_allclose(result, want, _TOLERANCE, _TOLERANCE, err_msg=what)


def test_every_layer_has_as_many_configurations_as_it_should_have() -> None:
    wanted = {
        **{"embedding_bag": 24, "pdist": 12, "affine_grid": 8, "grid_sample": 40},
        **{"max_pool_with_indices": 12, "max_unpool": 9, "fractional_max_pool": 10},
    }
    assert Counter(config["layer"] for config in _CONFIGS) == wanted


@pytest.mark.parametrize("part", range(2))
def test_every_configuration_gives_what_torch_gives(part: int) -> None:
    _check(_CONFIGS[part::2], evaluate_reference)


def test_machine_code_gives_what_torch_gives_in_some_configurations() -> None:
    _check(_CONFIGS[5::12], evaluate_native)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_machine_code_gives_what_torch_gives(part: int) -> None:
    _check(_CONFIGS[part::8], evaluate_native)
