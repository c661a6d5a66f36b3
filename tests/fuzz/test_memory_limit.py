"""Random programs under limits of memory: what is computed again gives the same bits.

Most kernels of a program under a limit are those of the program without: they are found in a cache
of these tests alone, as users find them. `tests/unit/runtime/test_memory_limit.py` has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from symgrad.codegen.program.run import Results
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.config import override
from symgrad.errors import CompileError
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.runtime.executable import Executable
from tests.support.floors import optimized_once, run_native
from tests.support.fuzz_families import FAMILIES

OPTIONS = CompileOptions(target_named("native"), 1, fast_math=False, cache=True)
SHARES = (0.9, 0.6, 0.3)


@pytest.fixture(autouse=True, scope="module")
def kernels_are_kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with override(cache=True, cache_dir=str(tmp_path_factory.mktemp("limited"))):
        yield


def _are_same(found: Results, wanted: Results) -> bool:
    pairs = [*zip(found.outputs, wanted.outputs, strict=True)]
    pairs += [(found.state[state], value) for state, value in wanted.state.items()]
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


@cache  # both tests take the first programs that train
def _limited(family: str, seed: int) -> tuple[int, int]:
    """Return how many limits of a program could be kept, and how many computed anything again."""
    graph, inputs = FAMILIES[family].program(seed)
    with optimized_once():
        return _limited_of(graph, [np.asarray(a) for a in inputs])


def _limited_of(graph: Graph, inputs: Sequence[Array]) -> tuple[int, int]:
    free = Executable(graph, OPTIONS)
    wanted, arena = run_native(free, inputs), free.program.arena_bytes
    kept = again = 0
    for share in SHARES:
        limit = int(share * arena)
        try:
            limited = Executable(graph, replace(OPTIONS, memory_limit=limit))
        except CompileError:
            continue
        kept += 1
        again += any(d.reason.startswith("computed again") for d in limited.decisions)
        assert limited.program.arena_bytes <= limit
        assert _are_same(run_native(limited, inputs), wanted)
    return kept, again


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_under_a_limit_give_the_same_bits(family: str) -> None:
    for seed in range(3):
        _limited(family, seed)


def test_a_limit_is_often_kept_by_computing_again() -> None:
    found = [_limited("training", seed) for seed in range(12)]
    assert sum(kept for kept, _ in found) >= 6
    assert sum(again for _, again in found) >= 2
