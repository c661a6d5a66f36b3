"""Losses against what PyTorch gives; see `tests/golden_torch/make_losses.py`.

The arrays given are those of float32, and the result was computed in float64: so float64 differs by
rounding alone, and float32 by what its own rounding makes of at most a hundred additions.
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
from tests.support.evaluators import EVALUATORS

Array = np.ndarray[Any, Any]
_FILE = Path(__file__).parents[1] / "data" / "torch_losses.npz"
_BOUNDS = {"float64": 1e-9, "float32": 2e-6}

with np.load(_FILE) as _golden:
    ARRAYS = {name: _golden[name] for name in _golden.files}
CONFIGURATIONS = json.loads(str(ARRAYS.pop("rows")))["configurations"]
_PIECES = [CONFIGURATIONS[start::10] for start in range(10)]


def _arrays_of(name: str, kind: str) -> dict[str, Array]:
    start = f"{name}.{kind}."
    return {key.removeprefix(start): a for key, a in ARRAYS.items() if key.startswith(start)}


def _build(row: dict[str, Any], dtype: str) -> tuple[list[sg.Tensor], list[Any], list[Array]]:
    """Return inputs, the result with gradients, and arrays of a configuration."""
    given = _arrays_of(row["name"], "given")
    arrays = {k: a.astype(dtype) if a.dtype.kind == "f" else a for k, a in given.items()}
    xs = {key: sg.placeholder(a.shape, a.dtype) for key, a in arrays.items()}
    by_place = [x for key, x in xs.items() if key.isdigit()]
    if row["loss"] == "ctc":
        by_place[0] = sg.nn.log_softmax(by_place[0])
    by_keyword = {key: x for key, x in xs.items() if not key.isdigit()}
    result = getattr(sg.nn, row["loss"])(*by_place, **by_keyword, **row["arguments"])
    share = np.cos(np.arange(ARRAYS[f"{row['name']}.result"].size)).reshape(result.shape)
    wanted = [xs[key] for key in _arrays_of(row["name"], "grad")]
    grads = sg.gradients(sg.sum(result * share.astype(dtype)), wanted)
    return list(xs.values()), [result, *grads], list(arrays.values())


def _assert_golden(rows: Sequence[dict[str, Any]], dtype: str, evaluator: str) -> None:
    made = [_build(row, dtype) for row in rows]
    graph = Graph([y for _, ys, _ in made for y in ys], [x for xs, _, _ in made for x in xs])
    found = iter(EVALUATORS[evaluator](graph, [a for _, _, arrays in made for a in arrays]))
    for row in rows:
        grads = _arrays_of(row["name"], "grad")
        for key, want in {"": ARRAYS[f"{row['name']}.result"], **grads}.items():
            result = next(found)
            scale = max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0))
            close = _BOUNDS[dtype]
            message = f"{row}, {key or 'result'} in {dtype}"
            assert result.dtype == dtype, message
            np.testing.assert_allclose(result, want, close, close * scale, err_msg=message)


def test_there_are_fifty_configurations_of_which_each_loss_has_some():
    assert len(CONFIGURATIONS) >= 50
    assert {row["loss"] for row in CONFIGURATIONS} >= {"nll", "ctc", "triplet", "cross_entropy"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("piece", range(len(_PIECES)))
def test_losses_and_gradients_mean_what_they_do_in_pytorch(piece, dtype):
    _assert_golden(_PIECES[piece], dtype, "reference")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_machine_code_gives_what_pytorch_gives(dtype):
    _assert_golden(CONFIGURATIONS[3 if dtype == "float64" else 5 :: 36], dtype, "native")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("piece", range(len(_PIECES)))
def test_machine_code_gives_what_pytorch_gives_for_all(piece, dtype):
    _assert_golden(_PIECES[piece], dtype, "native")
