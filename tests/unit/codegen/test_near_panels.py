"""Prefetches of packed panels into the nearest cache: which kernels do, and that bits stay."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import target as targets
from symgrad.codegen.contract.kernels import microkernel
from symgrad.codegen.target import Target, target_named
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from symgrad.records import replace

AHEAD = 768


def machine(ahead: int) -> Target:
    return replace(target_named("native"), near_ahead=ahead)


def products_on(target: Target, dtype: DType, size: int) -> tuple[str, Array]:
    """Return the machine code of a product, and what it gives."""
    with mock.patch.object(targets, "_native", return_value=target):
        target_named.cache_clear()
        try:
            x, y = (sg.placeholder((size, size), dtype) for _ in range(2))
            step = sg.compile([x, y], x @ y)
            random = np.random.default_rng(size)
            a, b = (random.normal(size=(size, size)).astype(dtype.numpy) for _ in range(2))
            return step.ir("asm"), step(a, b)
        finally:
            target_named.cache_clear()


@pytest.mark.isa("avx2", "fma")
@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
@pytest.mark.parametrize("is_assembled", [True, False])
def test_packed_panels_are_prefetched_and_no_bit_is_another(
    dtype: DType, is_assembled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_assembled:
        monkeypatch.setattr(microkernel, "is_assembled", lambda _kernel: False)
    plain, expected = products_on(machine(0), dtype, 517)
    prefetching, result = products_on(machine(AHEAD), dtype, 517)
    assert prefetching.count("prefetcht0") > plain.count("prefetcht0")
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [48, 64])  # the latter of half of 32 KB, which stay there
def test_panels_that_leave_the_nearest_cache_room_are_not_prefetched_for(size: int) -> None:
    plain, _ = products_on(machine(0), sg.float32, size)
    prefetching, _ = products_on(machine(AHEAD), sg.float32, size)
    assert prefetching == plain


@pytest.mark.isa("avx512f")
def test_a_panel_that_was_packed_before_is_prefetched_and_no_bit_is_another() -> None:
    found = []
    for ahead in (0, AHEAD):
        with mock.patch.object(targets, "_native", return_value=machine(ahead)):
            target_named.cache_clear()
            x, y = sg.placeholder((3, 20, 200)), sg.placeholder((3, 200, 32))
            step = sg.compile([x, y], x @ y)
            random = np.random.default_rng(0)
            a, b = (random.normal(size=t.type.static_shape).astype("f") for t in (x, y))
            found.append((step.ir("asm").count("prefetcht0"), step(a, b)))
            target_named.cache_clear()
    (plain, expected), (prefetching, result) = found
    assert prefetching > plain
    np.testing.assert_array_equal(result, expected)


def test_only_measured_processors_prefetch() -> None:
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"):
        assert target_named(name).near_ahead == 0
