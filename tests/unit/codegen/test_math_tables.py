"""Tables in registers: how exponentials look up, and that no lane depends on a vector's width.

That all targets find the same is a test of scaling (`test_scaling.py`) and of whole steps.
"""

from __future__ import annotations

import re

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

WIDTHS = (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid"])
def test_a_lane_has_the_bits_that_a_vector_of_another_width_gives(name: str) -> None:
    target = target_named("native")
    kernels = [op_kernel(name, float32, width) for width in WIDTHS]
    loaded = Loaded(target, compile_kernels(target, kernels), kernels)
    x = np.linspace(-110, 95, 1 << 16).astype(np.float32)
    first, *others = (loaded.call(kernel, x).tobytes() for kernel in kernels)
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("target_name", "name", "dtype", "lookups"),
    [
        ("x86-64-v4", "exp", float32, ["llvm.x86.avx512.permvar.sf.512"]),
        ("x86-64-v4", "tanh", float32, ["llvm.x86.avx512.permvar.sf.512"]),
        ("x86-64-v4", "sinh", float32, []),
        ("x86-64-v4", "exp", float64, []),
        ("x86-64-v3", "exp", float32, ["llvm.x86.avx2.permps"] * 2),
        ("x86-64-v3", "cosh", float32, []),
        ("x86-64", "exp", float32, []),
        ("aarch64", "exp", float32, ["llvm.aarch64.neon.tbl4.v16i8"] * 2),
        ("aarch64", "exp", float64, []),
    ],
)
def test_powers_of_two_are_looked_up_where_a_product_and_a_sum_are_rounded_once(
    target_name: str, name: str, dtype: DType, lookups: list[str]
) -> None:
    module = ir.Module("exponentials")
    kernel = op_kernel(name, dtype, 8)
    emit_array_kernel(module, target_named(target_name), kernel, inline_math=True)
    found = re.findall(r"call .* @\"(llvm\.\w+\.[\w.]*(?:perm|tbl)[\w.]*)\"", str(module))
    assert found == lookups


def test_a_place_in_a_table_is_what_a_shift_has_left_in_the_low_bits() -> None:
    module, target = ir.Module("exponentials"), target_named("x86-64-v4")
    emit_array_kernel(module, target, op_kernel("exp", float32, 16), inline_math=True)
    text = str(optimize(str(module), target, 3))
    assert "permvar" in text
    assert not re.search(r" (add|sub|and) <16 x i32>", text)


def test_powers_of_e_at_their_ends_and_of_zero() -> None:
    target = target_named("native")
    kernel = op_kernel("exp", float32, 16)
    loaded = Loaded(target, compile_kernels(target, [kernel]), [kernel])
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.72284, 3e38, -103.98, -3e38, 1e-40]
    x = np.resize(np.array(ends, np.float32), 16)
    wanted = np.array([1, 1, np.inf, 0, np.nan, np.inf, np.inf, 0, 0, 1], np.float32)
    np.testing.assert_array_equal(loaded.call(kernel, x), np.resize(wanted, 16))
