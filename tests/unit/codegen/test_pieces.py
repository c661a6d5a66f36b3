"""What follows wide folds goes some lanes at a time, and comes to what it would all at once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import kernel_costs
from symgrad.codegen.llvm import pieces
from symgrad.config import override
from symgrad.graph.types import Array
from symgrad.runtime.step import Step

X = np.sin(np.arange(96 * 260, dtype=np.float32)).reshape(96, 260)


def columns(dtype: str = "float32", *, target: str = "native", threads: int = 1) -> Step:
    """Return an update by Adam of what is added to each row, of which the gradient is a fold."""
    x, bias = sg.placeholder(X.shape, dtype), sg.variable(np.ones(X.shape[1], dtype))
    loss = ((x + bias) * x).sum()
    updates = sg.optim.Adam(0.01).minimize(loss, [bias])
    with override(cache=False):
        return sg.compile([x], [bias * 1.0], updates, target=target, threads=threads)


def after_steps(step: Step, dtype: str = "float32") -> Array:
    for _ in range(3):
        result = step(X.astype(dtype))
    return np.asarray(result[0])


def places(step: Step) -> list[str]:
    return re.findall(r"alloca \[(\d+ x <\d+ x \w+)>\]", step.ir("llvm"))


def test_an_update_behind_a_wide_fold_is_a_loop_over_vectors() -> None:
    assert "16 x <16 x float" in places(columns(target="x86-64-v4"))
    assert "8 x <8 x float" in places(columns(target="x86-64-v3"))


def test_little_behind_a_fold_is_done_with_all_lanes() -> None:
    x = sg.placeholder(X.shape)
    assert not places(sg.compile([x], 2.0 * x.sum(axis=0), target="x86-64-v4"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_pieces_have_the_bits_of_all_lanes_at_once(
    monkeypatch: pytest.MonkeyPatch, dtype: str, threads: int
) -> None:
    step = columns(dtype, threads=threads)
    assert places(step)
    found = after_steps(step, dtype)
    monkeypatch.setattr(pieces, "MOST_COPIES_BEHIND_FOLDS", 10**9)
    whole = columns(dtype, threads=threads)
    assert not places(whole)
    assert np.array_equal(found, after_steps(whole, dtype))


def test_a_function_that_code_without_loops_calls_twice_is_there_once() -> None:
    llvm = columns(target="x86-64-v4").ir("llvm")
    assert len(re.findall(r'call double @"sg\.pow\.f64\.outlined"', llvm)) == 2
    assert llvm.count('define internal double @"sg.pow') == 1


@pytest.mark.parametrize(("calls", "size", "is_outlined"), [(9, 64, True), (8, 64, False)])
def test_a_function_that_a_short_loop_calls_often_is_there_once(
    calls: int, size: int, is_outlined: bool
) -> None:
    llvm = _sum_of_tanh(calls, size).ir("llvm")
    defined = re.findall(r'define internal <(\d+) x float> @"sg\.tanh\.v\d+f32(\.outlined)?"', llvm)
    # With its vectors beside each other, where that is no more code.
    assert defined == [("64", ".outlined") if is_outlined else ("16", "")]


@pytest.mark.parametrize(("calls", "is_outlined"), [(5, True), (4, False)])
def test_a_function_whose_calls_wait_for_each_other_is_there_once(
    calls: int, is_outlined: bool
) -> None:
    step = _chain_of_tanh(calls, 1_000)
    assert ("outlined" in step.ir("llvm")) == is_outlined
    assert ("interleave(4)" in step.ir("loops")) == is_outlined


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_calls_wait_for_each_other_through_casts_and_selects(dtype: str) -> None:
    x = h = sg.placeholder((1_000,), dtype)
    for _ in range(5):
        h = sg.where(x > 0, sg.tanh(h + x), h)
    with override(cache=False):
        step = sg.compile([x], h, target="x86-64-v4")
    assert "outlined" in step.ir("llvm")
    assert "interleave(4)" in step.ir("loops")


def test_a_function_that_a_loop_of_milliseconds_calls_often_is_inlined() -> None:
    assert "outlined" not in _chain_of_tanh(9, 1 << 20).ir("llvm")


def test_functions_whose_calls_wait_for_nothing_are_inlined() -> None:
    assert "outlined" not in _sum_of_tanh(9, 1_000).ir("llvm")


@pytest.mark.parametrize("size", [64, 259, 1_000])
def test_outlined_functions_have_the_bits_of_inlined_ones(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = X.reshape(-1)[:size]
    outlined = _chain_of_tanh(9, size, target="native")(given)
    monkeypatch.setattr(kernel_costs, "MAX_CALLS_OF_SHORT", 10**9)
    monkeypatch.setattr(kernel_costs, "MAX_CALLS_OF_CHAIN", 10**9)
    inlined = _chain_of_tanh(9, size, target="native")(given)
    assert np.array_equal(outlined, inlined)


def _sum_of_tanh(calls: int, size: int) -> Step:
    x = sg.placeholder((size,))
    total = sum(sg.tanh(x * float(number)) for number in range(1, calls + 1))
    with override(cache=False):
        return sg.compile([x], total, target="x86-64-v4")


def _chain_of_tanh(calls: int, size: int, target: str = "x86-64-v4") -> Step:
    x = h = sg.placeholder((size,))
    for _ in range(calls):
        h = sg.tanh(h * 0.9 + x)
    with override(cache=False):
        return sg.compile([x], h, target=target)
