"""Chunks of columns of what the last stages of a block of rows make: which are cut, and how."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Kernel, Param, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule import column_chunks as chunks
from symgrad.codegen.schedule import fuse_products
from symgrad.codegen.schedule.column_chunks import ColumnChunks, column_chunks
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.row_stages import Layouts, MatrixRows, Stage, stages_of
from symgrad.graph.graph import Graph
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from tests.support.attention_steps import step_of
from tests.support.floors import run_native

# Weights w of a row of scores, their gradient x, and what is summed of it: over columns and rows.
WEIGHTS = """kernel @weights(in s: f32[32768], out w: f32[32768]) {
  for i in 0..64 {
    for j in 0..512 {
      t: f32 = s[512*i + j]
      u: f32 = exp(t)
      w[512*i + j] = u
    }
  }
}"""
GRADIENT = """kernel @made(in g: f32[1024], in v: f32[8192], in w: f32[32768], out x: f32[32768]) {
  product t: f32 for (i in 0..64) (j in 0..512) (l in 0..16) g[0] by (16, 1) * v[0] by (1, 16)
      tile(1, 1) block(1, 1, 1) pack() along(n) {
    u: f32 = w[512*i + j]
    z: f32 = mul(t, u)
    x[512*i + j] = z
  }
}"""
OVER_COLUMNS = """kernel @down(in x: f32[32768], in k: f32[8192], out y: f32[1024]) {
  product t: f32 for (i in 0..64) (l in 0..16) (j in 0..512) x[0] by (512, 1) * k[0] by (16, 1)
      tile(1, 1) block(1, 1, 1) pack() along(n) {
    y[16*i + l] = t
  }
}"""
OVER_ROWS = """kernel @across(in x: f32[32768], in q: f32[1024], out z: f32[8192]) {
  product t: f32 for (j in 0..512) (l in 0..16) (i in 0..64) x[0] by (1, 512) * q[0] by (16, 1)
      tile(1, 1) block(1, 1, 1) pack() along(n) {
    z[16*j + l] = t
  }
}"""
# Of rows as long as what is summed, a product may meet other columns when it has the sum.
GATED = """kernel @gated(in x: f32[32768], in k: f32[262144], out y: f32[32768]) {
  product t: f32 for (i in 0..64) (l in 0..512) (j in 0..512) x[0] by (512, 1) * k[0] by (512, 1)
      tile(1, 1) block(1, 1, 1) pack() along(n) {
    u: f32 = x[512*i + l]
    z: f32 = mul(t, u)
    y[512*i + l] = z
  }
}"""
# What a stage makes in chunks may be read whole, if something else needs it too.
KEPT = GRADIENT.replace("out x: f32[32768])", "out x: f32[32768], out e: f32[32768])").replace(
    "x[512*i + j] = z", "x[512*i + j] = z\n    e[512*i + j] = u"
)
READS_KEPT = GATED.replace("in x: f32[32768],", "in x: f32[32768], in e: f32[32768],").replace(
    "x[0] by", "e[0] by"
)
READS_SUM = OVER_ROWS.replace("in q:", "in y:").replace("q[0]", "y[0]")
FOLDS = """kernel @folds(in x: f32[32768], out r: f32[64]) {
  for i in 0..64 {
    fold t: f32 = 0.0 for j in 0..512 {
      u: f32 = x[512*i + j]
      yield u
    } combine (a) (b) {
      c: f32 = add(a, b)
      yield c
    }
    r[i] = t
  }
}"""
SUMS = (OVER_COLUMNS, OVER_ROWS)


def cut(texts: tuple[str, ...], own: str = "wx", block: int = 64) -> ColumnChunks | None:
    """Return how stages are cut, of which those buffers `own` are read by nothing else."""
    stages: list[Stage] = []
    layouts: Layouts = {}
    params: dict[str, Param] = {}
    for kernel in map(parse_kernel, texts):
        found = stages_of(kernel, MatrixRows((), 64), layouts)
        assert found is not None
        stages += found[0]
        layouts = dict(found[1])
        params |= {p.name: p for p in kernel.params if p.name in own}
    return column_chunks(stages, params, layouts, 64, block)


@pytest.mark.usefixtures("_few_bytes_are_cut")
def test_a_chunk_needs_no_other_columns_of_what_is_kept_for_others():
    found = cut((WEIGHTS, KEPT, READS_KEPT), "wxy")
    assert found == ColumnChunks(2, 256, 512, ("columns",), frozenset("y"), False)


@pytest.fixture
def _few_bytes_are_cut(monkeypatch):
    monkeypatch.setattr(chunks, "BYTES_OF_ROW_CHUNK", 1 << 15)


@pytest.mark.usefixtures("_few_bytes_are_cut")
def test_stages_behind_the_last_fold_are_cut_along_the_columns_that_each_goes_through():
    found = cut((WEIGHTS, GRADIENT, *SUMS))
    assert found == ColumnChunks(1, 256, 512, ("columns", "inner", "rows"), frozenset("x"), False)


@pytest.mark.usefixtures("_few_bytes_are_cut")
@pytest.mark.parametrize(
    ("texts", "own"),
    [
        ((WEIGHTS, GRADIENT, *SUMS, FOLDS), "wx"),  # needs all columns
        ((WEIGHTS, GRADIENT, OVER_COLUMNS, READS_SUM), "wx"),  # the sum is not done in a chunk
        ((WEIGHTS, GRADIENT, GATED), "wx"),  # a sum is met where it needs other columns
        (
            (WEIGHTS, GRADIENT, OVER_COLUMNS.replace("x[0] by (512, 1)", "x[511] by (512, -1)")),
            "wx",
        ),
        ((WEIGHTS, GRADIENT, OVER_COLUMNS.replace("x[0] by (512, 1)", "x[0] by (512, 0)")), "wx"),
        ((WEIGHTS, GRADIENT, *SUMS), "w"),  # something else reads the gradients
    ],
)
def test_stages_are_not_cut_where_all_columns_are_needed(texts, own):
    assert cut(texts, own) is None


@pytest.mark.usefixtures("_few_bytes_are_cut")
@pytest.mark.parametrize("place", ["512*i - j + 511", "512*i"])
def test_what_a_chunk_makes_needs_of_rows_in_chunks_its_own_columns(place):
    other = GRADIENT.replace("w[512*i + j]", f"x[{place}]").replace(
        "x[512*i + j] =", "z[512*i + j] ="
    )
    other = other.replace("in w:", "in x:").replace("out x:", "out z:")
    assert cut((WEIGHTS, GRADIENT, other, OVER_COLUMNS.replace("x", "z")), "wxz") is None


@pytest.mark.parametrize(
    ("rows", "columns", "wanted"),
    [(480, 1920, (128, False)), (192, 1536, (192, True)), (160, 1600, None)],
)
def test_chunks_have_whole_panels(rows, columns, wanted):
    mask = np.tri(rows, columns, columns - rows, dtype=np.bool_)
    q, k, v, g = (sg.placeholder((4, n, 32), "float32") for n in (rows, columns, columns, rows))
    y = sg.nn.scaled_dot_product_attention(q, k, v, mask=mask)
    graph = Graph([y, *sg.gradients(y, [q, k, v], grad_ys=g)], [q, k, v, g])
    with mock.patch.object(fuse_products, "column_chunks", wraps=column_chunks) as prefetched:
        step_of(graph)
    (found,) = {column_chunks(*call.args) for call in prefetched.call_args_list}
    assert (found and (found.size, found.is_last_apart)) == wanted


def test_gated_sums_are_right_in_rows_that_are_long():
    q, k, m = (
        sg.placeholder(shape, "float32") for shape in ((2, 256, 8), (2, 8, 1536), (2, 1536, 1536))
    )
    w = sg.exp(q @ k)
    inputs = [np.random.default_rng(0).normal(0.0, 0.1, t.type.shape) for t in (q, k, m)]
    rows = np.exp(inputs[0] @ inputs[1])
    (found,) = run_native(
        step_of(Graph([(w @ m) * w], [q, k, m])), [a.astype(np.float32) for a in inputs]
    ).outputs
    np.testing.assert_allclose(found, rows @ inputs[2] * rows, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("_few_bytes_are_cut")
def test_what_each_chunk_reads_of_a_block_is_there_for_the_last_one():
    # The rows `h` are as long as a chunk, and the second product of a chunk no longer reads them.
    shapes = {
        **{"q": (2, 128, 8), "k": (2, 8, 512), "g": (2, 128, 256), "p": (2, 256, 8)},
        **{"v": (2, 256, 512), "h": (2, 128, 256), "w": (2, 256, 512), "z": (2, 512, 8)},
    }
    xs = {name: sg.placeholder(shape, "float32") for name, shape in shapes.items()}
    random = np.random.default_rng(0)
    inputs = [random.normal(0.0, 0.3, shape).astype(np.float32) for shape in shapes.values()]
    scores = xs["q"] @ xs["k"]
    weights = sg.exp(scores - sg.max(scores, axis=-1, keepdims=True))
    total = sg.sum(weights, axis=-1, keepdims=True)
    g, h = xs["g"] / total, xs["h"] / total
    gated = (h @ xs["w"]) * ((g @ xs["v"]) * weights)
    graph = Graph([g @ xs["p"], gated @ xs["z"]], [*xs.values()])
    with mock.patch.object(fuse_products, "column_chunks", wraps=column_chunks) as prefetched:
        step = step_of(graph)
    assert any(column_chunks(*call.args) for call in prefetched.call_args_list)
    for found, wanted in zip(
        run_native(step, inputs).outputs, evaluate(graph, inputs)[0], strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_is_kept_for_others_is_whole_when_a_product_reads_all_its_columns():
    shapes = (2, 512, 64), (64, 2048), (2, 512, 64), (64, 2048), (2048, 2048), (2048, 8)
    xs = [sg.placeholder(shape, "float32") for shape in shapes]
    x, w, g, v, m, p = xs
    random = np.random.default_rng(0)
    inputs = [random.normal(0.0, 0.1, shape) for shape in shapes]
    slopes = g @ v
    kept = slopes * sg.nn.softmax(x @ w)
    graph = Graph([kept, ((kept @ m) * slopes) @ p], xs)
    found = run_native(step_of(graph), [a.astype(np.float32) for a in inputs]).outputs
    left, right, gate, across, square, last = inputs
    weights = np.exp(left @ right)
    weights /= weights.sum(axis=-1, keepdims=True)
    made = gate @ across * weights
    for output, wanted in zip(found, [made, (made @ square * (gate @ across)) @ last], strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-3, atol=1e-5 * abs(wanted).max())


def test_few_bytes_are_not_cut():
    assert cut((WEIGHTS, GRADIENT, *SUMS)) is None


def attention(length: int, causal: bool, mask: Any = None) -> tuple[Graph, list[Array]]:
    q, k, v, g = (sg.placeholder((1, length, 64), "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v, mask=mask, causal=causal)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal((1, length, 64)).astype(np.float32) for _ in range(4)]
    return Graph([y, *sg.gradients(y, [q, k, v], grad_ys=g)], [q, k, v, g]), inputs


def loops_of_chunks(kernel: Kernel) -> list[For]:
    """Return the loops around four products, one of each gradient and one of the weights'."""
    return [
        s
        for s in statements(kernel.body)
        if isinstance(s, For) and s.ordered and [*map(type, s.body)] == [Product] * 4
    ]


