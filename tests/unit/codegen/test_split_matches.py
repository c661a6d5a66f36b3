"""Iterations that match, apart from the others: which are split off, and that it gives the same."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.narrow_indices import narrow_indices
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.split_matches import split_matches
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

TARGET = target_named("x86-64-v4")
ROWS = 1024
LABELS = [0, 3, 127, 128, -1, -5, 2**32 + 3, -(2**63), 2**63 - 1]


def _one_hot(comparison: str = "eq(t2, t0)", *, at: str = "j") -> str:
    """Return a kernel that takes 0.5 off the elements of x where labels are."""
    return (
        f"kernel @k(in label: i64[{ROWS}], inout x: f32[{128 * ROWS}]) {{\n"
        f"  for i in 0..{ROWS} {{\n"
        "    t0: i64 = label[i]\n"
        "    for j in 0..128 vector(16) {\n"
        f"      t2: i64 = index({at})\n"
        f"      t3: bool = {comparison}\n"
        "      t4: f32 = select(t3, -0.5, 0.0)\n"
        "      t5: f32 = x[128*i + j]\n"
        "      t6: f32 = add(t4, t5)\n"
        "      x[128*i + j] = t6\n"
        "    }\n  }\n}\n"
    )


def _run(kernel: Kernel, labels: list[int]) -> Array:
    x = np.linspace(-1, 1, 128 * ROWS, dtype=np.float32)
    run_kernel(kernel, {"label": np.resize(np.array(labels), ROWS), "x": x})
    return x


@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("order", ["t2, t0", "t0, t2"])
@pytest.mark.parametrize(("op", "at"), [("eq", "j"), ("ne", "j"), ("eq", "i + j"), ("eq", "j + 2")])
def test_the_iteration_that_matches_is_apart_for_any_number(op, at, order, is_narrow):
    plain = parse_kernel(_one_hot(f"{op}({order})", at=at))
    given = narrow_indices(plain, TARGET) if is_narrow else plain
    split = split_matches(given)
    verify_kernel(split)
    text = print_kernel(split)
    assert "clamp t3.place = " in text
    assert "select(t3, " not in text
    assert "x[128*i + t3.place] = t6.match" in text
    np.testing.assert_array_equal(_run(split, LABELS), _run(plain, LABELS))


@pytest.mark.parametrize(
    "text",
    [
        _one_hot("lt(t2, t0)"),  # many match
        _one_hot("eq(t2, t2)"),  # all do
        _one_hot(at="2*j"),  # goes by twos
        _one_hot(at="j // 2"),  # two match
        _one_hot().replace(f"{ROWS}", "4").replace(f"{128 * ROWS}", "512"),  # soon over
        _one_hot().replace("128", "16").replace(f"{128 * ROWS}", f"{16 * ROWS}"),  # a vector a row
        _one_hot().replace(" vector(16)", ""),  # compared one by one
        _one_hot().replace("t2: i64 = index(j)", "u: i64 = index(j)\n      t2: i8 = i8(u)"),
    ],
)
def test_other_loops_stay_whole(text):
    text = text.replace("in label: i64", "in label: i8") if "i8 =" in text else text
    text = text.replace("t0: i64", "t0: i8") if "i8 =" in text else text
    assert split_matches(parse_kernel(text)) == parse_kernel(text)


def test_two_numbers_that_are_compared_stay():
    text = _one_hot().replace("t4: f32", "t9: bool = eq(t2, 5:i64)\n      t4: f32")
    assert split_matches(parse_kernel(text)) == parse_kernel(text)


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("shape", [(300, 256), (67, 1003)])
def test_the_gradient_of_a_loss_has_the_same_bits(shape, threads):
    x, labels = sg.placeholder(shape, name="x"), sg.placeholder(shape[:1], "int64", name="labels")
    y = sg.nn.cross_entropy(x, labels, label_smoothing=0.1)
    graph = Graph([y, *sg.gradients(y, [x])], [x, labels])
    random = np.random.default_rng(0)
    arrays = [
        random.normal(size=shape).astype(np.float32),
        random.integers(0, shape[1], shape[:1]),
    ]
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    split = Executable(graph, options)
    assert any("clamp" in print_kernel(kernel) for kernel in split.program.kernels)
    plain = Executable(graph, options, passes=Options(skip=["split-matches"]))
    assert not any("clamp" in print_kernel(kernel) for kernel in plain.program.kernels)
    wanted = run_native(plain, arrays).outputs
    for found, other in zip(run_native(split, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, other)


def test_a_kernel_says_which_iteration_is_apart():
    x, labels = sg.placeholder((256, 1024)), sg.placeholder((256,), "int64")
    y = sg.nn.cross_entropy(x, labels)
    step = sg.compile([x, labels], [y, *sg.gradients(y, [x])], target="x86-64-v4")
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any(
        "is apart: it alone matches, and each of 64 vectors would be compared" in reason
        for reason in reasons
    )
