"""Groups that differ in sizes get the kernels that lowering each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.lower.groups import LoweredKernel, lower_group
from symgrad.codegen.program import lowered_groups
from symgrad.config import override
from symgrad.graph.node import Tensor
from symgrad.optim import Adam
from symgrad.runtime.step import Step

SIZES = [*range(1, 140), 255, 256, 257, 1_000, 4_096, 70_000, 300_001]


def kernels_of(make: Callable[[], Step]) -> list[str]:
    return [print_kernel(kernel) for kernel in make().executable.program.kernels]


def alone(make: Callable[[], Step], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kernels where each group is lowered for itself."""
    with monkeypatch.context() as patch:
        patch.setattr(lowered_groups, "MIN_ALIKE", 10**9)
        return kernels_of(make)


def results(of: Callable[..., Tensor], threads: int = 1) -> Step:
    """Return a step with a result of each size, made of operands of the given shapes."""
    inputs: list[Tensor] = []

    def operand(*shape: int) -> Tensor:
        inputs.append(sg.placeholder(shape))
        return inputs[-1]

    outputs = [of(operand, n) for n in SIZES]
    return sg.compile(inputs, outputs, opt_level=0, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "of",
    [
        lambda x, n: sg.tanh(x(n) * 2.0) + x(n),
        lambda x, n: (x(n) * x(n)).sum(),
        lambda x, n: sg.exp(x(3, n) - x(n)),
        lambda x, n: x(n, 5).sum(axis=0) * 2.0,
        lambda x, n: x(n, 12).max(axis=1),
        lambda x, n: x(n)[::-1] + 1.0,
        lambda x, n: sg.permute_dims(x(n, 9), (1, 0)) * 3.0,
        lambda x, n: sg.cumsum(x(n)),
        lambda x, n: sg.concat([x(n), x(9)]),
        lambda x, n: x(5, n) @ x(n, 3),
        lambda x, n: sg.reshape(x(n, 8), (8 * n,)) + 1.0,
        lambda x, n: x(n) / n + sg.arange(n),
        lambda x, n: sg.take(x(n), sg.arange(n) % n),
    ],
)
def test_kernels_are_those_of_groups_that_are_lowered_alone(of, threads, monkeypatch):
    def make() -> Step:
        return results(of, threads)

    with override(verify=False):
        assert kernels_of(make) == alone(make, monkeypatch)


def lowered_for(sizes: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many groups are lowered of a program that updates variables of many sizes."""
    count = 0

    def lowered(*arguments: Any) -> LoweredKernel:
        nonlocal count
        count += 1
        return lower_group(*arguments)

    monkeypatch.setattr(lowered_groups, "lower_group", lowered)
    variables = [sg.variable(np.ones(n, np.float32)) for n in sizes]
    given = [sg.placeholder(v.shape) for v in variables]
    updates = Adam().apply_gradients(zip(given, variables, strict=True))
    with override(verify=False):
        step = sg.compile(given, (), updates, opt_level=0)
    assert len(step.executable.program.kernels) == len(variables) + 1
    return count


def test_few_of_many_updates_are_lowered(monkeypatch):
    assert lowered_for(range(100, 160), monkeypatch) < 10


def test_loops_of_100_and_of_2_000_iterations_are_lowered_as_one(monkeypatch):
    # The scalars of Adam, the first update, in another order, two before it is seen that there are
    # many, and one with symbolic sizes.
    assert lowered_for(range(100, 2_000, 80), monkeypatch) == 5


def test_each_kernel_is_shown_with_its_sizes():
    step = results(lambda x, n: sg.tanh(x(n)))
    text = step.ir("loops")
    assert all(f"for i0 in 0..{n} " in text for n in SIZES if n > 1)
    assert len(step.kernels) == len(SIZES)
