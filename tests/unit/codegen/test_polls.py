"""Which loops poll: those that can be long, by what their iterations and those inside take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.poll import POLL
from symgrad.codegen.program.language import CallInstr, Instr, Program, ScanInstr, WhileInstr
from symgrad.codegen.program.polls import polled_loops
from symgrad.cost_model import POLL_PERIOD
from tests.support.control_programs import gradient

X = sg.placeholder((64,))
N = sg.placeholder((), "int64")


def program_of(*outputs: sg.Tensor) -> Program:
    return sg.compile([X, N], list(outputs)).executable.program


def polled(program: Program) -> dict[int, int]:
    assert program.polled == polled_loops(program.instrs, program.routines)
    return dict(program.polled)


def loops(instrs: Sequence[Instr]) -> list[WhileInstr | ScanInstr]:
    return [instr for instr in instrs if isinstance(instr, WhileInstr | ScanInstr)]


def has_poll(step: sg.Step) -> bool:
    return f'@"{POLL}"' in step.ir("llvm")


def test_a_step_without_long_loops_has_no_poll():
    ten = sg.scan(lambda c, _: (c * X, c), X, None, length=10)[0]
    assert not has_poll(sg.compile([X], [ten, sg.sum(X)]))
    bounded = sg.while_loop(lambda c: c[0] < 1.0, lambda c: (c * X,), (X,), maximum_iterations=10)[
        0
    ]
    assert not has_poll(sg.compile([X], sg.gradients(bounded, [X])))


def test_a_loop_that_its_values_end_polls_and_so_does_its_gradient():
    last = sg.while_loop(lambda c: c[0] < 1.0, lambda c: (c * X,), (X,))[0]
    program = program_of(gradient(last, X))
    assert polled(program).keys() == {loop.number for loop in loops(program.instrs)}
    assert len(polled(program)) == 2


@pytest.mark.parametrize(("length", "polls"), [(100, False), (POLL_PERIOD, True)])
def test_a_loop_of_a_known_length_polls_if_that_is_long(length, polls):
    program = program_of(sg.fori_loop(0, length, lambda i, c: sg.tanh(c * X), X))
    assert bool(polled(program)) == polls


def test_a_short_loop_counts_in_the_one_around_it():
    def inner(length: int) -> Any:
        return sg.fori_loop(0, N, lambda i, c: _scanned(c, length), X)

    few, many = (polled(program_of(inner(length))) for length in (2, 200))
    (few_cycles,), (many_cycles,) = few.values(), many.values()
    assert many_cycles > 50 * few_cycles


def _scanned(c: sg.Tensor, length: int) -> Any:
    return sg.scan(lambda c, _: (sg.sin(c * X), None), c, None, length=length)[0]


def test_a_function_counts_where_it_is_called():
    @sg.function
    def costly(x: sg.Tensor) -> sg.Tensor:
        for _ in range(20):
            x = sg.sum(sg.sin(x)) * sg.cos(x)
        return x

    program = program_of(sg.fori_loop(0, N, lambda i, c: costly(costly(c)), X))
    (loop,) = loops(program.instrs)
    assert any(isinstance(instr, CallInstr) for instr in loop.body)
    empty = polled(program_of(sg.fori_loop(0, N, lambda i, c: c * X, X)))
    assert polled(program)[loop.number] > 20 * max(empty.values())


def test_a_loop_in_registers_counts_in_one():
    last = sg.while_loop(lambda c: c[0] < 1.0, lambda c: (c * X,), (X,))[0]
    step = sg.compile([X], last, target="x86-64-v3")
    text = step.ir("llvm-opt")
    assert "phi i64" in text
    assert f"@{POLL}(" in text
    result = sg.compile([X], last)(np.full(64, 2, np.float32))
    assert result[0] == 2
