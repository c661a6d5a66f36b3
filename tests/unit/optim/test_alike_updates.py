"""Copies of a formula: what a rule builds for many variables is what it builds for each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.optim import alike_updates
from symgrad.optim.optimizer import Optimizer

SHAPES = [(3,), (4,), (3,), (2, 3), (), (5,), (1,), (), (4, 1), (), ()]
RULES: dict[str, Callable[[], Optimizer]] = {
    "SGD": lambda: sg.optim.SGD(0.1),
    "momentum": lambda: sg.optim.SGD(0.1, momentum=0.9, nesterov=True),
    "decay": lambda: sg.optim.SGD(0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda: sg.optim.Adam(0.1),
    "Adam, decay": lambda: sg.optim.Adam(0.1, weight_decay=0.1),
    "AdamW": lambda: sg.optim.AdamW(0.1, weight_decay=0.1),
    "Adagrad": lambda: sg.optim.Adagrad(0.1),
    "Adadelta": lambda: sg.optim.Adadelta(0.1),
    "RMSProp": lambda: sg.optim.RMSProp(0.1, momentum=0.9, centered=True),
    "Lion": lambda: sg.optim.Lion(0.1, weight_decay=0.1),
    "LAMB": lambda: sg.optim.LAMB(0.1),
    "LARS": lambda: sg.optim.LARS(0.1),
    "schedule": lambda: sg.optim.Adam(sg.optim.schedules.cosine(0.1, 100)),
}


def _variables(dtype: str) -> list[sg.Variable]:
    draws = np.random.default_rng(0)
    return [
        sg.variable(draws.standard_normal(shape), dtype=dtype, name=f"w{i}")
        for i, shape in enumerate(SHAPES)
    ]


def _program(make: Callable[[], Optimizer], dtype: str) -> sg.Step:
    variables = _variables(dtype)
    loss = sum((sg.astype(sg.sin(w), "float32").sum() for w in variables), start=sg.constant(0.0))
    return sg.compile([], loss, make().minimize(loss))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rule", RULES)
def test_copies_are_what_the_rule_builds_for_each_variable(rule, dtype, monkeypatch):
    copied = _program(RULES[rule], dtype)
    monkeypatch.setattr(alike_updates, "MIN_ALIKE", 1_000)
    built = _program(RULES[rule], dtype)
    assert copied.ir("graph") == built.ir("graph")


def test_a_copy_has_sources_of_its_own():
    variables = _variables("float32")
    loss = sum((w * w).sum() for w in variables)
    updates = sg.optim.SGD(0.1).minimize(loss)
    sources = [s for update in updates if (s := update.value.node.source) is not None]
    assert len({id(source) for source in sources}) == len(updates)
    assert {(s.line, s.scope) for s in sources} == {(sources[0].line, "SGD")}


def test_a_gradient_that_is_a_number_of_the_formula_is_no_other():
    variables = [sg.variable(np.zeros(n, np.float32)) for n in range(2, 8)]
    given = [(sg.broadcast_to(sg.constant(0.1), w.shape), w) for w in variables]
    step = sg.compile([], (), sg.optim.SGD(0.1).apply_gradients(given))
    step()
    for w in variables:
        np.testing.assert_array_equal(w.value, np.float32(0) - np.float32(0.1) * np.float32(0.1))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_learning_rate_that_is_moved_itself_is_that_of_all(is_first):
    rate = sg.variable(np.float32(0.5), name="rate")
    others = [sg.variable(np.float32(i), name=f"w{i}") for i in range(1, 6)]
    variables = [rate, *others] if is_first else [*others, rate]
    loss = sum(w * w for w in variables)
    sg.compile([], (), sg.optim.SGD(rate).minimize(loss, variables))()
    assert [float(w.value) for w in (rate, *others)] == [0.0] * 6


def test_the_formula_of_a_rule_of_a_user_is_built_for_each():
    class BySize(sg.optim.SGD):
        def _updates_of(self, g, w):
            return [sg.Update(w, w - g / w.size)]

    variables = [sg.variable(np.zeros(n, np.float32)) for n in range(2, 8)]
    loss = sum(w.sum() for w in variables)
    sg.compile([], (), BySize(0.1).minimize(loss))()
    for w in variables:
        np.testing.assert_array_equal(w.value, np.float32(-1) / np.full(w.shape, w.size, "f4"))


def test_variables_in_a_branch_are_moved_there():
    variables = [sg.variable(np.zeros(n, np.float32)) for n in range(2, 8)]
    loss = sum(w.sum() for w in variables)

    def values() -> list[sg.Tensor]:
        return [update.value for update in sg.optim.SGD(0.1).minimize(loss)]

    new = sg.cond(sg.constant(True), values, lambda: [w + 0 for w in variables])
    sg.compile([], (), [sg.Update(w, value) for w, value in zip(variables, new, strict=True)])()
    for w in variables:
        np.testing.assert_array_equal(w.value, np.full(w.shape, -np.float32(0.1)))


def test_a_formula_is_built_once_for_variables_that_are_alike(monkeypatch):
    calls = []
    own = sg.optim.Adam._move

    def move(self, w, *given):
        calls.append(w)
        return own(self, w, *given)

    monkeypatch.setattr(sg.optim.Adam, "_move", move)
    _program(RULES["Adam"], "float32")
    assert [w.shape == () for w in calls] == [False, True]
