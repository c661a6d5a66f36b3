"""What the functional calls cost on arrays of 1000 elements, beside the same in NumPy and in JAX.

There is little to compute, so the time is that of finding the program that was compiled for such
arguments: taking nests apart, reading types, looking the signature up. NumPy computes the same
formulas one operation at a time. JAX is given its own arrays and a function it has compiled, and is
waited for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, interleave, optional, pin_to_one_core
from symgrad.graph.types import Array

ELEMENTS = 1000
MAX_SECONDS = 50e-6


def measure(quick: bool = False) -> Report:
    """Return microseconds a call, and how many times as long the others take."""
    pin_to_one_core()
    x = np.random.default_rng(0).random(ELEMENTS, np.float32)
    calls = {**_symgrad_calls(x), **_numpy_calls(x), **_jax_calls(x)}
    times = interleave(calls, rounds=5 if quick else 101)
    report = Report("functional calls", ("call", "library", "median us", "times symgrad"))
    for name, spent in times.items():
        call, library = name.split(", ")
        ours = times[f"{call}, symgrad"]
        report.rows.append((call, library, round(spent.median * 1e6, 1), spent.ratio(ours)))
    slowest = max(spent.median for name, spent in times.items() if name.endswith("symgrad"))
    report.bars.append(Bar("seconds of the slowest call", slowest, MAX_SECONDS))
    if optional("jax") is None:
        report.notes.append("JAX is not installed: its rows are missing.")
    return report


def _symgrad_calls(x: Array) -> dict[str, Contestant]:
    slope = sg.grad(lambda x: sg.mean(x * x))
    box = sg.Container(w=x, layer=sg.Container(b=x))
    assert np.allclose(slope(x), 2 * x / ELEMENTS), "the gradient is wrong"
    new = sg.adam_update(x, x, 0.1, x, x, 3)
    assert all(map(np.allclose, new, _numpy_adam(x, x, 0.1, x, x, 3))), "the update is wrong"
    return {
        "grad, symgrad": partial(slope, x),
        "gradient_descent_update, symgrad": partial(sg.gradient_descent_update, x, x, 0.1),
        "the same of two leaves, symgrad": partial(sg.gradient_descent_update, box, box, 0.1),
        "adam_update, symgrad": partial(sg.adam_update, x, x, 0.1, x, x, 3),
    }


def _numpy_calls(x: Array) -> dict[str, Contestant]:
    return {
        "gradient_descent_update, NumPy": lambda: x - 0.1 * x,
        "adam_update, NumPy": partial(_numpy_adam, x, x, 0.1, x, x, 3),
    }


def _numpy_adam(w: Any, g: Any, lr: float, m: Any, v: Any, step: int) -> tuple[Any, Any, Any]:
    m, v = 0.9 * m + (1 - 0.9) * g, 0.999 * v + (1 - 0.999) * g * g
    scale = lr * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step + 1e-7)
    return w - scale * m / (v**0.5 + 1e-7), m, v


def _jax_calls(x: Array) -> dict[str, Contestant]:
    jax = optional("jax")
    if jax is None:
        return {}
    slope = jax.jit(jax.grad(lambda x: (x * x).mean()))
    adam = jax.jit(_numpy_adam)
    a = jax.numpy.asarray(x)
    return {
        "grad, JAX": lambda: slope(a).block_until_ready(),
        "adam_update, JAX": lambda: jax.block_until_ready(adam(a, a, 0.1, a, a, 3)),
    }


if __name__ == "__main__":
    run_as_program(__doc__, measure)
