"""Compiled steps as a user meets them: nests, out, updates, sizes, levels, threads."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.nests import flatten
from symgrad.runtime import function
from symgrad.runtime import step as step_module
from symgrad.runtime.executable import Executable

F32 = np.float32
A = np.arange(6, dtype=F32).reshape(2, 3)
B = np.array([10, 20, 30], F32)


def make() -> tuple[sg.Tensor, sg.Tensor]:
    return sg.placeholder((2, 3), name="x"), sg.placeholder((3,), name="y")


# --------------------------------------------------------------------------------------- nests


def test_a_single_output_comes_back_as_an_array():
    x, y = make()
    result = sg.compile([x, y], x + y)(A, B)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, A + B)


def test_a_scalar_comes_back_as_an_array_of_no_axes():
    x, _ = make()
    result = sg.compile([x], sg.sum(x))(A)
    assert (type(result), result.shape, result.item()) == (np.ndarray, (), 15.0)


@pytest.mark.parametrize(
    "nest",
    [
        lambda a, b: [a, b],
        lambda a, b: (a, b),
        lambda a, b: {"sum": a, "parts": (b, [a])},
        lambda a, b: [a],
        lambda a, b: (a,),
        lambda a, b: {"a": a, "none": None},
        lambda a, b: [],
        lambda a, b: (),
        lambda a, b: {},
        lambda a, b: None,
    ],
)
def test_outputs_come_back_in_their_nest(nest):
    x, y = make()
    step = sg.compile([x, y], nest(x + y, x * 2))
    wanted = nest(A + B, A * 2)
    found = step(A, B)
    assert flatten(found)[1] == flatten(wanted)[1]
    for a, b in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
        np.testing.assert_array_equal(a, b)
    # On the way through conversion too.
    found = step(np.asfortranarray(A), B)
    assert flatten(found)[1] == flatten(wanted)[1]


def test_a_nest_of_outputs_takes_no_conversion_of_arguments_that_fit(monkeypatch):
    x, y = make()
    step = sg.compile([x, y], [x + y, {"twice": x * 2}])
    monkeypatch.setattr(step_module, "convert", None)
    first, second = step(A, B)
    np.testing.assert_array_equal(first, A + B)
    np.testing.assert_array_equal(second["twice"], A * 2)


def test_arguments_may_be_nests():
    x, y = make()
    step = sg.compile([{"x": x, "more": [y, {"scale": sg.placeholder((), name="s")}]}], x + y)
    given = {"x": A, "more": [B, {"scale": F32(1)}]}
    np.testing.assert_array_equal(step(given), A + B)


def test_nests_may_stand_beside_arrays():
    x, y = make()
    z = sg.placeholder((), name="z")
    step = sg.compile([z, (x, y)], {"r": x * z + y})
    np.testing.assert_array_equal(step(F32(2), (A, B))["r"], A * 2 + B)


def test_a_lone_input_needs_no_list():
    x, _ = make()
    np.testing.assert_array_equal(sg.compile(x, x * 2)(A), A * 2)


def test_a_number_among_the_outputs_is_a_constant():
    x, _ = make()
    one, two = sg.compile([x], [1.5, x])(A)
    assert (one.dtype, one.item()) == (F32, 1.5)
    np.testing.assert_array_equal(two, A)


def test_outputs_are_fresh_at_each_call():
    x, _ = make()
    step = sg.compile([x], [x, x * 1])
    first, second = step(A), step(A + 1)
    np.testing.assert_array_equal(first[0], A)
    arrays = [*first, *second, A]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


# ----------------------------------------------------------------------------------------- out


def test_out_is_written_and_returned():
    x, y = make()
    out = np.empty((2, 3), F32)
    assert sg.compile([x, y], x + y)(A, B, out=out) is out
    np.testing.assert_array_equal(out, A + B)


def test_out_has_the_nest_of_the_outputs():
    x, y = make()
    step = sg.compile([x, y], {"sum": x + y, "rest": [x * 2]})
    out = {"sum": np.empty((2, 3), F32), "rest": [np.empty((2, 3), F32)]}
    assert step(A, B, out=out) is out
    np.testing.assert_array_equal(out["sum"], A + B)
    np.testing.assert_array_equal(out["rest"][0], A * 2)


def test_out_may_be_an_input():
    x, y = make()
    step = sg.compile([x, y], sg.flip(x) + y)
    out = A.copy()
    step(out, B, out=out)
    np.testing.assert_array_equal(out, A[::-1, ::-1] + B)


def test_out_may_overlap_an_input():
    x = sg.placeholder((4,))
    memory = np.arange(6, dtype=F32)
    sg.compile([x], x * 10)(memory[:4], out=memory[2:])
    np.testing.assert_array_equal(memory, [0, 1, 0, 10, 20, 30])


def test_out_may_lie_in_memory_with_gaps():
    x, y = make()
    memory = np.zeros((3, 4), F32)
    sg.compile([x, y], x + y)(A, B, out=memory.T[1:3, :])
    np.testing.assert_array_equal(memory.T[1:3], A + B)
    assert not memory.T[0].any()
    assert not memory.T[3].any()


# ------------------------------------------------------------------------------------- updates


def test_a_step_updates_state_and_gives_the_old_value():
    w = sg.variable([1.0, 2.0], name="w")
    step = sg.compile([], w, [(w, w * 2)])
    np.testing.assert_array_equal(step(), [1, 2])
    np.testing.assert_array_equal(step(), [2, 4])
    np.testing.assert_array_equal(w.value, [4, 8])


def test_a_value_that_is_assigned_is_seen_by_the_step():
    w = sg.variable([1.0, 2.0])
    step = sg.compile([], w + 0)
    w.value = [5, 6]
    np.testing.assert_array_equal(step(), [5, 6])


def test_a_number_is_a_new_value_in_the_dtype_of_its_variable():
    counter = sg.variable(0, dtype="int64")
    step = sg.compile([], (), [(counter, counter + 1)])
    for _ in range(5):
        assert step() == ()
    assert counter.value == 5
    sg.compile([], (), [(counter, 7)])()
    assert counter.value == 7


def test_steps_share_their_variables():
    w = sg.variable([1.0])
    add, double = sg.compile([], (), [(w, w + 1)]), sg.compile([], w, [(w, w * 2)])
    add()
    double()
    add()
    np.testing.assert_array_equal(w.value, [5])


# --------------------------------------------------------------------------------------- sizes


def test_each_set_of_sizes_is_compiled_once(monkeypatch):
    made = []
    original = Executable.__init__

    def counted(self, graph, options, sizes):
        original(self, graph, options, sizes)
        made.append(self.graph.inputs[0].shape)

    monkeypatch.setattr(Executable, "__init__", counted)
    a, b = sg.placeholder(("n", "m"), name="a"), sg.placeholder(("m",), name="b")
    step = sg.compile([a, b], sg.sum(a * b, axis=1))
    assert made == []
    for shape in ((2, 3), (4, 3), (2, 3), (0, 3), (1, 1), (4, 3)):
        given = np.ones(shape, F32), np.arange(shape[1], dtype=F32)
        np.testing.assert_array_equal(step(*given), given[0] @ given[1])
    assert made == [(2, 3), (4, 3), (0, 3), (1, 1)]


def test_sizes_that_no_name_was_given_are_met_at_the_call():
    a, b = sg.placeholder((None,)), sg.placeholder((None, 2))
    step = sg.compile([a, b], [sg.sum(a), sg.reshape(b, (-1,)), a[1:]])
    total, flat, rest = step(np.ones(4, F32), np.ones((3, 2), F32))
    assert (total.item(), flat.shape, rest.shape) == (4.0, (6,), (3,))


def test_out_of_unknown_sizes():
    a = sg.placeholder(("n",))
    step = sg.compile([a], a * 2)
    out = np.empty(3, F32)
    step(np.ones(3, F32), out=out)
    np.testing.assert_array_equal(out, [2, 2, 2])
    with pytest.raises(ValueError, match=r"out 0: shape \[3\] was given, \[4\] is needed"):
        step(np.ones(4, F32), out=out)


def test_state_is_shared_by_all_sizes():
    a, total = sg.placeholder(("n",)), sg.variable(0.0)
    step = sg.compile([a], (), [(total, total + sg.sum(a))])
    for n in (1, 2, 3):
        step(np.ones(n, F32))
    assert total.value == 6


# ----------------------------------------------------------------------------------------- run


def test_run_computes_what_is_fetched():
    x, y = make()
    np.testing.assert_array_equal(sg.run(x + y, {x: A, y: B}), A + B)
    found = sg.run({"a": x * 2, "b": [sg.constant(3)]}, {x: A})
    np.testing.assert_array_equal(found["a"], A * 2)
    assert found["b"][0] == 3


def test_run_compiles_the_same_fetches_once(monkeypatch):
    made = []
    monkeypatch.setattr(function, "_run_cache", type(function._run_cache)())
    original = function.compile

    def counted(*arguments: Any, **options: Any) -> sg.Step:
        made.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(function, "compile", counted)
    x, y = make()
    z = x + y
    for _ in range(3):
        sg.run(z, {x: A, y: B})
    sg.run([z], {x: A, y: B})
    sg.run(z, {y: B, x: A})
    sg.run([z], {x: A, y: B})
    assert len(made) == 3


def test_run_keeps_so_many_programs(monkeypatch):
    monkeypatch.setattr(function, "_run_cache", type(function._run_cache)())
    monkeypatch.setattr(function, "_RUN_CACHE_SIZE", 2)
    x, _ = make()
    for k in range(4):
        sg.run(x * k, {x: A})
    assert len(function._run_cache) == 2


# ----------------------------------------------------------------------------- levels, targets


def training_step(**options: Any) -> tuple[sg.Variable, sg.Step]:
    w = sg.variable(np.linspace(-1, 1, 12, dtype=F32).reshape(3, 4), name="w")
    x = sg.placeholder((5, 3), name="x")
    loss = sg.mean(sg.square(sg.nn.softmax(x @ w) - 0.25))
    (g,) = sg.gradients(loss, [w])
    assert g is not None
    return w, sg.compile([x], loss, [(w, w - 0.5 * g)], **options)


@pytest.mark.parametrize(
    ("target", "fast_math"),
    [
        ("native", False),
        ("x86-64-v3", True),
        pytest.param("native", True, marks=pytest.mark.slow),
        pytest.param("x86-64-v3", False, marks=pytest.mark.slow),
        pytest.param("x86-64", False, marks=pytest.mark.slow),
        pytest.param("x86-64", True, marks=pytest.mark.slow),
    ],
)
def test_all_levels_agree(target, fast_math):
    x = np.linspace(-2, 2, 15, dtype=F32).reshape(5, 3)
    found = []
    for level in range(4):
        w, step = training_step(opt_level=level, target=target, fast_math=fast_math)
        losses = [step(x).item() for _ in range(3)]
        assert losses == sorted(losses, reverse=True)
        found.append((*losses, *w.value.reshape(-1)))
    np.testing.assert_allclose(found, [found[0]] * 4, rtol=1e-5)


# ------------------------------------------------------------------------------ life, threads


def test_a_step_that_is_dropped_is_gone():
    x, y = make()
    step = sg.compile([x, y], x + y, cache=False)
    step(A, B)
    step(A[::-1], B)
    seen = weakref.ref(step), weakref.ref(step.executable)
    del step
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_a_state_outlives_its_variable_in_a_step():
    w = sg.variable([1.0, 2.0])
    step = sg.compile([], w * 1, [(w, w + 1)])
    del w
    gc.collect()
    step()
    np.testing.assert_array_equal(step(), [2, 3])


def test_an_output_outlives_its_step():
    x, y = make()
    result = sg.compile([x, y], x + y, cache=False)(A, B)
    gc.collect()
    np.testing.assert_array_equal(result, A + B)


def test_threads_may_call_one_step_at_once():
    a = sg.placeholder(("n", 8), name="a")
    counter = sg.variable(0, dtype="int64")
    step = sg.compile([a], sg.sum(sg.tanh(a @ sg.ones((8, 8))), axis=1), [(counter, counter + 1)])
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for turn in range(50):
            array = rng.standard_normal((1 + (seed + turn) % 4, 8)).astype(F32)
            wanted = np.tanh(array @ np.ones((8, 8), F32)).sum(1)
            if not np.allclose(step(array), wanted, rtol=1e-4, atol=1e-5):
                failures.append(f"{seed} {turn}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert counter.value == 300


def test_graphs_are_built_and_compiled_in_several_threads():
    results: dict[int, float] = {}

    def work(k: int) -> None:
        with sg.name_scope(f"t{k}"):
            x = sg.placeholder((3,), name="x")
            assert x.name == f"t{k}/x"
            results[k] = float(sg.compile([x], sg.sum(x * k))(np.ones(3, F32)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert results == {k: 3.0 * k for k in range(6)}
