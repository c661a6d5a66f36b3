"""What a random number costs, beside NumPy's generators and JAX's.

Each call makes a new array of 2**18 numbers and moves the state of its generator. NumPy's default,
PCG64, is one stream after another; its Philox is a counter-based one like ours. Gamma samples are
rejected until they fit. JAX is given a key it splits in each call, and is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Report, run_as_program
from benchmarks.timing import Contestant, interleave, optional, pin_to_one_core

COUNT = 2**18
_FAMILIES = ("uniform", "normal", "gamma")
KINDS = tuple(f"{name} {dtype}" for name in _FAMILIES for dtype in ("float32", "float64"))
_CONCENTRATION = 3.0  # of the gamma distribution, and its mean
_MEANS = {"uniform": 0.5, "normal": 0.0, "gamma": _CONCENTRATION}


def measure(quick: bool = False) -> Report:
    """Return nanoseconds a number, and how many times as long the others take."""
    pin_to_one_core()
    report = Report("random numbers", ("kind", "library", "median ns", "times symgrad"))
    for kind in KINDS:
        times = interleave(_contestants(kind), rounds=3 if quick else 41)
        for library, spent in times.items():
            nanoseconds = round(spent.median / COUNT * 1e9, 2)
            report.rows.append((kind, library, nanoseconds, spent.ratio(times["symgrad"])))
    if optional("jax") is None:
        report.notes.append("JAX is not installed: its rows are missing.")
    return report


def _contestants(kind: str) -> dict[str, Contestant]:
    name, dtype = kind.split()
    rng = sg.random.Generator(0)
    parameters = (_CONCENTRATION,) if name == "gamma" else ()
    drawn = getattr(rng, name)((COUNT,), *parameters, dtype=dtype)
    step = sg.compile([], drawn, [rng.advance()])
    calls: dict[str, Contestant] = {
        "symgrad": step,
        "NumPy, PCG64": _numpy_call(np.random.PCG64(0), name, dtype),
        "NumPy, Philox": _numpy_call(np.random.Philox(0), name, dtype),
    }
    for call in calls.values():
        numbers: Any = call()
        assert numbers.dtype == dtype, "they do not make the same"
        assert abs(numbers.mean() - _MEANS[name]) < 0.02, "the numbers have another distribution"
    jax = _jax_call(name, dtype)
    return calls if jax is None else {**calls, "JAX": jax}


def _numpy_call(bits: Any, name: str, dtype: Any) -> Contestant:
    rng = np.random.Generator(bits)
    draws: dict[str, Callable[..., Any]] = {
        "uniform": rng.random,
        "normal": rng.standard_normal,
        "gamma": partial(rng.standard_gamma, _CONCENTRATION),
    }
    return partial(draws[name], COUNT, dtype)


def _jax_call(name: str, dtype: str) -> Contestant | None:
    jax = optional("jax")
    if jax is None or dtype == "float64":  # which JAX makes only if all of it is set to
        return None
    parameters = (_CONCENTRATION,) if name == "gamma" else ()
    draw = partial(getattr(jax.random, name), shape=(COUNT,), dtype=dtype)

    def split_and_draw(key: Any) -> Any:
        following, own = jax.random.split(key)
        return following, draw(own, *parameters)

    compiled = jax.jit(split_and_draw)
    key = jax.random.key(0)

    def call() -> Any:
        nonlocal key
        key, numbers = compiled(key)
        return numbers.block_until_ready()

    return call


if __name__ == "__main__":
    run_as_program(__doc__, measure)
