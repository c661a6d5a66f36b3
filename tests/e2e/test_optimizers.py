"""Everything of `sg.optim` in one compiled step: it learns, and every floor agrees on it."""

import numpy as np

import symgrad as sg
from symgrad.graph.types import Array
from symgrad.runtime.step import Step
from tests.support.floors import run_everywhere

PARTS, ROWS = 3, 16


def build() -> tuple[Step, Step, sg.optim.ExponentialMovingAverage, sg.optim.Accumulate]:
    rng = np.random.default_rng(4)
    w1 = sg.variable(rng.normal(0, 0.5, (6, 16)).astype(np.float32), name="w1")
    b1 = sg.variable(np.zeros(16, np.float32), name="b1")
    w2 = sg.variable(rng.normal(0, 0.3, (16, 1)).astype(np.float32), name="w2")
    x, y = sg.placeholder((ROWS, 6), name="x"), sg.placeholder((ROWS, 1), name="y")
    loss = sg.nn.mse(sg.tanh(x @ w1 + b1) @ w2, y)
    rule = sg.optim.AdamW(
        sg.optim.schedules.warmup(10, sg.optim.schedules.cosine(0.03, 200)),
        weight_decay=0.01,
        groups=[sg.optim.Group([b1], weight_decay=0, lr=0.01)],
    )
    optimizer = sg.optim.Accumulate(
        rule, PARTS, clip=lambda grads: sg.optim.clip_by_global_norm(grads, 1.0)
    )
    ema = sg.optim.ExponentialMovingAverage(0.9, correct_bias=True)
    updates = ema.apply(optimizer.minimize(loss), when=optimizer.is_due)
    return sg.compile([x, y], loss, updates), sg.compile([x, y], loss), ema, optimizer


def batch(seed: int) -> tuple[Array, Array]:
    x = np.random.default_rng(seed).normal(size=(ROWS, 6)).astype(np.float32)
    return x, np.sin(x[:, :1]) * x[:, 1:2]


def test_a_step_with_everything_learns():
    step, evaluate, ema, optimizer = build()
    unseen = [batch(10_000 + i) for i in range(20)]
    before = np.mean([evaluate(*b) for b in unseen])
    for i in range(200 * PARTS):
        step(*batch(i))
    after = np.mean([evaluate(*b) for b in unseen])
    with ema.swapped():
        averaged = np.mean([evaluate(*b) for b in unseen])
    assert after < before / 3
    assert averaged < before / 3
    assert averaged != after
    assert optimizer.state["step"].value == ema.state["averaged"].value == 200
    assert set(optimizer.state) == {
        "part", "step",
        *(f"{w}/{slot}" for w in ("w1", "b1", "w2") for slot in ("m", "v", "gradient")),
    }  # fmt: skip


def test_every_floor_agrees_on_a_step_with_everything():
    step, _, _, optimizer = build()
    for i in range(PARTS - 1):
        step(*batch(i))
    # The next call moves the weights, the one after it does not.
    for i in range(2):
        assert run_everywhere(step.graph, batch(7 + i), targets=("native",)) is None
        step(*batch(7 + i))
    assert optimizer.state["part"].value == 1


def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path):
    first, second = build(), build()
    for i in range(8):  # two updates, and two parts of a third
        first[0](*batch(i))
    kept, new = (
        [[w for w in step.graph.variables if w.trainable], optimizer.state, ema.state]
        for step, _, ema, optimizer in (first, second)
    )
    sg.save(tmp_path / "state", kept)
    sg.restore(tmp_path / "state", new)
    for i in range(8, 12):
        first[0](*batch(i))
        second[0](*batch(i))
    for one, other in zip(first[0].graph.variables, second[0].graph.variables, strict=True):
        np.testing.assert_array_equal(one.value, other.value)
