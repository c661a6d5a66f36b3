"""Accumulation: one update by the mean of k gradients, and no change in between."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError
from symgrad.graph.types import Array
from symgrad.optim import SGD, Accumulate, Adam
from symgrad.optim.optimizer import Optimizer
from symgrad.runtime.step import Step
from tests.support.floors import run_everywhere
from tests.support.optimizers import RULES, start, update_step

K, BATCH = 4, 8


def training(optimizer: Optimizer, rows: int, dtype: str) -> tuple[Step, dict[str, sg.Variable]]:
    rng = np.random.default_rng(1)
    w = sg.variable(rng.normal(size=(5, 3)).astype(dtype), name="w")
    b = sg.variable(rng.normal(size=3).astype(dtype), name="b")
    x, y = sg.placeholder((rows, 5), dtype), sg.placeholder((rows, 3), dtype)
    updates = optimizer.minimize(sg.nn.mse(sg.tanh(x @ w + b), y))
    step = sg.compile([x, y], [], updates, opt_level=0)
    return step, {"w": w, "b": b, **optimizer.state}


def batches(dtype: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(10, K * BATCH, 5))
    return x.astype(dtype), np.tanh(x @ rng.normal(size=(5, 3))).astype(dtype)


# Adam divides by the root of small averages, which makes more of a rounding; Lion takes a sign.
_BOUNDS = {"float64": 1e-13, "float32": 1e-5}
_ACCUMULATED = sorted(RULES.keys() - {"Lion"})


# By default the dtypes take turns.
@pytest.mark.parametrize(
    ("name", "dtype", "bound"),
    [
        pytest.param(name, dtype, bound, marks=[pytest.mark.slow] if (i + j) % 2 else [])
        for i, name in enumerate(_ACCUMULATED)
        for j, (dtype, bound) in enumerate(_BOUNDS.items())
    ],
)
def test_parts_do_what_one_large_batch_does(name, dtype, bound):
    parts, state = training(Accumulate(RULES[name](), K), BATCH, dtype)
    whole, wanted = training(RULES[name](), K * BATCH, dtype)
    for x, y in zip(*batches(dtype), strict=True):
        whole(x, y)
        for part in range(K):
            rows = slice(part * BATCH, (part + 1) * BATCH)
            parts(x[rows], y[rows])
    assert set(state) == {*wanted, "w/gradient", "b/gradient", "part"}
    for key, variable in wanted.items():
        size = np.abs(variable.value).max()
        np.testing.assert_allclose(state[key].value, variable.value, rtol=0, atol=bound * size)


@pytest.mark.parametrize("name", RULES)
def test_between_updates_only_the_sum_and_its_count_change(name):
    optimizer = Accumulate(RULES[name](), 3)
    step, w = update_step(optimizer)
    kept = {n: v for n, v in {"w": w, **optimizer.state}.items() if n not in ("w/gradient", "part")}
    total = np.zeros_like(w.value)
    for i in range(9):
        before = {n: v.value for n, v in kept.items()}
        step(start(i))
        total += start(i)
        changed = {n for n, v in kept.items() if (v.value != before[n]).any()}
        if i % 3 < 2:
            assert changed == set()
            np.testing.assert_allclose(optimizer.state["w/gradient"].value, total, rtol=1e-6)
            assert optimizer.state["part"].value == i % 3 + 1
        else:
            assert changed == set(kept)
            total[...] = 0
            assert not optimizer.state["w/gradient"].value.any()
            assert optimizer.state["part"].value == 0


def test_what_the_rule_would_make_of_half_a_sum_cannot_spoil_the_state():
    # At the first call the sum is infinite, and so would be the weights.
    w, g = sg.variable(np.float32(1), name="w"), sg.placeholder((), name="g")
    step = sg.compile([g], [], Accumulate(SGD(1.0), 2).apply_gradients([(g, w)]))
    step(np.float32(np.inf))
    assert w.value == 1
    step(np.float32(1))
    assert w.value == -np.inf


def test_the_count_of_the_rule_and_its_schedule_move_with_the_updates():
    w = sg.variable(np.float64(0), name="w")
    schedule = sg.optim.schedules.piecewise([1], [1.0, 10.0])
    optimizer = Accumulate(SGD(schedule), 2)
    step = sg.compile([], [], optimizer.apply_gradients([(np.float64(1), w)]))
    values = []
    for _ in range(4):
        step()
        values.append((float(w.value), int(optimizer.state["step"].value)))
    assert values == [(0, 0), (-1, 1), (-1, 1), (-11, 2)]


def test_parts_of_one_are_the_rule_itself():
    accumulated, w = update_step(Accumulate(Adam(0.1), 1))
    plain, v = update_step(Adam(0.1))
    for i in range(3):
        accumulated(start(i))
        plain(start(i))
    np.testing.assert_array_equal(w.value, v.value)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gradients_of_16_bit_variables_are_summed_in_float32(dtype):
    # 256 + 1 is 256 in bfloat16, and 2048 + 1 is 2048 in float16.
    w, g = sg.variable(np.zeros(1, dtype), name="w"), sg.placeholder((1,), dtype, name="g")
    optimizer = Accumulate(SGD(1.0), 4)
    step = sg.compile([g], [], optimizer.apply_gradients([(g, w)]))
    for value in (2048, 1, 1):
        step(np.array([value], dtype))
    assert optimizer.state["w/gradient"].value == 2050
    assert optimizer.state["w/gradient"].dtype == sg.float32


def test_the_mean_is_clipped_and_not_its_parts():
    w, g = sg.variable(np.zeros(2), name="w"), sg.placeholder((2,), "float64", name="g")
    optimizer = Accumulate(SGD(1.0), 2, clip=lambda gs: sg.optim.clip_by_global_norm(gs, 1.0))
    step = sg.compile([g], [], optimizer.apply_gradients([(g, w)]))
    step(np.array([100.0, 0.0]))
    step(np.array([-94.0, 8.0]))
    np.testing.assert_allclose(w.value, [-0.6, -0.8])


def test_groups_are_those_of_the_rule():
    a, b = sg.variable(np.float64(0), name="a"), sg.variable(np.float64(0), name="b")
    rule = SGD(1.0, groups=[sg.optim.Group([b], lr=2.0)])
    step = sg.compile([], [], Accumulate(rule, 2).apply_gradients([(np.float64(1), a), (1.0, b)]))
    step()
    step()
    np.testing.assert_array_equal([a.value, b.value], [-1, -2])


@pytest.mark.parametrize("name", RULES)
def test_the_choice_is_made_where_values_are_stored(name):
    plain, _ = update_step(RULES[name]())
    step, w = update_step(Accumulate(RULES[name](), 3))
    # A branch would copy every variable and slot, there and back.
    assert len(step.kernels) <= len(plain.kernels) + 2
    temporaries = 2 if name in ("LAMB", "LARS") else 1
    assert step.memory.arena_bytes <= w.value.nbytes * temporaries + 512
    assert run_everywhere(step.graph, [start(1)]) is None


def test_what_cannot_be_accumulated_for_is_refused():
    text: Any = "Adam"
    half: Any = 1.5
    with pytest.raises(DTypeError, match=r"Accumulate: 'Adam' is no rule.*\n.*test_accumulation"):
        Accumulate(text, 2)
    with pytest.raises(DTypeError, match=r"Accumulate: <.*Accumulate object.*> is no rule"):
        Accumulate(Accumulate(Adam(), 2), 2)
    with pytest.raises(GraphError, match=r"Accumulate: every is 0, it must be positive\n.*test_ac"):
        Accumulate(Adam(), 0)
    with pytest.raises(DTypeError, match=r"Accumulate: every is 1.5, not an int"):
        Accumulate(Adam(), half)
