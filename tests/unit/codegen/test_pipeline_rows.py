"""Software pipelining of rows: stages of several rows beside each other, with the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Check, Fold, For, Kernel, Store
from symgrad.codegen.loops.next_rows import read_first, results_ahead
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.distribute_rows import distribute_rows
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.pipeline_rows import rows_in_pipeline
from symgrad.codegen.target import Target
from tests.support.row_programs import ROW_FUNCTIONS, assert_same_bits, compiled_rows, row_program
from tests.unit.codegen.test_distribute_rows import ROWS, TARGET, _run


def _pipelined(text: str, target: Target = TARGET) -> Kernel:
    return distribute_rows(parse_kernel(text), target, pipelines=True)


def _loop(kernel: Kernel) -> For:
    loop = kernel.body[-1]
    assert isinstance(loop, For)
    return loop


def test_each_stage_does_another_row_in_one_loop():
    kernel = _pipelined(ROWS)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "for i in 0..516 ordered {" in text
    assert text.count("fold ") == 1
    # A row is read two iterations after it was made: of three, and one more for a power of two.
    assert "scratch e: f32[512]" in text
    assert text.count("known i.stage") == 3
    loop = kernel.body[-1]
    assert [type(s) for s in kernel.body] == [Store, For, Store, For]  # zeros come before it
    assert isinstance(loop, For)
    assert rows_in_pipeline(loop) == (512, 3, 2)
    plain = parse_kernel(ROWS).body[0]
    assert isinstance(plain, For)
    assert rows_in_pipeline(plain) == (0, 0, 0)
    wanted = _run(parse_kernel(ROWS))
    for name, found in _run(kernel).items():
        if name != "e":
            np.testing.assert_array_equal(found, wanted[name])


def test_any_number_of_rows_that_is_large_enough():
    assert "for i in 0..515 ordered {" in print_kernel(_pipelined(ROWS.replace("0..512", "0..511")))
    few = parse_kernel(ROWS.replace("0..512", "0..31"))
    assert distribute_rows(few, TARGET, pipelines=True) == few


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("out z: f32[512]", "inout z: f32[512]"),
        ("z[i] = u", "most[i] = u"),  # two stages write to it
        ("for p in 0..128", "for p in 0..64"),  # another length
        (
            "fold u: f32 = 0.0 for l in 0..128 lanes(32)",
            "fold u: f32 = 0.0 for l in 0..128 lanes(16)",
        ),
    ],
)
def test_what_cannot_be_one_loop(what, by):
    text = ROWS.replace(what, by)
    assert text != ROWS
    assert distribute_rows(parse_kernel(text), TARGET, pipelines=True) == parse_kernel(text)


def test_rows_are_two_apart_where_the_nearest_cache_holds_them():
    apart = {}
    for l1_bytes in (1 << 10, 3 << 10, 48 << 10):
        target = replace(TARGET, memory=replace(TARGET.memory, l1_bytes=l1_bytes))
        loop = _pipelined(ROWS, target).body[-1]
        assert isinstance(loop, For)
        apart[l1_bytes] = rows_in_pipeline(loop)[2]
    assert list(apart.values()) == [0, 1, 2]


def test_more_rows_than_the_nearest_cache_has_ways_are_short_ones():
    one = replace(TARGET, memory=replace(TARGET.memory, l1_bytes=4 << 10))
    assert rows_in_pipeline(_loop(_pipelined(ROWS, one))) == (512, 3, 1)
    # Two rows of x, two of e and one of y are 2,560 bytes.
    few_ways = replace(one, memory=replace(one.memory, l1_ways=4))
    assert rows_in_pipeline(_loop(_pipelined(ROWS, few_ways))) == (512, 3, 1)
    less = replace(few_ways, memory=replace(few_ways.memory, l1_bytes=3 << 10))
    assert distribute_rows(parse_kernel(ROWS), less, pipelines=True) == parse_kernel(ROWS)


@pytest.mark.parametrize(("columns", "is_pipelined"), [(512, True), (768, False), (1024, False)])
def test_softmax_with_its_gradient_is_no_pipeline_of_long_rows(columns, is_pipelined):
    x, g = sg.placeholder((256, columns)), sg.placeholder((256, columns))
    y = sg.nn.softmax(x)
    step = sg.compile([x, g], [y, *sg.gradients(y, [x], grad_ys=g)], target="x86-64-v4")
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any("4 stages of 256 rows" in reason for reason in reasons) == is_pipelined


def test_long_rows_of_few_arrays_are_pipelined():
    x = sg.placeholder((64, 4096))
    step = sg.compile([x], sg.nn.logsumexp(x, axis=-1), target="x86-64-v4")
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any("2 stages of 64 rows" in reason for reason in reasons)


def test_sums_that_do_not_fit_in_registers_are_in_no_pipeline():
    few = replace(TARGET, vector_registers=4)
    assert distribute_rows(parse_kernel(ROWS), few, pipelines=True) == parse_kernel(ROWS)


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("function", ROW_FUNCTIONS)
@pytest.mark.parametrize("rows", [2048, 2047])
def test_a_function_of_rows_has_the_same_bits(function, threads, rows):
    graph = row_program(function, rows)
    plain = compiled_rows(graph, threads, "distribute-rows", "pipeline-rows")
    assert_same_bits(compiled_rows(graph, threads), plain, rows)


def test_long_rows_that_no_cache_of_a_core_holds_are_prefetched_for():
    x, g = sg.placeholder((512, 512)), sg.placeholder((512, 512))
    y = sg.nn.softmax(x)
    step = sg.compile([x, g], [y, *sg.gradients(y, [x], grad_ys=g)], target="x86-64-v4")
    (kernel,) = step.kernels
    assert any("bytes further on in 2 buffers" in reason for reason in kernel.reasons)
    assert "prefetches" in print_kernel(_pipelined(ROWS))
    follows = replace(TARGET, follows_pages=True)
    assert "prefetches" not in print_kernel(_pipelined(ROWS, follows))  # short ones
    few = sg.placeholder((32, 1024))  # in the caches of a core
    assert "prefetches" not in sg.compile([few], sg.nn.softmax(few), target="x86-64-v4").ir("loops")
    text = step.ir("loops")
    rows = parse_kernel(text[text.index("kernel @") : text.index("program @")]).body[-1]
    assert isinstance(rows, For)
    (fold,) = (s for s in rows.body if isinstance(s, Fold))
    places = [index.terms[0] for _, index in read_first(fold)]
    checks = [s.name for s in rows.body if isinstance(s, Check)]
    assert places == [(checks[0], 512), (checks[2], 512)]  # the first stages that read x and g


def test_rows_of_results_are_prefetched_where_no_cache_of_a_core_holds_them():
    x, g = sg.placeholder((512, 512)), sg.placeholder((512, 512))
    y = sg.nn.softmax(x)
    step = sg.compile([x, g], [y, *sg.gradients(y, [x], grad_ys=g)], target="x86-64-v4")
    (kernel,) = step.kernels
    assert any("1,024 bytes further on in 2 results" in reason for reason in kernel.reasons)
    text = step.ir("loops")
    parsed = parse_kernel(text[text.index("kernel @") : text.index("program @")])
    (rows,) = (s for s in parsed.body if isinstance(s, For) and s.vector == 1)
    (fold,) = (s for s in rows.body if isinstance(s, Fold))
    params = {param.name: param for param in parsed.params}
    found = results_ahead(fold, params, TARGET)
    outputs = {p.name for p in parsed.params if p.mode == "out" and p.count == 512 * 512}
    assert {buffer for buffer, _ in found} == outputs
    assert {index.const for _, index in found} == {256}
    assert results_ahead(fold, params, replace(TARGET, follows_pages=True)) == []
    few = {name: replace(param, count=1024) for name, param in params.items()}
    assert results_ahead(fold, few, TARGET) == []  # in the caches of a core
    assert results_ahead(replace(fold, prefetches=False), params, TARGET) == []


def test_a_kernel_says_how_its_rows_are_pipelined():
    x, g = sg.placeholder((2048, 128)), sg.placeholder((2048, 128))
    y = sg.nn.softmax(x)
    step = sg.compile([x, g], [y, *sg.gradients(y, [x], grad_ys=g)], target="x86-64-v4")
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any("does 4 stages of 2048 rows beside each other" in reason for reason in reasons)


def test_a_pipeline_says_which_iteration_is_apart():
    x, labels = sg.placeholder((256, 1024)), sg.placeholder((256,), "int64")
    y = sg.nn.cross_entropy(x, labels)
    step = sg.compile([x, labels], [y, *sg.gradients(y, [x])], target="x86-64-v4")
    (reasons,) = (
        k.reasons for k in step.kernels if any("beside each other" in r for r in k.reasons)
    )
    assert sum("is apart: it alone matches" in reason for reason in reasons) == 1


def test_a_stage_before_or_behind_the_rows_takes_the_nearest_one():
    text = print_kernel(_pipelined(ROWS))
    assert "i.stage0.min: i64 = min(i.stage0.place, 511)" in text
    assert "i.stage2.max: i64 = max(i.stage2.place, 0)" in text
    assert "i.stage0.max" not in text
    assert "i.stage2.min" not in text
