"""Elementwise kernels over one long axis that become one, and results written where they belong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import symgrad as sg
from benchmarks.sparse import PROBLEMS
from symgrad.codegen.loops.canonical import renamed
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.fuse_elements import fuse_elements
from symgrad.codegen.schedule.long_loops import long_loop_of
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.cost_model import MOST_FUSED_STREAMS
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import compile_for, run_native

TARGET = target_named("x86-64-v3")
ROWS = 1000
APART = Options(skip=["fuse-elements", "place-results", "fuse-sweeps"])

SQUARES = """kernel @squares(in x: f64[900], out y: f64[300]) {
  for i in 0..300 vector(4) {
    a: f64 = x[3*i]
    b: f64 = mul(a, a)
    c: f64 = x[3*i + 2]
    d: f64 = mul(c, c)
    e: f64 = add(b, d)
    y[i] = e
  }
}"""
SCALED = """kernel @scaled(in x: f64[900], in y: f64[300], out z: f64[900]) {
  for i in 0..300 {
    s: f64 = y[i]
    for j in 0..3 vector(2) {
      t: f64 = x[3*i + j]
      u: f64 = mul(t, s)
      z[3*i + j] = u
    }
  }
}"""


def parsed(text: str, ending: str) -> Kernel:
    """Return a kernel whose values and variables are called as in no other one."""
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    return renamed(kernel, [param.name for param in kernel.params], ending)


def fused(first: str, second: str, unread: Sequence[str] = ()) -> Kernel | None:
    return fuse_elements(parsed(first, "one"), parsed(second, "two"), set(unread), TARGET)


def test_values_go_from_one_kernel_to_the_other():
    kernel = fused(SQUARES, SCALED, ["y"])
    assert kernel is not None
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "y" not in [param.name for param in kernel.params]
    assert text.count("for ") == 1
    assert "vector(4)" in text
    x, z = np.random.default_rng(0).normal(size=900), np.zeros(900)
    run_kernel(kernel, {"x": x, "z": z})
    rows = x.reshape(300, 3)
    wanted = rows * (rows[:, 0] ** 2 + rows[:, 2] ** 2)[:, None]
    np.testing.assert_array_equal(z.reshape(300, 3), wanted)


def test_what_others_read_is_in_memory_as_well():
    kernel = fused(SQUARES, SCALED)
    assert kernel is not None
    assert {param.name: param.mode for param in kernel.params} == {
        "x": "in",
        "y": "out",
        "z": "out",
    }


@pytest.mark.parametrize(
    ("part", "by"),
    [
        ("s: f64 = y[i]", "s: f64 = y[i - 1]"),  # of another iteration
        ("s: f64 = y[i]", "s: f64 = y[0]"),  # the same for all
        ("out z: f64[900]", "inout x: f64[900]"),  # over what the first reads
    ],
)
def test_what_is_not_of_the_same_iteration_keeps_kernels_apart(part, by):
    changed = SCALED.replace(part, by)
    if "inout" in by:
        changed = changed.replace("in x: f64[900], ", "").replace("z[3*i + j]", "x[3*i + j]")
    second = parse_kernel(changed)
    assert fuse_elements(parsed(SQUARES, "one"), second, {"y"}, TARGET) is None


def test_a_loop_around_vectors_and_one_of_several_elements_a_row_are_written_out():
    around = """kernel @around(in y: f64[300], in w: f64[600], out z: f64[600]) {
  for r in 0..2 {
    for i in 0..300 vector(4) {
      a: f64 = y[i]
      b: f64 = w[2*i + r]
      c: f64 = mul(a, b)
      z[2*i + r] = c
    }
  }
}"""
    flat = """kernel @flat(in z: f64[600], out v: f64[600]) {
  for i in 0..600 vector(4) {
    a: f64 = z[i]
    b: f64 = neg(a)
    v[i] = b
  }
}"""
    first = fused(SQUARES, around, ["y"])
    assert first is not None
    both = fuse_elements(first, parsed(flat, "three"), {"z"}, TARGET)
    assert both is not None
    verify_kernel(both)
    assert {param.name for param in both.params} == {"v", "x", "w"}
    x, w = np.random.default_rng(0).normal(size=900), np.random.default_rng(1).normal(size=600)
    v = np.zeros(600)
    run_kernel(both, {"x": x, "w": w, "v": v})
    rows = x.reshape(300, 3)
    squares = rows[:, 0] ** 2 + rows[:, 2] ** 2
    np.testing.assert_array_equal(v.reshape(300, 2), -(squares[:, None] * w.reshape(300, 2)))


def test_loops_of_few_rows_and_such_with_long_ones_inside_are_left():
    assert long_loop_of(parse_kernel(SQUARES.replace("300", "100").replace("900", "300"))) is None
    assert long_loop_of(parse_kernel(SCALED)) is not None
    wide = SCALED.replace("0..3", "0..64").replace("3*i", "64*i").replace("900", "19200")
    assert long_loop_of(parse_kernel(wide)) is None


def test_what_both_load_before_their_loops_is_loaded_once():
    scaled = """kernel @scaled(in FROM: f64[300], in w: f64[2], out TO: f64[300]) {
  s: f64 = w[1]
  for i in 0..300 vector(4) {
    a: f64 = FROM[i]
    b: f64 = mul(a, s)
    TO[i] = b
  }
}"""
    one, two = (scaled.replace("FROM", a).replace("TO", b) for a, b in ("xy", "yz"))
    both = fused(one, two, ["y"])
    assert both is not None
    verify_kernel(both)
    x, z = np.random.default_rng(0).normal(size=300), np.zeros(300)
    run_kernel(both, {"x": x, "w": np.array([3.0, 5.0]), "z": z})
    np.testing.assert_array_equal(z, x * 5 * 5)


FILLED = """kernel @filled(in x: f64[300], out y: f64[300]) {
  for i in 0..300 vector(4) {
    y[i] = 0.0
  }
  a: f64 = x[299]
  y[299] = a
}"""


def test_an_element_that_is_written_over_stays_behind_the_loop():
    assert long_loop_of(parse_kernel(FILLED)) is None
    beside = FILLED.replace("0..300", "0..299")
    assert long_loop_of(parse_kernel(beside)) is not None
    assert long_loop_of(parse_kernel(beside.replace("y[i]", "y[i + 1]"))) is None
    read = beside.replace("y[i] = 0.0", "b: f64 = y[i + 1] y[i] = b").replace("out y", "inout y")
    assert long_loop_of(parse_kernel(read)) is None


@pytest.mark.parametrize("size", [255, 256, 300, 1000])
def test_the_gradient_at_fixed_ends_is_right(size):
    x = sg.placeholder((size,), "float64")
    inside = sg.sin(x[1:-1]) + x[:-2] * x[2:]
    y = sg.sum(sg.sin(sg.concat([x[:1], inside, x[-1:]]) * 0.5))
    sg.testing.check_gradients(y, [x], {x: np.random.default_rng(size).normal(size=size)})


def test_a_search_between_the_loops_is_not_written_out():
    a, b = sg.placeholder((3,)), sg.placeholder((3, 4096))
    places = sg.searchsorted(sg.asarray(np.arange(5, dtype="float32")), a)
    step = sg.compile([a, b], [places[:, None] * b, sg.sin(b) + 1])
    found, _ = step(np.array([0.5, 2.5, 9], "float32"), np.ones((3, 4096), "float32"))
    np.testing.assert_array_equal(found, np.repeat([[1], [3], [5]], 4096, axis=1))


def test_ends_of_rows_that_are_filled_in_a_loop_of_their_own_are_written_in_front():
    padded = """kernel @padded(in y: f64[300], out z: f64[602]) {
  for r in 0..2 {
    z[301*r + 300] = 0.0
  }
  for r in 0..2 {
    for i in 0..300 vector(4) {
      a: f64 = y[i]
      b: f64 = neg(a)
      z[301*r + i] = b
    }
  }
}"""
    kernel = fused(SQUARES, padded, ["y"])
    assert kernel is not None
    verify_kernel(kernel)
    x, z = np.random.default_rng(0).normal(size=900), np.ones(602)
    run_kernel(kernel, {"x": x, "z": z})
    rows = x.reshape(300, 3)
    squares = rows[:, 0] ** 2 + rows[:, 2] ** 2
    np.testing.assert_array_equal(z.reshape(2, 301), np.stack([np.append(-squares, 0)] * 2))


def test_rows_of_which_an_iteration_stores_one_element_each_are_read_as_they_were_stored():
    first = """kernel @first(in x: f64[300], out y: f64[600]) {
  for i in 0..300 vector(4) {
    a: f64 = x[i]
    y[i] = a
    b: f64 = neg(a)
    y[i + 300] = b
  }
}"""
    second = """kernel @second(in y: f64[600], out z: f64[600]) {
  for r in 0..2 {
    for i in 0..300 vector(4) {
      a: f64 = y[300*r + i]
      b: f64 = exp(a)
      z[300*r + i] = b
    }
  }
}"""
    kernel = fused(first, second, ["y"])
    assert kernel is not None
    verify_kernel(kernel)
    x, z = np.random.default_rng(0).normal(size=300), np.zeros(600)
    run_kernel(kernel, {"x": x, "z": z})
    np.testing.assert_array_equal(z, np.exp(np.concatenate([x, -x])))


def turned(rows: int = ROWS) -> tuple[Graph, list[Array]]:
    """Return the graph of vectors turned about axes, with its gradient, and arrays for it."""
    axes, x = sg.placeholder((rows, 3), "float64"), sg.placeholder((rows, 3), "float64")
    angle = sg.sqrt((axes * axes).sum(1))[:, None]
    unit = axes / angle
    along = (unit * x).sum(1)[:, None] * (1 - sg.cos(angle))
    y = x * sg.cos(angle) + sg.cross(unit, x) * sg.sin(angle) + unit * along
    found = sg.gradients(y, [axes, x], grad_ys=sg.asarray(np.arange(3.0 * rows).reshape(rows, 3)))
    random = np.random.default_rng(0)
    return Graph([y, *found], [axes, x]), [random.normal(size=(rows, 3)) for _ in range(2)]


def options(threads: Threads = ONE_THREAD) -> CompileOptions:
    return CompileOptions(target_named("native"), 1, False, False, threads)


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_fewer_kernels_change_no_bit(threads):
    graph, arrays = turned()
    apart = Executable(graph, options(), passes=APART)
    together = Executable(graph, options(threads))
    assert 3 * len(together.program.launches) <= len(apart.program.launches)
    wanted, got = run_native(apart, arrays), run_native(together, arrays)
    for a, b in zip(got.outputs, wanted.outputs, strict=True):
        np.testing.assert_array_equal(a, b)


def residuals(size: int) -> tuple[Graph, list[Array]]:
    """Return the graph of a bundle adjustment's residuals with their Jacobian, and parameters."""
    start = PROBLEMS[0].start(size)
    x = sg.placeholder(start.shape, "float64")
    parts = PROBLEMS[0].build(sg, x, sg.take, size)
    found = sg.jacobian(sg.concat(parts), x, sparsity="auto")
    return Graph([found.values], [x]), [start]


