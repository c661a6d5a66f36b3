"""Every rule of update alone, beside PyTorch's: a million float32 weights, and a given gradient.

What Adam costs as part of a step, at sizes that fill memory, and to compile is in `optimizer.py`.

PyTorch runs its fused kernels where it has them for a CPU, on one thread. After a few steps the
weights must agree before anything is timed. `accumulated` is a call of the same rule under
`Accumulate`, one call in four of which moves the weights. GB/s count the gradient once and
weights and slots twice, as a single pass over the memory would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import interleave, optional, pin_to_one_core
from symgrad.graph.types import Array

CHECKED_STEPS = 3
PARTS = 4
Call = Callable[[], object]

# Our rule, and the name and arguments of PyTorch's if it has one.
RULES: dict[str, tuple[Callable[[], sg.optim.Optimizer], tuple[str, dict[str, Any]] | None]] = {
    "SGD": (lambda: sg.optim.SGD(0.1), ("SGD", {"lr": 0.1, "fused": True})),
    "SGD, momentum": (
        lambda: sg.optim.SGD(0.1, momentum=0.9),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "fused": True}),
    ),
    "Adam": (
        lambda: sg.optim.Adam(epsilon=1e-8),
        ("Adam", {"lr": 0.001, "eps": 1e-8, "fused": True}),
    ),
    "AdamW": (sg.optim.AdamW, ("AdamW", {"lr": 0.001, "fused": True})),
    "RMSProp": (sg.optim.RMSProp, ("RMSprop", {"lr": 0.01})),
    "Adagrad": (sg.optim.Adagrad, ("Adagrad", {"lr": 0.01, "fused": True})),
    "Adadelta": (sg.optim.Adadelta, ("Adadelta", {"lr": 1.0})),
    "Lion": (sg.optim.Lion, None),
    "LARS": (lambda: sg.optim.LARS(1.0), None),
    "LAMB": (sg.optim.LAMB, None),
}


def measure(quick: bool = False) -> Report:
    """Return the time of each rule, its share of memory traffic, and how PyTorch compares."""
    pin_to_one_core()
    size = 1 << (12 if quick else 20)
    torch = optional("torch")
    report = Report(
        "update_rules",
        ("rule", "symgrad us", "GB/s", "accumulated us", "PyTorch us", "times symgrad"),
    )
    if torch is None:
        report.notes.append("PyTorch is not installed; only symgrad is measured.")
    rng = np.random.default_rng(0)
    start, g = (rng.normal(size=size).astype(np.float32) for _ in range(2))
    for name, (rule, peer) in RULES.items():
        ours, weights, passes = _symgrad_update(rule(), start, g)
        accumulated, _, _ = _symgrad_update(sg.optim.Accumulate(rule(), PARTS), start, g)
        contestants: dict[str, Call] = {"symgrad": ours, "accumulated": accumulated}
        if torch is not None and peer is not None:
            contestants["PyTorch"], theirs = _torch_update(torch, *peer, start, g)
            _check(ours, weights, contestants["PyTorch"], theirs)
        times = interleave(contestants, rounds=5 if quick else 41, seconds=0.005)
        mine = times["symgrad"]
        cells = [mine.median * 1e6, passes * size * 4 / mine.median / 1e9]
        cells.append(times["accumulated"].median * 1e6)
        if "PyTorch" in times:
            ratio = times["PyTorch"].ratio(mine)
            cells += [times["PyTorch"].median * 1e6, ratio]
            report.bars.append(Bar(f"{name}: PyTorch's time by ours", ratio, 1.0, at_least=True))
        padding = [None] * (5 - len(cells))
        report.rows.append((name, *(round(cell, 2) for cell in cells), *padding))
    return report


def _symgrad_update(
    optimizer: sg.optim.Optimizer, start: Array, g: Array
) -> tuple[Call, Callable[[], Array], int]:
    """Return a call that moves weights by `g`, their values, and the reads and writes of one."""
    w, gradient = sg.variable(start, name="w"), sg.placeholder(g.shape)
    step = sg.compile([gradient], [], optimizer.apply_gradients([(gradient, w)]))
    slots = sum(slot.shape == w.shape for slot in optimizer.state.values())
    return lambda: step(g), lambda: w.value, 1 + 2 * (1 + slots)


def _torch_update(
    torch: Any, name: str, arguments: dict[str, Any], start: Array, g: Array
) -> tuple[Call, Callable[[], Array]]:
    torch.set_num_threads(1)
    w = torch.tensor(start, requires_grad=True)
    w.grad = torch.tensor(g)
    optimizer = getattr(torch.optim, name)([w], **arguments)
    return optimizer.step, lambda: np.asarray(w.detach())


def _check(
    ours: Call, weights: Callable[[], Array], theirs: Call, their_weights: Callable[[], Array]
) -> None:
    for _ in range(CHECKED_STEPS):
        ours()
        theirs()
    np.testing.assert_allclose(weights(), their_weights(), rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    run_as_program(__doc__, measure)
