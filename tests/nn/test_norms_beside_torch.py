"""Norms, powers, activations and resampling beside PyTorch: values, gradients, running statistics.

What PyTorch computed is in `tests/data/torch_norms.npz`, which `tests/golden_torch/make_norms.py`
wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.evaluators import evaluate_native, evaluate_reference

Array = np.ndarray[Any, Any]

_STORED = np.load(Path(__file__).parents[1] / "data" / "torch_norms.npz")
_CONFIGS: list[dict[str, Any]] = json.loads(str(_STORED["configs"]))
_GOLDEN: dict[str, Array] = {name: _STORED[name] for name in _STORED.files if name != "configs"}
_ALL = range(len(_CONFIGS))
_SPREAD = range(0, len(_CONFIGS), 24)
# Relative to the greatest element of each result; in float32 it is 40 units in the last place,
# which is what the few elements under a variance can make of their rounding.
_TOLERANCES = {"float64": 1e-9, "float32": 5e-6}


def _build(number: int, dtype: str) -> tuple[list[Tensor], list[Tensor], list[Array]]:
    """Return inputs, results with gradients, and what PyTorch has for these."""
    config, kwargs = _CONFIGS[number], dict(_CONFIGS[number]["kwargs"])
    if isinstance(kwargs.get("axis"), list):
        kwargs["axis"] = tuple(kwargs["axis"])
    xs = [sg.placeholder(_GOLDEN[f"{number}/x{k}"].shape, dtype) for k in range(config["operands"])]
    groups = [kwargs.pop("groups")] if config["layer"] == "group_norm" else []
    found = getattr(sg.nn, config["layer"])(xs[0], *groups, *xs[1:], **kwargs)
    y, moved = found if isinstance(found, tuple) else (found, [])
    smooth = [k for k in range(len(xs)) if f"{number}/dx{k}" in _GOLDEN]
    seed = sg.constant(_GOLDEN[f"{number}/seed"].astype(dtype))
    grads = sg.gradients(y, [xs[k] for k in smooth], grad_ys=seed)
    names = [*(f"y{k}" for k in range(config["results"])), *(f"dx{k}" for k in smooth)]
    wanted = [_GOLDEN[f"{number}/{name}"] for name in names]
    return xs, [y, *(new for _, new in moved), *grads], wanted


def _check(numbers: Sequence[int], dtype: str, evaluator: Any) -> None:
    built = [_build(number, dtype) for number in numbers]
    given = [_GOLDEN[f"{n}/x{k}"].astype(dtype) for n in numbers for k in range(_count(n))]
    graph = Graph([y for _, ys, _ in built for y in ys], [x for xs, _, _ in built for x in xs])
    found = iter(evaluator(graph, given))
    for number, (_, ys, wanted) in zip(numbers, built, strict=True):
        assert len(ys) == len(wanted)
        for place, (y, want) in enumerate(zip(ys, wanted, strict=True)):
            result = next(found)
            what = f"{number}, result {place} of {_CONFIGS[number]}"
            assert result.dtype == y.dtype.numpy, what
            assert result.shape == want.shape, what
            apart = np.abs(result - want).max(initial=0)
            scale = max(1.0, np.abs(want).max(initial=0))
            assert apart <= _TOLERANCES[dtype] * scale, f"{what}: {apart} apart of {scale}"


def _count(number: int) -> int:
    return int(_CONFIGS[number]["operands"])


def test_there_are_as_many_configurations_as_there_should_be() -> None:
    norms = [c for c in _CONFIGS if c["layer"].endswith("norm") or c["layer"] == "normalize"]
    assert len(norms) == 68
    assert len([c for c in _CONFIGS if c["layer"] == "interpolate"]) == 48
    assert len([c for c in _CONFIGS if c["layer"] == "lp_pool"]) == 12
    assert len({c["layer"] for c in _CONFIGS}) == 33


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("part", range(4))
def test_every_configuration_gives_what_torch_gives(part: int, dtype: str) -> None:
    _check(list(_ALL)[part::4], dtype, evaluate_reference)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_machine_code_gives_what_torch_gives_in_some_configurations(dtype: str) -> None:
    _check(_SPREAD if dtype == "float64" else list(_ALL)[4::30], dtype, evaluate_native)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("part", range(12))
def test_machine_code_gives_what_torch_gives(part: int, dtype: str) -> None:
    _check(list(_ALL)[part::12], dtype, evaluate_native)
