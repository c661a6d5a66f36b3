"""Attention and recurrent layers beside PyTorch: values and gradients of random configurations.

`tests/golden_torch/make_attention.py` and `make_recurrent.py` have written what is compared with.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.evaluators import Evaluator, evaluate_native, evaluate_reference

DATA = Path(__file__).parents[1] / "data"
Array = np.ndarray[Any, Any]
Found = tuple[list[sg.Tensor], list[sg.Tensor]]  # results, and gradients to all operands


@cache
def golden(part: str) -> tuple[list[dict[str, Any]], list[dict[str, Array]]]:
    """Return the configurations of a part, and the arrays of each by name."""
    with np.load(DATA / f"torch_{part}.npz") as file:
        arrays = {name: file[name] for name in file.files}
    configs = json.loads(str(arrays.pop("configs")))["configs"]
    of_each: list[dict[str, Array]] = [{} for _ in configs]
    for name, array in arrays.items():
        number, _, own = name.partition("/")
        of_each[int(number)][own] = array
    return configs, of_each


def attention(config: dict[str, Any], t: dict[str, sg.Tensor]) -> list[sg.Tensor]:
    """Return the result of a configuration of attention."""
    both = {"mask": t.get("mask"), "causal": config["causal"]}
    if config["layer"] == "scaled_dot_product_attention":
        q, k, v = t["q"], t["k"], t["v"]
        return [sg.nn.scaled_dot_product_attention(q, k, v, scale=config["scale"], **both)]
    bias = [t[name] for name in ("bq", "bk", "bv", "bo")] if "bq" in t else None
    operands = [t[name] for name in ("q", "k", "v", "wq", "wk", "wv", "wo")]
    return [sg.nn.multi_head_attention(*operands, heads=config["heads"], bias=bias, **both)]


def recurrent(config: dict[str, Any], t: dict[str, sg.Tensor]) -> list[sg.Tensor]:
    """Return the results of a recurrent layer."""
    layer = getattr(sg.nn, config["layer"])
    state = (t["h"], t["c"]) if "c" in t else t["h"]
    weights = [t.get(name) for name in "wubd"]
    if config["layer"] == "lstm":
        ys, (h, c) = layer(t["x"], state, weights)
        return [ys, h, c]
    if config["layer"] == "gru":
        return list(layer(t["x"], state, weights))
    found = layer(t["x"], state, *weights)
    return list(found) if isinstance(found, tuple) else [found]


LAYERS = {"attention": attention, "recurrent": recurrent}


def check(part: str, numbers: range, dtype: str, tolerance: float, run: Evaluator) -> None:
    """Compare values and gradients; those of all `numbers` are one program."""
    configs, golden_arrays = golden(part)
    inputs: list[sg.Tensor] = []
    outputs: list[sg.Tensor] = []
    given: list[Array] = []
    wanted: list[tuple[Array, float]] = []
    for config, arrays in ((configs[n], golden_arrays[n]) for n in numbers):
        t = {}
        for name, array in arrays.items():
            if not name.startswith(("result", "seed", "d")) or name == "d":
                t[name] = sg.placeholder(array.shape, "bool" if array.dtype == bool else dtype)
                given.append(array.astype(t[name].dtype.numpy))
        inputs += t.values()
        results = LAYERS[part](config, t)
        names = [n for n in arrays if n.startswith("d") and n != "d"]
        seeds = [arrays[n].astype(dtype) for n in arrays if n.startswith("seed")]
        grads = sg.gradients(results, [t[n[1:]] for n in names], grad_ys=seeds)
        outputs += [*results, *(g for g in grads if g is not None)]
        wanted += [*scaled(arrays, [n for n in arrays if n.startswith("result")])]
        wanted += [*scaled(arrays, names)]
    found = run(sg.Graph(outputs, inputs), given)
    for one, (other, scale) in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


def scaled(arrays: dict[str, Array], names: list[str]) -> list[tuple[Array, float]]:
    """Return arrays, each with the largest element of all of them, to which rounding is relative.

    Of the gradients to the bias of keys, for instance, nothing but rounding is left: it does not
    matter to the softmax, and what adds up to 0 there is as large as other gradients are.
    """
    scale = max(1.0, *(np.abs(arrays[n]).max(initial=0) for n in names))
    return [(arrays[n], float(scale)) for n in names]


@pytest.mark.parametrize("part", LAYERS)
def test_a_spread_of_configurations_agrees_with_pytorch(part):
    check(part, range(0, 50, 3), "float64", 1e-9, evaluate_reference)


# Rounding to float32 has been found to move no element by more than 2.3e-6 of the largest one.
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 3e-6)])
@pytest.mark.parametrize("begin", range(5))
@pytest.mark.parametrize("part", LAYERS)
def test_every_configuration_agrees_with_pytorch(part, begin, dtype, tolerance):
    check(part, range(begin, 50, 5), dtype, tolerance, evaluate_native)
