"""Which buffers are in registers while a loop runs: by what touches them, and how much fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import symgrad as sg
from symgrad.codegen.program.language import Instr, Launch, Program, ScanInstr, WhileInstr
from symgrad.codegen.program.print import print_program
from symgrad.codegen.program.registers import is_written_out
from symgrad.graph.graph import Graph
from symgrad.passes.fusion.buffers import Buffer
from tests.support.floors import program_for
from tests.support.programs import program_from

TARGET = "x86-64-v4"


def loops_of(instrs: Sequence[Instr]) -> list[WhileInstr | ScanInstr]:
    return [instr for instr in instrs if isinstance(instr, WhileInstr | ScanInstr)]


def modes(program: Program) -> dict[str, int]:
    """Return how often each mode occurs among the registers of the one loop."""
    (loop,) = loops_of(program.instrs)
    found = [register.mode for register in loop.registers]
    return {mode: found.count(mode) for mode in found}


def counted(width: int, dtype: str = "float32", target: str = TARGET) -> Program:
    """Return the program of a loop with one vector, one factor and a counter."""
    v, factor = sg.placeholder((width,), dtype), sg.placeholder((width,), dtype)
    n = sg.placeholder((), "int64")
    _, last = sg.while_loop(
        lambda i, v: i < n, lambda i, v: (i + 1, v * factor), (sg.constant(0, "int64"), v)
    )
    return program_for(Graph(last, [v, factor, n]), target)


def test_what_a_loop_reads_and_what_it_changes_are_registers():
    # In: the factor and n. Both: the counter and v. Nowhere else: the condition and the count.
    assert modes(counted(64)) == {"in": 2, "inout": 2, "local": 2}
    text = print_program(counted(64))
    assert "while loop 0 registers(local temporary" in text
    assert "in input1" in text


@pytest.mark.parametrize(
    ("width", "target", "inout"),
    [
        (512, "x86-64-v4", 2),  # 2 kB in 32 registers of 64 bytes
        (513, "x86-64-v4", 1),
        (128, "x86-64-v3", 2),
        (129, "x86-64-v3", 1),
        (64, "x86-64", 2),
        (65, "x86-64", 1),
        (128, "aarch64", 2),
        (129, "aarch64", 1),
    ],
)
def test_a_loop_variable_that_the_registers_have_no_room_for_stays_in_memory(width, target, inout):
    assert modes(counted(width, target=target))["inout"] == inout


def test_what_a_called_kernel_touches_is_in_memory():
    h, w = sg.placeholder((8, 8)), sg.placeholder((8, 8))
    n = sg.placeholder((), "int64")
    last = sg.fori_loop(0, n, lambda i, pair: (pair[0] @ w, pair[1] * 0.5), (h, h))
    (loop,) = loops_of(program_for(Graph(list(last), [h, w, n]), TARGET).instrs)
    (product,) = (
        call
        for call in loop.body
        if isinstance(call, Launch) and not is_written_out(call.kernel, 64)
    )
    assert isinstance(product.arguments[0], Buffer)
    assert {register.buffer for register in loop.registers}.isdisjoint(product.arguments)
    assert any(r.mode == "inout" and r.buffer.type.count == 64 for r in loop.registers)


def test_elements_that_are_chosen_by_a_value_are_in_memory():
    table, n = sg.placeholder((8,), "int64"), sg.placeholder((), "int64")
    index = sg.fori_loop(0, n, lambda _i, index: sg.take(table, index), sg.constant(0, "int64"))
    (loop,) = loops_of(program_for(Graph(index, [table, n]), TARGET).instrs)
    held = [register.buffer for register in loop.registers]
    assert all(buffer.type.count == 1 for buffer in held)
    assert "in input0" not in str(loop.registers)


def test_slices_of_stacks_are_in_memory():
    xs = sg.placeholder((5, 8))
    carry, ys = sg.scan(lambda c, x: (c + x, c * x), sg.zeros((8,)), xs)
    (loop,) = loops_of(program_for(Graph([carry, ys], [xs]), TARGET).instrs)
    places = [(r.mode, r.buffer.place) for r in loop.registers]
    assert ("inout", "temporary") in places
    assert not any(place in ("input", "output") for _, place in places)


def test_a_loop_that_only_calls_is_left_as_it_is():
    h, w = sg.placeholder((64, 64)), sg.placeholder((64, 64))
    last, _ = sg.scan(lambda h, _x: (h @ w, ()), h, length=4)
    (loop,) = loops_of(program_for(Graph(last, [h, w]), TARGET).instrs)
    assert loop.registers == ()
    assert "registers(" not in print_program(program_for(Graph(last, [h, w]), TARGET))


def test_a_loop_of_too_many_instructions_is_left_to_the_loops_in_it():
    v, n = sg.placeholder((64,)), sg.placeholder((), "int64")

    def body(_i: sg.Tensor, v: sg.Tensor) -> Any:
        for number in range(30):
            v = sg.exp(sg.sum(v) * v) + number  # a kernel each, since each has its reduction
        return sg.fori_loop(0, n, lambda _j, v: v * 0.5, v)

    last = sg.fori_loop(0, n, body, v)
    (outer,) = loops_of(program_for(Graph(last, [v, n]), TARGET).instrs)
    assert outer.registers == ()
    (inner,) = loops_of(outer.body)
    assert inner.registers


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (sg.placeholder((64,)) + 1, True),
        (sg.placeholder((8, 8)).T + 1, True),
        (sg.sum(sg.placeholder((64,))), True),
        (sg.placeholder((100_000,)) + 1, False),
        (sg.sum(sg.placeholder((100_000,))), False),
        (sg.tanh(sg.placeholder((1000,))), False),
        (sg.placeholder((16, 16)) @ sg.placeholder((16, 16)), False),
    ],
    ids=["map", "transposition", "sum", "long map", "long sum", "costly map", "product"],
)
def test_small_kernels_without_products_are_written_out(result, expected):
    (call,) = program_from(result).launches
    assert is_written_out(call.kernel, 64) == expected


def test_the_loops_of_a_program_write_out_so_much_and_no_more():
    """Loops that differ are marked up to a limit; equal ones are written out once."""
    v, n = sg.placeholder((64,)), sg.placeholder((), "int64")

    def marked(factor: Callable[[int], float]) -> list[bool]:
        x = v
        for number in range(80):
            f = factor(number)
            x = sg.fori_loop(0, n, lambda _i, x, f=f: sg.sin(x) * f + v, x)
        program = program_for(Graph(x, [v, n]), TARGET)
        return [bool(loop.registers) for loop in loops_of(program.instrs)]

    assert all(marked(lambda _number: 0.5))
    different = marked(lambda number: number / 100)
    assert different[0]
    assert not different[-1]
