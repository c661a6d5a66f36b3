"""Short rows written out: which accesses make rows, what is shared, and that all of it is right."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.loops.access import Accesses
from symgrad.codegen.loops.language import Fold, For, Kernel, Let, Op, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.short_rows import RowAccess, row_accesses
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, program_for, run_variants
from tests.support.programs import kernel_from, program_from

TARGETS = ["native", "x86-64-v3", "x86-64"]
LANES = target_named("native").lanes(4)
N = 100


# ----------------------------------------------------------------------------- which are rows


def rows_of(statements_: str, params: str = "in p: f32[400], out q: f32[400]") -> list[RowAccess]:
    kernel = parse_kernel(f"kernel @k({params}) {{ for i in 0..100 {{ {statements_} }} }}")
    (loop,) = kernel.body
    assert isinstance(loop, For)
    return row_accesses(loop.body, "i", 16)


def test_loads_of_all_elements_of_a_row_are_a_group():
    text = "a: f32 = p[3*i + 1] b: f32 = p[3*i + 3] c: f32 = p[3*i + 2] d: f32 = p[3*i + 2]"
    (row,) = rows_of(text)
    assert row.start.const == 1
    names = [[s.name for s in members if isinstance(s, Let)] for members in row.members]
    assert names == [["a"], ["c", "d"], ["b"]]


def test_stores_of_all_elements_of_a_row_are_a_group():
    assert len(rows_of("q[2*i + 1] = 1.0 q[2*i] = 0.0")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "a: f32 = p[3*i] b: f32 = p[3*i + 1]",  # an element is missing
        "a: f32 = p[3*i] b: f32 = p[3*i + 1] c: f32 = p[3*i + 3]",
        "a: f32 = p[i] b: f32 = p[i + 1]",  # no rows
        "a: f32 = p[5*i] b: f32 = p[5*i + 2] c: f32 = p[5*i + 4]",  # none beside another
        "q[2*i] = 0.0 q[2*i + 1] = 1.0 q[2*i] = 2.0",  # one is stored to twice
        "q[2*i] = 0.0 q[2*i + 1] = 1.0 q[i] = 2.0",
    ],
)
def test_what_is_no_row(text):
    assert rows_of(text) == []


def test_what_is_read_and_written_is_no_row():
    text = "a: f32 = p[2*i] b: f32 = p[2*i + 1] p[2*i] = b p[2*i + 1] = a"
    assert rows_of(text, "inout p: f32[200]") == []


@pytest.mark.parametrize(
    ("size", "width", "sizes"),
    [(9, 8, [8]), (9, 16, [8]), (16, 8, [8, 8]), (7, 8, [4, 2]), (5, 2, [2, 2]), (9, 1, [])],
)
def test_longer_rows_are_runs_of_powers_of_two(size, width, sizes):
    text = " ".join(f"x{c}: f32 = p[{size}*i + {c}]" for c in range(size))
    kernel = parse_kernel(f"kernel @k(in p: f32[{100 * size}]) {{ for i in 0..100 {{ {text} }} }}")
    (loop,) = kernel.body
    assert isinstance(loop, For)
    found = row_accesses(loop.body, "i", width)
    assert [len(row.members) for row in found] == sizes
    assert [row.start.const for row in found] == [sum(sizes[:n]) for n in range(len(sizes))]
    assert all(row.is_run for row in found)


def test_a_gap_ends_a_run():
    text = "a: f32 = p[7*i] b: f32 = p[7*i + 1] c: f32 = p[7*i + 3] d: f32 = p[7*i + 4]"
    kernel = parse_kernel(f"kernel @k(in p: f32[700]) {{ for i in 0..100 {{ {text} }} }}")
    (loop,) = kernel.body
    assert isinstance(loop, For)
    found = row_accesses(loop.body, "i", 8)
    assert [row.start.const for row in found] == [0, 3]


def test_a_row_costs_less_than_its_elements_one_by_one():
    body = parse_kernel(
        "kernel @k(in p: f32[300]) { for i in 0..100 { a: f32 = p[3*i] b: f32 = p[3*i + 1] } }"
    ).body[0]
    assert isinstance(body, For)
    (whole,) = parse_kernel(
        "kernel @k(in p: f32[300]) { for i in 0..100 { "
        "a: f32 = p[3*i] b: f32 = p[3*i + 1] c: f32 = p[3*i + 2] } }"
    ).body
    assert isinstance(whole, For)
    assert Accesses(whole.body).cost("i", 16) < Accesses(body.body).cost("i", 16)


# ------------------------------------------------------------------------- what is written out


def loops_of(kernel: Kernel) -> list[For]:
    return [s for s in statements(kernel.body) if isinstance(s, For)]


def count(kernel: Kernel, name: str) -> int:
    values = [s.value for s in statements(kernel.body) if isinstance(s, Let)]
    return sum(isinstance(value, Op) and value.name == name for value in values)


def scheduled(*outputs: sg.Tensor) -> Kernel:
    (kernel,) = program_for(Graph(list(outputs))).kernels
    return kernel


def test_differences_of_all_pairs_have_vectors_along_the_longer_axis():
    x = sg.placeholder((64, 3))
    kernel = scheduled(x[None] - x[:, None])
    assert [(loop.extent, loop.vector) for loop in loops_of(kernel)] == [(64, 1), (64, LANES)]


def test_what_elements_of_a_row_share_is_computed_once():
    x, w = sg.placeholder((64, 3)), sg.placeholder((64,))
    kernel = scheduled(x * sg.sqrt(w)[:, None])
    assert count(kernel, "sqrt") == 1
    assert count(kernel, "mul") == 3


def test_rows_that_make_one_axis_with_others_stay_loops():
    x, y = sg.placeholder((64, 3)), sg.placeholder((64, 3))
    assert [loop.extent for loop in loops_of(scheduled(x * y + 1))] == [192]


@pytest.mark.parametrize(("function", "loops"), [(sg.exp, [64]), (sg.negative, [64, 3])])
def test_rows_that_an_index_finds_stay_loops_unless_there_is_much_to_compute(function, loops):
    x, at = sg.placeholder((9, 3)), sg.placeholder((64,), "int64")
    kernel = scheduled(function(sg.take(x, at, axis=0)))
    assert [loop.extent for loop in loops_of(kernel)] == loops
    assert (loops_of(kernel)[0].vector > 1) == (loops == [64])


def test_columns_that_an_index_finds_are_written_beside_each_other():
    x, at = sg.placeholder((9, 3)), sg.placeholder((64, 2), "int64")
    a, b = (sg.take(x, at[:, i], axis=0) for i in range(2))
    area = [a[:, i] * b[:, 1 - i] - a[:, 1 - i] * b[:, i] for i in range(2)]
    kernel = scheduled(sg.stack(area, axis=1))
    assert [(loop.extent, loop.vector > 1) for loop in loops_of(kernel)] == [(64, True)]


@pytest.mark.parametrize("row", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_rows_that_an_index_finds_are_what_numpy_gives(row, count):
    x, at = sg.placeholder((9, row), "float64"), sg.placeholder((count, 2), "int64")
    a, b = (sg.take(x, at[:, i], axis=0) for i in range(2))
    y = sg.exp(a) * b
    columns = sg.stack([a[:, 0] * b[:, -1], b[:, 0]], axis=1)
    first = sg.gradients(sg.sum(y) + sg.sum(columns * columns), [x])[0]
    second = sg.gradients(sg.sum(first * first), [x])[0]
    graph = Graph([y, columns, first, second], [x, at])
    random = np.random.default_rng(0)
    given = [random.normal(size=(9, row)), random.integers(-9, 9, (count, 2))]
    found, pairs, *_ = sg.compile(graph.inputs, graph.outputs)(*given)
    left, right = (given[0][given[1][:, i]] for i in range(2))
    np.testing.assert_allclose(found, np.exp(left) * right, rtol=1e-14)
    np.testing.assert_array_equal(pairs, np.stack([left[:, 0] * right[:, -1], right[:, 0]], 1))
    variants = [
        Variant("x86-64-v3", memory=Memory("end", is_apart=True)),
        Variant("native", threads=Threads(3, least_cycles=0), memory=Memory("start")),
    ]
    assert run_variants(graph, given, variants) is None


@pytest.mark.parametrize("index", [9, -10])
def test_an_index_of_rows_in_vectors_is_out_of_range_where_the_user_wrote_it(index):
    x, at = sg.placeholder((9, 3)), sg.placeholder((64,), "int64")
    step = sg.compile([x, at], sg.exp(sg.take(x, at, axis=0)))
    given = np.full(64, -1)
    given[50] = index
    with pytest.raises(sg.IndexOutOfRangeError, match=f"take: index {index} is") as raised:
        step(np.zeros((9, 3), "float32"), given)
    assert "test_short_rows.py" in str(raised.value)


def test_rows_that_are_far_apart_are_folded_one_by_one():
    folds = [s for s in statements(kernel_from(sg.sum(sg.placeholder((3, 90)), 1)).body)]
    (fold,) = (s for s in folds if isinstance(s, Fold))
    assert len(fold.accumulators) == 1


def test_sums_of_columns_are_accumulators_of_one_fold():
    kernel = kernel_from(sg.sum(sg.placeholder((90, 3)), axis=0))
    (fold,) = (s for s in statements(kernel.body) if isinstance(s, Fold))
    assert len(fold.accumulators) == 3


def test_sums_of_short_rows_are_no_folds():
    kernel = scheduled(sg.sum(sg.placeholder((64, 3)) ** 2, axis=1))
    assert [(loop.extent, loop.vector) for loop in loops_of(kernel)] == [(64, LANES)]
    assert not any(isinstance(s, Fold) for s in statements(kernel.body))


def test_what_is_stacked_shares_what_its_pieces_share():
    x = sg.placeholder((64,))
    t = sg.exp(x) + 1
    assert count(scheduled(sg.stack([sg.sin(t), sg.cos(t), t], axis=1)), "exp") == 1


@pytest.mark.parametrize(
    ("spec", "rows", "is_product"),
    [
        ("ij,ik->ijk", 64, False),
        ("ij,ik->ijk", 12, True),
        ("i,j->ij", 64, False),
        ("ij,jk->ik", 64, True),
        ("i,j->ij", 600, True),
    ],
)
def test_what_sums_nothing_is_a_multiplication_unless_it_is_large_or_small(spec, rows, is_product):
    left, right = (
        sg.placeholder((rows,) * len(labels)) for labels in spec.split("->")[0].split(",")
    )
    kernel = scheduled(sg.einsum(spec, left, right))
    assert any(isinstance(s, Product) for s in statements(kernel.body)) == is_product


def test_no_element_of_a_row_is_loaded_or_stored_alone():
    x = sg.placeholder((64, 3))
    for target in ("x86-64-v4", "x86-64-v3"):
        text = str(emit_module(program_from(x * sg.sum(x, 1)[:, None]), target_named(target)))
        assert "shufflevector" in text
        assert not re.search(r"load float|store float|extractelement", text)


def test_elements_of_runs_are_loaded_and_stored_together():
    x = sg.placeholder((64, 4, 4), "float64")
    module = emit_module(program_from(sg.linalg.inv(x)), target_named("x86-64-v4"))
    text = str(module)
    assert "shufflevector" in text
    assert not re.search(r"load double|store double|extractelement", text)


def test_runs_are_loaded_in_parts_of_registers_and_stored_in_halves_of_them():
    x = sg.placeholder((64, 4, 4), "float64")
    text = str(emit_module(program_from(sg.linalg.inv(x)), target_named("x86-64-v4")))
    assert "load <2 x double>" in text
    assert "store <4 x double>" in text
    assert not re.search(r"(load|store) <8 x double>", text)


def test_runs_of_interleaved_vectors_are_stored_in_halves_of_registers():
    x = sg.placeholder((10_000, 3, 3), "float64")
    text = str(emit_module(program_from(sg.linalg.inv(x)), target_named("x86-64-v4")))
    assert "16 x double" in text
    assert set(re.findall(r"store <(\d+) x double>", text)) == {"4"}


def test_runs_of_a_result_that_no_cache_holds_are_stored_by_whole_registers():
    x = sg.placeholder((40_000, 4, 4), "float64")
    text = str(emit_module(program_from(sg.linalg.inv(x)), target_named("x86-64-v4")))
    assert "load <2 x double>" in text
    assert set(re.findall(r"store <(\d+) x double>", text)) == {"16"}


# ------------------------------------------------------------------------------ what it gives


def _pairs(x: Any, _: Any) -> Any:
    return x[None] - x[:, None]


def _forces(x: Any, w: Any) -> Any:
    d = x[None] - x[:, None]
    return (d * (w[:, 0] * ((d * d).sum(2) + 0.1) ** -1.5)[:, :, None]).sum(1)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "differences of pairs": _pairs,
    "forces": _forces,
    "scaled rows": lambda x, w: x * w[:, :1],
    "a row added": lambda x, w: x + w[0],
    "sums of rows": lambda x, w: (x * w).sum(1),
    "sums of columns": lambda x, w: (x * w).sum(0),
    "sums of all": lambda x, w: (x * w[:, :1]).sum(),
    "greatest of rows and where": lambda x, _: (sg.max(x, 1), sg.argmax(x, 1)),
    "softmax of rows": lambda x, _: sg.nn.softmax(x, axis=1),
    "products of rows": lambda x, w: sg.einsum("ij,ij->i", x, w),
    "outer products of rows": lambda x, w: sg.einsum("ij,ik->ijk", x, w),
    "stacked": lambda x, w: sg.stack([x[:, 0] * w[:, 1], w[:, 0], x[:, 0] * w[:, 1] + 1], axis=1),
    "joined": lambda x, w: sg.concat([x, sg.exp(w[:, :1]), w * x[:, :1]], axis=1),
    "backwards": lambda x, w: x[::-1, ::-1] * w[:, :1],
    "some columns": lambda x, w: x[:, :1] * w[:, :2],
    "reshaped": lambda x, w: (x * w[:, :1]).reshape(-1),
    "rows chosen": lambda x, w: sg.take(x, sg.arange(N)[::-1] % 7, axis=0) * w[:, :1],
    "running sums": lambda x, w: sg.cumulative_sum(x * w[:, :1], axis=0),
}
DTYPES = ["float32", "float64", "int32", "uint8", "bfloat16"]


def assert_right(program: Callable[[Any, Any], Any], row: int, dtype: str, target: str) -> None:
    x, w = (sg.placeholder((N, row), dtype) for _ in range(2))
    outputs = program(x, w)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    if dtype == "float64":
        total = sum(sg.sum(sg.sin(y)) for y in outputs if y.dtype.is_float)
        outputs += sg.gradients(total, [x, w], unconnected_gradients="zero")
    graph = Graph(outputs, [x, w])
    random = np.random.default_rng(0)
    arrays = [random.integers(1, 9, (N, row)).astype(x.dtype.numpy) for _ in range(2)]
    variants = [
        Variant(target, memory=Memory("end", is_apart=True)),
        Variant(target, threads=Threads(2, least_cycles=0), memory=Memory("start", is_apart=True)),
    ]
    different = run_variants(graph, arrays, variants)
    assert different is None, str(different)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_what_numpy_gives(name):
    assert_right(PROGRAMS[name], 3, "float64", "native")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "dtype"), [(2, "float32"), (3, "float32"), (3, "float64")])
def test_runs_are_what_numpy_gives(n, dtype, target):
    x = sg.placeholder((N, n, n), dtype)
    flat = sg.stack([x[:, i // n, i % n] * x[:, 0, 0] for i in reversed(range(n * n))], axis=1)
    graph = Graph([sg.linalg.inv(x), sg.linalg.cholesky(x), flat], [x])
    drawn = np.random.default_rng(0).uniform(0, 1, (N, n, n))
    given = [(drawn + drawn.swapaxes(1, 2) + 2 * n * np.eye(n)).astype(dtype)]
    variants = [
        Variant(target, memory=Memory("end", is_apart=True)),
        Variant(target, memory=Memory("start", is_apart=True)),
    ]
    different = run_variants(graph, given, variants)
    assert different is None, str(different)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("row", "target"), list(itertools.product([2, 3, 4, 5], TARGETS)))
def test_it_is_what_numpy_gives_in_every_dtype_on_every_target(name, row, target):
    for dtype in DTYPES:
        if dtype in ("int32", "uint8") and name in ("forces", "softmax of rows", "joined"):
            continue  # these are of floats
        assert_right(PROGRAMS[name], row, dtype, target)
