"""Work for threads: which loops and products are cut into parts, and which are left alone."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.kernel_costs import kernel_parts, statement_cycles
from symgrad.codegen.loops.blocking import Share
from symgrad.codegen.loops.language import For, Kernel, Product, SortRows
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.program.registers import is_written_out
from symgrad.codegen.schedule.parallelize import Threads, share_work
from symgrad.codegen.target import target_named
from symgrad.cost_model import BYTES_A_CYCLE, SHARING_CYCLES
from tests.support.programs import kernel_from, lines_of, pool_for

TARGET = target_named("x86-64-v4")


def shared(text: str, threads: int = 2, least_cycles: float = 0) -> Kernel:
    kernel = share_work(parse_kernel(text), TARGET, Threads(threads, least_cycles))
    verify_kernel(kernel)
    return kernel


def of(*outputs: sg.Tensor, threads: int = 2) -> Kernel:
    """Return the scheduled kernel of a program of one group."""
    kernel = pool_for(TARGET, Threads(threads)).add(kernel_from(*outputs)).kernel
    verify_kernel(kernel)
    return kernel


def heads(kernel: Kernel) -> list[str]:
    """Return the lines that begin loops and folds, and those of the marks of products."""
    starts = ("for ", "fold ", "b")
    return [line for line in lines_of(kernel) if line.startswith(starts) and line.endswith("{")]


def copy(head: str) -> str:
    return f"kernel @k(in x: f32[4096], out y: f32[4096]) {{ {head} t: f32 = x[i] y[i] = t }} }}"


# ------------------------------------------------------------------------------------- loops


def test_a_vector_loop_is_cut_at_whole_cache_lines():
    kernel = shared(copy("for i in 0..4000 vector(16) {"))
    assert heads(kernel) == ["for i in 0..4000 vector(16) parallel(2048) {"]


@pytest.mark.parametrize(("threads", "size"), [(2, 2048), (3, 1408), (5, 832), (64, 64)])
def test_each_thread_has_one_part(threads, size):
    kernel = shared(copy("for i in 0..4096 vector(16) {"), threads)
    assert heads(kernel) == [f"for i in 0..4096 vector(16) parallel({size}) {{"]
    assert kernel_parts(kernel) == -(-4096 // size) <= threads


def test_one_thread_has_all_of_it():
    text = copy("for i in 0..4096 vector(16) {")
    assert shared(text, threads=1) == parse_kernel(text)


def test_what_is_small_is_left_alone():
    text = copy("for i in 0..4096 vector(16) {")
    (loop,) = parse_kernel(text).body
    cycles = statement_cycles(loop)
    assert kernel_parts(shared(text, least_cycles=cycles)) == 2
    assert kernel_parts(shared(text, least_cycles=cycles + 1)) == 1


def test_costly_elements_are_worth_more_threads_than_cheap_ones():
    x = sg.placeholder((40_000,))
    assert kernel_parts(of(x + 1)) == 1
    assert kernel_parts(of(sg.tanh(sg.sin(x)))) == 2


def test_what_does_not_divide_is_left_alone():
    assert kernel_parts(shared(copy("for i in 0..64 vector(16) {"))) == 1
    assert kernel_parts(shared(copy("for i in 0..1 {"))) == 1


def test_the_outermost_loop_that_divides_evenly_is_cut_and_comes_first():
    text = """kernel @k(in x: f32[9000], out y: f32[9000]) {{
      for i in 0..{0} {{ for j in 0..{1} {{ for k in 0..90 vector(16) {{
        t: f32 = x[k] y[90*j + k + {2}*i] = t }} }} }} }}"""
    assert heads(shared(text.format(3, 20, 1800)))[:2] == [
        "for j in 0..20 parallel(10) {", "for i in 0..3 {",
    ]  # fmt: skip
    assert heads(shared(text.format(4, 20, 1800)))[:2] == [
        "for i in 0..4 parallel(2) {", "for j in 0..20 {",
    ]  # fmt: skip


def test_ordered_iterations_are_not_shared():
    text = "kernel @k(in x: f32[4096], out y: f32[1]) { for i in 0..4096 ordered { t: f32 = x[i] y[0] = t } }"  # noqa: E501 - the text of a kernel
    assert kernel_parts(shared(text)) == 1


SCATTER = """kernel @k(in at: i64[20], in x: f32[{1}], inout y: f32[{1}]) {{
  for i in 0..20 ordered {{ for j in 0..{0} vector(16) {{
    t: i64 = at[i] check r = t in 20 else 1 u: f32 = x[{0}*i + j] y[{0}*r + j] = u }} }} }}"""


def test_a_vector_loop_inside_is_divided_and_stays_innermost():
    assert heads(shared(SCATTER.format(1024, 20480))) == [
        "for j.part in 0..2 parallel(1) {",
        "for i in 0..20 ordered {",
        "for j in 0..512 vector(16) {",
    ]
    assert "u: f32 = x[1024*i + j + 512*j.part]" in lines_of(shared(SCATTER.format(1024, 20480)))


def test_a_vector_loop_that_does_not_divide_is_left_alone():
    assert kernel_parts(shared(SCATTER.format(1001, 20020))) == 1


def test_a_vector_loop_in_one_that_is_ordered_is_cut_within_vectors_too():
    assert "for j in 0..500 vector(16) {" in heads(shared(SCATTER.format(1000, 20000)))


def test_threads_meet_bad_indices_in_the_order_one_thread_does():
    text = """kernel @k(in at: i64[60], in x: f32[9], out y: f32[60]) {{
      for i in 0..{0} {{ for j in 0..{1} {{
        t: i64 = at[{1}*i + j] check r = t in 9 else 1 u: f32 = x[r] y[{1}*i + j] = u }} }} }}"""
    # The loop over j divides better, but then it would come first.
    assert heads(shared(text.format(3, 20))) == ["for i in 0..3 parallel(2) {", "for j in 0..20 {"]
    assert heads(shared(text.format(3, 20), 4))[0] == "for i in 0..3 parallel(1) {"


def test_what_is_the_same_in_every_iteration_does_not_count():
    text = """kernel @k(in x: f32[2], out y: f32[4096]) {
      for i in 0..4096 vector(16) { t: f32 = x[0] u: f32 = pow(t, t) y[i] = u }
    }"""
    cycles = 4096 * 4 / BYTES_A_CYCLE
    assert kernel_parts(shared(text, least_cycles=cycles)) == 2
    assert kernel_parts(shared(text, least_cycles=1.1 * cycles)) == 1


def test_lanes_that_lie_apart_count_one_by_one():
    text = """kernel @k(in x: f32[4096], out y: f32[4096]) {
        for i in 0..64 { for j in 0..64 vector(16) { t0: f32 = x[LOAD] y[64*i + j] = t0 } } }"""
    beside, apart = (text.replace("LOAD", index) for index in ("64*i + j", "i + 64*j"))
    cycles = 4096 * 8 / 16
    assert kernel_parts(shared(beside, least_cycles=1.5 * cycles)) == 1
    assert kernel_parts(shared(apart, least_cycles=1.5 * cycles)) == 2
    assert kernel_parts(shared(apart.replace("64*j", "4*j"), least_cycles=1.5 * cycles)) == 1


def test_loops_of_a_kernel_that_is_shared_are_shared_for_less():
    text = """kernel @k(in x: f32[4096], out y: f32[4096], out z: f32[4096]) {
        for i in 0..4096 { t0: f32 = x[i] y[i] = t0 }
        for j in 0..3072 { z[j] = 1.0 } }"""
    first, second = 4096 * 8 / 16, 3072 * 4 / 16

    def parts(least: float) -> list[int]:
        return [s.parts for s in shared(text, least_cycles=least).body if isinstance(s, For)]

    assert parts(1.5 * second) == [2, 2]
    assert parts(first) == [2, 1]
    assert parts(first + second + 1) == [1, 1]


def test_rows_that_are_summed_are_shared_and_a_sum_of_all_by_its_pieces():
    x = sg.placeholder((1000, 1000))
    assert heads(of(sg.sum(x, axis=1)))[0] == "for i0 in 0..1000 parallel(500) {"
    assert heads(of(sg.sum(x)))[0] == "for i0 in 0..32 parallel(16) {"


# ---------------------------------------------------------------------------------- products


def product_of(kernel: Kernel) -> Product:
    return next(s for s in statements(kernel.body) if isinstance(s, Product))


def test_a_product_is_shared_along_what_is_packed():
    x, y = sg.placeholder((512, 512)), sg.placeholder((2048, 512))
    kernel = of(x @ y.T)
    product = product_of(kernel)
    assert product.blocking.pack == ("rhs",)
    assert product.parallel == Share("n", 22, 44, by=1024)
    assert product.parts == 2
    assert next(p for p in kernel.params if p.mode == "scratch").count == 2 * (
        product.blocking.scratch
    )


def test_a_narrow_product_is_shared_along_its_longer_axis():
    product = product_of(of(sg.placeholder((8192, 64)) @ sg.placeholder((64, 32))))
    assert product.parallel is not None
    assert (product.parallel.axis, product.parts) == ("m", 2)


def test_a_product_of_one_tile_is_left_alone():
    kernel = of(sg.placeholder((8, 1_000_000)) @ sg.placeholder((1_000_000, 8)))
    assert product_of(kernel).parallel is None
    assert kernel_parts(kernel) == 1


def test_many_products_are_shared_among_threads_and_few_are_shared_each():
    many = of(sg.placeholder((64, 100, 100)) @ sg.placeholder((64, 100, 100)))
    assert heads(many)[0] == "for i0 in 0..64 parallel(32) {"
    assert product_of(many).parallel is None
    few = of(sg.placeholder((3, 400, 400)) @ sg.placeholder((3, 400, 400)))
    assert heads(few)[0] == "for i0 in 0..3 {"
    assert product_of(few).parallel is not None


def test_each_of_several_sorts_is_shared():
    x = sg.placeholder((3, 500, 400))
    result = sg.sort(x, axis=1)
    sorts = [s for s in statements(of(result, result).body) if isinstance(s, SortRows)]
    assert [sort.parallel for sort in sorts] == [200, 200]
    assert len({sort.result.buffer for sort in sorts}) == 2


def test_few_nests_are_shared_each():
    nests = " ".join(f"for j in 0..64 {{ {name}[64*i + j] = 0.0 }}" for name in "yz")
    text = f"kernel @k(out y: f32[192], out z: f32[192]) {{ for i in 0..3 {{ {nests} }} }}"
    assert heads(shared(text)) == ["for i in 0..3 {", *["for j in 0..64 parallel(32) {"] * 2]


def test_products_in_parts_have_scratch_each():
    x = sg.placeholder((64, 200, 200), "float16")
    one, two = of(x @ x, threads=1), of(x @ x, threads=2)
    sizes = [next(p.count for p in k.params if p.mode == "scratch") for k in (one, two)]
    assert sizes == [product_of(one).blocking.scratch, 2 * product_of(one).blocking.scratch]


# ------------------------------------------------------------------------------- equivalence


@pytest.mark.parametrize("threads", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 5))])
def test_what_is_computed_does_not_change(threads):
    texts = (copy("for i in 0..4001 vector(16) {"), SCATTER.format(480, 9600))
    for plain in map(parse_kernel, texts):
        kernel = share_work(plain, TARGET, Threads(threads, 0))
        assert kernel_parts(kernel) > 1
        results = []
        for candidate in (plain, kernel):
            rng = np.random.default_rng(0)
            buffers = {
                p.name: rng.integers(0, 20, p.count).astype(p.dtype.numpy) for p in kernel.params
            }
            assert run_kernel(candidate, buffers) == 0
            results.append(buffers["y"])
        np.testing.assert_array_equal(results[0], results[1])


def test_threads_without_work_change_nothing():
    assert Threads() == Threads(1, SHARING_CYCLES)
    assert of(sg.placeholder((64,)) + 1, threads=9) == of(sg.placeholder((64,)) + 1, threads=1)


def test_a_kernel_that_threads_share_is_not_written_out_in_a_loop():
    text = copy("for i in 0..128 vector(16) {")
    assert is_written_out(parse_kernel(text), TARGET.vector_bytes)
    assert not is_written_out(shared(text), TARGET.vector_bytes)
