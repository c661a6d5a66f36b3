"""Which calls are inlined and which remain, what they share, and what that does to a program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.print import print_program
from symgrad.cost_model import CALLS_IN_FUNCTION, FUNCTION_GROWTH, SMALL_FUNCTION
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.verify import verify
from symgrad.passes.calls.callees import calls_in, graphs_within
from symgrad.passes.calls.inline_calls import inline_calls
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.runtime.function import compile
from symgrad.runtime.step import Step
from tests.support.call_programs import count_calls, kept
from tests.support.control_programs import run
from tests.support.floors import TARGETS, compile_for, run_everywhere

X = sg.placeholder((16,), "float64", name="x")
POINT = np.linspace(-1.0, 1.0, 16)
WEIGHTS = np.random.default_rng(7).normal(size=(16, 16)) * 0.2


def large(a: Tensor) -> Tensor:
    """Return what takes more than `SMALL_FUNCTION` ops, a product and a sum among them."""
    h: Tensor = sg.tanh(a @ sg.constant(WEIGHTS))
    h = h * sg.exp(-a * a).sum() + sg.sin(a)
    return sg.tanh(h) * 0.5 + a * 0.25


def small(a: Tensor) -> Tensor:
    result: Tensor = sg.tanh(a @ sg.constant(WEIGHTS))
    return result


def elementwise(a: Tensor) -> Tensor:
    for _ in range(12):
        a = sg.sin(a) * 0.5 + a
    return a


def chain(f: Callable[[Any], Any], times: int) -> Tensor:
    y = X
    for _ in range(times):
        y = f(y)
    return y


def calls_left(*outputs: Tensor) -> int:
    return count_calls(kept(inline_calls(Graph(outputs, [X]))))


def program_of(step: Step) -> Program:
    return step.executable.program


# -------------------------------------------------------------------------------------- the rule


def test_a_large_function_with_many_calls_remains_a_function():
    assert calls_left(chain(sg.function(large), 20)) == 20


@pytest.mark.parametrize(
    ("function", "times"),
    [(small, 50), (elementwise, 50), (large, 1), (large, 2)],
)
def test_small_elementwise_and_rarely_called_functions_are_inlined(function, times):
    assert calls_left(chain(sg.function(function), times)) == 0


def test_the_rule_counts_what_inlining_would_add():
    (node,) = calls_in(Graph([sg.function(large)(X)], [X]))
    callee = node.attrs["callee"]
    assert isinstance(callee, Graph)
    size = sum(not n.definition.is_leaf for n in callee.nodes)
    assert size > SMALL_FUNCTION
    most = FUNCTION_GROWTH // size + 1
    assert calls_left(chain(sg.function(large), most)) == 0
    assert calls_left(chain(sg.function(large), most + 1)) == most + 1


def test_calls_within_branches_and_loops_count_and_remain():
    f = sg.function(large)
    y = sg.cond(X.sum() > 0.0, lambda: chain(f, 10), lambda: chain(f, 11))
    z = sg.fori_loop(0, 3, lambda _i, v: f(v), y)
    assert calls_left(z) == 22
    run([z], {X: POINT})


def test_a_function_called_once_in_another_is_inlined_there():
    inner = sg.function(large)
    outer = sg.function(lambda a: inner(a) * a.sum())
    graph = kept(inline_calls(Graph([chain(outer, 20)], [X])))
    assert count_calls(graph) == 20
    (callee,) = graphs_within(graph)[1:]
    assert not list(calls_in(callee))


def test_functions_traced_anew_in_a_region_are_one():
    f = sg.function(large)
    y = sg.cond(X.sum() > 0.0, lambda: chain(f, 12), lambda: chain(f, 12) * 2.0)
    graph = kept(inline_calls(Graph([y], [X])))
    callees = {node.attrs["callee"] for g in graphs_within(graph) for node in calls_in(g)}
    assert (count_calls(graph), len(callees)) == (24, 1)


def test_a_program_without_calls_is_left_as_it_is():
    graph = Graph([large(X)], [X])
    assert inline_calls(graph) is graph


def test_what_forward_and_gradient_have_in_common_is_built_once():
    f = sg.function(lambda a: sg.exp(a) * a.sum())
    y = f(X)
    (g,) = sg.gradients(y.sum(), X)
    assert g is not None
    inlined = inline_calls(Graph([y, g], [X]))
    verify(inlined)
    assert [n.op for n in inlined.nodes].count("exp") == 1
    assert run_everywhere(inlined, [POINT], targets=("native",)) is None


def test_a_loop_in_a_function_and_its_recording_copy_become_one():
    f = sg.function(lambda a: sg.fori_loop(0, 3, lambda _i, v: sg.sin(v), sg.cos(a)))
    y = f(X)
    (g,) = sg.gradients(y.sum(), X)
    assert g is not None
    graph = merge_loops(inline_calls(Graph([y, g], [X])))
    forward = [n for n in graph.nodes if n.op == "scan" and not n.attrs["reverse"]]
    assert len(forward) == 1


# ------------------------------------------------------------------------------------ sharing


def test_results_that_no_call_reads_are_dropped_from_all():
    y = chain(sg.function(large), 20)
    forward = kept(inline_calls(Graph([y], [X])))
    assert {len(n.outputs) for n in calls_in(forward)} == {1}
    (g,) = sg.gradients(y.sum(), X)
    assert g is not None
    both = kept(inline_calls(Graph([y, g], [X])))
    assert max(len(n.outputs) for n in calls_in(both)) > 3
    assert len({n.attrs["callee"] for n in calls_in(both)}) == 2


def test_operands_that_are_not_read_are_dropped():
    f = sg.function(lambda a, b: (large(a), large(b)))
    y = X
    for i in range(10):
        y, _ = f(y, X * float(i))
    graph = kept(inline_calls(Graph([y], [X])))
    assert {len(n.inputs) for n in calls_in(graph)} == {1}
    assert not any(n.op == "multiply" for n in graph.nodes)


def test_a_result_read_at_one_call_is_given_by_all():
    f = sg.function(lambda a: (large(a), large(a * 2.0)))
    total, y = X, X
    for i in range(10):
        y, other = f(y)
        total = total + other if i == 5 else total
    graph = kept(inline_calls(Graph([y, total], [X])))
    assert {len(n.outputs) for n in calls_in(graph)} == {2}
    assert run_everywhere(graph, [POINT], targets=("native",)) is None


# ----------------------------------------------------------------------- what it does to a program


def _with_gradient(times: int) -> Step:
    y = chain(sg.function(large), times)
    (g,) = sg.gradients(y.sum(), X)
    return compile([X], [y, g])


def _beside_the_step(step: Step) -> list[str]:
    """Return the text of what the step calls, but for numbers: memory is elsewhere."""
    functions = re.findall(r"^define .*?^}", step.ir("llvm"), re.MULTILINE | re.DOTALL)
    return [re.sub(r"\d+", "0", f) for f in functions if '@"step' not in f.splitlines()[0]]


@pytest.mark.slow
def test_fifty_calls_take_the_code_of_twelve():
    few, many = _with_gradient(12), _with_gradient(50)
    for step in (few, many):
        assert len(program_of(step).routines) == 2  # the function and its gradient
    counts = [len(program_of(step).kernels) for step in (few, many)]
    assert counts[0] == counts[1]
    assert _beside_the_step(few) == _beside_the_step(many)
    native = [step.ir("llvm").count("define ") for step in (few, many)]
    # The step of 50 calls is cut into parts, and there is nothing else.
    assert native[1] - native[0] == len(program_of(many).instrs) // CALLS_IN_FUNCTION + 1


def test_temporaries_of_a_routine_are_there_once():
    few, many = (compile_for(kept(Graph([chain(sg.function(large), n)], [X]))) for n in (10, 40))
    assert few.program.arena_bytes == many.program.arena_bytes
    (routine,) = many.program.routines
    assert many.program.lifetimes[routine.scratch] == (0, 39)


def test_kernels_of_a_routine_are_named_by_the_function_and_listed_once():
    step = compile([X], chain(sg.function(large), 20))
    (routine,) = program_of(step).routines
    labels = [kernel.label for kernel in step.kernels]
    assert labels == [call.label for call in program_of(step).launches]
    assert labels
    assert all(label.startswith("large: ") for label in labels)
    profile = step.profile(POINT, repeat=2)
    assert "large: " in str(profile)
    assert routine.name in step.ir("loops")


def test_a_routine_that_cannot_fail_is_not_asked():
    f = sg.function(lambda a: sg.take(large(a), sg.astype(a.sum(), "int32")) + large(a))
    checked, unchecked = (compile_for(kept(Graph([g(X)], [X]))) for g in (f, sg.function(large)))
    assert "failed" in checked.llvm.partition('define i32 @"step"')[2]
    assert "failed" not in unchecked.llvm.partition('define i32 @"step"')[2]


@pytest.mark.parametrize("targets", [("native",), pytest.param(TARGETS, marks=pytest.mark.slow)])
def test_routines_run_in_loops_and_other_routines(targets):
    inner = sg.function(large)
    outer = sg.function(lambda a: sg.fori_loop(0, 3, lambda _i, v: inner(v) + inner(a), a))
    graph = kept(Graph([sg.fori_loop(0, 2, lambda _i, v: outer(v), X), outer(X)], [X]))
    assert len(compile_for(graph).program.routines) == 2
    assert run_everywhere(graph, [POINT], targets=targets) is None


@pytest.mark.parametrize("targets", [("native",), pytest.param(TARGETS, marks=pytest.mark.slow)])
def test_a_loop_with_registers_runs_a_routine(targets):
    f = sg.function(large)
    start = (sg.constant(0, "int64"), X, sg.constant(0.0, "float64"))
    _, y, z = sg.while_loop(
        lambda i, _v, _s: i < 5, lambda i, v, s: (i + 1, f(v), s * 0.5 + 1.0), start
    )
    graph = kept(Graph([y, z], [X]))
    text = print_program(compile_for(graph).program)
    assert "registers(" in text.partition("call @large")[0]
    assert run_everywhere(graph, [POINT], targets=targets) is None


@pytest.mark.slow
def test_threads_share_the_work_of_a_routine():
    x = sg.placeholder((512, 512))
    f = sg.function(
        lambda a: sg.tanh(a @ a * 0.01) * sg.exp(-a * a).sum() * 0.001 + sg.sin(a) * 0.5
    )
    y = x
    for _ in range(12):
        y = f(y)
    alone, shared = (compile([x], y, threads=n) for n in (1, 2))
    assert len(program_of(shared).routines) == 1
    assert "parallel" in shared.ir("loops")
    given = np.linspace(-1.0, 1.0, 512 * 512, dtype=np.float32).reshape(512, 512)
    assert alone(given).tobytes() == shared(given).tobytes()


# ------------------------------------------------------------------------------ what was weighed


@pytest.mark.parametrize(
    ("length", "calls", "reason"),
    [
        (2, 3, f"inlined: no more than {SMALL_FUNCTION} ops ("),
        (20, 2, f"inlined: adds 20 ops, no more than {FUNCTION_GROWTH} (20 ops, 2 calls)"),
        (20, 40, "inlined: elementwise, no more than"),
    ],
)
def test_a_step_tells_why_a_function_is_inlined(length, calls, reason):
    def body(x: Tensor) -> Tensor:
        for _ in range(length):
            x = sg.sin(x)
        return x

    (found,) = _decisions(body, calls)
    assert found.startswith(reason)


def test_a_step_tells_why_a_function_remains_one():
    def body(x: Tensor) -> Tensor:
        for _ in range(20):
            x = x * sg.sum(x)
        return x

    (found,) = _decisions(body, 9)
    assert found.startswith("kept: inlining adds ")
    assert f"more than {FUNCTION_GROWTH} (" in found
    assert found.endswith("9 calls)")


def _decisions(body: Callable[[Tensor], Tensor], calls: int) -> list[str]:
    """Return what was decided about a function that is called so many times in a row."""
    f, y = sg.function(body), X
    for _ in range(calls):
        y = f(y)
    return [d.reason for d in compile([X], y).decisions if d.rule == "inline-calls"]
