"""Steps on several threads: the same bits, the same state, the same failures, at sizes that pay."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import machine_code as code_module

COUNTS = (1, 2, 3, 4)
some_counts = pytest.mark.parametrize(
    "counts", [(1, 3), pytest.param(COUNTS, marks=pytest.mark.slow)], ids=str
)
Counts = tuple[int, ...]
F32 = np.float32
RNG = np.random.default_rng(0)
M = RNG.normal(size=(300, 700)).astype(F32)
ROWS = RNG.integers(0, 300, 5000)


def with_equal_results(make: Callable[[int], sg.Step], counts: Counts, *arrays: Any) -> sg.Step:
    """Return the step `make` returns for the most threads; all must give the same bits."""
    steps = [make(threads) for threads in counts]
    found = [[array.tobytes() for array in step(*arrays)] for step in steps]
    assert found == [found[0]] * len(counts)
    return steps[-1]


def parts(step: sg.Step) -> int:
    return max(record.parts for record in step.kernels)


# ---------------------------------------------------------------------------------------- bits


def _outputs(x: sg.Tensor, at: sg.Tensor) -> list[sg.Tensor]:
    w = sg.constant(RNG.normal(size=(700, 300)).astype(F32))
    loss = sg.sum(sg.square(sg.tanh(x @ w)))
    (dx,) = sg.gradients(sg.sum(sg.take(x, at, axis=0) ** 2), [x])
    assert dx is not None, "the sum depends on x"
    return [
        loss, sg.sum(x, axis=0), sg.sum(x, axis=1), sg.argmax(x), sg.max(x, axis=0), sg.exp(x).T,
        sg.concat([x, x]), sg.take(x, at, axis=0), sg.nn.softmax(x), x.astype("float16"), dx,
    ]  # fmt: skip


@some_counts
def test_every_structure_gives_the_same_bits(counts):
    x, at = sg.placeholder((300, 700), name="x"), sg.placeholder((5000,), "int64", name="at")
    outputs = _outputs(x, at)
    step = with_equal_results(
        lambda n: sg.compile([x, at], outputs, threads=n, opt_level=1), counts, M, ROWS
    )
    shared = [record for record in step.kernels if record.parts == counts[-1]]
    assert {op for record in shared for op in record.ops} >= {"einsum", "tanh", "sum", "exp"}


@some_counts
def test_state_is_the_same_after_steps_on_any_number_of_threads(counts):
    states = []
    for threads in counts:
        w = sg.variable(np.linspace(-1, 1, 700 * 300, dtype=F32).reshape(700, 300))
        x = sg.placeholder((300, 700), name="x")
        loss = sg.mean(sg.square(sg.tanh(x @ w)))
        updates = sg.optim.Adam(0.01).minimize(loss, [w])
        step = sg.compile([x], loss, updates, threads=threads, opt_level=1)
        losses = [step(M).item() for _ in range(3)]
        assert losses[2] < losses[0]
        assert (parts(step) > 1) == (threads > 1)
        states.append((losses, w.value.tobytes()))
    assert states == [states[0]] * len(counts)


@some_counts
def test_kernels_of_loops_and_branches_are_shared_too(counts):
    x = sg.placeholder((300, 700), name="x")
    state = sg.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, sg.tanh(s) * 2), (0, x))[1]
    chosen = sg.cond(sg.sum(x) > 0, lambda: sg.exp(state), lambda: sg.sin(state))
    swept, sums = sg.scan(lambda c, row: (c + sg.cos(row), sg.sum(c)), sg.zeros((700,)), x)
    outputs = [state, chosen, swept, sums]
    step = with_equal_results(lambda n: sg.compile([x], outputs, threads=n, opt_level=1), counts, M)
    shared = [r for r in step.kernels if r.parts > 1]
    assert {"tanh", "exp", "sin"} <= {op for record in shared for op in record.ops}


def test_sizes_that_are_met_later_are_shared_as_they_need():
    x = sg.placeholder((None, 700), name="x")
    step = sg.compile([x], sg.tanh(x), threads=2)
    small = step(M[:3])
    assert parts(step) == 1
    np.testing.assert_array_equal(step(M)[:3], small)
    assert parts(step) == 2


# ------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize("threads", COUNTS)
def test_the_first_bad_index_is_reported_and_the_state_is_kept(threads):
    x, at = sg.placeholder((300, 700), name="x"), sg.placeholder((5000,), "int64", name="at")
    w = sg.variable(np.zeros((300, 700), F32))
    taken = sg.take(x, at, axis=0)
    step = sg.compile([x, at], sg.sum(taken), [(w, w + x)], threads=threads)
    step(M, ROWS)
    kept = w.value
    wrong = ROWS.copy()
    wrong[[4000, 2600, 2400]] = 301, 302, 303
    with pytest.raises(sg.IndexOutOfRangeError, match="index 303 is out of range for axis 0"):
        step(M, wrong)
    np.testing.assert_array_equal(w.value, kept)
    step(M, ROWS)


# ------------------------------------------------------------------------------ what is compiled


def test_none_is_one_thread():
    x = sg.placeholder((300, 700), name="x")
    one, none = (sg.compile([x], sg.tanh(x), threads=n) for n in (1, None))
    assert none.executable.code is one.executable.code
    assert parts(none) == 1


def test_code_for_other_numbers_of_threads_is_other_code(monkeypatch):
    monkeypatch.setattr(code_module, "_loaded", type(code_module._loaded)())
    x = sg.placeholder((300, 700), name="x")
    steps = [sg.compile([x], sg.tanh(x), threads=n) for n in COUNTS]
    assert len({id(step.executable.code) for step in steps}) == len(COUNTS)
    again = sg.compile([x], sg.tanh(x), threads=2)
    assert again.executable.code is steps[1].executable.code


def test_a_step_shows_which_kernels_are_shared():
    x = sg.placeholder((300, 700), name="x")
    step = sg.compile([x], [sg.tanh(x), sg.sum(x[:5], axis=1)], threads=2)
    assert sorted(record.parts for record in step.kernels) == [1, 2]
    assert "parallel(" in str(step.kernels)
    assert re.search(r"(?m)bytes +threads +schedule(.|\n)* 2 +for 210000", str(step.kernels))
    assert re.search(r"computes +threads +runs", str(step.profile(M, repeat=1)))
    alone = sg.compile([x], sg.tanh(x))
    assert re.search(r"bytes +schedule", str(alone.kernels))
    assert re.search(r"computes +runs", str(alone.profile(M, repeat=1)))
    assert "parallel(" in step.ir("loops")
    shared = next(record for record in step.kernels if record.parts == 2)
    for stage in ("llvm", "llvm-opt", "asm"):
        assert f"{shared.name}.part" in step.ir(stage, kernel=shared.name)
    assert step.profile(M, repeat=2).seconds > 0


# --------------------------------------------------------------------------- threads of the user


def test_steps_on_threads_may_be_called_from_threads():
    x = sg.placeholder((300, 700), name="x")
    step = sg.compile([x], [sg.tanh(x), sg.sum(x)], threads=2)
    wanted = [array.tobytes() for array in step(M)]

    def work(_: int) -> bool:
        return all([a.tobytes() for a in step(M)] == wanted for _ in range(5))

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, range(3), timeout=100))
