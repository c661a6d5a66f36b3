"""Elementwise ops one after another with their gradient, for `benchmarks/workloads.py`, float32.

20 ops on 4 million elements are bound by arithmetic and memory; what 100 to 5,000 ops on vectors
of 64 take is also what starting a step takes. JAX and XLA would compile 5,000 for more than ten
minutes. The chains are such that no gradient vanishes: of what would be subnormal JAX makes zeros.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.network_peers import Arrays
from benchmarks.workload_peers import XLA, Workload, alike, torch_compiled
from benchmarks.workload_tasks import GRADIENT

LARGE, SMALL, QUICK_OPS = 1 << 22, 64, 6


def _make_large(quick: bool) -> tuple[Arrays, Arrays]:
    count = 64 if quick else LARGE
    return {"x": np.random.default_rng(0).normal(size=count).astype(np.float32)}, {}


def _twenty(library: Any, w: Any, _given: Any) -> Any:
    x = w["x"]
    h = 0.5 * x
    for _ in range(3):
        h = library.tanh(h / library.sqrt(h * h + 1)) + x
    return library.mean(library.tanh(h))


def _make_chain(quick: bool) -> tuple[Arrays, Arrays]:
    random, count = np.random.default_rng(0), 8 if quick else SMALL
    vectors = {"x": (-1, 1), "scale": (0.99, 1.01), "bias": (-0.003, 0.003)}
    drawn = {name: random.uniform(*ends, count) for name, ends in vectors.items()}
    return {name: array.astype(np.float32) for name, array in drawn.items()}, {}


def _chain(ops: int, library: Any, w: Any, _given: Any) -> Any:
    h = w["x"]
    for _ in range((ops if h.shape[0] == SMALL else QUICK_OPS) // 3):
        h = library.tanh(h * w["scale"] + w["bias"])
    return library.sum(h)


TWENTY = alike(_twenty)
ELEMENTWISE = (
    Workload(
        "20 ops on 4M elements",
        (1.5, 1.8),
        GRADIENT,
        _make_large,
        TWENTY,
        compile=partial(torch_compiled, TWENTY[2]),
    ),
    Workload("chain of 100 ops", (4, 4), GRADIENT, _make_chain, alike(partial(_chain, 100))),
    Workload("chain of 1,000 ops", (2, 2), GRADIENT, _make_chain, alike(partial(_chain, 1000))),
    Workload(
        "chain of 5,000 ops",
        (2.5, 2.5),
        GRADIENT,
        _make_chain,
        alike(partial(_chain, 5000)),
        without=("JAX", XLA),
    ),
)
