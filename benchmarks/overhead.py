"""What a call costs: `x + 1` on 4 float64, compiled, beside the same under JAX and in NumPy.

There is next to nothing to compute, so the time is that of getting into the compiled program and
out of it: checking the argument, making the result. JAX is given its own arrays and is not waited
for, which is the least it can take.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, interleave, optional, pin_to_one_core
from symgrad.graph.types import Array
from symgrad.runtime.function import compile

MAX_SECONDS = 1.5e-6
MIN_RATIO_TO_JAX = 3.0


def measure(quick: bool = False) -> Report:
    """Return nanoseconds a call of each contestant, and the ratio to symgrad's."""
    pin_to_one_core()
    x = np.arange(4.0)
    calls: dict[str, Contestant] = {"NumPy add(x, 1)": partial(np.add, x, 1)}
    calls = {**_symgrad_calls(x), **calls, **_jax_calls(x)}
    times = interleave(calls, rounds=5 if quick else 101)
    ours = times["symgrad step(x)"]
    report = Report("overhead", ("call", "best ns", "median ns", "times symgrad"))
    for name, spent in times.items():
        row = (name, round(spent.best * 1e9, 1), round(spent.median * 1e9, 1), spent.ratio(ours))
        report.rows.append(row)
    report.bars.append(Bar("seconds of a call", ours.median, MAX_SECONDS))
    rivals = [times[name].ratio(ours) for name in times if name.startswith("JAX")]
    if rivals:
        report.bars.append(Bar("times cheaper than JAX", min(rivals), MIN_RATIO_TO_JAX, True))
    else:
        report.notes.append("JAX is not installed: its row is missing.")
    return report


def _symgrad_calls(x: Array) -> dict[str, Contestant]:
    given = sg.placeholder(x.shape, "float64")
    step = compile([given], given + 1)
    out = np.empty_like(x)
    assert np.array_equal(step(x), x + 1), "the compiled program is wrong"
    return {"symgrad step(x)": partial(step, x), "symgrad step(x, out=)": partial(step, x, out=out)}


def _jax_calls(x: Array) -> dict[str, Contestant]:
    jax = optional("jax")
    if jax is None:
        return {}
    jax.config.update("jax_enable_x64", True)
    function = jax.jit(lambda x: x + 1)
    array = jax.numpy.asarray(x)
    assert function(array).dtype == np.float64, "JAX computes in another precision"
    return {
        "JAX f(x)": partial(function, array),
        "JAX f(x), waited for": lambda: function(array).block_until_ready(),
        "JAX f(NumPy x)": partial(function, x),
    }


if __name__ == "__main__":
    run_as_program(__doc__, measure)
