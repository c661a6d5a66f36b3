"""Reciprocal square roots: where they are guessed, and that no lane depends on a vector's width."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.codegen import ir
from symgrad.codegen.target import target_named
from symgrad.graph.dtypes import DType, float32, float64
from tests.unit.codegen.test_scalar_ops import (
    Loaded,
    compile_kernels,
    emit_array_kernel,
    op_kernel,
)

WIDTHS = (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_a_lane_has_the_bits_that_a_vector_of_another_width_gives(dtype: DType) -> None:
    target = target_named("native")
    kernels = [op_kernel("rsqrt", dtype, width) for width in WIDTHS]
    loaded = Loaded(target, compile_kernels(target, kernels), kernels)
    x = np.random.default_rng(0).lognormal(0, 20, 64).astype(dtype.numpy)
    first, *others = (loaded.call(kernel, x).tobytes() for kernel in kernels)
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("target_name", "is_guessed"),
    [("x86-64-v4", True), ("x86-64-v3", False), ("aarch64", False)],
)
def test_a_root_is_taken_only_where_no_instruction_guesses(
    target_name: str, is_guessed: bool
) -> None:
    target, module = target_named(target_name), ir.Module("roots")
    kernel = op_kernel("rsqrt", float64, 8)
    emit_array_kernel(module, target, kernel, inline_math=True)
    text = str(module)
    assert ("rsqrt14.pd.512" in text) == is_guessed
    assert ("llvm.sqrt" not in text and "fdiv" not in text) == is_guessed


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_ends_are_those_of_a_division(dtype: DType) -> None:
    target = target_named("native")
    kernel = op_kernel("rsqrt", dtype, 8)
    loaded = Loaded(target, compile_kernels(target, [kernel]), [kernel])
    info = np.finfo(dtype.numpy)
    ends = [0.0, -0.0, np.inf, -1.0, np.nan, info.max, info.tiny, info.smallest_subnormal]
    x = np.array(ends, dtype.numpy)
    with np.errstate(all="ignore"):
        wanted = (1 / np.sqrt(x.astype(np.longdouble))).astype(dtype.numpy)
    np.testing.assert_allclose(loaded.call(kernel, x), wanted, rtol=2 * info.eps)
