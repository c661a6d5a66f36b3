"""Exponentials have the same bits on each x86 target, whatever scales by a power of two there."""

from __future__ import annotations

import re

import numpy as np
import pytest

from symgrad.codegen import ir
from symgrad.codegen.native.jit import optimize
from symgrad.codegen.target import target_named
from symgrad.graph.dtypes import DType, float32, float64
from tests.unit.codegen.test_scalar_ops import (
    ArrayKernel,
    Loaded,
    compile_kernels,
    emit_array_kernel,
    op_kernel,
)

NAMES = ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid")
WIDTHS = (1, 2, 4, 16, 32)


def kernels(dtype: DType) -> list[ArrayKernel]:
    return [op_kernel(name, dtype, width) for name in NAMES for width in WIDTHS]


def points(dtype: DType) -> np.ndarray:
    """Return numbers of all sizes, most of them where exponentials are neither 0 nor infinite."""
    random = np.random.default_rng(0)
    most = 110 if dtype == float32 else 760
    near = random.uniform(-most, most, 4000)
    far = random.normal(size=1000) * 10.0 ** random.integers(-30, 30, 1000)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -104.0, -103.97, 88.73, -745.2, -745.13, 709.79]
    return np.resize(np.concatenate([near, far, edges]), 5024).astype(dtype.numpy)


@pytest.mark.isa("avx512f")
@pytest.mark.parametrize("dtype", [float32, float64])
def test_exponentials_have_the_same_bits_where_scaling_is_an_instruction(dtype):
    x = points(dtype)
    results = []
    for name in ("x86-64-v4", "x86-64-v3"):
        target = target_named(name)
        loaded = Loaded(target, compile_kernels(target, kernels(dtype)), kernels(dtype))
        results.append([loaded.call(kernel, x) for kernel in kernels(dtype)])
    for kernel, at_once, in_steps in zip(kernels(dtype), *results, strict=True):
        np.testing.assert_array_equal(at_once, in_steps, err_msg=kernel.name)
        np.testing.assert_array_equal(np.signbit(at_once), np.signbit(in_steps), kernel.name)


@pytest.mark.parametrize(("name", "count"), [("x86-64-v4", 2), ("x86-64-v3", 0), ("aarch64", 0)])
def test_a_vector_of_two_registers_is_scaled_by_an_instruction_each_where_there_is_one(name, count):
    module, target = ir.Module("scaling"), target_named(name)
    emit_array_kernel(module, target, op_kernel("exp", float32, 32), inline_math=True)
    text = str(optimize(str(module), target, 3))
    assert text.count("call <16 x float> @llvm.x86.avx512.mask.scalef") == count


@pytest.mark.parametrize(("dtype", "sums", "longest"), [(float32, 6, 6), (float64, 13, 9)])
def test_half_of_a_long_polynomial_of_an_exponential_waits_for_the_other(dtype, sums, longest):
    module, target = ir.Module("chain"), target_named("x86-64-v4")
    width = target.lanes(dtype.itemsize)
    emit_array_kernel(module, target, op_kernel("exp", dtype, width), inline_math=True)
    depths: dict[str, int] = {}
    for line in str(optimize(str(module), target, 3)).splitlines():
        name, _, value = line.strip().partition(" = ")
        before = max((depths.get(n, 0) for n in re.findall(r"%[\w.]+", value)), default=0)
        depths[name] = before + ("@llvm.fma" in value)
        sums -= "@llvm.fma" in value
    assert (sums, max(depths.values())) == (0, longest)
