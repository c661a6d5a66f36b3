"""Programs: which calls share a kernel, and steps so long that they are cut into parts."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import module
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.print import print_program
from symgrad.codegen.program.rewrite_launches import rewrite_kernels
from symgrad.codegen.target import target_named
from symgrad.cost_model import CALLS_IN_FUNCTION
from symgrad.graph.graph import Graph
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.runtime.function import compile
from tests.support import programs

STEPS = 70


def program_of(graph: Graph) -> Program:
    return programs.program_of(fuse(graph))


def unrolled(steps: int = STEPS, size: int = 4) -> tuple[sg.Tensor, sg.Tensor, sg.Tensor]:
    """Return an unrolled loop over the rows of x, with weights that are the same in all turns."""
    x, w = sg.placeholder((steps, 1, size), name="x"), sg.placeholder((size, size), name="w")
    h = sg.zeros((1, size))
    for i in range(steps):
        h = sg.tanh(x[i] + h @ w)
    return x, w, h


def taken(count: int, rows: int = 6) -> tuple[sg.Tensor, sg.Tensor, list[sg.Tensor]]:
    """Return a table and `count` lookups in it, each of the scaled result of the one before."""
    table = sg.placeholder((rows,), "int64", name="table")
    index = sg.placeholder((), "int64", name="index")
    results = [index]
    for _ in range(count):
        results.append(sg.take(table, results[-1]) + 1)
    return table, index, results[1:]


def test_the_turns_of_an_unrolled_loop_share_kernels():
    x, w, h = unrolled()
    found = [g for g in gradients(h.sum(), [w]) if g is not None]
    program = program_of(Graph([h, *found], [x, w]))
    assert len(program.launches) > STEPS
    assert len(program.kernels) < 20
    starts = {call.starts for call in program.launches}
    assert len(starts) >= STEPS - 2
    assert "input0[4]" in print_program(program)


def test_lookups_on_several_lines_share_kernels():
    table, index, results = taken(20)
    program = program_of(Graph(results, [table, index]))
    fallible = [call for call in program.launches if call.kernel.can_fail]
    assert len(fallible) > 10
    assert len({call.statuses for call in fallible}) == len(fallible)
    assert len({call.kernel.name for call in fallible}) <= 3


def test_a_long_step_is_cut_into_parts():
    x, w, h = unrolled()
    program = program_of(Graph([h], [x, w]))
    text = str(module.emit_module(program, target_named("native")))
    parts = -(-len(program.launches) // CALLS_IN_FUNCTION)
    assert parts > 1
    assert text.count("optnone") == parts + 1
    assert '@"step.0"(' in text
    assert f'@"step.{(parts - 1) * CALLS_IN_FUNCTION}"(' in text


def test_a_function_that_does_nothing_but_call_is_not_optimized():
    x = sg.placeholder((8,))
    calls = Graph([sg.cumsum(x) + sg.sum(x)], [x])
    branches = Graph([sg.cond(sg.sum(x) > 0, lambda: sg.cumsum(x), lambda: sg.exp(x))], [x])
    for graph, is_call in ((calls, True), (branches, False)):
        text = str(module.emit_module(program_of(graph), target_named("native")))
        head = next(line for line in text.splitlines() if '@"step"(' in line)
        assert ("optnone" in head) == is_call


def test_a_long_step_computes_what_it_says():
    x, w, h = unrolled()
    step = compile([x, w], h)
    random = np.random.default_rng(0)
    rows = random.standard_normal((STEPS, 1, 4)).astype(np.float32)
    weights = random.standard_normal((4, 4)).astype(np.float32) / 4
    expected = np.zeros((1, 4), np.float32)
    for row in rows:
        expected = np.tanh(row + expected @ weights)
    np.testing.assert_allclose(step(rows, weights), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("turn", [0, 1, 50, 89])
def test_a_part_that_fails_ends_a_long_step(turn):
    table, index, results = taken(90, rows=100)
    assert len(program_of(Graph(results, [table, index])).launches) > CALLS_IN_FUNCTION
    step = compile([table, index], results)
    rows = np.arange(100)
    rows[turn] = (
        1000  # the lookup after this one is out of range; the last one's is never looked up
    )
    if turn == 89:
        assert step(rows, np.int64(0))[-1] == 1001
        return
    with pytest.raises(sg.IndexOutOfRangeError, match="index 1001 is out of range") as caught:
        step(rows, np.int64(0))
    assert caught.value.source is not None
    assert caught.value.source.function == "taken"
    good = np.arange(100)
    assert step(good, np.int64(0))[-1] == 90


def test_a_loop_variable_that_stays_is_not_written():
    x, w = sg.placeholder((3, 3)), sg.placeholder((3, 3))
    looped = sg.while_loop(
        lambda i, _v, _w: i < 3, lambda i, v, w: (i + 1, sg.tanh(v @ w), w), (0, x, w)
    )
    text = print_program(program_of(Graph(looped[1:], [x, w])))
    assert text.count("first loop variable") == 3
    assert text.count("next loop variable") == 1


def test_a_kernel_that_many_launches_share_is_rewritten_once():
    x, w, h = unrolled()
    program = program_of(Graph([h], [x, w]))
    seen: list[Kernel] = []

    def noted(kernel: Kernel) -> Kernel:
        seen.append(kernel)
        return kernel

    assert rewrite_kernels(program, noted) is program
    assert len(seen) == len(program.kernels) < len(program.launches)
