"""Products and what is done with their rows, fused by blocks: which are, and what that changes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Const, For, Kernel, Product, Store
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program import fuse_products
from symgrad.codegen.program.language import Program, buffers_of, with_routines
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.row_blocks import keep_blocks, rows_of_block
from symgrad.codegen.schedule.row_stages import (
    Layouts,
    MatrixRows,
    RowLayout,
    product_rows,
    stages_of,
)
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.config import override
from symgrad.graph.dtypes import uint8
from symgrad.graph.graph import Graph
from symgrad.graph.reference import evaluate
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.passes.table import Options
from symgrad.records import replace
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native
from tests.support.fuzz_families import FAMILIES
from tests.support.schedules import products_fused, rows_interchanged, rows_written_out

SCORES = """kernel @scores(in q: f32[1024], in k: f32[1024], out s: f32[4096]) {
  product t: f32 for (i in 0..64) (j in 0..64) (l in 0..16) q[0] by (16, 1) * k[0] by (1, 16)
      tile(1, 1) block(1, 1, 1) pack() along(n) {
    s[64*i + j] = t
  }
}"""
SOFTMAX = """kernel @rows(in s: f32[4096], out p: f32[4096]) {{
  for i in 0..64 {{
    for j in 0..64 {{
      t: f32 = s[{place}]
      u: f32 = exp(t)
      p[64*i + j] = u
    }}
  }}
}}"""
VALUES = """kernel @values(in p: f32[4096], in v: f32[1024], out y: f32[1024]) {{
  product t: f32 for (i in 0..64) (j in 0..16) (l in 0..64) p[0] by {strides} * v[0] by (16, 1)
      tile(1, 1) block(1, 1, 1) pack() along(n) {{
    y[16*i + j] = t
  }}
}}"""
ROWS = MatrixRows((), 64)
BY_ROWS = {"s": RowLayout((64,), 64)}


@pytest.fixture(autouse=True)
def _products_of_few_bytes_are_fused(monkeypatch):
    monkeypatch.setattr(fuse_products, "BYTES_OF_PRODUCTS", 256 << 10)


def axes_of(kernel: Kernel, written: Layouts) -> list[str | None] | None:
    found = stages_of(kernel, ROWS, written)
    return None if found is None else [stage.axis for stage in found[0]]


def attention(
    shape: tuple[int, ...], causal: bool = False, is_written_out: bool = False
) -> tuple[Graph, list[Any]]:
    """Return attention with all gradients, and random operands."""
    q, k, v, g = (sg.placeholder(shape, "float32") for _ in range(4))
    if is_written_out:
        y = sg.nn.softmax(q @ sg.swapaxes(k, -1, -2) * 0.125) @ v
    else:
        y = sg.nn.scaled_dot_product_attention(q, k, v, causal=causal)
    found = sg.gradients(y, [q, k, v], grad_ys=g, unconnected_gradients="zero")
    graph = Graph([y, *found], [q, k, v, g])
    random = np.random.default_rng(0)
    return graph, [random.standard_normal(shape).astype(np.float32) for _ in range(4)]


def step_of(graph: Graph, threads: Threads = ONE_THREAD, skip: tuple[str, ...] = ()) -> Executable:
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    return Executable(graph, options, passes=Options(skip=skip))


def products_of(program: Program) -> list[int]:
    """Return how many products each kernel has."""
    bodies = (kernel.body for kernel in program.kernels)
    return [sum(isinstance(s, Product) for s in statements(body)) for body in bodies]


def test_the_product_of_queries_and_keys_has_rows():
    assert product_rows(parse_kernel(SCORES)) == ROWS


def test_a_product_that_makes_little_is_not_the_first_of_a_fusion():
    assert product_rows(parse_kernel(VALUES.format(strides="(64, 1)"))) is None


def test_a_loop_that_reads_its_own_row_is_a_stage():
    assert axes_of(parse_kernel(SOFTMAX.format(place="64*i + j")), BY_ROWS) == [None]


@pytest.mark.parametrize("place", ["i + 64*j", "64*i - j + 63 - 1", "-64*i + j + 4032"])
def test_a_loop_that_reads_other_rows_is_no_stage(place):
    assert axes_of(parse_kernel(SOFTMAX.format(place=place)), BY_ROWS) is None


@pytest.mark.parametrize(("place", "buffers"), [("64*i + j", 1), ("64*i - j + 63", 2)])
def test_rows_are_written_over_those_that_are_read_at_the_same_places(place, buffers):
    scores = stages_of(parse_kernel(SCORES), ROWS, {})
    assert scores is not None
    rows = parse_kernel(SOFTMAX.format(place=place))
    weights = stages_of(rows, ROWS, scores[1])
    assert weights is not None
    own = {param.name: param for param in rows.params}
    memory = target_named("x86-64-v3").memory
    kept, scratch = keep_blocks([*scores[0], *weights[0]], own, weights[1], 16, memory)
    assert len(scratch) == len({k.buffer for k in kept.values()}) == buffers


def test_what_must_not_be_read_is_read_by_no_stage():
    assert axes_of(parse_kernel(SOFTMAX.format(place="64*i + j")), {"s": None}) is None


@pytest.mark.parametrize(("strides", "axis"), [("(64, 1)", "rows"), ("(1, 64)", "inner")])
def test_rows_of_an_operand_are_rows_of_the_result_or_are_summed_over(strides, axis):
    known = {"p": RowLayout((64,), 64)}
    assert axes_of(parse_kernel(VALUES.format(strides=strides)), known) == [axis]


@pytest.mark.parametrize(
    ("batch", "count", "row_bytes", "size"),
    [
        ((8,), 1024, 4096, 128),
        ((8,), 128, 512, 128),
        ((1,), 128, 512, 32),  # four blocks at the least, for threads
        ((8,), 1000, 4000, 125),
        ((8,), 1021, 4084, 0),  # a prime
        ((8,), 4096, 16384, 64),  # rows enough for the products, though they are larger
    ],
)
def test_blocks_have_rows_enough_and_divide_all_of_them(batch, count, row_bytes, size):
    assert rows_of_block(MatrixRows(batch, count), row_bytes) == size


@pytest.mark.parametrize("is_written_out", [False, True])
def test_attention_with_its_gradient_is_one_kernel_and_keeps_no_scores(is_written_out):
    graph, _ = attention((16, 256, 64), is_written_out=is_written_out)
    step, apart = (step_of(graph, skip=skip) for skip in ((), ("fuse-products",)))
    assert max(products_of(step.program)) == sum(products_of(step.program)) == 6
    assert max(products_of(apart.program)) == 1
    scores = 16 * 256 * 256 * 4
    assert step.program.arena_bytes < scores < apart.program.arena_bytes


@pytest.mark.parametrize(("length", "is_cleared"), [(256, False), (1024, True)])
def test_sums_of_a_piece_of_one_block_are_not_cleared(length, is_cleared):
    program = step_of(attention((1, length, 64))[0]).program
    stores = [s for k in program.kernels for s in statements(k.body) if isinstance(s, Store)]
    assert any(isinstance(s.value, Const) for s in stores) == is_cleared


def test_memory_of_attention_grows_with_the_length():
    short, long = (step_of(attention((1, n, 64))[0]).program.arena_bytes for n in (1024, 2048))
    assert long < 2.2 * short


@pytest.mark.parametrize("shape", [(6, 256, 64), (1, 512, 64), (2, 3, 320, 32), (3, 500, 16)])
@pytest.mark.parametrize("causal", [False, True])
def test_results_have_the_same_bits_for_any_number_of_threads(shape, causal):
    graph, inputs = attention(shape, causal)
    steps = [step_of(graph, Threads(count)) for count in (1, 2, 3, 4)]
    alone, *others = [[a.tobytes() for a in run_native(s, inputs).outputs] for s in steps]
    assert all(other == alone for other in others)
    apart = run_native(step_of(graph, skip=("fuse-products",)), inputs).outputs
    for found, wanted in zip(run_native(steps[0], inputs).outputs, apart, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5 * float(abs(wanted).max()))


def test_threads_share_the_blocks_of_one_head():
    graph, _ = attention((1, 1024, 64))
    program = step_of(graph, Threads(2)).program
    kernel = max(program.kernels, key=lambda kernel: len(kernel.params))
    loops = [s for s in kernel.body if isinstance(s, For)]
    assert max(loop.parts for loop in loops) == 2


def test_dense_layers_stay_apart():
    x, w, u = (sg.placeholder(shape, "float32") for shape in ((1024, 64), (64, 512), (512, 64)))
    y = sg.tanh(x @ w) @ u
    assert max(products_of(step_of(Graph([y], [x, w, u])).program)) == 1


def test_dense_layers_with_a_norm_behind_them_stay_apart():
    """Blocks would read all weights again, and nothing folds the long rows of the first product."""
    x, w, u = (sg.placeholder(shape, "float32") for shape in ((512, 64), (64, 1024), (1024, 256)))
    y = sg.nn.layer_norm(sg.tanh(x @ w) @ u)
    graph = Graph(sg.gradients(sg.sum(y * y * y), [x, w, u]), [x, w, u])
    assert max(products_of(step_of(graph).program)) == 1


@pytest.mark.parametrize(("units", "apart"), [(256, 1), (32, 0)])
def test_sums_are_apart_where_blocks_would_add_to_more_bytes_than_they_read(units, apart):
    """Four blocks add to 1 MiB for `u`, where rows are 2 MiB; with 32 units to 128 KiB."""
    shapes = ((512, 64), (64, 1024), (1024, units))
    x, w, u = (sg.placeholder(shape, "float32") for shape in shapes)
    y = sg.nn.softmax(x @ w) @ u
    graph = Graph(sg.gradients(sg.sum(y * y * y), [x, w, u]), [x, w, u])
    kernels = step_of(graph).program.kernels
    products = [[s for s in statements(k.body) if isinstance(s, Product)] for k in kernels]
    assert sum(len(found) == 1 and found[0].inner[1] == 512 for found in products) == apart
    assert max(map(len, products)) > 1


def fused_and_apart(seed: int, family: str) -> tuple[list[list[Any]], list[Any]] | None:
    """Return what a random program gives for one thread and more, and unfused; None if it is so."""
    graph, inputs = FAMILIES[family].program(seed)

    def run(step: Executable) -> list[Any]:
        found = run_native(step, inputs)
        return [*found.outputs, *found.state.values()]

    with products_fused():
        steps = [step_of(graph, Threads(count, least_cycles=0)) for count in (1, 2, 3)]
        if max(products_of(steps[0].program), default=0) < 2:
            return None
        results = [run(step) for step in steps]
    return results, run(step_of(graph, Threads(1, least_cycles=0), skip=("fuse-products",)))


@pytest.mark.parametrize(
    ("family", "seed"),
    [*(("layers", s) for s in (15, 24, 32, 35)), *(("training", s) for s in (4, 6, 10, 20))],
)
def test_random_programs_give_the_same_by_blocks_of_rows(family, seed):
    found = fused_and_apart(seed, family)
    assert found is not None, "nothing was fused"
    (alone, *others), apart = found
    for other in others:
        assert [a.tobytes() for a in other] == [a.tobytes() for a in alone]
    for mine, wanted in zip(alone, apart, strict=True):
        scale = float(np.nanmax(np.abs(wanted.astype(np.float64)), initial=1e-10))
        tolerance = 2e-2 if wanted.dtype.itemsize == 2 else 1e-4
        np.testing.assert_allclose(
            mine.astype(np.float64),
            wanted.astype(np.float64),
            rtol=tolerance,
            atol=tolerance * scale,
        )


def test_products_that_a_cache_holds_stay_as_they_are(monkeypatch):
    monkeypatch.undo()
    for length, count in ((128, 1), (256, 6)):  # scores of 64 KiB, and of 256
        program = step_of(attention((1, length, 64))[0]).program
        assert max(products_of(program)) == count


def moved(
    dtype: str = "float64", *, seeds: int = 26, is_across: bool = False
) -> tuple[Graph, list[Any]]:
    """Return places that are weighted sums of moved ones, and random operands.

    The moves are terms of seeds of matrices, or `is_across` matrices of seeds of terms.
    """
    sizes, spec = (seeds, 22, 3, 4), "ij,kjlm->ilmk"
    if is_across:
        sizes, spec = (seeds, 3, 4, 22), "ij,klmj->ilmk"
    w, t, p = (sg.placeholder(s, dtype) for s in ((3000, 22), sizes, (3000, 4)))
    y = sg.einsum("im,ilmk->ilk", p, sg.einsum(spec, w, t))
    graph = Graph([y], [w, t, p])
    random = np.random.default_rng(0)
    return graph, [random.standard_normal(x.type.static_shape).astype(dtype) for x in graph.inputs]


def test_a_product_whose_rows_are_folded_by_sums_that_are_written_out_is_in_no_memory():
    graph, _ = moved()
    step, apart = (step_of(graph, skip=skip) for skip in ((), ("fuse-products",)))
    assert (len(step.program.kernels), len(apart.program.kernels)) == (1, 2)
    made = 3000 * 12 * 26 * 8
    assert step.program.arena_bytes < made / 4 < made < apart.program.arena_bytes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("seeds", "is_across"), [(26, False), (26, True), (16, True)])
def test_rows_that_are_folded_have_the_same_bits_for_any_number_of_threads(dtype, seeds, is_across):
    graph, inputs = moved(dtype, seeds=seeds, is_across=is_across)
    steps = [step_of(graph, Threads(count)) for count in (1, 2, 3)]
    assert products_of(steps[0].program) == [1]
    alone, *others = [run_native(step, inputs).outputs[0] for step in steps]
    assert all(other.tobytes() == alone.tobytes() for other in others)
    apart = run_native(step_of(graph, skip=("fuse-products",)), inputs).outputs[0]
    np.testing.assert_allclose(alone, apart, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5)


def nearest(*, reads_rows: bool = False) -> tuple[Graph, list[Any]]:
    """Return means of points, weighted by how near they are to centroids, and random operands.

    What sums are divided by needs whole columns, or rows that a block would not keep as well.
    """
    points, centroids = sg.placeholder((2000, 16), "float64"), sg.placeholder((96, 16), "float64")
    squares = (centroids * centroids).sum(1) - 2 * (points @ centroids.T)
    weights = sg.exp(squares - sg.min(squares, axis=1, keepdims=True))
    sums, counts = sg.einsum("nk,nd->kd", weights, points), weights.sum(0)[:, None] + centroids
    y = sums / (counts + weights[:96, :16] if reads_rows else counts)
    random = np.random.default_rng(0)
    return Graph([y], [points, centroids]), [random.random((n, 16)) for n in (2000, 96)]


@pytest.mark.parametrize(("reads_rows", "products"), [(False, 2), (True, 1)])
def test_a_sum_over_rows_joins_without_an_epilogue_that_needs_what_is_done_behind(
    reads_rows, products
):
    graph, inputs = nearest(reads_rows=reads_rows)
    steps = [step_of(graph, Threads(count)) for count in (1, 3)]
    assert max(products_of(steps[0].program)) == products
    alone, shared = (run_native(step, inputs).outputs[0] for step in steps)
    assert shared.tobytes() == alone.tobytes()
    apart = run_native(step_of(graph, skip=("fuse-products",)), inputs).outputs[0]
    np.testing.assert_allclose(alone, apart, rtol=1e-12)


def test_a_decision_says_what_is_kept_of_products_that_are_fused():
    _, arrays = attention((2, 512, 64))
    q, k, v = (sg.placeholder(a.shape) for a in arrays[:3])
    scores = sg.matmul(q, sg.swapaxes(k, 1, 2))
    (decision,) = (
        d
        for d in sg.compile([q, k, v], sg.matmul(sg.nn.softmax(scores), v)).decisions
        if d.rule == "fuse-products"
    )
    assert decision.type == str(scores.type)
    found = re.search(r"of ([\d,]+) bytes between them ([\d,]+) are kept", decision.reason)
    assert found is not None, decision.reason
    saved, kept = (int(number.replace(",", "")) for number in found.groups())
    assert saved >= scores.type.nbytes > kept


def test_memory_that_fusion_adds_is_not_that_of_a_function(monkeypatch):
    def fused(program: Program, *given: Any) -> Program:
        """Fuse `program`, whose routine has the highest number: no instruction names it."""
        numbers = (b.number for b in buffers_of(program.all_instrs) if b.place == "temporary")
        held = Buffer("temporary", max(numbers) + 1, TensorType(uint8, (0,)))
        last = with_routines(program, lambda routine: replace(routine, scratch=held))
        return fuse_products.fuse_products(last, *given)

    monkeypatch.setattr("symgrad.codegen.program.passes.fuse_products", fused)

    @sg.function
    def steps(x):
        for _ in range(20):
            x = sg.tanh(x @ sg.swapaxes(x, -1, -2) @ x) + x
        return x

    q, k, v = (sg.placeholder((8, 128, 32), "float32") for _ in range(3))
    once, again = (sg.placeholder((24, 24), "float32") for _ in range(2))
    y = sg.nn.softmax(q @ sg.swapaxes(k, -1, -2)) @ v
    graph = Graph([y, steps(once), steps(again)], [q, k, v, once, again])
    with override(verify=True):
        program = step_of(graph).program
    assert max(products_of(program)) > 1
    (routine,) = program.routines
    temporaries = (b for b in buffers_of(program.all_instrs) if b.place == "temporary")
    assert routine.scratch.number not in {b.number for b in temporaries}


def test_a_fold_with_memory_of_its_own_stays_apart():
    x, v, w = (sg.placeholder(s, "float32") for s in ((2, 4, 35), (35, 5), (5, 5)))
    y = x @ v
    graph = Graph([y + sg.tanh(y @ w)], [x, v, w])
    arrays = [np.linspace(0, 1, t.type.size, dtype="f4").reshape(t.shape) for t in (x, v, w)]
    options = CompileOptions(target_named("x86-64-v3"), 1, False, False)
    with products_fused(), rows_written_out(), rows_interchanged():
        step = Executable(graph, options)
    (found,) = run_native(step, arrays).outputs
    np.testing.assert_allclose(found, evaluate(graph, arrays)[0][0], rtol=1e-5)
