"""Steps that check what they give and store: which op is named, and what has changed by then."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.frontend.nests import flatten
from symgrad.graph.graph import Graph
from symgrad.runtime.step import Step
from tests.support.fuzz_families import FAMILIES


def _training_step(**options: Any) -> tuple[Step, sg.Variable]:
    """Return a step that makes `log(x * w)` smaller, and its variable."""
    x = sg.placeholder((3,), name="x")
    w = sg.variable(np.ones(3, np.float32), name="w")
    loss = sg.sum(sg.log(x * w) ** 2)
    (g,) = sg.gradients(loss, [w])
    return sg.compile([x], loss, [(w, w - 0.1 * g)], check_numerics=True, **options), w


def test_what_is_finite_passes_and_updates():
    step, w = _training_step()
    assert step(np.array([1, 2, 3], np.float32)) == pytest.approx(np.sum(np.log([1, 2, 3]) ** 2))
    assert np.all(w.value <= 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_op_that_made_it_is_named_and_no_variable_has_changed(threads):
    step, w = _training_step(threads=threads)
    with pytest.raises(sg.NotFiniteError, match="log makes nan or inf of f32") as caught:
        step(np.array([1, 0, 3], np.float32))
    assert isinstance(caught.value, FloatingPointError)
    assert "test_check_numerics" in str(caught.value)
    np.testing.assert_array_equal(w.value, [1, 1, 1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_input_that_is_not_finite_is_named(bad):
    step, _ = _training_step()
    with pytest.raises(sg.NotFiniteError, match="since x is not"):
        step(np.array([1, bad, 3], np.float32))


def test_of_several_results_the_one_is_named():
    x = sg.placeholder((), "float64", name="x")
    step = sg.compile([x], [x + 1, sg.sqrt(x)], check_numerics=True)
    step(4.0)
    with pytest.raises(sg.NotFiniteError, match="output 1 is not finite: sqrt"):
        step(-4.0)


def test_what_is_cut_off_on_the_way_is_no_error():
    x = sg.placeholder((2,), "float64")
    step = sg.compile([x], sg.where(x > 0, sg.log(x), 0), check_numerics=True)
    np.testing.assert_array_equal(step([0.0, 1.0]), [0, 0])


def test_variables_may_share_a_name():
    x = sg.placeholder((), name="x")
    fine, bad = sg.variable(1.0, name="w"), sg.variable(1.0, name="w")
    step = sg.compile([x], (), [(fine, fine + 1), (bad, bad / x)], check_numerics=True)
    with pytest.raises(sg.NotFiniteError, match="the new value of w is not finite: divide"):
        step(0.0)
    assert [float(fine.value), float(bad.value)] == [1, 1]


def test_complex_numbers_sizes_that_are_unknown_and_half_floats():
    z = sg.placeholder(("n",), "complex64")
    step = sg.compile([z], z * z, check_numerics=True)
    for size in (0, 1, 5):
        assert step(np.full(size, 1j, np.complex64)).shape == (size,)
    with pytest.raises(sg.NotFiniteError, match="multiply"):
        step(np.array([1, 1e30], np.complex64))
    h = sg.placeholder((4,), "float16")
    with pytest.raises(sg.NotFiniteError, match="exp"):
        sg.compile([h], sg.exp(h), check_numerics=True)(np.array([0, 1, 2, 12], np.float16))


def test_a_loop_is_named_as_a_whole():
    x = sg.placeholder((), "float64", name="x")
    y = sg.fori_loop(0, 5, lambda _, v: sg.log(v), x)
    step = sg.compile([x], y, check_numerics=True)
    with pytest.raises(sg.NotFiniteError, match=r"the output is not finite: (while_loop|scan|log)"):
        step(2.0)


def test_a_singular_matrix_is_an_error():
    a = sg.placeholder((2, 2), "float64", name="a")
    step = sg.compile([a], sg.linalg.inv(a), check_numerics=True)
    np.testing.assert_allclose(step(2 * np.eye(2)), np.eye(2) / 2)
    with pytest.raises(sg.NotFiniteError, match="inv"):
        step(np.ones((2, 2)))


def test_programs_that_call_outside_are_not_run_again():
    calls = []

    @ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_float)
    )
    def root(x, out):
        calls.append(x[0])
        out[0] = float("nan") if x[0] < 0 else x[0] ** 0.5
        return 0

    x = sg.placeholder((), name="x")
    (y,) = sg.extern("root", [x], [((), "float32")], pointer=root, pure=False)
    step = sg.compile([x], y, check_numerics=True)
    assert step(4.0) == 2
    with pytest.raises(sg.NotFiniteError, match="the output is not finite\n"):
        step(-4.0)
    assert calls == [4, -4]


def test_an_exported_step_checks_too(tmp_path):
    step, _ = _training_step()
    step.export(tmp_path / "checked")
    library = sg.load(tmp_path / "checked")
    library.steps["step"](np.array([1, 2, 3], np.float32))
    before = library.variables["w"].copy()
    with pytest.raises(sg.NotFiniteError, match="the new value of w is not finite"):
        library.steps["step"](np.array([1, 0, 3], np.float32))
    np.testing.assert_array_equal(library.variables["w"], before)


@pytest.mark.parametrize("family", ["ops", "training", "control", "layers"])
def test_checks_change_no_bit_of_random_programs(family):
    for seed in range(7):
        graph, inputs = FAMILIES[family].program(seed)
        results = []
        for checks in (False, True):
            step = _step_of(graph, checks)
            before = [u.variable.value for u in graph.updates]
            results.append([*step(*inputs), *(u.variable.value for u in graph.updates)])
            for update, value in zip(graph.updates, before, strict=True):
                update.variable.value = value
        for plain, checked in zip(*results, strict=True):
            np.testing.assert_array_equal(plain, checked)


def _step_of(graph: Graph, checks: bool) -> Step:
    _, inputs = flatten(tuple(graph.inputs))
    _, outputs = flatten(list(graph.outputs))
    options = CompileOptions(
        target_named("native"), 1, False, False, Threads(2), checks_numerics=checks
    )
    return Step(graph, options, inputs, outputs)
