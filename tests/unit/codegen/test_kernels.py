"""Kernels as LLVM IR: what the unoptimized text says, and what the optimized code has and lacks.

Optimized text changes from one LLVM to the next, so only its properties are stated.
"""

from __future__ import annotations

import re
from itertools import cycle, product

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.native.jit import emit_assembly, optimize
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph, Update
from tests.support.floors import TARGETS, run_everywhere
from tests.support.programs import program_from

X = sg.placeholder((64, 48), name="x")


def plain_ir(*outputs: sg.Tensor, target: str = "x86-64-v4") -> str:
    """Return the IR of kernels and step, before LLVM has seen it."""
    return str(emit_module(program_from(*outputs, target=target), target_named(target)))


def optimized_ir(*outputs: sg.Tensor, target: str = "x86-64-v4", level: int = 2) -> str:
    return str(optimize(plain_ir(*outputs, target=target), target_named(target), level))


def assembly(*outputs: sg.Tensor, target: str) -> str:
    machine = target_named(target)
    return emit_assembly(optimize(plain_ir(*outputs, target=target), machine, 2), machine, 2)


def called(ir: str) -> set[str]:
    """Return the names of the functions that are called."""
    return set(re.findall(r"call [^@\n]*@\"?([\w.$]+)", ir))


def defined(ir: str) -> set[str]:
    return set(re.findall(r"define [^@\n]*@\"?([\w.$]+)", ir))


# ---------------------------------------------------------------------------- unoptimized text


def test_buffers_are_parameters_that_do_not_overlap():
    ir = plain_ir(X + 1)
    line = next(line for line in ir.splitlines() if line.startswith("define internal"))
    assert re.fullmatch(
        r'define internal void @"k0"\(ptr noalias %\S+, ptr noalias %\S+\) .*', line
    )
    assert "noinline" in line
    assert "nounwind" in line


def test_a_map_is_loaded_computed_and_stored_in_vectors():
    ir = plain_ir(sg.maximum(X * 2, 0))
    assert re.search(r"load <16 x float>, ptr %\S+, align 4", ir)
    assert re.search(r"fmul <16 x float>", ir)
    assert re.search(r"store <16 x float> %\S+, ptr %\S+, align 4", ir)


def test_what_is_left_over_is_computed_one_by_one():
    ir = plain_ir(sg.placeholder((19,)) + 1)
    assert "fadd <16 x float>" in ir
    assert re.search(r"fadd +float ", ir)
    assert "fadd float" not in plain_ir(sg.placeholder((32,)) + 1)


@pytest.mark.parametrize("left", [2, 4, 8])
def test_what_is_left_over_is_one_narrower_vector_where_there_is_one(left):
    widths = re.findall(r"fadd +(<\d+ x )?float", plain_ir(sg.placeholder((32 + left,)) + 1))
    assert widths == ["<16 x ", f"<{left} x "]


def test_a_kernel_that_can_fail_returns_a_status_and_the_step_passes_it_on():
    i = sg.placeholder((4,), "int64")
    ir = plain_ir(sg.take(X, i, axis=0))
    assert 'define internal i32 @"k0"' in ir
    assert re.search(r"ret i32 1\n", ir)
    assert re.search(r"icmp ult i64 %\S+, 64", ir)


def test_a_kernel_that_cannot_fail_returns_nothing():
    ir = plain_ir(X + 1)
    assert 'define internal void @"k0"' in ir
    assert re.search(r'define i32 @"step"\(ptr [^,]+, ptr [^,]+, ptr [^,]+\)', ir)


def test_rows_that_lie_apart_are_gathered_element_by_element():
    ir = plain_ir(X + sg.placeholder((64, 144))[:, ::3])
    assert ir.count("insertelement <16 x float>") >= 16


# ------------------------------------------------------------------------------ optimized code

_MAPS = {
    "arithmetic": X * X + 1,
    "several inputs": sg.where(X > 0, sg.tanh(X), sg.exp(X)) / (1 + sg.abs(X)),
    "all functions": sum(
        (f(X) for f in (sg.exp, sg.log, sg.sin, sg.cos, sg.tanh, sg.sigmoid, sg.erf, sg.expm1)),
        start=sg.log1p(X),
    )
    + sg.pow(X, X),
    "a transpose": sg.tanh(X.T),
    "a broadcast": X + sg.placeholder((48,)),
}


