"""What functions of arrays cost, beside NumPy, JAX and PyTorch, on one core.

The functions are rows of `array_cases.py`. Each call makes a new result of operands that are ready:
JAX's and torch's are arrays of their own, JAX compiles its function and is waited for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.array_cases import ARRAY_CASES, ArrayCase
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, Times, interleave, optional, pin_to_one_core

MOST_BEHIND = 1.2
LEAST_MEAN = 2.0


def measure(quick: bool = False, cases: Sequence[ArrayCase] = ARRAY_CASES) -> Report:
    """Return microseconds a call, and how many times as long the others take."""
    pin_to_one_core()
    report = Report("arrays", ("function", "size", "library", "median us", "times symgrad"))
    found: list[tuple[str, dict[str, Times]]] = []
    for case in cases:
        for size in case.shapes:
            if quick and size != "small":
                continue
            times = interleave(_contestants(case, size), rounds=3 if quick else 21)
            found.append((f"{case.name}, {size}", times))
            for library, spent in times.items():
                microseconds = spent.median * 1e6
                row = (case.name, size, library, microseconds, spent.ratio(times["symgrad"]))
                report.rows.append(row)
    report.bars += _bars(found)
    missing = [name for name in ("jax", "torch") if optional(name) is None]
    report.notes += [f"{name} is not installed: its rows are missing." for name in missing]
    return report


def _bars(found: Sequence[tuple[str, dict[str, Times]]]) -> Iterator[Bar]:
    """Compare with the fastest of the other libraries, function by function and on the whole."""
    ratios = []
    for name, times in found:
        others = [spent for library, spent in times.items() if library != "symgrad"]
        if not others:
            continue
        fastest = min(others, key=lambda spent: spent.median)
        ratios.append(fastest.ratio(times["symgrad"]))
        yield Bar(f"{name}: times the fastest other library", 1 / ratios[-1], MOST_BEHIND)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield Bar("geometric mean of the speed-ups", mean, LEAST_MEAN, at_least=True)


def _contestants(case: ArrayCase, size: str) -> dict[str, Contestant]:
    arrays = case.operands(np.random.default_rng(0), case.shapes[size])
    xs = [sg.placeholder(a.shape, a.dtype.name) for a in arrays]
    calls: dict[str, Contestant] = {
        "symgrad": partial(sg.compile(xs, case.of_symgrad(*xs)), *arrays)
    }
    if case.of_numpy is not None:
        calls["NumPy"] = partial(case.of_numpy, *arrays)
    calls |= _jax_call(case, arrays) | _torch_call(case, arrays)
    _compare(case, calls)
    return calls


def _jax_call(case: ArrayCase, arrays: Sequence[Any]) -> dict[str, Contestant]:
    jax = optional("jax")
    if jax is None or case.of_jax is None:
        return {}
    operands = [jax.numpy.asarray(a) for a in arrays]
    compiled = jax.jit(case.of_jax(jax))
    return {"JAX": lambda: jax.block_until_ready(compiled(*operands))}


def _torch_call(case: ArrayCase, arrays: Sequence[Any]) -> dict[str, Contestant]:
    torch = optional("torch")
    if torch is None or case.of_torch is None:
        return {}
    torch.set_num_threads(1)
    function = case.of_torch(torch)
    return {"PyTorch": partial(function, *(torch.from_numpy(a) for a in arrays))}


def _compare(case: ArrayCase, calls: dict[str, Contestant]) -> None:
    """Raise unless all libraries give the same."""
    if case.tolerance is None:
        return
    wanted = _results(calls["symgrad"]())
    for library, call in calls.items():
        for ours, theirs in zip(wanted, _results(call()), strict=True):
            np.testing.assert_allclose(
                theirs, ours, case.tolerance, case.tolerance, err_msg=f"{case.name} of {library}"
            )


def _results(result: Any) -> list[Any]:
    several = result if isinstance(result, list | tuple) else [result]
    return [np.asarray(value) for value in several]


if __name__ == "__main__":
    run_as_program(__doc__, measure)
