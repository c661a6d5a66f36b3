"""The limits of the machine: what the measured code does, and how the rates are used."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from symgrad.codegen.llvm.limits import FLOPS, STREAM, emit_limits, flops_of
from symgrad.codegen.native.jit import emit_object, load_object, optimize
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.dtypes import DType
from symgrad.runtime.limits import Limits, machine_limits

LIMITS = Limits({"float32": 100.0, "float64": 50.0}, {1000: 80.0, 10_000: 20.0})


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("name", ["native", "x86-64-v2"])
def test_the_code_does_the_arithmetic_that_is_counted(dtype: DType, name: str) -> None:
    target = target_named(name)
    module = optimize(str(emit_limits(dtype, target)), target, 3)
    code = load_object(emit_object(module, target, 3), [FLOPS, STREAM])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    lanes = target.lanes(dtype.itemsize)
    chains = target.peak_chains
    memory = aligned_empty((chains * lanes,), dtype.numpy)
    # Chain i starts at i + 1 and adds 1 * 1 in each turn; the sum of all is stored.
    memory[...] = np.repeat(np.arange(chains) + 1, lanes)
    kind(code.address(FLOPS))(memory.ctypes.data, 0, 10)
    np.testing.assert_array_equal(memory[:lanes], chains * (chains + 1) // 2 + chains * 10)
    assert flops_of(dtype, target, 10) == 2 * target.peak_chains * lanes * 10
    # Chains that LLVM knows to be equal would be one chain, and its latency the limit.
    assert len(re.findall(r"phi <\d+ x", str(module))) == chains
    # The first vector is added to every vector, itself included: twice, as it was at first.
    memory[...] = 1
    kind(code.address(STREAM))(memory.ctypes.data, chains, 2)
    np.testing.assert_array_equal(memory, 3)


def test_the_measured_rates_are_rates_of_this_machine():
    limits = machine_limits()
    assert limits is machine_limits()
    assert limits.gflops.keys() == {"float32", "float64"}
    assert tuple(limits.gbytes) == target_named("native").memory.working_sets
    assert all(rate > 0.1 for rate in (*limits.gflops.values(), *limits.gbytes.values()))


def test_traffic_is_held_to_the_cache_it_fits():
    assert LIMITS.bandwidth(1000) == 80.0
    assert LIMITS.bandwidth(1001) == 20.0
    assert LIMITS.bandwidth(10**9) == 20.0


def test_the_slower_of_arithmetic_and_traffic_is_the_limit():
    assert LIMITS.seconds(dtypes.float32, 1000, 80) == pytest.approx(10e-9)
    assert LIMITS.seconds(dtypes.float64, 1000, 80) == pytest.approx(20e-9)
    assert LIMITS.seconds(dtypes.int64, 1000, 80) == pytest.approx(10e-9)
    assert LIMITS.seconds(dtypes.float32, 10, 800) == pytest.approx(10e-9)