@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("name", _MAPS)
def test_a_map_calls_nothing_outside_its_module_and_takes_no_stack(name, target, level):
    ir = optimized_ir(_MAPS[name], target=target, level=level)
    assert {c for c in called(ir) if not c.startswith("llvm.")} <= defined(ir)
    assert "alloca" not in ir


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "uint8"])
def test_a_map_of_any_dtype_calls_nothing_outside_its_module(dtype):
    x = sg.placeholder((64,), dtype)
    for target in ("x86-64-v4", "x86-64-v3", "x86-64"):
        text = assembly(x * x + sg.floor_divide(x, 3), target=target)
        own = set(re.findall(r'^"?([\w.$]+)"?:', text, re.MULTILINE))
        assert set(re.findall(r"\tcall\w*\t(\S+)", text)) <= own


@pytest.mark.parametrize(
    ("target", "vector", "register"),
    [
        ("x86-64-v4", "<16 x float>", "%zmm"),
        ("x86-64-v3", "<8 x float>", "%ymm"),
        ("x86-64", "<4 x float>", "%xmm"),
    ],
)
def test_a_map_of_float32_fills_the_registers_of_its_target(target, vector, register):
    y = sg.maximum(X * 3, 0) + X
    assert f"fmul {vector}" in plain_ir(y, target=target)
    assert vector in optimized_ir(y, target=target)
    text = assembly(y, target=target)
    assert register in text
    wider = {"%zmm": [], "%ymm": ["%zmm"], "%xmm": ["%zmm", "%ymm"]}[register]
    assert not any(name in text for name in wider)


def test_a_map_of_float64_takes_half_as_many_lanes():
    x = sg.placeholder((64,), "float64")
    assert "<8 x double>" in optimized_ir(x * 2)


def test_a_sum_keeps_partial_results_in_vectors():
    ir = optimized_ir(sg.sum(sg.placeholder((784,))))
    assert "fadd <32 x float>" in ir or ir.count("fadd <16 x float>") >= 2
    assert "alloca" not in ir


def test_a_product_uses_fused_multiply_add_where_there_is_one():
    y = sg.placeholder((64, 64)) @ sg.placeholder((64, 64))
    assert "vfmadd" in assembly(y, target="x86-64-v4")
    assert "vfmadd" in assembly(y, target="x86-64-v3")
    assert "fmadd" not in assembly(y, target="x86-64")


def test_a_map_multiplies_and_adds_in_two_roundings_on_every_target():
    text = assembly(X * 3 + 1, target="x86-64-v4")
    assert "vfmadd" not in text
    assert "vmulps" in text


# -------------------------------------------------------------- shapes that once were refused


_LAYOUTS = [*product(["plain", "transposed", "reversed"], [1, 3, 7, 16, 17, 33])]


# By default the targets in turns.
@pytest.mark.parametrize(
    ("layout", "columns", "targets"),
    [
        *((*row, (target,)) for row, target in zip(_LAYOUTS, cycle((*TARGETS, "native")))),
        *(pytest.param(*row, TARGETS, marks=pytest.mark.slow) for row in _LAYOUTS),
    ],
)
def test_the_epilogue_of_a_product_reads_any_layout(layout, columns, targets):
    # What is left of a row is handed over element by element, whatever the epilogue reads.
    a, b = sg.placeholder((31, 24)), sg.placeholder((24, columns))
    other = (
        sg.placeholder((columns, 31)) if layout == "transposed" else sg.placeholder((31, columns))
    )
    seen = {"plain": other, "transposed": other.T, "reversed": sg.flip(other)}[layout]
    graph = Graph([sg.tanh(a @ b) * seen], [a, b, other])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in graph.inputs]
    different = run_everywhere(graph, arrays, targets=targets)
    assert different is None, different


@pytest.mark.parametrize(
    ("lhs", "rhs", "axes"),
    [
        ((16, 1, 24), (24, 8), 1),
        ((16, 24, 1), (24, 1, 8), 2),
        ((1, 16, 24), (24, 1, 40), 1),
        ((16, 1, 1, 24), (24, 8, 1), 1),
    ],
)
def test_axes_of_size_1_in_a_product_are_at_position_0(lhs, rhs, axes):
    a, b = sg.placeholder(lhs), sg.placeholder(rhs)
    graph = Graph([sg.tensordot(a, b, axes=axes)], [a, b])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (lhs, rhs)]
    different = run_everywhere(graph, arrays)
    assert different is None, different


@pytest.mark.parametrize("size", [17, 31, 48])
def test_a_new_value_over_the_old_one_is_made_once_in_every_tile(size):
    # Tiles at the edge of a product must not overlap: what is added twice shows.
    w = sg.variable(np.ones((size, size), np.float32))
    a, b = sg.placeholder((size, 24)), sg.placeholder((24, size))
    graph = Graph([], [a, b], [Update(w, w + a @ b)])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in graph.inputs]
    different = run_everywhere(graph, arrays)
    assert different is None, different
