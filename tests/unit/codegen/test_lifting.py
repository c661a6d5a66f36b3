"""Kernels take sizes and numbers from their calls, and compute what they would if they had them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import lifting, place
from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.compiler import emit_linkable
from symgrad.config import override
from symgrad.cost_model import MIN_SIMILAR_KERNELS
from symgrad.runtime.step import Step

W = np.sin(np.arange(24 * 40, dtype=np.float32)).reshape(24, 40)


def layer(rows: int, target: str = "native") -> Step:
    """Return a step of a product, a sum and a gradient of it, of a batch of `rows`."""
    x, w = sg.placeholder((rows, 24)), sg.variable(W)
    loss = (sg.tanh(x @ w) ** 2).mean()
    (grad,) = sg.gradients(loss, [w])
    return sg.compile([x], loss, [(w, w - 0.3 * grad)], opt_level=1, target=target)


def given(rows: int) -> np.ndarray:
    return np.cos(np.arange(rows * 24, dtype=np.float32)).reshape(rows, 24)


def linkable(step: Step) -> LinkableModule:
    return emit_linkable(step.executable.program, step.executable.options.target)


def calls(step: Step) -> list[str]:
    return re.findall(r"^  call void (@\"k.*)", step.ir("llvm"), re.MULTILINE)


def test_batches_of_other_sizes_have_the_same_code():
    modules = [linkable(layer(rows)) for rows in (24, 36, 48)]
    assert modules[0].kernels == modules[1].kernels == modules[2].kernels
    assert len({module.entry for module in modules}) == 3


def test_calls_pass_sizes_numbers_and_the_tiles_of_a_product():
    first, *_ = calls(layer(24, target="x86-64-v3"))
    assert {"i64 24", 'ptr @"contract.tile"'} <= set(first.strip(")").split(", "))
    assert any(re.search(r"float 0x3fd3333", call) for call in calls(layer(24)))


def test_powers_of_two_stay_in_the_code():
    assert not any(map(lifting.is_lifted, (0.0, 1.0, -2.0, 0.25, np.inf, np.nan)))
    assert all(map(lifting.is_lifted, (3.0, -0.1, 1e-30)))


def results(rows: int, threads: int) -> list[np.ndarray]:
    with override(cache=False):
        x, w = sg.placeholder((rows, 24)), sg.variable(W)
        loss = (sg.tanh(x @ w) ** 2).mean()
        (grad,) = sg.gradients(loss, [w])
        step = sg.compile([x], [loss, grad, 0.3 * x.sum() / 7.0], opt_level=1, threads=threads)
        return [np.asarray(found) for found in step(given(rows))]


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 13, 31, 48])
def test_results_have_the_bits_of_code_with_all_sizes(rows, monkeypatch):
    found = [results(rows, threads) for threads in (1, 2)]
    monkeypatch.setattr(lifting, "MAX_LIFTED", 0)
    monkeypatch.setattr(place, "emitted_product", lambda *_: None)  # that have been emitted so
    for lifted in found:
        for own, wanted in zip(lifted, results(rows, 1), strict=True):
            np.testing.assert_array_equal(own, wanted)


def test_kernels_of_one_program_that_are_the_same_code_are_compiled_once():
    xs = [sg.placeholder((n,)) for n in (100, 132, 164)]
    step = sg.compile(xs, [(x * x).sum() for x in xs], opt_level=1)
    module = linkable(step)
    assert len(step.executable.program.kernels) == 3
    assert len(module.kernels) == 1
    assert module.optimized.count("define internal void") == 1
    for stage in ("llvm", "llvm-opt", "asm"):
        assert "computes" in step.ir(stage, kernel="k2"), stage
    found = step(*[np.full(x.shape, 2, np.float32) for x in xs])
    assert [float(total) for total in found] == [400, 528, 656]


def test_an_index_that_is_out_of_range_is_found_by_a_kernel_that_takes_sizes():
    x, i = sg.placeholder((9, 50)), sg.placeholder((), "int64")
    step = sg.compile([x, i], 0.1 * sg.take(x, i, axis=0).sum(), opt_level=1)
    array = np.arange(450, dtype=np.float32).reshape(9, 50)
    np.testing.assert_allclose(step(array, np.int64(2)), 0.1 * array[2].sum(), rtol=1e-6)
    with pytest.raises(sg.IndexOutOfRangeError, match="index 11 is out of range"):
        step(array, np.int64(11))


def test_kernels_that_take_sizes_are_merged_if_others_differ():
    xs = [sg.placeholder((n,)) for n in range(70, 70 + 16 * MIN_SIMILAR_KERNELS, 16)]
    step = sg.compile(xs, [x / (x * x).sum() for x in xs], opt_level=1)
    arrays = [np.linspace(1, 2, x.size, dtype=np.float32) for x in xs]
    for found, array in zip(step(*arrays), arrays, strict=True):
        np.testing.assert_allclose(found, array / (array * array).sum(), rtol=1e-5)
