"""Benchmark of one step as it is called: what a user waits for, with nothing measured inside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.graph.types import Array, read_states, write_states
from symgrad.records import dataclass
from symgrad.runtime.executable import Executable


@dataclass(frozen=True, slots=True)
class StepTime:
    """The seconds of a call: the median and the least of `runs` of them."""

    median: float
    least: float
    runs: int


def measure_step(
    executable: Executable, call: Callable[..., Any], arrays: Sequence[Array], runs: int
) -> StepTime:
    """Call the step `runs` times, after one that warms up; the state is as it was before."""
    kept = read_states(executable.program.variables)
    seconds = []
    try:
        for _ in range(runs + 1):
            began = time.perf_counter()
            call(*arrays)
            seconds.append(time.perf_counter() - began)
    finally:
        write_states(executable.program.variables, kept)
    return StepTime(float(np.median(seconds[1:])), min(seconds[1:]), runs)
