"""Loop interleaving: which loops take several vectors at a time, and what they leave over."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.schedule.interleave import interleave, live_values, vectors_in_turn
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.reasons import schedule_reasons
from symgrad.codegen.target import target_named
from symgrad.cost_model import VECTORS_IN_FLIGHT
from symgrad.graph.graph import Graph
from tests.support.floors import compile_for, run_native
from tests.support.schedules import interleaved

TARGET = target_named("x86-64-v3")
LONG = """
    t0: f32 = x[i]
    t1: f32 = tanh(t0)
    t2: f32 = mul(t0, t1)
    y[i] = t2
"""


def marked(body: str, extent: int = 1 << 20) -> int:
    """Return how many vectors are interleaved in a loop with this body."""
    text = (
        f"kernel @k(in x: f32[{2 * extent}], out y: f32[{extent}])"
        f"{{ for i in 0..{extent} vector(8) {{ {body} }} }}"
    )
    (loop,) = interleave(parse_kernel(text), TARGET).body
    assert isinstance(loop, For)
    return loop.interleave


def test_a_long_chain_of_operations_is_interleaved():
    assert marked(LONG) == 4


def test_few_operations_are_not():
    assert marked("t0: f32 = x[i] t1: f32 = mul(t0, t0) y[i] = t1") == 1


def test_a_short_loop_is_less_or_not():
    assert marked(LONG, VECTORS_IN_FLIGHT[4] // 100) == 2
    assert marked(LONG, VECTORS_IN_FLIGHT[2] // 100) == 1


def test_elements_that_are_gathered_are_not():
    assert marked(LONG.replace("x[i]", "x[2*i]")) == 1


def test_more_values_than_registers_are_for_are_interleaved_less():
    loads = "".join(f"t{n}: f32 = x[i + {n}] u{n}: f32 = tanh(t{n}) " for n in range(24))
    sums = "".join(f"s{n + 1}: f32 = add(s{n}, u{n}) " for n in range(24))
    assert marked(f"{loads} s0: f32 = x[i] {sums} y[i] = s24") == 2


def test_live_values_are_counted_from_the_first_to_the_last_use():
    text = f"kernel @k(in x: f32[8], out y: f32[8]) {{ for i in 0..8 {{ {LONG} }} }}"
    (loop,) = parse_kernel(text).body
    assert isinstance(loop, For)
    assert live_values(loop) == 2


@pytest.mark.parametrize("size", [64, 101, 127, 128, 207, 259])
@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_those_of_single_vectors(size, threads):
    x = sg.placeholder((size,))
    graph = Graph([sg.sin(x) * x, sg.astype(x > 0.5, "int8")], [x])
    given = np.linspace(-3, 3, size, dtype=np.float32)
    found = []
    for vectors in (1, 4):
        with interleaved(vectors):
            step = compile_for(graph, "x86-64", threads=Threads(threads, least_cycles=0))
        text = str(step.program.kernels)
        assert ("interleave=4" in text) == (vectors == 4)
        found.append([a.tobytes() for a in run_native(step, [given]).outputs])
    assert found[0] == found[1]


SUMS = """kernel @k(in x: f32[1024], in g: f32[1024], out y: f32[1024], out z: f32[2]) {
  fold s: f32 = 0.0, t: f32 = 0.0 for i in 0..1024 lanes(32) {
    a: f32 = x[i]
    b: f32 = g[i]
    c: f32 = mul(a, b)
    d: f32 = add(a, b)
    y[i] = d
    e: f32 = mul(c, a)
    yield e, c
  } combine (f, h) (k, l) {
    m: f32 = add(f, k)
    n: f32 = add(h, l)
    yield m, n
  }
  z[0] = s
  z[1] = t
}"""
ONE_SUM = SUMS.replace("yield e, c", "yield e").replace(", t: f32 = 0.0 for", " for")
ONE_SUM = ONE_SUM.replace("(f, h) (k, l)", "(f) (k)").replace("yield m, n", "yield m")
ONE_SUM = ONE_SUM.replace("    n: f32 = add(h, l)\n", "").replace("  z[1] = t\n", "")


def in_turn(text: str, target: str) -> int:
    """Return how many vectors of the fold of a kernel are computed one after another."""
    (fold, *_) = parse_kernel(text).body
    assert isinstance(fold, Fold)
    return vectors_in_turn(fold, target_named(target))


def test_vectors_of_a_fold_whose_sums_fill_the_registers_are_computed_one_after_another():
    assert in_turn(SUMS, "x86-64-v3") == 4
    (reason,) = (r for r in schedule_reasons(parse_kernel(SUMS), TARGET) if "after another" in r)
    assert "8 of 16 registers hold partial results" in reason


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (SUMS, "x86-64-v4"),  # which has registers for all
        (ONE_SUM, "x86-64-v3"),
        (SUMS.replace("mul(a, b)", "exp(a)"), "x86-64-v3"),  # a long chain
        (SUMS.replace("lanes(32)", "lanes(8)"), "x86-64-v3"),  # one vector
    ],
)
def test_vectors_of_other_folds_are_computed_beside_each_other(text, target):
    assert in_turn(text, target) == 1


@pytest.mark.parametrize(("target", "width"), [("x86-64-v3", 8), ("x86-64-v4", 32)])
def test_a_norm_with_gradients_multiplies_vectors_that_registers_hold(target, width):
    x, g = (sg.placeholder((256, 1024)) for _ in range(2))
    scale, shift = (sg.placeholder((1024,)) for _ in range(2))
    y = sg.nn.layer_norm(x, scale, shift)
    found = sg.gradients(y, [x, scale, shift], grad_ys=g)
    text = sg.compile([x, g, scale, shift], [y, *found], target=target, threads=1).ir("llvm")
    (block,) = (b for b in text.split("br i1") if b.count("store <") >= 1 and "fneg" in b)
    assert f"fmul <{width} x float>" in block
    assert all(f"fmul <{other} x float>" not in block for other in (8, 32) if other != width)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize(("dtype", "length"), [("float32", 1024), ("float64", 1040)])
def test_sums_of_vectors_in_turn_are_those_of_vectors_beside_each_other(dtype, length, monkeypatch):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(64, length)).astype(dtype) for _ in range(2)]
    vectors = [random.normal(size=length).astype(dtype) for _ in range(2)]
    x, g, scale, shift = (sg.placeholder(a.shape, dtype) for a in (*arrays, *vectors))
    y = sg.nn.layer_norm(x, scale, shift)
    found = [y, *sg.gradients(y, [x, scale, shift], grad_ys=g)]
    texts, results = [], []
    for count in (vectors_in_turn, lambda fold, target: 1):
        with monkeypatch.context() as patch:
            patch.setattr("symgrad.codegen.llvm.in_turn.vectors_in_turn", count)
            step = sg.compile([x, g, scale, shift], found, target="x86-64-v3", threads=1)
            texts.append(step.ir("llvm"))
            results.append(step(*arrays, *vectors))
    assert texts[0] != texts[1]
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
