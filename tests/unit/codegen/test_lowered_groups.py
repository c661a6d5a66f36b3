"""Groups that differ in sizes get the kernels that lowering each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.lower.groups import LoweredKernel, lower_group
from symgrad.codegen.program import lowered_groups
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, emit_linkable, lower_graph
from symgrad.config import override
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.optim import Adam

SIZES = [*range(1, 140), 255, 256, 257, 1_000, 4_096, 70_000, 300_001]


def results(of: Callable[..., Tensor]) -> Graph:
    """Return a graph with a result of each size, made of operands of the given shapes."""
    inputs: list[Tensor] = []

    def operand(*shape: int) -> Tensor:
        inputs.append(sg.placeholder(shape))
        return inputs[-1]

    outputs = [of(operand, n) for n in SIZES]
    return Graph(outputs, inputs)


def alone(
    graph: Graph, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> Sequence[Kernel]:
    """Return the kernels where each group is lowered for itself."""
    with monkeypatch.context() as patch:
        patch.setattr(lowered_groups, "MIN_ALIKE", 10**9)
        return lower_graph(graph, options).program.kernels


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
    graph = results(of)
    options = CompileOptions(target_named("native"), 0, False, False, Threads(threads))
    with override(verify=False):
        program = lower_graph(graph, options).program
        found = program.kernels
        # A number that stayed symbolic prints as one that is not: what emits code takes none. Equal
        # texts have equal code, so those of groups alone are not emitted, and nothing is compiled.
        emit_linkable(program, options.target)
        wanted = alone(graph, options, monkeypatch)
    assert [*map(print_kernel, found)] == [*map(print_kernel, wanted)]


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
    graph = results(lambda x, n: sg.tanh(x(n)))
    step = sg.compile(graph.inputs, graph.outputs, opt_level=0, threads=1)
    text = step.ir("loops")
    assert all(f"for i0 in 0..{n} " in text for n in SIZES if n > 1)
    assert len(step.kernels) == len(SIZES)
