"""The verifier of programs: what is built passes, and each way to touch foreign memory is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program import verify
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    Instr,
    Launch,
    Program,
    ScanInstr,
    Slice,
    WhileInstr,
)
from symgrad.codegen.program.verify import verify_program
from symgrad.graph.graph import Graph
from symgrad.passes.fusion.buffers import Buffer
from tests.support.control_programs import gradient
from tests.support.floors import program_for

ROWS = sg.placeholder((3, 4), name="rows")


def _scanned() -> Program:
    """Return a program with a loop that reads one stack and writes another."""
    return program_for(Graph(sg.scan(lambda c, x: (c + x, c * x), sg.zeros((4,)), ROWS), [ROWS]))


def _looped() -> Program:
    """Return a program with a loop that has a condition, and a tape."""
    y = sg.while_loop(lambda v: v.sum() < 9.0, lambda v: (sg.exp(v),), (ROWS,))[0]
    return program_for(Graph(gradient(y, ROWS), [ROWS]))


def _called() -> Program:
    """Return a program with a routine."""
    f = sg.function(lambda x: sg.tanh(x @ x.T) @ x)
    return program_for(Graph(f(f(ROWS)), [ROWS]))


def _products() -> Program:
    """Return a program with two temporaries that are needed together."""
    return program_for(Graph(sg.tanh(ROWS @ ROWS.T) @ sg.sin(ROWS @ ROWS.T), [ROWS]))


@pytest.mark.parametrize("make", [_scanned, _looped, _called, _products])
def test_what_is_built_is_well_formed(make):
    program = make()
    assert program.instrs
    verify_program(program)


@pytest.mark.parametrize("place", [0, 1])
def test_a_kernel_beside_those_that_a_pass_hands_on_is_verified(place, monkeypatch):
    program = _products()
    verify_program(program)
    verified: list[Kernel] = []
    monkeypatch.setattr(verify, "verify_kernel", verified.append)
    kernels = [*program.kernels]
    kernels[place] = replace(kernels[place])  # equal, and another one
    verify_program(replace(program, kernels=tuple(kernels)))
    assert list(map(id, verified)) == [id(kernels[place])]


def _changed(instrs: tuple[Instr, ...], change: Callable[[Instr], Instr]) -> tuple[Instr, ...]:
    def inside(instr: Instr) -> Instr:
        if isinstance(instr, ScanInstr):
            instr = replace(instr, body=_changed(instr.body, change))
        return change(instr)

    return tuple(map(inside, instrs))


def _with_slices(program: Program, change: Callable[[Slice], Argument]) -> Program:
    def of_call(instr: Instr) -> Instr:
        if not isinstance(instr, Launch):
            return instr
        changed = (change(a) if isinstance(a, Slice) else a for a in instr.arguments)
        return replace(instr, arguments=tuple(changed))

    return replace(program, instrs=_changed(program.instrs, of_call))


def _of_type(shape: tuple[int, ...]) -> Callable[[Slice], Slice]:
    return lambda part: replace(part, type=part.type.with_shape(shape))


def _with_loop(program: Program, **changes: Any) -> Program:
    """Return `program` with other heads of its loops."""

    def of_loop(instr: Instr) -> Instr:
        return replace(instr, **changes) if isinstance(instr, ScanInstr | WhileInstr) else instr

    return replace(program, instrs=_changed(program.instrs, of_loop))


def _with_calls(program: Program, change: Callable[[Launch], Launch]) -> Program:
    changed = _changed(program.instrs, lambda s: change(s) if isinstance(s, Launch) else s)
    return replace(program, instrs=changed)


def _longer(kernel: Kernel) -> Kernel:
    first, *others = kernel.params
    return replace(kernel, params=(replace(first, count=first.count + 1), *others))


def _with_longer_kernels(program: Program) -> Program:
    kernels = {kernel: _longer(kernel) for kernel in program.kernels}
    changed = _with_calls(program, lambda call: replace(call, kernel=kernels[call.kernel]))
    return replace(changed, kernels=tuple(kernels.values()))


def _with_other_operands(program: Program) -> Program:
    """Return `program` with runs of routines that are handed their scratch memory."""

    def of_call(instr: Instr) -> Instr:
        if not isinstance(instr, CallInstr):
            return instr
        return replace(instr, inputs=(instr.routine.scratch, *instr.inputs[1:]))

    return replace(program, instrs=_changed(program.instrs, of_call))


BROKEN = [
    ("slices of 3", lambda: _with_slices(_scanned(), _of_type((3,))), "3 slices of 3 elements"),
    ("slices of 5", lambda: _with_slices(_scanned(), _of_type((5,))), "3 slices of 5 elements"),
    (
        "slices of no loop around",
        lambda: _with_slices(_scanned(), lambda part: replace(part, loop=7)),
        "a slice of loop 7, which is not around",
    ),
    (
        "whole stacks",
        lambda: _with_slices(_scanned(), lambda _: Buffer("input", 9, ROWS.type)),
        "input9 does not exist",
    ),
    ("more trips", lambda: _with_loop(_scanned(), capacity=4), "4 slices of 4 elements"),
    (
        "kernels that reach further",
        lambda: _with_longer_kernels(_products()),
        "elements",
    ),
    (
        "calls that begin elsewhere",
        lambda: _with_calls(
            _products(), lambda call: replace(call, starts=(1,) * len(call.starts))
        ),
        "elements",
    ),
    (
        "a small arena",
        lambda: replace(_products(), arena_bytes=8),
        r"outside 0\.\.8",
    ),
    (
        "temporaries on top of each other",
        lambda: (lambda p: replace(p, offsets=dict.fromkeys(p.offsets, 0)))(_products()),
        "overlap",
    ),
    ("no tapes", lambda: replace(_looped(), tapes=()), "tape0 does not exist"),
    ("a routine on other memory", lambda: _with_other_operands(_called()), "its memory holds"),
    ("no routines", lambda: replace(_called(), routines=()), "no routine of the program"),
    (
        "kernels of another program",
        lambda: replace(_products(), kernels=()),
        "is no kernel of the program",
    ),
]


@pytest.mark.parametrize(("make", "message"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_program_that_touches_foreign_memory_is_refused(make, message):
    with pytest.raises(AssertionError, match=message):
        verify_program(make())


def test_the_step_is_named():
    with pytest.raises(AssertionError) as error:
        verify_program(_with_loop(_scanned(), capacity=4))
    assert "in: scan loop 0" in error.value.__notes__


def test_a_trip_count_is_one_int64():
    rows = Buffer("input", 0, ROWS.type)
    with pytest.raises(AssertionError, match="what says how to go on is f32"):
        verify_program(_with_loop(_scanned(), trips=rows))


def test_parameters_of_a_call_do_not_overlap():
    def onto_itself(call: Launch) -> Launch:
        return replace(call, arguments=(call.arguments[0],) * len(call.arguments), starts=(0, 0))

    x = sg.placeholder((4,))
    program = program_for(Graph(sg.exp(x), [x]))
    with pytest.raises(AssertionError, match="b0 and b1 overlap"):
        verify_program(_with_calls(program, onto_itself))


def test_programs_for_all_targets_are_well_formed():
    w = sg.variable(np.ones((4, 4), np.float32))
    loss = sg.tanh(ROWS @ w).sum()
    graph = Graph([loss], [ROWS], sg.optim.Adam(0.1).minimize(loss, [w]))
    for name in ("native", "x86-64-v3", "x86-64", "aarch64"):
        verify_program(program_for(graph, name))
