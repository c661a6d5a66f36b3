"""Extrema of floats: one instruction and a check of nan on x86, with the same values everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.codegen import ir
from symgrad.codegen.native.jit import optimize
from symgrad.codegen.target import target_named
from symgrad.graph.dtypes import DType, float32, float64
from tests.unit.codegen.test_scalar_ops import (
    Loaded,
    compile_kernels,
    emit_array_kernel,
    op_kernel,
)

WIDTHS = (1, 2, 4, 16, 32)
SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-45, 3e38)


def _pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of special numbers, as often as fills vectors of every width."""
    a, b = (grid.ravel().astype(dtype.numpy) for grid in np.meshgrid(SPECIAL, SPECIAL))
    return np.resize(a, 32 * len(a)), np.resize(b, 32 * len(b))


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(("name", "wins"), [("min", np.less), ("max", np.greater)])
def test_the_first_is_taken_if_it_wins_or_is_nan_in_vectors_of_any_width(name, wins, dtype):
    a, b = _pairs(dtype)
    wanted = np.where(wins(a, b) | np.isnan(a), a, b)
    target = target_named("x86-64-v2")
    kernels = [op_kernel(name, dtype, width) for width in WIDTHS]
    loaded = Loaded(target, compile_kernels(target, kernels), kernels)
    for kernel in kernels:
        found = loaded.call(kernel, a, b)
        np.testing.assert_array_equal(found, wanted, err_msg=kernel.name)
        signs, wanted_signs = (np.signbit(x[~np.isnan(wanted)]) for x in (found, wanted))
        np.testing.assert_array_equal(signs, wanted_signs, err_msg=kernel.name)


@pytest.mark.parametrize(
    ("name", "instruction", "count"),
    [
        ("x86-64-v4", "@llvm.x86.avx512.max.ps.512", 2),
        ("x86-64-v3", "@llvm.x86.avx.max.ps.256", 4),
        ("x86-64-v2", "@llvm.x86.sse.max.ps", 8),
        ("aarch64", "@llvm.", 0),
    ],
)
def test_a_maximum_of_vectors_is_an_instruction_for_each_register(name, instruction, count):
    module, target = ir.Module("extrema"), target_named(name)
    emit_array_kernel(module, target, op_kernel("max", float32, 32), inline_math=True)
    text = str(optimize(str(module), target, 3))
    assert sum(" call " in line and instruction in line for line in text.splitlines()) == count
    assert ("fcmp ogt" in text) == (count == 0)
