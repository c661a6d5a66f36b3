"""Write what PyTorch computes of 50 recurrent layers to `tests/data/torch_recurrent.npz`.

Run it as `python tests/golden_torch/make_recurrent.py` where PyTorch 2.13 is installed; the tests
need it not. Ten configurations each of `RNNCell`, `GRUCell`, `LSTMCell`, `GRU` and `LSTM`. Values
and gradients are float64, the gradients those of the sum of each result times its seed. Weights
are written as (inputs, outputs).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

LAYERS = ("rnn_cell", "gru_cell", "lstm_cell", "gru", "lstm")
GATES = {"rnn_cell": 1, "gru_cell": 3, "lstm_cell": 4, "gru": 3, "lstm": 4}
COUNT = 50
TARGET = Path(__file__).parents[1] / "data" / "torch_recurrent.npz"

Array = np.ndarray[Any, Any]


def configure(rng: np.random.Generator, layer: str) -> dict[str, Array]:
    """Return the operands of a layer, biases in half of the cases."""
    batch, inputs, units, time = (int(rng.integers(1, 7)) for _ in range(4))
    rows = (time, batch) if layer in ("gru", "lstm") else (batch,)
    shapes = {
        "x": (*rows, inputs),
        "h": (batch, units),
        "w": (inputs, GATES[layer] * units),
        "u": (units, GATES[layer] * units),
    }
    if layer.startswith("lstm"):
        shapes["c"] = (batch, units)
    if rng.random() < 0.5:
        shapes |= {"b": shapes["w"][1:], "d": shapes["u"][1:]}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def module_of(layer: str, operands: dict[str, Array]) -> Any:
    """Return PyTorch's module with the weights of `operands`."""
    inputs, units = operands["w"].shape[0], operands["u"].shape[0]
    classes = {
        "rnn_cell": torch.nn.RNNCell, "gru_cell": torch.nn.GRUCell,
        "lstm_cell": torch.nn.LSTMCell, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM,
    }  # fmt: skip
    module = classes[layer](inputs, units, bias="b" in operands, dtype=torch.float64)
    for own, name in parameters(layer, operands).items():
        getattr(module, own).data = torch.tensor(operands[name].T.copy())
    return module


def parameters(layer: str, operands: dict[str, Array]) -> dict[str, str]:
    """Return the names of PyTorch's parameters, and of the operands that they are."""
    end = "" if layer.endswith("_cell") else "_l0"
    names = {"weight_ih": "w", "weight_hh": "u", "bias_ih": "b", "bias_hh": "d"}
    return {own + end: name for own, name in names.items() if name in operands}


def run(layer: str, operands: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return the results, seeds for them, and the gradient to each operand."""
    module = module_of(layer, operands)
    t = {n: torch.tensor(operands[n], requires_grad=True) for n in "xhc" if n in operands}
    is_cell = layer.endswith("_cell")
    state = [t[n] if is_cell else t[n][None] for n in "hc" if n in t]
    given = tuple(state) if len(state) > 1 else state[0]
    found = module(t["x"], given)
    if is_cell:
        results = list(found) if len(state) > 1 else [found]
    else:
        ys, last = found
        results = [ys, *(s[0] for s in (last if len(state) > 1 else (last,)))]
    seeds = [rng.normal(size=tuple(r.shape)) for r in results]
    sum((r * torch.tensor(s)).sum() for r, s in zip(results, seeds, strict=True)).backward()
    written = {f"result{i}": r.detach().numpy() for i, r in enumerate(results)}
    written |= {f"seed{i}": s for i, s in enumerate(seeds)}
    written |= {f"d{n}": x.grad.numpy() for n, x in t.items()}
    grads = {n: getattr(module, own).grad for own, n in parameters(layer, operands).items()}
    return written | {f"d{n}": g.numpy().T.copy() for n, g in grads.items()}


def main() -> None:
    """Write all of it."""
    assert torch.__version__.startswith("2.13"), torch.__version__
    written: dict[str, Any] = {}
    configs = []
    for number in range(COUNT):
        rng, layer = np.random.default_rng(number), LAYERS[number % len(LAYERS)]
        operands = configure(rng, layer)
        configs.append({"layer": layer})
        for name, array in (operands | run(layer, operands, rng)).items():
            written[f"{number}/{name}"] = array
    written["configs"] = np.array(json.dumps({"torch": "2.13", "configs": configs}))
    np.savez_compressed(TARGET, **written)


if __name__ == "__main__":
    main()
