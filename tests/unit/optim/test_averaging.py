"""Averages of weights: of the new values, with and without correction, read and swapped."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError
from symgrad.optim import SGD, ExponentialMovingAverage
from tests.support.floors import run_everywhere


def falling(value: float = 1.0, dtype: Any = np.float64) -> tuple[sg.Variable, list[sg.Update]]:
    """Return a variable and the update that lowers it by 0.25."""
    w = sg.variable(np.asarray(value, dtype), name="w")
    return w, SGD(0.25).apply_gradients([(np.ones((), dtype), w)])


def test_the_new_value_of_the_same_step_is_averaged():
    w, updates = falling()
    ema = ExponentialMovingAverage(0.5)
    step = sg.compile([], w, ema.apply(updates))
    assert step() == 1
    # from 1 half of the way to 0.75
    assert ema.state["w/average"].value == 0.875
    step()
    np.testing.assert_array_equal([w.value, ema.state["w/average"].value], [0.5, 0.6875])


def test_a_hundred_steps_of_several_weights_follow_the_formula():
    rng = np.random.default_rng(0)
    variables = [sg.variable(rng.normal(size=shape), name="w") for shape in ((3, 5), (7,))]
    loss = sum((sg.sum(sg.tanh(w) ** 2) for w in variables), sg.constant(0.0))
    ema = ExponentialMovingAverage(0.9)
    step = sg.compile([], [], ema.apply(sg.optim.Adam(0.05).minimize(loss)))
    wanted = [w.value for w in variables]
    for _ in range(100):
        step()
        wanted = [0.9 * a + 0.1 * w.value for a, w in zip(wanted, variables, strict=True)]
    for got, want in zip(ema.state.values(), wanted, strict=True):
        np.testing.assert_allclose(got.value, want, rtol=1e-12, atol=1e-14)
    assert set(ema.state) == {"w/average", "w_1/average"}
    assert ema.variables == variables


def test_a_corrected_average_knows_nothing_of_the_start():
    w, updates = falling(100.0)
    ema = ExponentialMovingAverage(0.5, correct_bias=True)
    step = sg.compile([], [], ema.apply(updates))
    read = sg.compile([], ema.average(w))
    assert read() == 100  # before the first step
    step()
    assert read() == 99.75
    step()
    np.testing.assert_allclose(read(), (99.75 + 2 * 99.5) / 3, rtol=1e-15)
    assert set(ema.state) == {"w/average", "averaged"}


def test_an_evaluation_may_be_built_from_averages():
    w, updates = falling()
    ema = ExponentialMovingAverage(0.5)
    step = sg.compile([], [], ema.apply(updates))
    evaluate = sg.compile([], ema.average(w) * 8)
    step()
    assert evaluate() == 7


@pytest.mark.parametrize("correct_bias", [False, True])
def test_programs_see_the_averages_until_the_block_ends(correct_bias):
    w, updates = falling()
    ema = ExponentialMovingAverage(0.5, correct_bias)
    step = sg.compile([], [], ema.apply(updates))
    read, average = sg.compile([], w * 1.0), sg.compile([], ema.average(w))
    with ema.swapped():
        assert read() == 1
    step()
    step()
    with ema.swapped():
        np.testing.assert_allclose(read(), average(), rtol=1e-15)
        assert read() != 0.5
    assert read() == 0.5


def test_an_error_in_the_block_brings_the_weights_back():
    w, updates = falling()
    ema = ExponentialMovingAverage(0.5)
    step = sg.compile([], [], ema.apply(updates))
    step()

    def fail() -> None:
        with ema.swapped():
            assert w.value == 0.875
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert w.value == 0.75


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_averages_of_16_bit_variables_are_float32(dtype):
    w, updates = falling(2.0, dtype)
    ema = ExponentialMovingAverage(0.999)
    step = sg.compile([], [], ema.apply(updates))
    step()
    average = ema.state["w/average"].value
    assert average.dtype == np.float32
    np.testing.assert_allclose(average, 2 - 0.001 * 0.25, rtol=1e-7)  # 2 in 16 bits
    assert sg.run(ema.average(w)) == 2
    with ema.swapped():
        np.testing.assert_array_equal([w.value, w.value.dtype], [2, dtype])
    assert w.value == 1.75


def test_only_trainable_variables_are_averaged_unless_others_are_named():
    _, updates = falling()
    still = sg.variable(np.float64(3), name="still")
    count = sg.variable(np.float64(0), trainable=False, name="count")
    updates.append(sg.Update(count, count + 1))
    default, named = ExponentialMovingAverage(0.5), ExponentialMovingAverage(0.5)
    step = sg.compile([], [], named.apply(default.apply(updates), [still, count]))
    step()
    assert set(default.state) == {"w/average"}
    assert {n: v.value for n, v in named.state.items()} == {
        "still/average": 3,
        "count/average": 0.5,
    }


def test_averages_wait_for_an_accumulated_update():
    w = sg.variable(np.float64(1), name="w")
    optimizer = sg.optim.Accumulate(SGD(0.25), 3)
    ema = ExponentialMovingAverage(0.5, correct_bias=True)
    updates = optimizer.apply_gradients([(np.float64(1), w)])
    step = sg.compile([], [], ema.apply(updates, when=optimizer.is_due))
    for _ in range(2):
        step()
        np.testing.assert_array_equal(
            [ema.state["w/average"].value, ema.state["averaged"].value], [0, 0]
        )
    step()
    assert w.value == 0.75
    np.testing.assert_array_equal(
        [ema.state["w/average"].value, ema.state["averaged"].value], [0.375, 1]
    )


def test_averages_join_the_kernel_of_the_update():
    w = sg.variable(np.zeros((19, 37), np.float32), name="w")
    g = sg.placeholder((19, 37), name="g")
    step = sg.compile(
        [g], [], ExponentialMovingAverage(0.9).apply(SGD(0.1, 0.9).apply_gradients([(g, w)]))
    )
    assert len(step.kernels) == 1
    assert step.memory.arena_bytes == 0
    array = np.random.default_rng(0).normal(size=(19, 37)).astype(np.float32)
    assert run_everywhere(step.graph, [array]) is None


def test_what_cannot_be_averaged_is_refused():
    w, updates = falling()
    ema = ExponentialMovingAverage(0.5)
    text: Any = "w"
    with pytest.raises(GraphError, match=r"Average: decay is 1, not in \[0, 1\)\n.*test_averag"):
        ExponentialMovingAverage(1)
    with pytest.raises(GraphError, match=r"apply: there is no variable to average\n.*test_averag"):
        ema.apply([])
    with pytest.raises(DTypeError, match=r"apply: 'w' is no variable"):
        ema.apply(updates, [text])
    with pytest.raises(GraphError, match=r"apply: .* is given twice"):
        ema.apply(updates, [w, w])
    with pytest.raises(DTypeError, match=r"apply: when is f64\[\], not bool\[\]"):
        ema.apply(updates, when=w)
    with pytest.raises(GraphError, match=r"average: <.* w.*> is not averaged\n.*test_averaging"):
        ema.average(w)
    assert dict(ema.state) == {}
