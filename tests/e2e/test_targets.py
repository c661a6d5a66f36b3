"""Every op on other machines: objects for aarch64 under emulation, and one object for several CPUs.

What runs there is compared with machine code for x86-64-v3 in this process. Both have a fused
multiply-add, so it is the same bit for bit, but for products: how the sums of a narrow one are cut
into lanes follows the vectors.
"""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.c_interface.abi import CHOICE_OFFSET
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from tests.support.c_programs import ARM, X86, Machine, build, needs, needs_arm, run, run_in_c
from tests.support.case import draw, placeholders
from tests.support.cases import CASES
from tests.support.draw_programs import DRAWS
from tests.support.floors import agree, compile_for, run_native, run_reference
from tests.support.networks import random_network
from tests.support.special_points import PROMISES, Points


def assert_same_bits(found: list[Array], wanted: list[Array], names: list[str]) -> None:
    """Assert that arrays are equal; one nan is as good as another."""
    for name, a, b in zip(names, found, wanted, strict=True):
        assert a.dtype == b.dtype, name
        assert a.shape == b.shape, name
        # An architecture chooses the sign and the payload of the nans it makes.
        same = (a == b) | ((a != a) & (b != b))
        assert same.all(), f"{name}: {a[~same][:4]} is not {b[~same][:4]}"


@needs_arm
@pytest.mark.isa("avx2")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", dtypes.REAL, ids=str)
def test_every_op_computes_the_same_bits_on_aarch64(dtype, tmp_path):
    cases = [case for case in CASES if dtype in case.dtypes]
    xs, arrays, results = [], [], []
    for case in cases:
        of_case = placeholders(case, dtype)
        results.append(case.build(*of_case))
        xs += of_case
        arrays += draw(case, dtype)
    graph = Graph(results, xs)
    wanted = run_native(compile_for(graph, X86.target), arrays).outputs
    found = run_in_c(ARM, tmp_path, graph, arrays)
    assert_same_bits(found, wanted, [case.name for case in cases])


@needs_arm
@pytest.mark.isa("avx2")
@pytest.mark.slow
def test_every_draw_has_the_same_bits_on_aarch64(tmp_path):
    drawn = {name: draw_of(sg.random.key(2**40 + 3)) for name, draw_of in DRAWS.items()}
    graph = Graph(list(drawn.values()), [])
    wanted = run_native(compile_for(graph, X86.target), []).outputs
    assert_same_bits(run_in_c(ARM, tmp_path, graph, []), wanted, list(drawn))


@needs_arm
@pytest.mark.isa("avx2")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.int32], ids=str)
@pytest.mark.parametrize("rows", [(3, 40), (1, 5000), (700, 9), (3, 300)], ids=str)
def test_scans_sorts_and_writes_of_many_elements_have_the_same_bits_on_aarch64(
    rows, dtype, tmp_path
):
    rng = np.random.default_rng(5)
    x, i = sg.placeholder(rows, dtype), sg.placeholder((rows[1],), "int64")
    arrays = [(rng.normal(size=rows) * 3).round(2).astype(dtype.numpy)]
    arrays.append(rng.integers(0, rows[1], rows[1]))
    ordered = sg.sort(x, axis=1)
    found = {
        "sort": ordered,
        "descending": sg.sort(x, axis=1, descending=True),
        "sort of columns": sg.sort(x, axis=0),
        "argsort": sg.argsort(x, axis=1),
        "top_k": sg.top_k(x, min(5, rows[1]))[1],
        "searchsorted": sg.searchsorted(ordered[0], x[-1], side="right"),
        "cumsum": sg.cumsum(x, 1),
        "cumprod": sg.cumprod(x, 0),
        "cummax": sg.cummax(x, 1),
        "associative_scan": sg.associative_scan(sg.minimum, x, axis=1, reverse=True),
        "median": sg.median(x, 1),
        "unique": sg.unique_values(x, size=7),
        "set": x.at[:, i].set(x[:, ::-1]),
        "add": x.at[:, i].add(x),
        "multiply": x.at[:, i].multiply(x),
        "max": x.at[:, i].max(x[:, ::-1]),
        "segment_sum": sg.segment_sum(sg.matrix_transpose(x), i, 5),
        "segment_min": sg.segment_min(sg.matrix_transpose(x), i, rows[1]),
    }
    if dtype.is_float:
        found["logcumsumexp"] = sg.logcumsumexp(x, 1)
    graph = Graph(list(found.values()), [x, i])
    wanted = run_native(compile_for(graph, X86.target), arrays).outputs
    assert_same_bits(run_in_c(ARM, tmp_path, graph, arrays), wanted, list(found))


