"""Convolution and pooling beside PyTorch: values and gradients of random configurations.

`tests/golden_torch/make_convolution.py` has written what is compared with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.golden_torch.operands import operand
from tests.support.evaluators import Evaluator, evaluate_native, evaluate_reference

DATA = Path(__file__).parents[1] / "data"
PARTS = ("conv", "conv_transpose", "pooling")
Array = np.ndarray[Any, Any]
Config = dict[str, Any]
Layer = Callable[..., sg.Tensor]


@cache
def golden(part: str) -> tuple[list[Config], list[dict[str, Array]]]:
    """Return the configurations of a part, and the arrays of each by name."""
    with np.load(DATA / f"torch_{part}.npz") as file:
        arrays = {name: file[name] for name in file.files}
    configs = json.loads(str(arrays.pop("configs")))
    of_each: list[dict[str, Array]] = [{} for _ in configs]
    for name, array in arrays.items():
        own, _, number = name.partition("_")
        of_each[int(number)][own] = array
    return configs, of_each


def orders(part: str, config: Config) -> tuple[list[list[int]], list[int]]:
    """Return how the axes of operands and of the result, channels first, are put channels last."""
    space = len(config["window"])
    image = [0, *range(2, 2 + space), 1]
    windows = [0, *range(2 + space, 2 + 2 * space), *range(2, 2 + space), 1]
    if part == "pooling":
        given = windows if config["name"] == "fold" else image
        return [given], windows if config["name"] == "unfold" else image
    return [image, [*range(2, 2 + space), 1, 0], [0]], image


def built(part: str, config: Config, xs: list[sg.Tensor]) -> sg.Tensor:
    """Return the layer of a configuration."""
    own: Config = {"strides": config["strides"], "dilation": config["dilation"]}
    own |= {"padding": config["padding"], "layout": config["layout"]}
    if part == "conv":
        return sg.nn.conv(*xs, groups=config["groups"], **own)
    if part == "conv_transpose":
        own["output_padding"] = config["output_padding"]
        return sg.nn.conv_transpose(*xs, groups=config["groups"], **own)
    name, window = config["name"], config["window"]
    if name.startswith("adaptive"):
        adaptive: Layer = getattr(sg.nn, name)
        return adaptive(xs[0], config["size"], layout=config["layout"])
    if name == "fold":
        return sg.nn.fold(xs[0], config["sizes"], window, **own)
    if name == "avg_pool":
        own["count_padding"] = config["count_padding"]
    pooling: Layer = getattr(sg.nn, name)
    return pooling(xs[0], window, **own)


def check(part: str, numbers: range, dtype: str, tolerance: float, run: Evaluator) -> None:
    """Compare values and gradients; those of all `numbers` are one program."""
    configs, expected = golden(part)
    inputs: list[sg.Tensor] = []
    outputs: list[sg.Tensor] = []
    given: list[Array] = []
    wanted: list[tuple[int, Config, Array]] = []
    for number in numbers:
        config = configs[number]
        is_last = config["layout"] == "NHWC"
        of_operands, of_result = orders(part, config)
        xs = []
        for place, shape in enumerate(config["shapes"]):
            array = operand(shape, number + place, config.get("levels", 0))
            array = np.transpose(array, of_operands[place]) if is_last else array
            xs.append(sg.placeholder(array.shape, dtype))
            given.append(array.astype(dtype))
        y = built(part, config, xs)
        results = [expected[number][name] for name in ("y", *(f"d{i}" for i in range(len(xs))))]
        seed = operand(results[0].shape, number + 500)
        if is_last:
            pairs = zip(results, (of_result, *of_operands), strict=False)
            results = [np.transpose(a, order) for a, order in pairs]
            seed = np.transpose(seed, of_result)
        seeds = sg.constant(seed.astype(dtype))
        inputs += xs
        gradients = sg.gradients([y], xs, grad_ys=[seeds])
        outputs += [y, *(g for g in gradients if g is not None)]
        wanted += [(number, config, a) for a in results]
    found = run(sg.Graph(outputs, inputs), given)
    for result, (number, config, array) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            result, array, rtol=tolerance, atol=tolerance, err_msg=f"{part} {number}: {config}"
        )


@pytest.mark.parametrize("part", PARTS)
def test_a_spread_of_configurations_agrees_with_pytorch(part):
    check(part, range(0, 200, 17), "float64", 1e-9, evaluate_reference)


@pytest.mark.parametrize("part", PARTS)
def test_machine_code_of_a_few_configurations_agrees_with_pytorch(part):
    check(part, range(60, 180, 100), "float32", 1e-5, evaluate_native)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
@pytest.mark.parametrize("begin", range(10))
@pytest.mark.parametrize("part", PARTS)
def test_every_configuration_agrees_with_pytorch(part, begin, dtype, tolerance):
    check(part, range(begin, 200, 10), dtype, tolerance, evaluate_native)
