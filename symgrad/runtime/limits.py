"""Roofline model, measured: peak arithmetic, and traffic by how much memory it is in.

A kernel cannot be faster than its arithmetic at the first rate or its traffic at the second, which
is the roofline model (Williams, Waterman and Patterson, 2009).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache

import numpy as np

from symgrad.codegen.llvm.limits import FLOPS, STREAM, emit_limits, flops_of
from symgrad.codegen.native.jit import load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.target import Target, target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass

_ROUNDS = 5  # of which the best counts: a limit is what the machine does undisturbed


@dataclass(frozen=True, slots=True)
class Limits:
    """The rates of one core.

    `gflops` are multiply-adds of a dtype in 10**9 operations a second, each counted as two;
    `gbytes` the reads and writes in a working set of so many bytes, in 10**9 bytes a second.
    """

    gflops: dict[str, float]
    gbytes: dict[int, float]

    def bandwidth(self, size: int) -> float:
        """Return the traffic possible within `size` bytes, in 10**9 bytes a second."""
        fitting = [rate for room, rate in self.gbytes.items() if size <= room]
        return fitting[0] if fitting else self.gbytes[max(self.gbytes)]

    def seconds(self, dtype: DType, flops: int, size: int) -> float:
        """Return the least time for `flops` operations and `size` bytes of traffic.

        What is computed in no float that arithmetic was measured in is held to the fastest.
        """
        arithmetic = self.gflops.get(dtype.name, max(self.gflops.values()))
        return max(flops / arithmetic, size / self.bandwidth(size)) / 1e9


@cache
def machine_limits() -> Limits:
    """Measure this machine; once in a process, in about a second."""
    target = target_named("native")
    gflops, gbytes = {}, {}
    for dtype in (dtypes.float32, dtypes.float64):
        flops, stream = limit_functions(dtype, target)
        times = 20_000
        gflops[dtype.name] = flops_of(dtype, target, times) / _best(flops, 1, times) / 1e9
    for size in target.memory.working_sets:
        vectors = size // target.vector_bytes
        times = max(1, (1 << 24) // size)
        gbytes[size] = 2 * size * times / _best(stream, vectors, times) / 1e9
    return Limits(gflops, gbytes)


Run = Callable[[int, int], None]


def limit_functions(dtype: DType, target: Target) -> tuple[Run, Run]:
    """Return `flops(vectors, times)` and `stream(vectors, times)`, on memory of their own."""
    code = load_object(object_of(str(emit_limits(dtype, target)), target, 3), [FLOPS, STREAM])
    memory = aligned_empty((max(target.memory.working_sets) // dtype.itemsize,), dtype.numpy)
    memory[...] = 0
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    def run_on(function: Callable[[int, int, int], None]) -> Run:
        def run(vectors: int, times: int) -> None:
            kept_alive = (code, memory)
            function(memory.ctypes.data, vectors, times)
            assert kept_alive

        return run

    return run_on(kind(code.address(FLOPS))), run_on(kind(code.address(STREAM)))


def _best(run: Run, vectors: int, times: int) -> float:
    """Return the shortest time of a run in seconds."""
    best = np.inf
    run(vectors, times)
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        run(vectors, times)
        best = min(best, time.perf_counter() - begun)
    return float(best)