@needs_arm
@pytest.mark.isa("avx2")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_special_functions_have_the_same_bits_on_aarch64(dtype, tmp_path):
    xs, arrays, results = [], [], []
    for promise in PROMISES:
        drawn = promise.draw(Points(dtype, 100, 3))
        given = [np.asarray(column, dtype.numpy) for column in drawn]
        of_promise = [sg.placeholder(a.shape, dtype) for a in given]
        xs += of_promise
        arrays += given
        results.append(promise.build(*of_promise))
    graph = Graph(results, xs)
    wanted = run_native(compile_for(graph, X86.target), arrays).outputs
    found = run_in_c(ARM, tmp_path, graph, arrays)
    assert_same_bits(found, wanted, [promise.name for promise in PROMISES])


@needs_arm
@pytest.mark.isa("avx2")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_products_agree_on_aarch64(dtype, tmp_path):
    rng = np.random.default_rng(1)
    xs, arrays, results, names = [], [], [], []
    for m, k, n in ((1, 7, 9), (5, 64, 3), (33, 17, 65), (130, 300, 70)):
        for lhs, rhs in (("mk", "kn"), ("km", "kn"), ("mk", "nk"), ("km", "nk")):
            sizes = {"m": m, "k": k, "n": n}
            pair = [sg.placeholder([sizes[c] for c in letters], dtype) for letters in (lhs, rhs)]
            product = sg.einsum(f"{lhs},{rhs}->mn", *pair)
            results.append(sg.maximum(product + 1, 0))
            xs += pair
            arrays += [rng.normal(size=t.type.static_shape).astype(dtype.numpy) for t in pair]
            names.append(f"{lhs},{rhs} of {sizes}")
    graph = Graph(results, xs)
    wanted, _ = evaluate(graph, arrays)
    found = run_in_c(ARM, tmp_path, graph, arrays)
    for name, one, other in zip(names, found, wanted, strict=True):
        assert agree(one, other), name


@needs_arm
@pytest.mark.isa("avx2")
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3))]
)
def test_networks_agree_on_aarch64(seed, tmp_path):
    graph, inputs = random_network(np.random.default_rng(seed), dtypes.float32)
    outputs = [*graph.outputs, *(u.value for u in graph.updates)]
    graph = Graph(outputs, graph.inputs)
    wanted = run_reference(graph, inputs).outputs
    for found, expected in zip(run_in_c(ARM, tmp_path, graph, inputs), wanted, strict=True):
        assert agree(found, expected)


# ------------------------------------------------------------------------- several x86 levels

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3")


def on_cpu(cpu: str) -> Machine:
    """Return a machine of x86-64 with an emulated CPU."""
    return Machine("", "cc", ("qemu-x86_64", "-cpu", cpu))


def graph_and_inputs() -> tuple[Graph, list[Array]]:
    rng = np.random.default_rng(7)
    xs = [sg.placeholder((33, 20), name="x"), sg.placeholder((20, 17), name="y")]
    inputs = [rng.normal(size=t.type.static_shape).astype(np.float32) for t in xs]
    return Graph([sg.exp(sg.tanh(xs[0] @ xs[1])), sg.sum(xs[0] * xs[0])], xs), inputs


