"""What rules share: one pass in place over the memory, every floor agreeing, groups."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError
from tests.support.floors import run_everywhere
from tests.support.optimizers import RULES, start, update_step

# What a norm takes has to be reduced before anything moves; Lion's two results share no operation.
KERNELS = {"LARS": 3, "LAMB": 5, "Lion": 2, "Adam": 2, "AdamW": 2}
rules = pytest.mark.parametrize("name", RULES)


@rules
def test_an_update_is_few_kernels_and_takes_no_memory_for_slots(name):
    step, w = update_step(RULES[name]())
    assert len(step.kernels) <= KERNELS.get(name, 1)
    # Scalars, each on a cache line of its own; LAMB's step is stored until its norm is known.
    assert step.memory.arena_bytes <= (w.value.nbytes if name == "LAMB" else 0) + 512


@rules
def test_a_step_writes_over_the_old_values(name):
    optimizer = RULES[name]()
    step, w = update_step(optimizer)
    before = {n: (v.state.array, v.value) for n, v in {"w": w, **optimizer.state}.items()}
    step(start(1))
    for key, variable in {"w": w, **optimizer.state}.items():
        storage, old = before[key]
        assert variable.state.array is storage
        assert (variable.value != old).any(), key


@rules
def test_every_floor_agrees(name):
    step, _ = update_step(RULES[name]())
    assert run_everywhere(step.graph, [start(1)]) is None


@rules
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_variables_move_as_float32_ones_that_are_rounded(name, dtype):
    halves, singles = RULES[name](), RULES[name]()
    w = sg.variable(start().astype(dtype), name="w")
    wide = sg.variable(w.value.astype(np.float32), name="w")
    g = start(1).astype(dtype)
    sg.compile([], [], halves.apply_gradients([(g, w)]))()
    sg.compile([], [], singles.apply_gradients([(g.astype(np.float32), wide)]))()
    np.testing.assert_array_equal(w.value, wide.value.astype(dtype))
    for slot, other in zip(halves.state.values(), singles.state.values(), strict=True):
        np.testing.assert_array_equal(slot.value, other.value)
        assert slot.dtype == other.dtype


# ------------------------------------------------------------------------------------- groups


def test_a_group_has_its_own_hyperparameters_and_the_rest_of_the_optimizer():
    a, b, c = (sg.variable(np.float64(1), name=name) for name in "abc")
    groups = [sg.optim.Group([a], lr=0.5), sg.optim.Group([b], momentum=0.5, weight_decay=2)]
    optimizer = sg.optim.SGD(0.1, groups=groups)
    one = np.float64(1)
    step = sg.compile([], [], optimizer.apply_gradients([(one, a), (one, b), (one, c)]))
    step()
    np.testing.assert_allclose([a.value, b.value, c.value], [0.5, 1 - 0.1 * 3, 0.9])
    assert set(optimizer.state) == {"b/momentum"}


@rules
def test_groups_of_equal_hyperparameters_change_nothing(name):
    plain = RULES[name]()
    step, w = update_step(plain)
    v = sg.variable(start(), name="w")
    g = sg.placeholder(v.shape, name="g")
    group = sg.optim.Group([v], lr=plain.lr)
    arguments = {a: getattr(plain, a) for a in plain._arguments()}
    grouped = type(plain)(**arguments, groups=[group])
    other = sg.compile([g], [], grouped.apply_gradients([(g, v)]))
    for i in range(3):
        step(start(i + 1))
        other(start(i + 1))
    np.testing.assert_array_equal(v.value, w.value)
    assert set(grouped.state) == set(plain.state)


def test_groups_count_one_step():
    a, b = sg.variable(np.float64(0), name="a"), sg.variable(np.float64(0), name="b")
    optimizer = sg.optim.Adam(0.5, epsilon=0, groups=[sg.optim.Group([b], lr=0.25)])
    one = np.float64(1)
    step = sg.compile([], [], optimizer.apply_gradients([(one, a), (one, b)]))
    step()
    step()
    np.testing.assert_allclose([a.value, b.value], [-1, -0.5])
    assert set(optimizer.state) == {"step", "a/m", "a/v", "b/m", "b/v"}
    assert optimizer.state["step"].value == 2


def test_a_group_may_have_a_schedule():
    a, b = sg.variable(np.float64(0), name="a"), sg.variable(np.float64(0), name="b")
    falling = sg.optim.schedules.linear(1.0, 0.0, 4)
    optimizer = sg.optim.SGD(1.0, groups=[sg.optim.Group([b], lr=falling)])
    one = np.float64(1)
    step = sg.compile([], [], optimizer.apply_gradients([(one, a), (one, b)]))
    for _ in range(5):
        step()
    np.testing.assert_array_equal([a.value, b.value], [-5, -2.5])
    assert set(optimizer.state) == {"step"}


def lines_of(updates: list[sg.Update], op: str) -> set[tuple[str, str]]:
    """Return the functions whose lines have built the nodes of an op, and what these call."""
    nodes = sg.Graph([u.value for u in updates], updates=updates).nodes
    found = [n for n in nodes if n.op == op and n.source is not None and n.origin is None]
    return {(n.source.function, n.called) for n in found if n.source is not None}


def test_what_an_optimizer_builds_is_of_the_line_that_calls_it_and_a_schedule_of_its_own():
    w = sg.variable([1.0, 2.0], name="w")

    def halved(step: Any) -> Any:
        return 0.5 / sg.maximum(step, 1)

    def built() -> list[sg.Update]:
        return sg.optim.Adam(halved).minimize(sg.sum(w * w))

    updates = built()
    assert lines_of(updates, "maximum") == {("halved", "maximum")}
    assert lines_of(updates, "sqrt") == {("built", "sqrt")}
    assert ("built", "divide") in lines_of(updates, "divide")
    assert ("halved", "divide") in lines_of(updates, "divide")


def test_what_a_user_adds_to_a_rule_is_of_its_own_line():
    class Clipped(sg.optim.Adam):
        def _decayed(self, g, w):
            return sg.clip(g, -1, 1)

    w = sg.variable([1.0, 2.0], name="w")
    (line,) = lines_of(Clipped(0.1).minimize(sg.sum(w * w)), "minimum")
    assert line[0] == "_decayed"


def test_a_group_of_variables_that_do_not_move_is_no_error():
    a, idle = sg.variable(np.float64(1), name="a"), sg.variable(np.float64(1), name="idle")
    optimizer = sg.optim.SGD(0.1, groups=[sg.optim.Group([idle], lr=7)])
    assert [u.variable.name for u in optimizer.minimize(a * a)] == ["a"]


def test_groups_that_make_no_sense_are_refused():
    w = sg.variable(np.float32(1), name="w")
    text: Any = "w"
    with pytest.raises(
        GraphError, match=r"SGD: <Tensor w: f32.*> is in the groups twice\n.*test_rul"
    ):
        sg.optim.SGD(0.1, groups=[sg.optim.Group([w], lr=1), sg.optim.Group([w], momentum=0.5)])
    with pytest.raises(GraphError, match=r"SGD: .* is in the groups twice"):
        sg.optim.SGD(0.1, groups=[sg.optim.Group([w, w], lr=1)])
    with pytest.raises(GraphError, match=r"SGD: a group sets beta1, which is none of lr, momentum"):
        sg.optim.SGD(0.1, groups=[sg.optim.Group([w], beta1=0.9)])
    with pytest.raises(GraphError, match=r"SGD: momentum is 2, not in \[0, 1\)\n.*test_rule.py"):
        sg.optim.SGD(0.1, groups=[sg.optim.Group([w], momentum=2)])
    with pytest.raises(DTypeError, match="'w' is no variable"):
        sg.optim.Group([text])
    with pytest.raises(DTypeError, match="'w' is no Group"):
        sg.optim.SGD(0.1, groups=[text])


# ---------------------------------------------------------------------------- hyperparameters

OUT_OF_RANGE = [
    ("SGD", {"lr": 0.1, "weight_decay": -1}, "weight_decay is -1, it must not be negative"),
    ("Adam", {"weight_decay": -1}, "weight_decay is -1, it must not be negative"),
    ("AdamW", {"beta2": 1}, r"beta2 is 1, not in \[0, 1\)"),
    ("AdamW", {"weight_decay": -0.1}, "weight_decay is -0.1, it must not be negative"),
    ("RMSProp", {"rho": 1.0}, r"rho is 1.0, not in \[0, 1\)"),
    ("RMSProp", {"momentum": -1}, r"momentum is -1, not in \[0, 1\)"),
    ("RMSProp", {"epsilon": float("nan")}, "epsilon is nan, it must not be negative"),
    ("Adagrad", {"initial_accumulator": -1}, "initial_accumulator is -1, it must not be negative"),
    ("Adagrad", {"lr": -1}, "lr is -1, it must not be negative"),
    ("Adadelta", {"rho": -0.5}, r"rho is -0.5, not in \[0, 1\)"),
    ("Adadelta", {"epsilon": 0}, "epsilon is 0, it must be positive"),
    ("Lion", {"beta1": 1.5}, r"beta1 is 1.5, not in \[0, 1\)"),
    ("LARS", {"lr": 1, "trust_coefficient": 0}, "trust_coefficient is 0, it must be positive"),
    ("LARS", {"lr": 1, "momentum": 1}, r"momentum is 1, not in \[0, 1\)"),
    ("LAMB", {"max_trust_ratio": -1}, "max_trust_ratio is -1, it must be positive"),
    ("LAMB", {"beta1": -1}, r"beta1 is -1, not in \[0, 1\)"),
]


@pytest.mark.parametrize(("optimizer", "arguments", "problem"), OUT_OF_RANGE)
def test_settings_out_of_range_are_refused(optimizer, arguments, problem):
    with pytest.raises(GraphError, match=rf"^{optimizer}: {problem}\n.*test_rule.py"):
        getattr(sg.optim, optimizer)(**arguments)


def test_settings_of_another_type_are_refused():
    word: Any = "0.9"
    tensor: Any = sg.placeholder(())
    with pytest.raises(DTypeError, match=r"^SGD: momentum is '0.9', not a number\n.*test_rule.py"):
        sg.optim.SGD(0.1, momentum=word)
    with pytest.raises(DTypeError, match=r"^AdamW: weight_decay is <.*>, not a number\n"):
        sg.optim.AdamW(weight_decay=tensor)
    with pytest.raises(DTypeError, match=r"^LAMB: max_trust_ratio is True, not a number\n"):
        sg.optim.LAMB(max_trust_ratio=True)


def test_a_schedule_that_gives_no_rate_is_refused():
    w = sg.variable(np.zeros(2, np.float32), name="w")
    for schedule, problem in (
        (lambda _: "fast", "is 'fast'"),
        (lambda s: s, "i64"),
        (lambda _: w, "scalar"),
    ):
        with pytest.raises(
            (DTypeError, ValueError), match=f"SGD: the result of the schedule.*{problem}"
        ):
            sg.optim.SGD(schedule).minimize((w * w).sum())