def test_kernels_are_fused_past_one_of_many_buffers_where_few_are_left(monkeypatch):
    graph, arrays = residuals(ROWS)
    together = Executable(graph, options())
    assert len(together.program.launches) == 1
    apart = Executable(graph, options(), passes=APART)
    np.testing.assert_array_equal(
        run_native(together, arrays).outputs[0], run_native(apart, arrays).outputs[0]
    )
    monkeypatch.setattr("symgrad.codegen.program.fuse_elements.MOST_STREAMS_BETWEEN", 40)
    launches = Executable(graph, options()).program.launches
    assert 1 < len(launches) < len(apart.program.launches)
    assert max(len(launch.arguments) for launch in launches) <= MOST_FUSED_STREAMS


def test_what_is_handed_on_takes_no_memory():
    graph, _ = turned()
    apart, together = Executable(graph, options(), passes=APART), Executable(graph, options())
    assert together.program.arena_bytes < apart.program.arena_bytes / 2


def test_parts_of_a_long_chain_stay_as_they_were_cut():
    x = sg.placeholder((ROWS,), name="x")
    y = x
    for _ in range(200):
        y = sg.tanh(y * x)
    graph = Graph([sg.sum(y), *sg.gradients(sg.sum(y), [x])], [x])
    apart, together = Executable(graph, options(), passes=APART), Executable(graph, options())
    assert len(together.program.launches) == len(apart.program.launches) > 10


