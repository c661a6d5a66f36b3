"""Impure calls of functions of C: each is made, as often and in the order it was built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler import prepare
from symgrad.graph.digest import graph_digest
from symgrad.graph.reference import evaluate
from tests.support.c_programs import needs
from tests.support.foreign_library import address_of, noted

pytestmark = needs("cc")


def note(number: Any, *, pure: bool = False) -> sg.Tensor:
    """Note a number; return the next one."""
    number = sg.asarray(number, dtype="int64")
    (y,) = sg.extern("note", [number], [((), "int64")], pointer=address_of("note"), pure=pure)
    return y


def run(outputs: Any, *values: Any) -> tuple[Any, list[int]]:
    """Return the results of a step with one input `K`, and what was noted."""
    noted()
    found = sg.compile([K], outputs, opt_level=1)(*values)
    return found, noted()


K = sg.placeholder((), "int64", name="k")


def test_calls_are_made_in_the_order_they_were_built_whatever_needs_them_first():
    first, second, third = note(K), note(K + 1), note(K + 2)
    assert run([third, first, second], 5)[1] == [5, 6, 7]
    noted()
    evaluate(sg.Graph([third, first, second], [K]), [np.array(5)])
    assert noted() == [5, 6, 7]


def test_equal_calls_are_made_each_and_pure_ones_once():
    assert run(note(K) + note(K), 5)[1] == [5, 5]
    assert run(note(K, pure=True) + note(K, pure=True), 5)[1] == [5]


def test_a_call_of_constants_is_made_at_each_run():
    step = sg.compile([K], note(7) + K, opt_level=0)
    noted()
    assert [step(1), step(1)] == [9, 9]
    assert noted() == [7, 7]


def test_a_call_whose_result_comes_to_nothing_is_made():
    is_there = sg.placeholder((), "bool")
    noted()
    sg.compile([K, is_there], sg.where(is_there & ~is_there, note(K) * 0, K), opt_level=1)(5, True)
    assert noted() == [5]


def test_calls_in_loops_and_conditions_are_made_in_each_iteration():
    def condition(i, _):
        return note(i + 100) < 103

    def body(i, total):
        return i + 1, total + note(i)

    before = note(K)
    _, total = sg.while_loop(condition, body, (sg.constant(0, "int64"), before))
    found, calls = run([note(K + 50), total], 5)
    assert calls == [5, 100, 0, 101, 1, 102, 55]
    assert found[1] == 6 + 1 + 2


def test_a_loop_that_is_run_for_its_calls_alone_is_run():
    def body(i, carried):
        total, other = carried
        return total + i, note(other)

    total, _ = sg.fori_loop(0, 3, body, (K, K))
    other = sg.fori_loop(0, 2, lambda _, v: note(v), K)
    assert run([total, other], 5)[1] == [5, 6, 7, 5, 6]
    both = sg.fori_loop(0, 3, body, (K, K))
    assert run(list(both), 5)[1] == [5, 6, 7]


def test_calls_that_change_in_no_iteration_stay_in_the_loop():
    total = sg.fori_loop(0, 3, lambda _, v: v + note(K), K)
    assert run(total, 5) == (5 + 3 * 6, [5, 5, 5])


def test_one_branch_makes_its_calls():
    before = note(K)
    chosen = sg.cond(K > 3, lambda: note(note(K + 10)), lambda: K)
    after = note(K + 20)
    step = [after, chosen, before]
    assert run(step, 5)[1] == [5, 15, 16, 25]
    assert run(step, 2)[1] == [2, 22]


def test_a_function_makes_its_calls_wherever_it_is_called():
    traced = sg.function(lambda v: note(v) + note(v))
    a, between, b = traced(K), note(K + 1), traced(K)
    assert run([b, between, a], 5)[1] == [5, 5, 6, 5, 5]
    nested = sg.function(lambda v: sg.fori_loop(0, 2, lambda i, u: u + traced(i), v))
    c, d = nested(K), nested(K)
    assert run([d, c], 5)[1] == [0, 0, 1, 1] * 2


def test_a_batch_makes_them_row_by_row():
    noted()
    found = sg.vmap(lambda v: note(v) * 2)(np.arange(3))
    assert found.tolist() == [2, 4, 6]
    assert noted() == [0, 1, 2]


def test_a_gradient_makes_no_calls_of_its_own():
    x = sg.placeholder((), "float64")
    made = note(K)
    y = x * x * sg.astype(made, "float64")
    (g,) = sg.gradients(y, [x])
    noted()
    assert sg.compile([K, x], [y, g], opt_level=1)(2, 3.0) == [27, 18]
    assert noted() == [2]


def test_none_is_made_after_one_that_fails():
    with pytest.raises(sg.ForeignCallError, match="status 1"):
        run([note(K), note(K + 8), note(K + 9)], 5)
    assert noted() == [5, 13]


def test_a_digest_does_not_tell_what_was_built_before():
    def digest() -> str | None:
        graph = sg.Graph([note(K), sg.cond(K > 0, lambda: note(K), lambda: K)], [K])
        return graph_digest(prepare(graph).graph)

    assert digest() == digest() is not None


def test_what_stands_for_the_world_is_no_variable_of_the_users(tmp_path):
    step = sg.compile([K], note(K), opt_level=0)
    step.export(tmp_path / "noting", formats=("h",))
    assert "There are no variables" in (tmp_path / "noting.h").read_text()
