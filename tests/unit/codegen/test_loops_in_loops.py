"""Passes over rows leave alone what has no loop in a loop, and need not look at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Stmt
from symgrad.codegen.loops.rewrite import has_loops_in_loops
from symgrad.codegen.program import distribute_rows
from symgrad.codegen.program.print import print_program
from symgrad.codegen.schedule import prefetch_matrices, prefetch_rows, prefetch_windows
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor

ASKING = (distribute_rows, prefetch_matrices, prefetch_rows, prefetch_windows)


def _layers() -> list[Tensor]:
    x, w = sg.placeholder((96, 400)), sg.variable(np.ones((400, 400), np.float32))
    h = sg.tanh(sg.tanh(x @ w + 1.0) @ w)
    loss = sg.nn.log_softmax(h).mean()
    return [loss, *sg.gradients(loss, [w]), h.sum(axis=0), sg.cumsum(h, axis=1), sg.sort(h, axis=1)]


def _attention() -> list[Tensor]:
    q, other = sg.placeholder((2, 4, 256, 64)), sg.placeholder((50,))
    found = sg.nn.softmax(q @ q.mT) @ q
    return [found, sg.exp(other), *sg.gradients((found * found).sum(), [q])]


def _elements() -> list[Tensor]:
    x, y = sg.placeholder((3_000_000,)), sg.placeholder((2_000, 1_500))
    return [sg.exp(x) * 2.0, x.sum(), y.mT + 1.0, sg.concat([x, x * 2.0]), y.max(axis=1)]


def _loops() -> list[Tensor]:
    x = sg.placeholder((64, 300))
    last, stack = sg.scan(lambda h, row: (sg.tanh(h * 0.5 + row),) * 2, x[0], x)
    return [stack, *sg.gradients((last * last).sum(), [x])]


@pytest.mark.parametrize("build", [_layers, _attention, _elements, _loops])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4", "aarch64"])
def test_what_has_none_is_as_passes_over_rows_would_leave_it(
    build: Callable[[], list[Tensor]], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = CompileOptions(target_named(target), 0, fast_math=False, cache=False)
    graph = Graph(build())

    def text() -> str:
        return print_program(lower_graph(graph, options).program)

    usual, found = text(), set()

    def always(body: Sequence[Stmt]) -> bool:
        found.add(has_loops_in_loops(body))
        return True

    for module in ASKING:
        monkeypatch.setattr(module, "has_loops_in_loops", always)
    assert text() == usual
    assert False in found, "no kernel is left alone"