def test_kernels_that_load_the_same_are_one_once_what_is_between_them_is():
    x = sg.placeholder((2000, 3, 3))
    det = sg.linalg.det(x)
    loss = sg.sum(det * det)
    step = sg.compile([x], [loss, sg.gradients(loss, [x])[0]], threads=1)
    assert len(step.kernels) == 2  # all that is done with a matrix, and the sum


def test_each_op_has_its_kernel_and_its_line_still():
    graph, _ = turned()
    together = Executable(graph, options())
    (largest,) = sorted(together.program.launches, key=lambda launch: len(launch.fused))[-1:]
    ops = {node.op for node in together.sources.nodes_of(largest)}
    assert {"sqrt", "cos", "sum", "concat"} <= ops


def joined(*, fill: bool) -> tuple[Graph, list[Array]]:
    """Return the graph of pieces of rows, joined with a vector or put on a border of zeros."""
    x, y = sg.placeholder((ROWS, 2), "float64"), sg.placeholder((ROWS,), "float64")
    rows = sg.reshape(sg.stack([sg.exp(x[:, 0]), y, x[:, 1] * y], axis=1), (-1,))
    whole = sg.pad(rows, ((2, 3),)) if fill else sg.concat([rows, 2 * y])
    random = np.random.default_rng(0)
    return Graph([whole], [x, y]), [random.normal(size=(ROWS, 2)), random.normal(size=ROWS)]


