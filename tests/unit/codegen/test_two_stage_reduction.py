"""Long folds in pieces: which are cut, what becomes of them, and that they give the same."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule import two_stage_reduction as module
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.two_stage_reduction import split_folds
from symgrad.cost_model import SHARING_CYCLES
from symgrad.graph.graph import Graph
from tests.support.floors import run_everywhere
from tests.support.programs import kernel_from, lines_of, schedule_kernel

SUM = """
kernel @k(in x: f32[{0}], out y: f32[1]) {{
  fold s: f32 = 0.0 for k in 0..{0} {{
    t: f32 = x[k]
    yield t
  }} combine (a) (b) {{
    c: f32 = add(a, b)
    yield c
  }}
  y[0] = s
}}
"""


def split(kernel: Kernel | str, least_cycles: float = SHARING_CYCLES) -> Kernel:
    plain = parse_kernel(kernel) if isinstance(kernel, str) else kernel
    found = split_folds(plain, least_cycles)
    verify_kernel(found)
    return found


def extents(kernel: Kernel) -> list[tuple[str, int]]:
    """Return what each loop and each fold is, and its extent, in the order of the text."""
    return [
        (type(s).__name__, s.extent) for s in statements(kernel.body) if isinstance(s, For | Fold)
    ]


def of(*outputs: sg.Tensor) -> list[tuple[str, int]]:
    return extents(split(kernel_from(*outputs)))


def test_a_long_fold_becomes_pieces_what_is_left_and_their_combination():
    kernel = split(SUM.format(1_000_000))
    assert extents(kernel) == [("For", 32), ("Fold", 31232), ("Fold", 576), ("Fold", 33)]
    lines = lines_of(kernel)
    assert lines[0].endswith("out y: f32[1], scratch partial2: f32[33]) {")
    assert "t: f32 = x[k + 31232*k.piece]" in lines
    assert "partial2[k.piece] = s.piece" in lines
    assert "t: f32 = x[k + 999424]" in lines
    assert "partial2[32] = s.piece" in lines
    assert "s.item: f32 = partial2[k.piece]" in lines
    assert lines[-2] == "y[0] = s"


def test_a_fold_that_divides_has_nothing_left_over():
    assert extents(split(SUM.format(1 << 20))) == [("For", 32), ("Fold", 32768), ("Fold", 32)]


def test_a_short_fold_is_left_alone():
    kernel = parse_kernel(SUM.format(100_000))
    assert split(kernel) == kernel


def test_folds_that_are_many_are_left_alone():
    assert of(sg.sum(sg.placeholder((32, 100_000)), axis=1)) == [("For", 32), ("Fold", 100_000)]


def test_results_side_by_side_count_as_one():
    x = sg.placeholder((4096, 640))
    assert of(sg.sum(x, axis=0)) == [
        ("For", 32), ("For", 640), ("Fold", 128), ("For", 640), ("Fold", 32),
    ]  # fmt: skip
    assert of(sg.sum(sg.placeholder((4096, 2048)), axis=0)) == [("For", 2048), ("Fold", 4096)]


def test_results_that_read_one_number_each_lie_no_nearer_for_that():
    x, mean = sg.placeholder((256, 1024)), sg.placeholder((256, 1))
    assert of(sg.sum(sg.square(x - mean), axis=1)) == [("For", 256), ("Fold", 1024)]
    # Down the columns they do lie side by side.
    assert of(sg.sum(sg.square(x - mean), axis=0)) == [
        ("For", 8), ("For", 1024), ("Fold", 32), ("For", 1024), ("Fold", 8),
    ]  # fmt: skip


def test_of_folds_around_each_other_the_longest_is_cut():
    x = sg.placeholder((5, 3, 40_000))
    assert of(sg.sum(x, axis=(0, 2))) == [
        ("For", 32), ("For", 3), ("Fold", 5), ("Fold", 1216),
        ("For", 3), ("Fold", 5), ("Fold", 1088), ("For", 3), ("Fold", 33),
    ]  # fmt: skip


def test_a_product_is_no_fold():
    x = sg.placeholder((64, 100_000))
    kernel = kernel_from(x @ x.T)
    assert split(kernel) == kernel


def test_threads_and_machines_do_not_change_how_a_fold_is_cut():
    plain = parse_kernel(SUM.format(1_000_000))
    pieces = [
        extents(schedule_kernel(split_folds(plain, Threads(n).least_cycles), vector_bytes))
        for n in (1, 2, 7)
        for vector_bytes in (16, 64)
    ]
    assert pieces == [pieces[0]] * 6


@pytest.mark.parametrize("count", [64, 65, 300, 8192, 8193])
def test_pieces_hold_each_element_once(count):
    x, y = np.arange(count, dtype=np.float32), np.zeros(1, np.float32)
    assert run_kernel(split(SUM.format(count), 0), {"x": x, "y": y}) == 0
    assert y[0] == count * (count - 1) // 2


@pytest.mark.parametrize(
    ("rows", "pieces"), [(64, 8), (65, 8), (256, 8), (512, 16), (1024, 32), (4096, 32)]
)
def test_rows_that_are_added_up_are_in_pieces_of_some(rows, pieces):
    kernel = split(kernel_from(sg.sum(sg.placeholder((rows, 1500)), axis=0)), 0)
    (whole, *_) = extents(kernel)
    assert whole == ("For", pieces)


X = sg.placeholder((70, 3, 9), "float64", name="x")
CASES = {
    "sum of all": sg.sum(X),
    "sum of rows": sg.sum(X, axis=(0, 2)),
    "sum of columns": sg.sum(X, axis=0),
    "argmax": sg.argmax(sg.reshape(X, (1890,))),
    "argmin of ties": sg.argmin(sg.round(X), axis=0),
    "max with what follows": sg.tanh(sg.max(X) * 0.5),
    "mean of squares": sg.mean(sg.square(X), axis=(0, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fold_in_pieces_gives_what_it_gives_whole(name, monkeypatch):
    monkeypatch.setattr(module, "PIECES", 4)
    graph = Graph([CASES[name]], [X])
    values = np.random.default_rng(0).normal(size=(70, 3, 9))
    for least_cycles in (0, SHARING_CYCLES):
        threads = Threads(1, least_cycles)
        assert run_everywhere(graph, [values], targets=("native",), threads=threads) is None
