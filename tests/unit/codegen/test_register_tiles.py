"""Squares transposed in registers, with all that they leave over, give what NumPy gives."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.native.jit import emit_object, load_object, optimize
from symgrad.codegen.program.print import print_program
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.reasons import schedule_reasons
from symgrad.codegen.schedule.register_tiles import transpose_in_registers
from symgrad.codegen.target import target_named
from symgrad.codegen.vectors import transposed
from symgrad.graph.graph import Graph
from tests.support.evaluators import evaluate_compiled
from tests.support.floors import Variant, program_for, run_variants
from tests.support.schedules import in_squares

TARGETS = ["native", "x86-64-v3", "x86-64"]
RNG = np.random.default_rng(0)


def _drawn(shape: tuple[int, ...], dtype: str) -> Any:
    return RNG.integers(-99, 99, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "bool"])
@pytest.mark.parametrize("shape", [(64, 48), (37, 41), (16, 100), (100, 16), (17, 130)])
def test_a_transpose_is_numpys(shape, dtype):
    x = sg.placeholder(shape, dtype)
    given = _drawn(shape, dtype)
    for results in evaluate_compiled(Graph([x.T], [x]), [given]).values():
        np.testing.assert_array_equal(results[0], given.T)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "turned and straight operands": lambda x, y: x.T * 2 + y,
    "two turned results": lambda x, y: (x.T + 1, (x * y.T).T),
    "padded": lambda x, y: sg.pad(x.T, ((1, 2), (3, 1))) + sg.pad(y, ((1, 2), (3, 1))),
    "a constant along each axis": lambda x, y: x.T + y[:, :1] - y[:1],
    "backwards": lambda x, y: x.T[:, ::-1] - y[::-1],
    "joined": lambda x, y: sg.concat([x.T, y, x.T + y], axis=1),
    "an index as a value": lambda x, y: x.T + sg.arange(x.shape[0]) * y,
    "a condition": lambda x, y: sg.where(x.T > 0, y, -y),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_squares_agree_on_all_floors(name, target):
    shape = (37, 66)
    x, y = sg.placeholder(shape), sg.placeholder(shape[::-1])
    results = PROGRAMS[name](x, y)
    graph = Graph(results if isinstance(results, tuple) else [results], [x, y])
    assert _has_squares(graph, target)
    turn = list(PROGRAMS).index(name) + TARGETS.index(target)
    threads = Threads(1 + turn % 3, least_cycles=0)
    arrays = [_drawn(shape, "float32"), _drawn(shape[::-1], "float32")]
    variant = Variant(target, threads=threads, opt_level=turn % 2)
    assert run_variants(graph, arrays, [variant]) is None


def _has_squares(graph: Graph, target: str) -> bool:
    machine = target_named(target)
    reasons = (schedule_reasons(k, machine) for k in program_for(graph, target).kernels)
    return any("transposed" in reason for of_kernel in reasons for reason in of_kernel)


@pytest.mark.parametrize(
    ("shape", "axes"),
    list(itertools.product([(3, 9, 6, 5), (2, 4, 3, 18)], [(0, 3, 1, 2), (3, 1, 0, 2)])),
)
def test_loops_between_are_taken_around_squares(shape, axes):
    x = sg.placeholder(shape)
    given = _drawn(shape, "float32")
    widths = [(0, 0) if axis == 0 else (1, 2) for axis in range(4)]
    graph = Graph([sg.pad(sg.permute_dims(x, axes), widths)], [x])
    with in_squares():
        for results in evaluate_compiled(graph, [given]).values():
            np.testing.assert_array_equal(results[0], np.pad(given.transpose(axes), widths))


@pytest.mark.parametrize("dtype", ["int8", "float16", "bool"])
def test_small_elements_are_not_taken_in_squares(dtype):
    graph = Graph((x := sg.placeholder((64, 96), dtype)).T, [x])
    assert not _has_squares(graph, "x86-64-v3")


def test_what_depends_on_an_index_that_is_data_is_not_taken_in_squares():
    x, at = sg.placeholder((64, 96)), sg.placeholder((64,), "int64")
    assert not _has_squares(Graph([sg.take(x, at, axis=0).T], [x, at]), "x86-64-v3")


def test_what_is_the_same_everywhere_is_computed_before_squares():
    x, s = sg.placeholder((64, 96)), sg.placeholder(())
    text = print_program(program_for(Graph([x.T * sg.sqrt(s)], [x, s]), "x86-64-v3"))
    before, _, squares = text.partition(" vector(8)")
    assert "sqrt" in before
    assert "sqrt" not in squares.partition("program")[0]


def _turning(operations: int) -> str:
    lines = ["t0: f32 = x[64*i + j]"]
    lines += [f"t{n + 1}: f32 = add(t{n}, t0)" for n in range(operations)]
    lines.append(f"y[i + 64*j] = t{operations}")
    loops = f"for i in 0..64 {{ for j in 0..64 vector(8) {{ {' '.join(lines)} }} }}"
    return f"kernel @k(in x: f32[4096], out y: f32[4096]) {{ {loops} }}"


@pytest.mark.parametrize(("operations", "is_square"), [(2, True), (30, False)])
def test_long_bodies_are_not_written_out_for_each_row(operations, is_square):
    kernel = parse_kernel(_turning(operations))
    assert (transpose_in_registers(kernel) != kernel) == is_square


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_columns_are_made_of_rows_in_steps_of_a_power_of_two(width):
    kind = ir.VectorType(ir.FloatType(), width)
    function = ir.LLVMFunction(ir.Module(), ir.FunctionType(ir.VoidType(), [kind] * width), "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    columns = transposed(builder, function.args)
    assert len(columns) == width
    assert len(builder.block.instructions) == width * (width.bit_length() - 1)


def test_a_loop_in_the_lanes_of_another_is_no_square():
    inner = "for j in 0..5 { t: f32 = x[i + 8*j] y[i + 8*j] = t }"
    loops = f"for i in 0..8 vector(4) {{ {inner} }}"
    kernel = parse_kernel(f"kernel @k(in x: f32[40], out y: f32[40]) {{ {loops} }}")
    verify_kernel(kernel)
    module, target = ir.Module(), target_named("native")
    emit_kernel(module, kernel, "k", target).linkage = ""
    image = emit_object(optimize(str(module), target, 1), target, 1)
    given, found = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    code = load_object(image, ["k"])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("k"))
    call(given.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found, given)
