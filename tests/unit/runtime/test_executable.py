"""Executables: machine code that is shared, state that is not, stages, and failures."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph, Update
from symgrad.passes.pipeline import SPECIALIZE
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

F32 = np.float32
X = sg.placeholder((4,), name="x")
A = np.arange(4, dtype=F32)


def options(**changes: Any) -> CompileOptions:
    return replace(CompileOptions(target_named("native"), 2, False, True), **changes)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch):
    monkeypatch.setattr(code_module, "_loaded", type(code_module._loaded)())


# --------------------------------------------------------------------------- shared machine code


def test_equal_programs_share_their_code():
    def program(name: str) -> Graph:
        x = sg.placeholder((4,), name=name)
        return Graph([sg.tanh(x) * 2], [x], name="same")

    first, second = Executable(program("a"), options()), Executable(program("b"), options())
    assert first.code is second.code


@pytest.mark.parametrize(
    "changes",
    [{"opt_level": 1}, {"target": target_named("x86-64")}, {"cache": False}],
    ids=["level", "target", "no cache"],
)
def test_code_is_not_shared_by_programs_compiled_otherwise(changes):
    graph = Graph([sg.tanh(X) * 2], [X])
    assert Executable(graph, options()).code is not Executable(graph, options(**changes)).code


def test_programs_that_differ_do_not_share_code():
    graphs = [Graph([X * 2], [X]), Graph([X * 3], [X]), Graph([X + 2], [X])]
    codes = [Executable(graph, options()).code for graph in graphs]
    assert len(set(map(id, codes))) == 3


def test_shared_code_works_on_its_own_state_constants_and_memory():
    def program(start: float, constant: list[float]) -> tuple[sg.Variable, Graph]:
        w = sg.variable(np.full(4, start, F32))
        return w, Graph([w + sg.constant(constant)], [], [Update(w, w * 2)])

    (w, first), (v, second) = program(1, [1.0, 2.0, 3.0, 4.0]), program(10, [5.0, 6.0, 7.0, 8.0])
    one, two = Executable(first, options()), Executable(second, options())
    assert one.code is two.code
    np.testing.assert_array_equal(run_native(one, []).outputs[0], [2, 3, 4, 5])
    np.testing.assert_array_equal(run_native(two, []).outputs[0], [15, 16, 17, 18])
    assert (run_native(one, []).state[w.state] == 2).all()
    assert (run_native(two, []).state[v.state] == 20).all()


def test_the_cache_keeps_the_programs_used_last(monkeypatch):
    monkeypatch.setattr(code_module, "_CACHE_SIZE", 2)
    graphs = [Graph([X * k], [X]) for k in (2, 3, 4)]
    first = Executable(graphs[0], options()).code
    Executable(graphs[1], options())
    assert Executable(graphs[0], options()).code is first
    Executable(graphs[2], options())  # drops the second, which was used least recently
    assert len(code_module._loaded) == 2
    assert Executable(graphs[0], options()).code is first


def test_code_that_left_the_cache_still_runs(monkeypatch):
    monkeypatch.setattr(code_module, "_CACHE_SIZE", 1)
    kept = Executable(Graph([X * 2], [X]), options())
    for k in range(3, 6):
        Executable(Graph([X * k], [X]), options())
    gc.collect()
    np.testing.assert_array_equal(run_native(kept, [A]).outputs[0], A * 2)


# ---------------------------------------------------------------------------------- its parts


def test_the_table_has_arena_failure_variables_and_constants():
    w = sg.variable(np.zeros(4, F32))
    graph = Graph([w * sg.constant(A) + X], [X], [Update(w, w + 1)])
    found = Executable(graph, options())
    assert found.table.dtype == np.int64
    assert len(found.table) == 2 + len(found.program.variables) + len(found.program.constants)
    assert found.table[2] == w.state.array.ctypes.data


def test_memory_is_aligned_for_vectors():
    w = sg.variable(np.zeros(4, F32))
    graph = Graph([sg.tanh(w @ sg.ones((4, 4))) @ sg.constant(np.ones((4, 5), F32))], [])
    found = Executable(graph, options())
    slots = [address for n, address in enumerate(found.table) if n != 1]
    assert all(address % 64 == 0 for address in slots)


def test_stages_are_made_of_the_code_that_runs():
    found = Executable(Graph([sg.tanh(X)], [X]), options(target=target_named("x86-64-v3")))
    assert "<4 x float>" in found.optimized_llvm
    assert 'target triple = "x86_64-unknown-linux-gnu"' in found.optimized_llvm
    assert "step:" in found.assembly
    assert found.optimized_llvm is found.optimized_llvm
    assert found.assembly is found.assembly


def test_fast_math_allows_what_holds_for_real_numbers():
    graph = Graph([sg.log(sg.exp(X))], [X])
    careful = Executable(graph, options(fast_math=False)).optimized
    fast = Executable(graph, options(fast_math=True)).optimized
    assert [n.op for n in careful.nodes].count("exp") == 1
    assert [n.op for n in fast.nodes].count("exp") == 0


# ----------------------------------------------------------------------------------- failures


def test_the_status_names_the_op_that_failed():
    i, j = (sg.placeholder((2,), "int64", name=n) for n in "ij")
    taken = [sg.take(X, i, axis=0), sg.take(sg.sin(X) * 2, j, axis=0) + 1]
    graph = Graph(taken, [X, i, j])
    for level in (0, 2):
        found = Executable(graph, options(opt_level=level))
        good, bad = np.array([0, -1]), np.array([3, 9])
        run_native(found, [A, good, good])
        for indices, culprit in (((bad, good), taken[0]), ((good, bad), taken[1].node.inputs[0])):
            with pytest.raises(sg.IndexOutOfRangeError, match="index 9 is out of range") as caught:
                run_native(found, [A, *indices])
            assert caught.value.source == culprit.node.source


def test_a_kernel_with_several_indices_names_the_one_that_failed():
    i, j = (sg.placeholder((2,), "int64", name=n) for n in "ij")
    left = sg.take(X, i, axis=0)
    right = sg.take(X, j, axis=0)
    found = Executable(Graph([left * right], [X, i, j]), options())
    assert len(found.program.launches) == 1
    good, bad = np.array([0, -1]), np.array([3, 9])
    for indices, culprit in (((bad, good), left), ((good, bad), right)):
        with pytest.raises(sg.IndexOutOfRangeError) as caught:
            run_native(found, [A, *indices])
        assert caught.value.source == culprit.node.source


def test_several_axes_are_named_together():
    matrix = sg.placeholder((3, 4), name="m")
    i, j = (sg.placeholder((2,), "int64", name=n) for n in "ij")
    found = Executable(Graph([matrix[i, j]], [matrix, i, j]), options())
    given = np.zeros((3, 4), F32), np.array([0, 2]), np.array([0, 4])
    with pytest.raises(
        IndexError, match=r"index 4 is out of range for axes 0 to 1 of sizes \[3, 4"
    ):
        run_native(found, given)


def test_the_least_and_the_greatest_index_do_not_wrap_around():
    i = sg.placeholder((1,), "int64")
    found = Executable(Graph([sg.take(X, i, axis=0)], [X, i]), options())
    for index in (2**63 - 1, -(2**63), 4, -5):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            run_native(found, [A, np.array([index])])
    for index in (3, -4):
        np.testing.assert_array_equal(
            run_native(found, [A, np.array([index])]).outputs[0], A[index]
        )


def test_a_step_works_again_after_it_failed():
    i = sg.placeholder((1,), "int64", name="i")
    step = sg.compile([X, i], sg.take(X, i, axis=0))
    for _ in range(3):
        with pytest.raises(IndexError):
            step(A, np.array([7]))
        np.testing.assert_array_equal(step(A, np.array([2])), [2])


def test_a_graph_is_specialised_once_for_each_size(monkeypatch):
    again = replace(SPECIALIZE, run=lambda *_: pytest.fail("it was for the cache's key"))
    monkeypatch.setattr("symgrad.compiler.SPECIALIZE", again)
    x = sg.placeholder((None,))
    step = sg.compile([x], x * 2.0)
    for size in (3, 4):
        np.testing.assert_array_equal(step(np.ones(size, np.float32)), np.full(size, 2.0))
