"""Non-temporal stores: long stacks of loops go past the caches, and no bit is another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import target as targets
from symgrad.codegen.program import stream_stacks
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.floors import Memory, Variant, run_variants

LONG, TRIPS = 1 << 16, 40  # 20 MiB of float64
RANDOM = np.random.default_rng(5)


@contextmanager
def machine(*, streams: bool, least: int = 4) -> Iterator[None]:
    """Compile for a machine that streams stacks, or does not, of so many caches."""
    native = replace(target_named("native"), streams_stacks=streams)
    with (
        mock.patch.object(targets, "_native", return_value=native),
        mock.patch.object(stream_stacks, "CACHES_STREAMED", least),
        mock.patch.object(stream_stacks, "LEAST_SLICE_STREAMED", 1 << 14 if least else 0),
    ):
        target_named.cache_clear()
        yield
    target_named.cache_clear()


def powers(count: int, trips: int, dtype: str = "float64") -> Graph:
    """Return the gradient of a loop that multiplies by x, which records each power."""
    x, start = sg.placeholder((count,), dtype), sg.placeholder((count,), dtype)

    def advance(_: object, state: tuple[sg.Tensor, sg.Tensor]) -> tuple[sg.Tensor, sg.Tensor]:
        total, power = state
        return total + power, power * x

    total, power = sg.fori_loop(0, trips, advance, (sg.zeros_like(x), start))
    return Graph(sg.gradients(total * power, [x, start]), [x, start])


def step_of(graph: Graph, threads: int = 1) -> sg.Step:
    return sg.compile(list(graph.inputs), list(graph.outputs), threads=threads)


def test_slices_of_a_stack_that_no_cache_holds_go_past_the_caches():
    with machine(streams=True):
        step = step_of(powers(LONG, TRIPS))
        assert " streamed" in step.ir("loops")
        assert "!nontemporal" in step.ir("llvm")
        assert any("past the caches" in reason for k in step.kernels for reason in k.reasons)


@pytest.mark.parametrize(
    ("count", "trips", "streams"),
    [
        (LONG, TRIPS, False),
        (LONG, 10, True),  # a stack that a cache may hold
        (1000, 4000, True),  # slices that a fence is long for
    ],
)
def test_others_do_not(count, trips, streams):
    with machine(streams=streams):
        assert " streamed" not in step_of(powers(count, trips)).ir("loops")


def test_a_slice_that_an_iteration_reads_again_stays_in_the_caches():
    x, w = sg.placeholder((256, 256)), sg.placeholder((256, 256))

    def advance(h: sg.Tensor, _: object) -> tuple[sg.Tensor, sg.Tensor]:
        h = sg.tanh(h @ w)
        return h, h

    with machine(streams=True):
        last, every = sg.scan(advance, x, None, length=80)
        text = sg.compile([x, w], [last, every]).ir("loops")
    assert " streamed" not in text


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [1, 7, 64, 203, 1001])
def test_what_is_streamed_is_right_wherever_memory_lies(count, dtype):
    """Slices of 203 elements begin anywhere in a line, and their ends are no whole vectors."""
    graph = powers(count, 9, dtype)
    arrays = [RANDOM.uniform(0.5, 1.5, count).astype(dtype) for _ in range(2)]
    variants = [
        Variant(threads=Threads(1, 0.0), memory=Memory("end")),
        Variant(threads=Threads(3, 0.0), memory=Memory("start")),
        Variant(threads=Threads(2, 0.0)),
    ]
    with machine(streams=True, least=0):
        assert (" streamed" in step_of(graph).ir("loops")) == (count > 1)
        assert run_variants(graph, arrays, variants) is None


def test_no_bit_depends_on_threads_or_on_where_stores_go():
    arrays = [RANDOM.uniform(0.9, 1.1, LONG) for _ in range(2)]
    with machine(streams=False):
        wanted = step_of(powers(LONG, TRIPS))(*arrays)
    for threads in (1, 2, 4):
        with machine(streams=True):
            found = step_of(powers(LONG, TRIPS), threads)(*arrays)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
