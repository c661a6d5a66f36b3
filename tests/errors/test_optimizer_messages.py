"""The full text of the errors of `sg.optim`: what, the values, the line, a hint.

`<here>` in a text stands for the line of the call that goes wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from tests.support.refusals import assert_refused

W = sg.variable(np.zeros((2, 3), np.float32), name="w")
ONES = np.ones((2, 3), np.float32)
FIRST = sg.optim.Group([W], lr=0.1)


def test_a_hyperparameter_out_of_range():
    assert_refused(lambda: sg.optim.LAMB(beta2=1), ValueError, """
        LAMB: beta2 is 1, not in [0, 1)
          --> <here>
    """)  # fmt: skip


def test_a_hyperparameter_of_another_type():
    rho: Any = "0.9"
    assert_refused(lambda: sg.optim.RMSProp(rho=rho), TypeError, """
        RMSProp: rho is '0.9', not a number
          --> <here>
    """)  # fmt: skip


def test_a_group_with_an_argument_the_optimizer_does_not_have():
    group = sg.optim.Group([W], weight=1)
    assert_refused(lambda: sg.optim.SGD(0.1, groups=[group]), ValueError, """
        SGD: a group sets weight, which is none of lr, momentum, nesterov, weight_decay
          --> <here>
    """)  # fmt: skip


def test_a_group_with_a_hyperparameter_out_of_range():
    group = sg.optim.Group([W], lr=-1)
    assert_refused(lambda: sg.optim.SGD(0.1, groups=[group]), ValueError, """
        SGD: lr is -1, it must not be negative
          --> <here>
    """)  # fmt: skip


def test_a_variable_in_two_groups():
    second = sg.optim.Group([W], momentum=0.9)
    assert_refused(lambda: sg.optim.SGD(0.1, groups=[FIRST, second]), ValueError, """
        SGD: <Tensor w: f32[2, 3]> is in the groups twice
          --> <here>
    """)  # fmt: skip


def test_two_gradients_of_one_variable():
    pairs = [(ONES, W), (ONES, W)]
    assert_refused(lambda: sg.optim.Adam().apply_gradients(pairs), ValueError, """
        Adam.apply_gradients: <Tensor w: f32[2, 3]> has two gradients
          --> <here>
          hint: add them
    """)  # fmt: skip


def test_no_gradient_at_all():
    loss = sg.sum(sg.stop_gradient(W))
    assert_refused(lambda: sg.optim.Adam().minimize(loss, [W]), ValueError, """
        Adam.apply_gradients: no variable has a gradient: w
          --> <here>
          hint: sg.explain_none(loss, variable) tells where it is cut
    """)  # fmt: skip


def test_boundaries_that_do_not_grow():
    piecewise = sg.optim.schedules.piecewise
    assert_refused(lambda: piecewise([20, 10], [0.3, 0.2, 0.1]), ValueError, """
        schedules.piecewise: boundaries [20, 10] do not grow
          --> <here>
    """)  # fmt: skip


def test_a_rate_among_schedules():
    rates: list[Any] = [0.1, sg.optim.schedules.constant(0.2)]
    assert_refused(lambda: sg.optim.schedules.sequence(rates, [10]), TypeError, """
        schedules.sequence: schedules[0] is 0.1, not a schedule
          --> <here>
          hint: sg.optim.schedules.constant makes one of a rate
    """)  # fmt: skip


def test_one_gradient_where_a_list_is_clipped():
    g: Any = sg.placeholder((3,), name="g")
    assert_refused(lambda: sg.optim.clip_by_global_norm(g, 1.0), TypeError, """
        clip_by_global_norm: grads is <Tensor g: f32[3]>, not a list of gradients
          --> <here>
    """)  # fmt: skip


def test_accumulation_for_no_optimizer():
    assert_refused(lambda: sg.optim.Accumulate(0.1, 4), TypeError, """
        Accumulate: 0.1 is no rule such as sg.optim.Adam()
          --> <here>
    """)  # fmt: skip


def test_the_average_of_a_variable_that_has_none():
    ema = sg.optim.ExponentialMovingAverage(0.9)
    assert_refused(lambda: ema.average(W), ValueError, """
        ExponentialMovingAverage.average: <Tensor w: f32[2, 3]> is not averaged
          --> <here>
    """)  # fmt: skip
