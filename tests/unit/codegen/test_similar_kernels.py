"""Kernels that differ in sizes only are one function, where there are many of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler import emit_linkable
from symgrad.cost_model import CALLS_IN_FUNCTION, MIN_SIMILAR_KERNELS
from symgrad.runtime.step import Step

MANY = MIN_SIMILAR_KERNELS + 4


def updates(sizes: list[int]) -> tuple[Step, list[sg.Variable]]:
    """Return a step that moves a variable of each size."""
    variables = [sg.variable(np.linspace(0, 1, n, dtype=np.float32)) for n in sizes]
    given = [sg.placeholder((n,)) for n in sizes]
    moved = [(v, v - 0.5 * sg.tanh(g)) for v, g in zip(variables, given, strict=True)]
    return sg.compile(given, (), moved, opt_level=1), variables


def similar(step: Step) -> list[str]:
    return re.findall(r'^define .*@"(similar[^"]*)"', step.ir("llvm"), re.MULTILINE)


def test_many_kernels_become_a_few_and_compute_the_same():
    sizes = [16 * n + rest for rest in (0, 3, 8) for n in range(5, 5 + MANY)]
    step, variables = updates(sizes)
    assert len(step.executable.program.kernels) == len(sizes)
    assert 1 <= len(similar(step)) <= 6
    arrays = [np.full(n, 0.25, np.float32) for n in sizes]
    step(*arrays)
    for variable, size in zip(variables, sizes, strict=True):
        wanted = np.linspace(0, 1, size, dtype=np.float32) - np.float32(0.5) * np.tanh(
            np.float32(0.25)
        )
        np.testing.assert_allclose(variable.value, wanted, rtol=1e-6, atol=1e-6)


def test_results_have_the_bits_of_kernels_that_are_not_merged():
    sizes = [16 * n + 3 for n in range(5, 5 + MANY)]
    together, moved = updates(sizes)
    together(*[np.full(n, 0.25, np.float32) for n in sizes])
    for size, variable in zip(sizes, moved, strict=True):
        alone, (own,) = updates([size])
        assert not similar(alone)
        alone(np.full(size, 0.25, np.float32))
        np.testing.assert_array_equal(own.value, variable.value)


def test_few_kernels_are_compiled_each_for_its_sizes():
    assert not similar(updates([16 * n + 3 for n in range(5, 5 + MIN_SIMILAR_KERNELS - 1)])[0])


def test_kernels_that_differ_in_more_than_sizes_are_not_merged():
    x = sg.placeholder((100,))
    step = sg.compile([x], [x * float(n + 2) + sg.sin(x) for n in range(MANY)], opt_level=0)
    assert not similar(step)


def test_what_calls_merged_kernels_calls_one_function_and_is_not_optimized():
    assert CALLS_IN_FUNCTION < 2 * MANY <= 2 * CALLS_IN_FUNCTION
    step, _ = updates([16 * n + 3 for n in range(5, 5 + MANY)] * 2)
    executable = step.executable
    module = emit_linkable(executable.program, executable.options.target)
    (kernel,) = module.kernels
    assert module.calls is not None
    sizes = re.findall(rf'call void @"{kernel}"\(ptr .*, i64 (\d+)\)', module.calls)
    assert len(sizes) == 2 * MANY == 2 * len(set(sizes))
    # Nothing stands between the two: a function for each kernel took LLVM longer than all else.
    assert not re.search(r'@"k\d+"', module.emitted)
    assert module.calls.count("define ") == 3


def test_a_merged_kernel_is_shown_with_the_function_that_does_its_work():
    step, _ = updates([16 * n + 3 for n in range(5, 5 + MANY)])
    (name,) = similar(step)
    for stage in ("llvm", "llvm-opt", "asm"):
        assert name in step.ir(stage, "k3"), stage


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_and_lookups_of_many_sizes_are_right(axis):
    sizes = [20 + n for n in range(MANY)]
    given = [sg.placeholder((n, 7)) for n in sizes]
    rows = sg.placeholder((3,), "int64")
    outputs = [g.sum(axis=axis) for g in given], [sg.take(g, rows, axis=0) for g in given]
    step = sg.compile([*given, rows], outputs, opt_level=1)
    assert similar(step)
    arrays = [np.arange(7 * n, dtype=np.float32).reshape(n, 7) for n in sizes]
    sums, taken = step(*arrays, np.array([0, -1, 19]))
    for array, total, some in zip(arrays, sums, taken, strict=True):
        np.testing.assert_allclose(total, array.sum(axis=axis), rtol=1e-6)
        np.testing.assert_array_equal(some, array[[0, -1, 19]])
    with pytest.raises(sg.IndexOutOfRangeError, match="index 20 is out of range"):
        step(*arrays, np.array([0, 20, 1]))
