"""Kernels of more loops than LLVM's value numbering takes, and of more launches than a stack."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import jit
from symgrad.codegen.program import fuse_sweeps
from symgrad.codegen.program.language import Launch
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.runtime.step import Step

ROWS = np.random.default_rng(0).standard_normal((4096, 64)).astype(np.float32)


def compiled_apart(inputs: list[Tensor], outputs: list[Tensor]) -> Step:
    """Return a step that is compiled here once a process of its own could do so."""
    child = os.fork()
    if child == 0:
        try:
            sg.compile(inputs, outputs, cache=False)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"compiling ended a process: {status}"
    return sg.compile(inputs, outputs)


def step_of(norms: int, threads: int) -> Step:
    x = y = sg.placeholder(ROWS.shape)
    for _ in range(norms):
        y = sg.nn.layer_norm(y)
    return sg.compile([x], y, threads=threads)


def test_a_loop_over_rows_of_more_than_a_hundred_loops_compiles(monkeypatch):
    monkeypatch.setattr(fuse_sweeps, "STATEMENTS_SWEPT", 1 << 20)
    one, two = step_of(28, 1), step_of(28, 2)
    assert two.ir("loops").count("kernel @") == 1
    assert two.ir("loops").count(" in 0..") > 100
    assert one(ROWS).tobytes() == two(ROWS).tobytes()


def test_values_are_numbered_in_functions_of_fewer_blocks_only():
    assert jit._has_many_blocks(step_of(22, 2).ir("llvm"))
    assert not jit._has_many_blocks(step_of(4, 2).ir("llvm"))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_loops_with_checkpoints_within_each_other_compile(depth: int) -> None:
    """In a process of their own: three deep LLVM's value numbering ended it."""
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")

    def looped(depth: int, count: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if depth == 0:
            return count + 1, sg.sin(v) * 0.9
        found = sg.while_loop(
            lambda i, *_: i < n,
            lambda i, *carried: (i + 1, *looped(depth - 1, *carried)),
            [sg.constant(0, "int64"), count, v],
            checkpoint=2,
            maximum_iterations=6,
        )
        return found[1], found[2]

    count, y = looped(depth, sg.constant(0, "int64"), x)
    step = compiled_apart([x, n], [y, count, *sg.gradients(sg.sum(y), [x])])
    point, trips = np.array([0.3, 0.4]), 2
    expected = point.copy()
    for _ in range(trips**depth):
        expected = np.sin(expected) * 0.9
    value, counted, _ = step(point, trips)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert counted == trips**depth


def test_what_was_fused_again_and_again_is_told_without_recursion():
    x = sg.placeholder((64,))
    options = CompileOptions(target_named("native"), 1, fast_math=False, cache=False)
    lowered = lower_graph(Graph([sg.exp(sg.cumsum(x))], [x]), options)
    calls = [i for i in lowered.program.instrs if isinstance(i, Launch)]
    fused = replace(calls[0], fused=tuple(calls))
    for _ in range(3000):
        fused = replace(fused, fused=(fused,))
    each = [lowered.sources.groups_of(call) for call in calls]
    assert lowered.sources.groups_of(fused) == tuple(group for found in each for group in found)
    assert sum(map(len, each)) > 0
