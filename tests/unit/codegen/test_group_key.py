"""Groups that differ only in their buffers are lowered once, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.lower.groups import LoweredKernel, lower_group
from symgrad.codegen.program.group_key import group_key
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.optim import Adam
from symgrad.passes.fusion.buffers import assign_buffers
from symgrad.passes.fusion.fuse import fuse
from symgrad.runtime.function import compile
from tests.support.floors import run_everywhere
from tests.support.programs import partition_of, program_from


def keys_of(*outputs: Tensor) -> list[object]:
    partition = partition_of(*outputs)
    buffers = assign_buffers(partition)
    found = [group_key(partition, buffers, group) for group in partition.groups]
    return [None if key is None else (key.key, key.sizes) for key in found]


def x(*shape: int) -> Tensor:
    return sg.placeholder(shape)


def test_groups_over_other_buffers_have_one_key():
    a, b = keys_of(sg.tanh(x(8) + x(8)), sg.tanh(x(8) + x(8)))
    assert a == b


@pytest.mark.parametrize(
    "other",
    [
        lambda: sg.tanh(x(9) + x(9)),
        lambda: sg.tanh(x(8) - x(8)),
        lambda: sg.sin(x(8) + x(8)),
        lambda: sg.tanh(x(8) + 2.0),
        lambda: sg.tanh(sg.placeholder((8,), "float64") + sg.placeholder((8,), "float64")),
        lambda: sg.tanh(sg.add(*[x(8)] * 2)),
    ],
)
def test_groups_that_compute_something_else_have_another_key(other):
    a, b = keys_of(sg.tanh(x(8) + x(8)), other())
    assert a != b


def test_a_number_is_part_of_the_key():
    a, b, c = keys_of(x(8) * 2.0, x(8) * 3.0, x(8) * 2.0)
    assert a == c
    assert a != b


def test_attributes_are_part_of_the_key():
    a, b = keys_of(sg.sum(x(8, 8), axis=0), sg.sum(x(8, 8), axis=1))
    assert a != b


def test_a_group_that_checks_an_index_has_no_key():
    i = sg.placeholder((3,), "int64")
    assert keys_of(sg.take(x(8), i)) == [None]


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_any_number_of_parameters_is_lowered_once(count, monkeypatch):
    names: list[object] = []

    def lowered(*arguments: Any) -> LoweredKernel:
        names.append(arguments[-1])
        return lower_group(*arguments)

    monkeypatch.setattr("symgrad.codegen.program.lowered_groups.lower_group", lowered)
    variables = [sg.variable(np.zeros(100, np.float32)) for _ in range(count)]
    given = [sg.placeholder((100,)) for _ in variables]
    updates = Adam().apply_gradients(zip(given, variables, strict=True))
    step = compile(given, (), updates=updates, opt_level=0)
    assert len(step.executable.program.launches) == count + 1
    assert len(step.executable.program.kernels) == 2
    # The count of steps, and an update: in the order in which the first one came, and in another.
    assert len(names) <= 3


def test_computed_gradients_of_small_parameters_share_their_kernels():
    variables = [sg.variable(np.ones(100, np.float32)) for _ in range(50)]
    x = sg.placeholder((100,))
    loss = sum((sg.sum(sg.square(w * x - 1.0)) for w in variables), sg.constant(0.0))
    step = compile([x], loss, updates=Adam().minimize(loss), opt_level=0)
    assert len(step.executable.program.kernels) <= 5
    assert step.memory.gradients == ()


def test_shared_kernels_get_their_own_arguments():
    rng = np.random.default_rng(0)
    variables = [sg.variable(rng.standard_normal(7).astype(np.float32)) for _ in range(4)]
    given = [sg.placeholder((7,)) for _ in variables]
    updates = [Update(w, w - 0.5 * g) for w, g in zip(variables, given, strict=True)]
    graph = Graph(given[:1], given, updates)
    arrays = [rng.standard_normal(7).astype(np.float32) for _ in given]
    different = run_everywhere(graph, arrays)
    assert different is None, different
    assert len(fuse(graph).groups) == 5
    program = program_from(*(sg.exp(g) for g in given))
    assert len({c.arguments for c in program.launches}) == len(program.launches) == 4
