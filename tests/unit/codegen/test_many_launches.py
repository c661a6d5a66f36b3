"""What passes over programs do for many launches: once for each kernel, and once for each program.

Work is counted, not timed: calls, and how often the instructions of a program are walked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program import language
from symgrad.codegen.program.fuse_elements import _Launches
from symgrad.codegen.program.language import Argument, Launch
from symgrad.codegen.program.rewrite_launches import rewrite_kernels
from symgrad.config import override
from symgrad.graph import inference
from symgrad.graph.node import Node
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.draft import Drafts
from symgrad.records import replace
from symgrad.runtime.step import Step

FEW, MANY = 40, 80
MOST_WALKS = 4  # through each launch


def step_of(parameters: int, size: int = 50) -> Step:
    """Return a step that moves equal variables, each by a launch of the same kernel."""
    variables = [sg.variable(np.zeros(size, np.float32)) for _ in range(parameters)]
    given = [sg.placeholder((size,)) for _ in variables]
    moved = [(v, v - 0.5 * g) for v, g in zip(variables, given, strict=True)]
    return sg.compile(given, (), moved, opt_level=0, cache=False)


def test_a_kernel_of_many_launches_is_changed_once():
    program = step_of(FEW).executable.program
    seen: list[Kernel] = []

    def change(kernel: Kernel) -> Kernel:
        seen.append(kernel)
        return replace(kernel, body=(*kernel.body, *kernel.body))

    changed = rewrite_kernels(program, change)
    assert len(program.launches) == FEW
    assert len(seen) == len(program.kernels) == 1
    (kernel,) = changed.kernels
    assert all(launch.kernel is kernel for launch in changed.launches)
    assert all(len(launch.fused) == 1 for launch in changed.launches)


def test_a_kernel_that_comes_out_equal_changes_no_launch():
    program = step_of(FEW).executable.program
    assert rewrite_kernels(program, replace) is program


def counted_walks(monkeypatch: pytest.MonkeyPatch, parameters: int) -> int:
    """Return how many instructions are walked through for the buffers that they name."""
    walked, walk = 0, language.buffers_of

    def counting(instrs: Sequence[language.Instr]) -> object:
        nonlocal walked
        walked += len(instrs)
        return walk(instrs)

    with monkeypatch.context() as patch:
        for name, module in [*sys.modules.items()]:
            if name.startswith("symgrad") and getattr(module, "buffers_of", None) is walk:
                patch.setattr(module, "buffers_of", counting)
        with override(verify=False):
            step_of(parameters)
    return walked


def test_passes_that_change_nothing_count_mentions_once(monkeypatch):
    walked = {count: counted_walks(monkeypatch, count) for count in (FEW, MANY)}
    # Beside that the step is emitted, has its registers, and each launch is looked at alone.
    assert walked[MANY] - walked[FEW] <= MOST_WALKS * (MANY - FEW)


def test_updates_in_place_are_compared_with_no_other_launch(monkeypatch):
    compared: list[Launch] = []
    compare = _Launches._is_worth_fusing

    def counting(self: _Launches, first: Launch, second: Launch, written: set[Argument]) -> bool:
        compared.append(second)
        return compare(self, first, second, written)

    monkeypatch.setattr(_Launches, "_is_worth_fusing", counting)
    assert len(step_of(FEW, size=20_000).executable.program.launches) == FEW
    assert not compared


def test_types_of_thousands_of_sizes_are_found_again():
    sizes = range(1, 3000)
    first = [inference.interned_type(TensorType(sg.float32, (n,))) for n in sizes]
    again = [inference.interned_type(TensorType(sg.float32, (n,))) for n in sizes]
    assert all(a is b for a, b in zip(first, again, strict=True))


def test_what_a_group_moves_is_not_found_anew_at_each_merge(monkeypatch):
    looked_at = 0
    in_order = Drafts.in_order

    def counting(self: Drafts, nodes: Iterable[Node]) -> list[Node]:
        nonlocal looked_at
        found = in_order(self, nodes)
        looked_at += len(found)
        return found

    monkeypatch.setattr(Drafts, "in_order", counting)
    w, x = sg.variable(np.zeros(1000, np.float32)), sg.placeholder((1000,))
    h: sg.Tensor = x
    for number in range(100):
        h = sg.tanh(h * w + float(number % 3 + 2))
    loss = h.sum()
    with override(verify=False):
        step = sg.compile([x], [loss, *sg.gradients(loss, [w])], opt_level=0, cache=False)
    nodes = len(step.executable.optimized.nodes)
    assert looked_at <= 4 * nodes
