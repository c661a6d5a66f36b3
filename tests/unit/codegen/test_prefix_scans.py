"""Prefix scans in the loop language: their text, what they mean, how they are scheduled and run."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.kernel_costs import kernel_flops, schedule_text
from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import For, Kernel, Prefix
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.row_scans import interchange_scans
from symgrad.graph.graph import Graph
from symgrad.graph.ops.cumulative import cumsum_op
from symgrad.graph.ops.prefix_scans import scan_along
from symgrad.graph.ops.running_products import linear_recurrence
from tests.support.control_programs import gradient
from tests.support.evaluators import evaluate_loops
from tests.support.floors import TARGETS, compile_for, run_everywhere, run_native
from tests.support.programs import grouped_ops, kernel_from, lines_of, partition_of, schedule_kernel

TEXT = """\
kernel @k(in x: f32[{0}], out y: f32[{0}]) {{
  prefix s: f32 = -0.0 for k in 0..{0}{1} {{
    t: f32 = x[k]
    yield t
  }} combine (a) (b) {{
    c: f32 = add(a, b)
    yield c
  }} each {{
    y[k] = s
  }}
}}
"""


def prefixes(kernel: Kernel) -> list[Prefix]:
    return [s for s in statements(kernel.body) if isinstance(s, Prefix)]


def loops(kernel: Kernel) -> list[tuple[str, int]]:
    return [(s.var, s.extent) for s in statements(kernel.body) if isinstance(s, For)]


# ------------------------------------------------------------------------------ text and meaning


@pytest.mark.parametrize(
    "marks", ["", " lanes(4)", " exclusive", " lanes(8) exclusive", " ordered"]
)
def test_a_prefix_scan_is_read_back_as_it_was_printed(marks):
    text = TEXT.format(20, marks)
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    assert print_kernel(kernel) == text
    renamed = canonical(kernel)
    verify_kernel(renamed)
    assert canonical(parse_kernel(print_kernel(renamed))) == renamed


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("20 {", "20 lanes(4) ordered {", "k is both ordered and lanes"),
        ("20 {", "20 lanes(3) {", r"lanes\(3\) is no power of two"),
        ("t: f32 = x[k]", "t: f32 = x[k]\n y[k] = t", "items over k are computed without stores"),
        ("y[k] = s", "for j in 0..2 { y[j] = s }", "a loop in the prefix scan over k"),
        ("y[k] = s", "y[k + 1] = s", r"y\[k \+ 1\] reaches 1..20"),
        ("y[k] = s", "y[k] = c", "c is not bound"),
        ("yield t\n", "s: f32 = t\n yield t\n", "s is bound already"),
    ],
)  # fmt: skip
def test_a_prefix_scan_that_is_ill_formed_is_refused(old, new, wrong):
    text = TEXT.format(20, "")
    assert old in text
    with pytest.raises((AssertionError, sg.GraphError), match=wrong):
        verify_kernel(parse_kernel(text.replace(old, new)))


def by_steps(x: np.ndarray, lanes: int, *, exclusive: bool) -> np.ndarray:
    """Do what the docstring of `Prefix` says, one addition after another."""
    result, before, start = np.empty_like(x), np.float32(-0.0), 0
    while lanes:
        while len(x) - start >= lanes:
            block = x[start : start + lanes].copy()
            distance = 1
            while distance < lanes:
                block[distance:] = block[:-distance] + block[distance:]
                distance *= 2
            if exclusive:
                block = np.append(np.float32(-0.0), block)
            result[start : start + lanes] = (before + block)[:lanes]
            before = before + block[-1]
            start += lanes
        lanes //= 2
    return result


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("lanes", [1, 2, 8, 16])
def test_blocks_are_combined_in_the_order_that_is_said(lanes, exclusive):
    x = np.random.default_rng(0).standard_normal(61).astype(np.float32)
    y = np.zeros_like(x)
    marks = f" lanes({lanes})" * (lanes > 1) + " exclusive" * exclusive
    assert run_kernel(parse_kernel(TEXT.format(61, marks)), {"x": x, "y": y}) == 0
    np.testing.assert_array_equal(y, by_steps(x, lanes, exclusive=exclusive))


def test_a_scan_counts_what_it_does():
    kernel = parse_kernel(TEXT.format(64, " lanes(16)"))
    assert kernel_flops(kernel) == 64
    assert schedule_text(kernel) == "prefix 64 lanes(16)"


# ------------------------------------------------------------------------------------- schedules


def test_a_contiguous_axis_is_taken_in_blocks_of_one_nominal_vector():
    for dtype, lanes in (("float32", 16), ("float64", 8), ("float16", 16)):
        kernel = kernel_from(sg.cumsum(sg.placeholder((1000,), dtype)))
        for vector_bytes in (16, 64):
            (prefix,) = prefixes(schedule_kernel(kernel, vector_bytes))
            assert prefix.lanes == lanes


def test_a_recurrence_has_no_blocks():
    a, b = sg.placeholder((1000,)), sg.placeholder((1000,))
    kernel = kernel_from(linear_recurrence(a, b, axis=0, reverse=False))
    (prefix,) = prefixes(schedule_kernel(kernel, 64))
    assert prefix.ordered
    assert prefix.lanes == 1


def test_rows_are_added_to_rows():
    kernel = interchange_scans(kernel_from(sg.cumsum(sg.placeholder((500, 1000)), axis=0)))
    verify_kernel(kernel)
    assert not prefixes(kernel)
    assert loops(kernel) == [("i1", 1000), ("i0", 500), ("i1", 1000)]
    assert "for i0 in 0..500 ordered {" in lines_of(kernel)
    assert kernel.params[-1].count == 1000


@pytest.mark.parametrize("shape", [(20, 1000), (500, 8), (500,), (0, 1000), (500, 0)])
def test_few_short_or_no_rows_are_left_alone(shape):
    kernel = kernel_from(sg.cumsum(sg.placeholder(shape), axis=0))
    assert interchange_scans(kernel) == kernel


def test_only_what_goes_on_from_row_to_row_is_in_memory():
    a, b = sg.placeholder((50, 64)), sg.placeholder((50, 64))
    kernel = interchange_scans(kernel_from(linear_recurrence(a, b, axis=0, reverse=True)))
    assert [p.mode for p in kernel.params] == ["in", "in", "out", "scratch"]


def test_what_comes_before_and_after_is_in_the_same_kernel():
    x = sg.placeholder((6, 40))
    group = grouped_ops(partition_of(sg.exp(sg.cumsum(sg.abs(x) + 1.0, axis=1)) * x))
    assert group == [["abs", "add", "cumsum", "exp", "multiply"]]


def test_a_scan_that_a_fold_uses_is_in_memory():
    x = sg.placeholder((6, 40))
    assert grouped_ops(partition_of(sg.sum(sg.cumsum(x, axis=1)))) == [["cumsum"], ["sum"]]


# --------------------------------------------------------------------------------------- results

SHAPES = [((70,), 0), ((40, 37), 0), ((5, 30, 19), 1), ((2, 3, 17), 2)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (True, False), (False, True)])
def test_sums_are_the_same_to_the_bit_on_all_targets_and_threads(shape, axis, reverse, exclusive):
    x = sg.placeholder(shape)
    y = scan_along(cumsum_op, x * 2.0, axis=axis, reverse=reverse, exclusive=exclusive) - x
    graph = Graph([y], [x])
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (wanted,) = evaluate_loops(graph, [values])
    for target, threads in zip(TARGETS, (1, 2, 3), strict=True):
        step = compile_for(graph, target, threads=Threads(threads, 0))
        (found,) = run_native(step, [values]).outputs
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_scans_with_costly_steps_agree_on_all_floors(threads):
    x = sg.placeholder((27, 18), "float64")
    outputs = [sg.logcumsumexp(x, axis=0), sg.logcumsumexp(x, axis=1)]
    graph = Graph([*outputs, gradient(outputs, x)], [x])
    values = 3 * np.random.default_rng(2).standard_normal((27, 18))
    target = (TARGETS[threads - 1],)
    assert run_everywhere(graph, [values], targets=target, threads=Threads(threads, 0)) is None


def test_a_scan_at_indices_that_are_data_is_checked_one_by_one():
    x, i = sg.placeholder((5,)), sg.placeholder((40,), "int64")
    step = sg.compile([x, i], sg.cumsum(sg.take(x, i)))
    values, places = np.arange(5, dtype=np.float32), np.arange(40) % 5
    np.testing.assert_array_equal(step(values, places), np.cumsum(values[places]))
    places[33] = 5
    with pytest.raises(IndexError, match="index 5 is out of range"):
        step(values, places)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_of_a_block_at_a_place_that_is_data_agrees_on_all_floors(axis):
    x, i = sg.placeholder((40, 50)), sg.placeholder((), "int64")
    y = sg.cumsum(sg.dynamic_slice(x, (i, 3), (30, 40)), axis=axis)
    values = np.random.default_rng(3).standard_normal((40, 50)).astype(np.float32)
    assert run_everywhere(Graph([y], [x, i]), [values, np.array(99)]) is None


def test_a_scan_in_a_loop_is_written_out_with_it():
    x = sg.placeholder((19,), "float64")
    y = sg.fori_loop(0, 5, lambda i, v: sg.cumsum(v) * 0.5, x)
    graph = Graph([y, gradient(y, x)], [x])
    assert run_everywhere(graph, [np.linspace(-1, 1, 19)]) is None
