"""Elementwise kernels over rows that are no one axis, and pieces of one shape in one loop."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.canonical import renamed
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.fuse_elements import fuse_elements
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

FLAT = """kernel @flat(in x: f64[800], out y: f64[800]) {
  for i in 0..800 vector(4) {
    a: f64 = x[i]
    b: f64 = mul(a, a)
    y[i] = b
  }
}"""
ROWS = """kernel @rows(in y: f64[800], out z: f64[1600]) {
  for r in 0..20 {
    for i in 0..40 vector(4) {
      a: f64 = y[40*r + i]
      b: f64 = neg(a)
      z[80*r + i] = b
      z[80*r + i + 40] = a
    }
  }
}"""
BACK = """kernel @back(in z: f64[1600], out v: f64[800]) {
  for q in 0..20 {
    for k in 0..40 vector(4) {
      a: f64 = z[80*q + k]
      b: f64 = z[80*q + k + 40]
      c: f64 = mul(a, b)
      v[40*q + k] = c
    }
  }
}"""
DOUBLED = """kernel @doubled(in v: f64[800], out w: f64[800]) {
  for i in 0..800 vector(4) {
    a: f64 = v[i]
    b: f64 = add(a, a)
    w[i] = b
  }
}"""


def named(given: str | Kernel, ending: str) -> Kernel:
    """Return a kernel whose values and variables are called as in no other one."""
    kernel = parse_kernel(given) if isinstance(given, str) else given
    verify_kernel(kernel)
    return renamed(kernel, [param.name for param in kernel.params], ending)


def fused(first: str | Kernel, second: str, unread: str) -> Kernel | None:
    one, two = named(first, "one"), named(second, "two")
    return fuse_elements(one, two, {unread}, target_named("x86-64-v3"))


def test_rows_flat_and_flat_again_are_one_loop_over_rows():
    first = fused(FLAT, ROWS, "y")
    assert first is not None
    second = fused(first, BACK, "z")
    assert second is not None
    third = fused(second, DOUBLED, "v")
    assert third is not None
    verify_kernel(third)
    assert {param.name for param in third.params} == {"x", "w"}
    text = print_kernel(third)
    assert text.count("for ") == 2
    assert "0..40 vector(4)" in text
    x, w = np.random.default_rng(0).normal(size=800), np.zeros(800)
    run_kernel(third, {"x": x, "w": w})
    np.testing.assert_array_equal(w, -2 * (x * x) * (x * x))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FLAT, ROWS.replace("0..40", "0..38")),  # rows are no whole vectors
        (FLAT, ROWS.replace("y[40*r + i]", "y[40*r]")),  # the same for a whole row
        (FLAT.replace("vector(4)", "vector(4) parallel(100)"), ROWS),  # parts end within rows
        (ROWS, BACK.replace("q in 0..20", "q in 0..10")),  # other rows
    ],
)
def test_what_is_not_of_the_same_row_stays_apart(first, second):
    assert fused(first, second, "z" if first == ROWS else "y") is None


TRIPLES = """kernel @triples(in x: f64[4800], out y: f64[4800]) {
  for r in 0..400 {
    for k in 0..3 {
      for i in 0..4 vector(4) {
        a: f64 = x[12*r + 4*k + i]
        b: f64 = mul(a, a)
        y[12*r + 4*k + i] = b
      }
    }
  }
}"""
OF_TRIPLES = """kernel @of_triples(in y: f64[4800], out z: f64[4800]) {
  for r in 0..400 {
    for i in 0..4 vector(4) {
      a: f64 = y[12*r + i]
      b: f64 = y[12*r + i + 4]
      c: f64 = y[12*r + i + 8]
      z[12*r + i] = b
      z[12*r + i + 4] = c
      z[12*r + i + 8] = a
    }
  }
}"""

ALONG = """kernel @along(in y: f64[4800], out z: f64[400]) {
  for r in 0..400 vector(4) {
    a: f64 = y[12*r + 1]
    b: f64 = y[12*r + 5]
    c: f64 = mul(a, b)
    z[r] = c
  }
}"""


def test_kernels_that_both_have_vectors_along_long_rows_stay_apart():
    assert fused(TRIPLES, OF_TRIPLES, "y") is None


def test_rows_are_written_out_for_a_kernel_with_vectors_along_the_long_axis():
    kernel = fused(TRIPLES, ALONG, "y")
    assert kernel is not None
    assert "0..400 vector(4)" in print_kernel(kernel)


def test_parts_of_whole_rows_stay_parts():
    kernel = fused(FLAT.replace("vector(4)", "vector(4) parallel(400)"), ROWS, "y")
    assert kernel is not None
    assert "0..20 parallel(10)" in print_kernel(kernel)


def gates(axis: int, shape: tuple[int, ...] = (24, 32)) -> tuple[Graph, list[Array]]:
    """Return the graph of pieces that read some of the same, beside each other, and arrays."""
    a, b, c = (sg.placeholder(shape, "float64", name=name) for name in "abc")
    g = sg.exp(a) * b
    return Graph([sg.concat([g * c, a - g, sg.tanh(b) * c], axis=axis)], [a, b, c]), [
        np.random.default_rng(number).normal(size=shape) for number in range(3)
    ]


def options(threads: Threads = ONE_THREAD) -> CompileOptions:
    return CompileOptions(target_named("native"), 1, False, False, threads)


def kernel_texts(graph: Graph, skip: list[str]) -> str:
    program = Executable(graph, options(), passes=Options(skip=skip)).program
    return "\n".join(print_kernel(kernel) for kernel in program.kernels)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_pieces_of_one_shape_that_share_what_they_read_are_one_loop(axis, threads):
    graph, arrays = gates(axis)
    text = kernel_texts(graph, [])
    assert text.count("exp(") == 1
    assert text.count("] = ") == 3
    loads = [line for line in text.splitlines() if "f64 = b" in line]
    assert len(loads) == 3
    (found,) = run_native(Executable(graph, options(threads)), arrays).outputs
    a, b, c = arrays
    g = np.exp(a) * b
    np.testing.assert_allclose(
        found, np.concatenate([g * c, a - g, np.tanh(b) * c], axis=axis), rtol=1e-14
    )


def test_pieces_that_share_nothing_or_lie_otherwise_have_loops_of_their_own():
    a, b, c = (sg.placeholder((96, 96), name=name) for name in "abc")
    for pieces in ([a + 1, b * 2], [a * c, a.T * c], [a * c, c[:, :50]]):
        text = kernel_texts(Graph([sg.concat(pieces, axis=1)], [a, b, c]), [])
        loops = [line for line in text.splitlines() if line.startswith("  for")]
        assert len(loops) == len(pieces)


def test_kernels_of_a_recurrent_cells_gradient_are_one():
    rng = np.random.default_rng(0)
    cell = {
        "w": rng.normal(size=(8, 192)),
        "u": rng.normal(size=(48, 192)),
        "b": rng.normal(size=192),
    }
    weights = {name: sg.variable(value.astype("float32")) for name, value in cell.items()}
    x = sg.placeholder((10, 12, 8))
    h = sg.zeros((12, 48))

    def body(state: tuple[sg.Tensor, sg.Tensor], item: sg.Tensor) -> object:
        h, c = state
        gates = sg.split(item @ weights["w"] + h @ weights["u"] + weights["b"], 4, axis=1)
        i, f, o = map(sg.sigmoid, gates[:3])
        c = f * c + i * sg.tanh(gates[3])
        h = o * sg.tanh(c)
        return (h, c), h

    _, outputs = sg.scan(body, (h, h), x)
    loss = sg.mean(outputs * outputs)
    graph = Graph([loss, *sg.gradients(loss, [*weights.values()])], [x])
    array = rng.normal(size=(10, 12, 8)).astype("float32")
    together = Executable(graph, options())
    apart = Executable(graph, options(), passes=Options(skip=["fuse-elements"]))
    assert len(together.program.launches) < len(apart.program.launches)
    results = [run_native(executable, [array]).outputs for executable in (together, apart)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