def test_pieces_are_written_where_they_are_joined():
    graph, arrays = joined(fill=False)
    step = compile_for(graph, opt_level=1)
    assert not any(buffer.place == "temporary" for buffer in step.program.lifetimes)
    apart = Executable(graph, options(), passes=APART)
    np.testing.assert_array_equal(
        run_native(step, arrays).outputs[0], run_native(apart, arrays).outputs[0]
    )


def test_what_is_filled_first_is_copied_into_afterwards():
    graph, arrays = joined(fill=True)
    found = run_native(Executable(graph, options()), arrays).outputs[0]
    apart = Executable(graph, options(), passes=APART)
    np.testing.assert_array_equal(found, run_native(apart, arrays).outputs[0])
    assert found[0] == found[-1] == 0
    assert found[2] == np.exp(arrays[0][0, 0])


def shifted(steps: int, n: int) -> tuple[Graph, list[Array]]:
    """Return products with what a chain of steps has moved on by an element each."""
    x, y = sg.placeholder((n,), "float64"), sg.placeholder((n,), "float64")
    found = [y]
    for _ in range(steps):
        moved = sg.concat([sg.ones((1,), "float64"), found[-1][:-1]])
        found.append(x * moved + 0.5)
    back = sg.pad(found[-1][1:] * x[1:], (0, 1)) - found[-1]
    random = np.random.default_rng(0)
    return Graph([*found[1:], back], [x, y]), [random.random(n), random.random(n)]


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("n", [261, 4099])
@pytest.mark.parametrize("steps", [1, 3, 9])
def test_what_is_moved_by_an_element_is_computed_as_many_iterations_later(steps, n, threads):
    graph, arrays = shifted(steps, n)
    alone = Executable(graph, options(), passes=APART)
    together = Executable(graph, options(threads))
    assert len(together.program.launches) < len(alone.program.launches)
    for one, other in zip(
        run_native(together, arrays).outputs, run_native(alone, arrays).outputs, strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_shift_in_a_loop_is_one_kernel_for_all_steps():
    x = sg.placeholder((2000,), "float64")

    def slope(y: sg.Tensor) -> sg.Tensor:
        return x * sg.concat([sg.ones((1,), "float64"), y[:-1]])

    def advance(_: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        k = slope(y)
        return y + 0.1 * slope(y + 0.5 * k) + 0.2 * k

    y = sg.fori_loop(0, 7, advance, sg.zeros_like(x))
    step = sg.compile([x], y)
    in_loop = step.ir("loops").partition("scan loop")[2].partition("}")[0].count("launch")
    assert in_loop == 2
    given = np.random.default_rng(0).random(2000)
    (wanted,) = sg.testing.interpret([y], {x: given})
    np.testing.assert_allclose(step(given), wanted, rtol=1e-12)