@needs("qemu-x86_64")
@pytest.mark.isa("avx2")
@pytest.mark.parametrize(
    ("cpu", "level"), [("qemu64", "x86-64"), ("Nehalem", "x86-64-v2"), ("Haswell", "x86-64-v3")]
)
def test_an_object_for_several_levels_runs_the_best_its_cpu_has(cpu, level, tmp_path):
    graph, inputs = graph_and_inputs()
    found = run_in_c(on_cpu(cpu), tmp_path, graph, inputs, LEVELS)
    wanted = run_native(compile_for(graph, level), inputs).outputs
    assert_same_bits(found, wanted, [f"output {i}" for i in range(len(wanted))])
    # Without a fused multiply-add other bits come out, so this tells levels 2 and 3 apart.
    other = "x86-64" if level == "x86-64-v3" else "x86-64-v3"
    others = run_native(compile_for(graph, other), inputs).outputs
    assert any(a.tobytes() != b.tobytes() for a, b in zip(wanted, others, strict=True))


@needs("qemu-x86_64")
def test_a_cpu_that_lacks_instructions_is_refused_before_it_meets_them(tmp_path):
    graph, inputs = graph_and_inputs()
    with pytest.raises(AssertionError, match="this CPU lacks instructions"):
        run_in_c(on_cpu("Nehalem"), tmp_path, graph, inputs, ("x86-64-v3",))


_CHOICE = r"""
#include <stdio.h>
#include "net.h"
static net_instance self;
int main(void) {
    int32_t status = net_init(&self);
    printf("%d %d", status, *(int32_t *)(self.bytes + CHOICE_OFFSET));
    return 0;
}
"""


@needs("qemu-x86_64")
def test_the_choice_is_made_when_an_instance_is(tmp_path):
    x = sg.placeholder((40,), name="x")
    step = sg.compile([x], sg.tanh(x), name="net")
    step.export(tmp_path / "net", formats=("o", "h"), target=(*LEVELS, "x86-64-v4"))
    source = tmp_path / "main.c"
    source.write_text(_CHOICE.replace("CHOICE_OFFSET", str(CHOICE_OFFSET)))
    program = build(X86, tmp_path, "main", [source, tmp_path / "net.o"])
    cpus = {"qemu64": "0 0", "Nehalem": "0 1", "Haswell": "0 2"}
    assert {cpu: run(on_cpu(cpu), program).stdout for cpu in cpus} == cpus


def test_a_library_for_several_levels_is_loaded(tmp_path):
    graph, inputs = graph_and_inputs()
    step = sg.compile(list(graph.inputs), list(graph.outputs), name="net")
    step.export(tmp_path / "net", target=("x86-64", "x86-64-v3", "x86-64-v4"))
    library = sg.load(tmp_path / "net")
    for found, wanted in zip(library(*inputs), step(*inputs), strict=True):
        assert np.array_equal(found, wanted, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float64], ids=str)
def test_an_object_for_aarch64_takes_the_c_library_only(dtype, tmp_path):
    cases = [case for case in CASES if dtype in case.dtypes]
    xs = [placeholders(case, dtype) for case in cases]
    results = [case.build(*of_case) for case, of_case in zip(cases, xs, strict=True)]
    step = sg.compile([x for of_case in xs for x in of_case], results, name="net", opt_level=0)
    (image,) = step.export(tmp_path / "net", formats=("o",), target="aarch64")
    listed = subprocess.run(
        ["readelf", "-hsW", str(image)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "AArch64" in listed
    symbols = [line.split() for line in listed.splitlines() if " GLOBAL " in line]
    assert "net_net" in {words[-1] for words in symbols}
    undefined = {words[-1] for words in symbols if "UND" in words}
    assert undefined <= {"memcpy", "memset", "strcmp"}