def test_gradients_of_weights_are_in_memory_for_a_chunk_of_keys():
    program = step_of(attention(2048, causal=False)[0]).program
    kernel = max(program.kernels, key=lambda k: len(k.params))
    (loop,) = loops_of_chunks(kernel)
    assert loop.extent == 2048 // 256
    assert [p.count for p in kernel.params].count(64 * 256) == 1
    assert sum(p.count >= 64 * 2048 and p.count < 64 * 2200 for p in kernel.params) >= 1


@pytest.mark.slow
def test_the_chunk_that_a_diagonal_goes_through_is_apart():
    program = step_of(attention(2048, causal=True)[0]).program
    found = [(k, loop) for k in program.kernels for loop in loops_of_chunks(k)]
    assert found
    for kernel, loop in found:
        products = [s for s in statements(kernel.body) if isinstance(s, Product)]
        apart = [s for s in products if not any(s is inner for inner in loop.body)]
        assert len(apart) == len(products) - 4 == 6
        assert not any(s.borders for s in loop.body if isinstance(s, Product))
        assert any(s.borders for s in apart)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "causal"), [(2048, False), (2048, True), (1920, False)])
def test_results_have_the_same_bits_for_any_number_of_threads(length, causal):
    graph, inputs = attention(length, causal)
    steps = [step_of(graph, threads=Threads(count)) for count in (1, 2, 4)]
    alone, *others = [[a.tobytes() for a in run_native(s, inputs).outputs] for s in steps]
    assert all(other == alone for other in others)
    apart = run_native(step_of(graph, skip=("fuse-products",)), inputs).outputs
    for found, wanted in zip(run_native(steps[0], inputs).outputs, apart, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5 * float(abs(wanted).max()))


@pytest.mark.slow
def test_a_mask_that_is_data_is_read_by_chunks():
    mask = np.random.default_rng(1).random((2048, 2048)) < 0.5
    graph, inputs = attention(2048, causal=False, mask=mask)
    step = step_of(graph)
    assert any(loops_of_chunks(kernel) for kernel in step.program.kernels)
    apart = run_native(step_of(graph, skip=("fuse-products",)), inputs).outputs
    for found, wanted in zip(run_native(step, inputs).outputs, apart, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5 * float(abs(wanted).max()))


@pytest.mark.slow
@pytest.mark.usefixtures("_few_bytes_are_cut")
def test_nan_and_inf_stay_where_they_are():
    graph, inputs = attention(1024, causal=True)
    inputs[0][0, 700] = np.nan
    inputs[2][0, 900, 3] = np.inf
    found = run_native(step_of(graph, threads=ONE_THREAD), inputs).outputs
    apart = run_native(step_of(graph, skip=("fuse-products",)), inputs).outputs
    for one, other in zip(found, apart, strict=True):
        np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
