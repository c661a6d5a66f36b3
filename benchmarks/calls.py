"""A function called many times in one step, beside the same program with its nodes at each call.

    h = cell(h), over and over, a gated cell of 32 float32 in a batch of 16, and the gradient

Compiled as a function it is there once, and its gradient once; inlined there are as many copies.
What a machine-code function saves in compiling it may cost in running, since nothing is fused
across a call; both are measured. Times of compiling are CPU seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.scaling import exponent
from benchmarks.timing import interleave, pin_to_one_core
from symgrad.graph.node import Tensor
from symgrad.runtime.step import Step

BATCH, WIDTH = 16, 32
COUNTS = (1, 10, 50, 200)
MAX_EXPONENT = 0.8

_random = np.random.default_rng(0)
_WEIGHTS = [(_random.normal(size=(WIDTH, WIDTH)) * 0.1).astype(np.float32) for _ in range(3)]
_START = _random.uniform(-1, 1, (BATCH, WIDTH)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Compiled:
    step: Step
    seconds: float
    text: int


def cell(h: Tensor) -> Tensor:
    """Return the next state of a gated cell with normalized candidates."""
    update, reset, new = (sg.constant(w) for w in _WEIGHTS)
    gate = sg.nn.sigmoid(h @ update)
    candidate = sg.tanh((h * sg.nn.sigmoid(h @ reset)) @ new)
    candidate = candidate - sg.mean(candidate, axis=1, keepdims=True)
    return gate * h + (1.0 - gate) * candidate


def measure(quick: bool = False) -> Report:
    """Return a row for each number of calls, and how compiling grows with it."""
    pin_to_one_core()
    columns = (
        "calls",
        "compile, s",
        "inlined, s",
        "LLVM text, KB",
        "inlined, KB",
        "run, us",
        "inlined, us",
        "run / inlined",
    )
    report = Report("calls", columns)
    counts = (1, 10) if quick else COUNTS
    contestants: dict[str, Callable[[Tensor], Tensor]] = {
        "kept": sg.function(cell),
        "inlined": cell,
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for count in counts:
        found = {
            name: _compiled(f, count, runs=1 if quick else 5) for name, f in contestants.items()
        }
        kept, inlined = found["kept"], found["inlined"]
        for a, b in zip(kept.step(_START), inlined.step(_START), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        calls = {name: partial(c.step, _START) for name, c in found.items()}
        times = interleave(calls, rounds=5 if quick else 41)
        for name, compiled in found.items():
            seconds[name].append(compiled.seconds)
        report.rows.append(
            (
                count,
                *(round(c.seconds, 3) for c in (kept, inlined)),
                *(round(c.text / 1e3, 1) for c in (kept, inlined)),
                *(round(times[name].median * 1e6, 1) for name in contestants),
                round(times["kept"].ratio(times["inlined"]), 2),
            )
        )
    if not quick:
        slope = exponent(counts[1:], seconds["kept"][1:])
        report.bars.append(Bar("exponent of compiling in the calls", slope, MAX_EXPONENT))
    return report


def _compiled(f: Callable[[Tensor], Tensor], count: int, runs: int) -> _Compiled:
    """Build, differentiate and compile `runs` times, each time without machine code from before."""
    spent = []
    for _ in range(runs):
        begun = time.process_time()
        x = sg.placeholder((BATCH, WIDTH))
        h = x
        for _ in range(count):
            h = f(h)
        step = sg.compile([x], [h, *sg.gradients(h.sum(), x)], cache=False)
        spent.append(time.process_time() - begun)
    return _Compiled(step, median(spent), len(step.ir("llvm")))


if __name__ == "__main__":
    run_as_program(__doc__, measure)
