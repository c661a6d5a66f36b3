"""Thunks of launches: what a long step calls alike, with arguments in all kinds of places."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import call_thunks
from symgrad.config import override
from symgrad.cost_model import LEAST_CALLS_OF_THUNK
from symgrad.graph.types import Array
from symgrad.runtime.step import Step

TURNS, SIZE = 40, 6
RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((TURNS, 1, SIZE)).astype(np.float32)
TARGET = RANDOM.standard_normal((1, SIZE)).astype(np.float32)


def unrolled(target: str = "native", threads: int = 1) -> tuple[Step, sg.Variable]:
    """Return a step over rows of an input, with a variable, a constant and many outputs."""
    x, y = sg.placeholder((TURNS, 1, SIZE)), sg.placeholder((1, SIZE))
    w = sg.variable(np.linspace(-0.5, 0.5, SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE))
    table = sg.constant(np.cos(np.arange(SIZE, dtype=np.float32)))
    h, kept = sg.zeros((1, SIZE)), []
    for turn in range(TURNS):
        h = sg.tanh(x[turn] * table + h @ w)
        kept.append(h)
    loss = ((h - y) ** 2).sum()
    with override(cache=False):
        update = [(w, w - 0.1 * sg.gradients(loss, [w])[0])]
        return sg.compile([x, y], [loss, *kept], update, target=target, threads=threads), w


def results(threads: int = 1) -> list[Array]:
    step, w = unrolled(threads=threads)
    found = [np.array(value) for _ in range(2) for value in step(ROWS, TARGET)]
    return [*found, np.array(w.value)]


@pytest.fixture
def all_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_thunks, "LEAST_ARGUMENTS_OF_THUNK", 1)


def thunks(text: str) -> list[str]:
    """Return the names of thunks, which take a row beside what the step takes."""
    return re.findall(r'define internal void @"(step\.[^"]*)"\((?:ptr %\.\d, ){3}ptr %\.3\)', text)


@pytest.mark.usefixtures("all_shared")
def test_launches_of_a_kernel_have_a_thunk_for_each_kind_of_places() -> None:
    text = unrolled("x86-64-v3")[0].ir("llvm")
    names = thunks(text)
    assert names
    calls = [len(re.findall(rf'call void @"{re.escape(name)}"', text)) for name in names]
    assert min(calls) >= LEAST_CALLS_OF_THUNK
    assert sum(calls) > TURNS


def test_launches_of_few_arguments_have_none() -> None:
    assert not thunks(unrolled("x86-64-v3")[0].ir("llvm"))


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_plain_calls(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = results()
    monkeypatch.setattr(call_thunks, "LEAST_ARGUMENTS_OF_THUNK", 1)
    shared = results(threads)
    assert all(np.array_equal(a, b) for a, b in zip(plain, shared, strict=True))


def test_a_long_chain_has_thunks_and_loses_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> Step:
        x, w, b = (sg.placeholder((100,)) for _ in range(3))
        h = x
        for _ in range(300):
            h = sg.tanh(h * w + b)
        with override(cache=False):
            return sg.compile([x, w, b], [h.sum(), *sg.gradients(h.sum(), [w, b])])

    given = RANDOM.standard_normal((3, 100)).astype(np.float32) / 10
    shared = step()
    assert thunks(shared.ir("llvm"))
    monkeypatch.setattr(call_thunks, "LEAST_CALLS_OF_THUNK", 10**9)
    plain = step()
    assert not thunks(plain.ir("llvm"))
    pairs = zip(shared(*given), plain(*given), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.usefixtures("all_shared")
def test_a_profile_of_a_step_with_thunks_times_each_call() -> None:
    rows = unrolled()[0].profile(ROWS, TARGET).rows
    assert len(rows) > TURNS
    assert all(row.seconds > 0 for row in rows)
