"""Sweeps over the same rows that become one: which do, and that every result keeps its bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.program.language import Launch, WhileInstr, root
from symgrad.codegen.program.registers import written_by
from symgrad.codegen.schedule.fuse_rows import fuse_rows
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.passes.fusion.buffers import Buffer
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import compile_for, run_native
from tests.support.schedules import sweeps_fused

ROWS = """kernel @rows(in x: f32[96], in w: f32[8], out r: f32[12]) {
  for i in 0..12 {
    fold s: f32 = 0.0 for k in 0..8 {
      t: f32 = x[8*i + k]
      u: f32 = w[k]
      v: f32 = mul(t, u)
      yield v
    } combine (a) (b) {
      c: f32 = add(a, b)
      yield c
    }
    e: f32 = exp(s)
    r[i] = e
  }
}"""
SUMS = """kernel @sums(in x: f32[96], in r: f32[12], {mode} w: f32[8], scratch q: f32[{size}]) {{
  for p in 0..2 {{
    for n in 0..8 {{
      q[n + 8*p] = 0.0
    }}
    for o in 0..3 ordered {{
      for j in 0..8 vector(4) {{
        fold m: f32 = 0.0 for l in 0..2 {{
          d: f32 = x[48*p + 16*o + 8*l + j]
          f: f32 = r[{row}]
          g: f32 = mul(d, f)
          yield g
        }} combine (y) (z) {{
          h: f32 = add(y, z)
          yield h
        }}
        before: f32 = q[j + 8*p]
        after: f32 = add(before, m)
        q[j + 8*p] = after
      }}
    }}
  }}
  for last in 0..8 {{
    one: f32 = q[last]
    two: f32 = q[last + 8]
    both: f32 = add(one, two)
    w[last] = both
  }}
}}"""


def sums(row: str = "6*p + 2*o + l", mode: str = "inout") -> Kernel:
    return parse_kernel(SUMS.format(row=row, mode=mode, size=16))


def fused(first: Kernel, second: Kernel) -> Kernel | None:
    with sweeps_fused():
        return fuse_rows(first, second)


def run_all(kernels: Sequence[Kernel]) -> dict[str, Any]:
    random = np.random.default_rng(0)
    buffers = {"x": random.normal(size=96), "w": random.normal(size=8)}
    buffers |= {"r": np.zeros(12), "q": np.zeros(16)}
    held = {name: array.astype(np.float32) for name, array in buffers.items()}
    for kernel in kernels:
        assert run_kernel(kernel, {p.name: held[p.name] for p in kernel.params}) == 0
    return held


def test_rows_are_computed_where_they_are_added_up():
    first, second = parse_kernel(ROWS), sums()
    both = fused(first, second)
    assert both is not None
    verify_kernel(both)
    assert {p.name: p.mode for p in both.params} == {
        "x": "in", "w": "inout", "r": "out", "q": "scratch",
    }  # fmt: skip
    (pieces, last) = both.body
    assert isinstance(pieces, For)
    ordered = pieces.body[1]
    assert isinstance(ordered, For)
    assert ordered.ordered
    assert [s.extent for s in ordered.body if isinstance(s, For)] == [2, 8]
    assert last == second.body[1]
    separate, together = run_all([first, second]), run_all([both])
    for name, array in separate.items():
        np.testing.assert_array_equal(together[name], array, err_msg=name)


@pytest.mark.parametrize(
    "row",
    [
        "2*o + l",  # each piece reads the same rows
        "6*p + 2*o",  # every other row is read by nobody
        "6*p + o + l",  # rows are read twice
        "-6*p + 2*o + l + 6",  # from the last piece to the first
        "2*p + 4*o + l",  # pieces are not next to each other
    ],
)
def test_rows_that_are_not_read_one_after_another_stay_apart(row):
    second = sums(row)
    verify_kernel(second)
    assert fused(parse_kernel(ROWS), second) is None


def test_what_rows_read_is_not_written_before_all_are_there():
    text = SUMS.format(row="6*p + 2*o + l", mode="inout", size=16)
    early = text.replace(
        "        q[j + 8*p] = after", "        q[j + 8*p] = after\n        w[j] = m"
    )
    text = early.replace("for o in 0..3 ordered", "for o in 0..3").replace("w[j] = m", "")
    assert fused(parse_kernel(ROWS), parse_kernel(text)) is not None
    second = parse_kernel(
        early.replace("for p in 0..2 {\n    for n", "for p in 0..2 ordered {\n    for n")
    )
    verify_kernel(second)
    assert fused(parse_kernel(ROWS), second) is None


def test_small_data_is_swept_twice():
    assert fuse_rows(parse_kernel(ROWS), sums()) is None


def test_rows_of_a_thread_stay_shared():
    shared = parse_kernel(ROWS.replace("for i in 0..12 {", "for i in 0..12 parallel(6) {"))
    assert fused(shared, sums()) is None
    text = SUMS.format(row="6*p + 2*o + l", mode="inout", size=16)
    both = fused(
        shared, parse_kernel(text.replace("0..2 {\n    for n", "0..2 parallel(1) {\n    for n"))
    )
    assert both is not None
    verify_kernel(both)
    pieces = both.body[0]
    assert isinstance(pieces, For)
    assert pieces.parallel == 1


# ------------------------------------------------------------------------------------- programs

TALL = (4096, 512)
OPTIONS = CompileOptions(target_named("native"), 1, False, False, ONE_THREAD)


def known(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    assert all(t is not None for t in tensors)
    return [t for t in tensors if t is not None]


def regression(rows: int = TALL[0]) -> tuple[Graph, list[Any]]:
    random = np.random.default_rng(0)
    x, y = sg.placeholder((rows, TALL[1])), sg.placeholder((rows,))
    w = sg.variable(random.normal(size=TALL[1]).astype(np.float32) / 20, name="w")
    b = sg.variable(np.float32(0.1), name="b")
    loss = sg.nn.binary_cross_entropy_with_logits(x @ w + b, y)
    gradients = known(sg.gradients(loss, [w, b]))
    updates = [Update(v, v - 0.1 * g) for v, g in zip((w, b), gradients, strict=True)]
    arrays = [random.normal(size=x.shape), random.integers(0, 2, rows)]
    return Graph([loss], [x, y], updates=updates), [a.astype(np.float32) for a in arrays]


def readers(step: Executable) -> list[Launch]:
    """Return the launches that read the first input."""
    return [
        launch
        for launch in step.program.launches
        if any(root(a) == Buffer("input", 0, root(a).type) for a in launch.arguments)
    ]


def test_a_step_of_logistic_regression_reads_its_data_once():
    step = compile_for(regression()[0], opt_level=0)
    (reader,) = readers(step)
    assert [part.fused for part in reader.fused] == [(), ()]
    assert reader.label == " with ".join(part.label for part in reader.fused)
    assert {"einsum", "exp", "subtract"} <= {n.op for n in step.sources.nodes_of(reader)}
    assert len(step.sources.groups_of(reader)) == 2
    assert reader.kernel in step.program.kernels
    assert len(step.program.kernels) == len(
        {launch.kernel.name for launch in step.program.launches}
    )


@pytest.mark.parametrize("rows", [4096, 4100, 3000])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_sweep_less_changes_no_bit(rows, threads):
    graph, arrays = regression(rows)
    options = replace(OPTIONS, threads=Threads(threads))
    alone = Executable(graph, OPTIONS, passes=Options(skip=["fuse-sweeps"]))
    fused = Executable(graph, options)
    assert [len(readers(step)) for step in (alone, fused)] == [2, 1]
    wanted, found = run_native(alone, arrays), run_native(fused, arrays)
    np.testing.assert_array_equal(found.outputs[0], wanted.outputs[0])
    for state, array in wanted.state.items():
        np.testing.assert_array_equal(found.state[state], array, err_msg=state.name)


def test_layer_norm_reads_activations_once_for_its_parameters():
    rows, columns = TALL
    x, g = sg.placeholder((rows, columns)), sg.placeholder((rows, columns))
    scale, shift = sg.placeholder((columns,)), sg.placeholder((columns,))
    y = sg.nn.layer_norm(x, scale, shift)
    graph = Graph(known(sg.gradients(y, [x, scale, shift], grad_ys=g)), [x, g, scale, shift])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.type.static_shape).astype(np.float32) for t in graph.inputs]
    alone = Executable(graph, OPTIONS, passes=Options(skip=["fuse-sweeps"]))
    fused = Executable(graph, OPTIONS)
    assert len(readers(fused)) < len(readers(alone))
    for a, b in zip(
        run_native(fused, arrays).outputs, run_native(alone, arrays).outputs, strict=True
    ):
        np.testing.assert_array_equal(a, b)


def cross_entropy() -> tuple[Graph, list[np.ndarray]]:
    """Return a loss and its gradient: labels are looked up between the sweeps over the logits."""
    random = np.random.default_rng(0)
    x, labels = sg.placeholder((256, 1024)), sg.placeholder((256,), "int64")
    loss = sg.mean(sg.nn.cross_entropy(x, labels))
    graph = Graph(known([loss, *sg.gradients(loss, [x])]), [x, labels])
    return graph, [
        random.normal(size=(256, 1024)).astype(np.float32),
        random.integers(0, 1024, 256),
    ]


def test_cross_entropy_with_its_gradient_is_one_kernel_by_labels_that_are_known():
    x, g = sg.placeholder((256, 1024)), sg.placeholder((256,))
    loss = sg.nn.cross_entropy(x, np.arange(256) * 7 % 1024, reduction="none")
    graph = Graph(known([loss, *sg.gradients(loss, [x], grad_ys=g)]), [x, g])
    (launch,) = compile_for(graph, opt_level=0).program.launches
    assert not launch.kernel.can_fail


def test_by_labels_that_are_given_one_kernel_sweeps_over_the_logits_behind_the_one_that_looks_up():
    looks_up, sweeps = readers(compile_for(cross_entropy()[0], opt_level=0))
    assert (looks_up.kernel.can_fail, bool(looks_up.fused)) == (True, False)
    assert (sweeps.kernel.can_fail, bool(sweeps.fused)) == (False, True)


def test_what_needs_nothing_of_the_first_sweep_is_done_before_both():
    graph, arrays = cross_entropy()
    alone = Executable(graph, OPTIONS, passes=Options(skip=["fuse-sweeps"]))
    fused = Executable(graph, OPTIONS)
    (sweep,) = [launch for launch in fused.program.launches if launch.fused]
    launches = fused.program.launches
    labels = [n for n, launch in enumerate(launches) if launch.kernel.can_fail]
    assert labels[0] < launches.index(sweep)
    for a, b in zip(
        run_native(fused, arrays).outputs, run_native(alone, arrays).outputs, strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_of_two_launches_that_fail_the_first_one_still_says_why():
    graph, arrays = cross_entropy()
    arrays[1][7] = 1024
    messages = []
    for skip in (["fuse-sweeps"], []):
        step = Executable(graph, OPTIONS, passes=Options(skip=skip))
        with pytest.raises(sg.IndexOutOfRangeError) as caught:
            run_native(step, arrays)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_what_comes_between_two_sweeps_keeps_them_apart():
    """A value that the second sweep needs is of all rows of the first: no row comes before it."""
    x = sg.placeholder(TALL)
    w = sg.placeholder(TALL[1:])
    p = sg.nn.softmax(x @ w)
    step = compile_for(Graph([p @ x], [x, w]), opt_level=0)
    assert len(readers(step)) == 2


def test_a_step_that_fails_between_two_sweeps_leaves_the_state_as_it_was():
    random = np.random.default_rng(0)
    x, y = sg.placeholder((4096, 1024)), sg.placeholder((4096,))
    at = sg.placeholder((100,), "int64")
    w = sg.variable(random.normal(size=1024).astype(np.float32) / 32, name="w")
    logits = x @ w
    loss = sg.nn.binary_cross_entropy_with_logits(logits, y)
    picked = sg.sum(sg.take(logits * 2.0, at))
    step = sg.compile([x, y, at], [loss, picked], updates=sg.optim.SGD(0.1).minimize(loss))
    arrays = [random.normal(size=x.shape), random.integers(0, 2, 4096)]
    before = np.array(w.value)
    with pytest.raises(sg.IndexOutOfRangeError, match="index 5000 is out of range"):
        step(*(a.astype(np.float32) for a in arrays), np.full(100, 5000))
    np.testing.assert_array_equal(w.value, before)


def test_a_loop_that_may_be_interrupted_comes_before_a_new_value():
    x, y = sg.placeholder(TALL), sg.placeholder(TALL[:1])
    w = sg.variable(np.zeros(TALL[1], np.float32), name="w")
    logits = x @ w
    loss = sg.nn.binary_cross_entropy_with_logits(logits, y)
    (gradient,) = known(sg.gradients(loss, [w]))
    total = sg.while_loop(lambda v: v < 10.0, lambda v: v + 1.0, (sg.sum(logits * logits),))
    outputs = [loss, *(total if isinstance(total, tuple) else (total,))]
    step = compile_for(Graph(outputs, [x, y], updates=[Update(w, w - gradient)]), opt_level=0)
    places = [
        number
        for number, instr in enumerate(step.program.instrs)
        if any(b.place == "variable" for b in written_by([instr]))
    ]
    loops = [n for n, i in enumerate(step.program.instrs) if isinstance(i, WhileInstr)]
    assert loops
    assert min(places) > max(loops)


def test_a_kernel_does_not_grow_without_end() -> None:
    # What fusing them takes would grow with the square of what there is.
    x = h = sg.placeholder((256, 256))
    for _ in range(40):
        h = h + sg.nn.softmax(h)
    options = CompileOptions(target_named("x86-64-v3"), 3, fast_math=False, cache=False)
    program = lower_graph(Graph([h], [x]), options).program
    lengths = [sum(1 for _ in statements(kernel.body)) for kernel in program.kernels]
    assert len(lengths) > 1
    assert 256 < max(lengths) <= 640  # some more once folds and their rows are taken apart


def test_a_kernel_that_has_grown_has_canonical_names() -> None:
    x = sg.placeholder((256, 256))
    h = sg.nn.softmax(x)
    options = CompileOptions(target_named("x86-64-v3"), 3, fast_math=False, cache=False)
    program = lower_graph(Graph([sg.nn.softmax(h)], [x]), options).program
    (kernel,) = program.kernels
    assert kernel.name.startswith("k")
    assert ".row" not in print_kernel(kernel)
