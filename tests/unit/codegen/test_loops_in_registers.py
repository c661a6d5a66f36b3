"""Loops whose buffers are in registers: the same results to the bit, and no memory in between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program import passes as program_passes
from symgrad.codegen.program.language import Program, ScanInstr, WhileInstr
from symgrad.codegen.program.passes import PROGRAM_PASSES
from symgrad.codegen.program.registers import loops_around
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.runtime.executable import Executable
from tests.support import floors
from tests.support.control_programs import gradient, run
from tests.support.floors import compile_for, run_everywhere, run_native
from tests.support.loop_programs import random_loop

TARGETS = [
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=[pytest.mark.isa("sse2"), pytest.mark.slow]),
]
FEW_SEEDS = range(8)
# What the others make is large: the slow tests run them.
SMALL_SEEDS = (0, 1, 2, 3, 5, 6)
IN_TURN = [(seed, ("native", "x86-64-v3")[seed % 2]) for seed in SMALL_SEEDS]
MORE_SEEDS = range(8, 224)


def in_memory(graph: Graph, target: str) -> Executable:
    """Compile without any buffer in registers."""
    unscheduled = [row for row in PROGRAM_PASSES if row.name != "registers"]
    with patch.object(program_passes, "PROGRAM_PASSES", unscheduled):
        executable = compile_for(graph, target)
    assert not registers_of(executable.program)
    return executable


def registers_of(program: Program) -> list[WhileInstr | ScanInstr]:
    """Return the outermost loops of a program that have registers."""
    loops = [s for s in program.instrs if isinstance(s, WhileInstr | ScanInstr)]
    return [loop for loop in loops if loop.registers]


def assert_same_bits(graph: Graph, inputs: Sequence[Array], target: str = "native") -> Executable:
    executable = compile_for(graph, target)
    found = run_native(executable, inputs).outputs
    wanted = run_native(in_memory(graph, target), inputs).outputs
    assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
    return executable


# ------------------------------------------------------------------------------------ results


@pytest.mark.isa("avx2")
@pytest.mark.parametrize(("seed", "target"), IN_TURN)
def test_registers_change_no_bit_of_a_random_loop(seed, target):
    graph, inputs = random_loop(seed)
    assert_same_bits(graph, inputs, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_registers_change_no_bit_of_many_more_loops(target):
    for seed in (*FEW_SEEDS, *MORE_SEEDS):
        graph, inputs = random_loop(seed)
        assert_same_bits(graph, inputs, target)


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_random_loops_give_the_same_on_all_floors(seed):
    graph, inputs = random_loop(seed)
    assert run_everywhere(graph, inputs, targets=[floors.TARGETS[seed % 3]]) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_random_loops_give_the_same_on_all_floors_of_every_target(seed):
    graph, inputs = random_loop(seed)
    assert run_everywhere(graph, inputs) is None


def test_the_random_loops_have_registers():
    options = CompileOptions(target_named("native"), 1, False, False)
    programs = [lower_graph(random_loop(seed)[0], options).program for seed in SMALL_SEEDS]
    marked = [bool(registers_of(program)) for program in programs]
    assert sum(marked) > len(SMALL_SEEDS) / 2


def test_a_branch_in_a_loop_keeps_what_it_computes_in_registers():
    v, n = sg.placeholder((20,), "float64"), sg.placeholder((), "int64")
    result = sg.fori_loop(
        0, n, lambda i, v: sg.cond(v[0] > 0.0, lambda: v * 0.5 - 0.1, lambda: v + 1.0), v
    )
    graph = Graph([result, gradient(result, v)], [v, n])
    executable = assert_same_bits(graph, [np.linspace(0.1, 2.0, 20), np.array(11)])
    assert registers_of(executable.program)


def test_a_loop_in_a_loop_has_its_loop_variables_in_the_same_registers():
    v, n = sg.placeholder((12,), "float32"), sg.placeholder((), "int64")
    result = sg.fori_loop(0, n, lambda i, v: sg.fori_loop(0, i, lambda j, w: w * 0.5 + v, v), v)
    graph = Graph(result, [v, n])
    executable = assert_same_bits(graph, [np.arange(12, dtype=np.float32), np.array(5)])
    (outer,) = registers_of(executable.program)
    (inner,) = (s for s in outer.body if isinstance(s, ScanInstr))
    assert not inner.registers
    assert len(registers_of(executable.program)) == 1


@pytest.mark.parametrize("wrong", [0, 3, 7])
def test_an_index_out_of_range_ends_a_loop_in_registers(wrong):
    table, n = sg.placeholder((8,), "int64"), sg.placeholder((), "int64")
    index = sg.fori_loop(0, n, lambda _i, index: sg.take(table, index), sg.constant(0, "int64"))
    step = sg.compile([table, n], index)
    assert registers_of(step.executable.program)
    following = np.arange(1, 9)
    following[wrong] = 99
    with pytest.raises(sg.IndexOutOfRangeError, match="index 99 is out of range") as caught:
        step(following, np.array(9))
    assert caught.value.source is not None
    assert step(np.arange(1, 9) % 8, np.array(11)) == 3


def test_a_loop_that_fails_leaves_the_state_as_it_was():
    table, n = sg.placeholder((4,), "int64"), sg.placeholder((), "int64")
    state = sg.variable(np.int64(1), name="state")
    new = sg.fori_loop(0, n, lambda _i, index: sg.take(table, index) + 1, state)
    step = sg.compile([table, n], new, [(state, new)])
    with pytest.raises(sg.IndexOutOfRangeError):
        step(np.arange(4), np.array(4))
    assert state.value == 1
    assert step(np.arange(4), np.array(2)) == 3
    assert state.value == 3


def test_a_loop_over_slices_of_a_loop_variable_has_a_gradient():
    """The inner loop reads slices of a slice of a tape."""
    rows, limit = sg.placeholder((3, 4), "float64"), sg.placeholder((), "float64")

    def body(rows: sg.Tensor, i: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        carry, _ = sg.scan(lambda c, x: (c * sg.sin(x), c), sg.ones((4,), "float64"), rows)
        return rows * 0.9 + carry * 0.01, i + 1.0

    last, _ = sg.while_loop(lambda _rows, i: i < limit, body, (rows, sg.constant(0.0, "float64")))
    given = {rows: np.arange(12.0).reshape(3, 4) / 7, limit: np.array(3.0)}
    run([last, gradient(last, rows)], given)


@pytest.mark.slow
def test_a_loop_in_registers_takes_slices_of_the_loops_around_it():
    """The outer loop has too many instructions, the inner one reads and writes slices of its."""
    rows, xs = sg.placeholder((6, 64), "float64"), sg.placeholder((3, 4, 64), "float64")

    def outer(carry: sg.Tensor, slices: tuple[sg.Tensor, sg.Tensor]) -> Any:
        row, block = slices
        for number in range(30):
            row = sg.exp(sg.mean(row) * row * 0.1) - number * 0.01
        return sg.scan(lambda c, x: (c * 0.5 + x * row, c * x), carry, block)

    carry, ys = sg.scan(outer, sg.ones((64,), "float64"), (rows[:3], xs))
    graph = Graph([carry, ys, gradient(ys, xs), gradient(carry, rows)], [rows, xs])
    random = np.random.default_rng(0)
    inputs = [random.uniform(0, 1, t.type.static_shape) for t in graph.inputs]
    executable = assert_same_bits(graph, inputs)
    loops = [s for s in executable.program.instrs if isinstance(s, WhileInstr | ScanInstr)]
    large = [loop for loop in loops if not loop.registers]
    inner = [s for loop in large for s in loop.body if isinstance(s, ScanInstr) and s.registers]
    assert any(loops_around(loop) for loop in inner)
    assert run_everywhere(graph, inputs, targets=["native"]) is None


# --------------------------------------------------------------------------------------- code


def decaying(width: int) -> tuple[list[sg.Tensor], sg.Tensor]:
    """Return the inputs and the result of a loop that ends when an element is large enough."""
    start, decay, drive = (sg.placeholder((width,)) for _ in range(3))
    limit, bound = sg.placeholder(()), sg.placeholder((), "int64")
    _, last = sg.while_loop(
        lambda i, v: sg.logical_and(i < bound, v[0] < limit),
        lambda i, v: (i + 1, v * decay + drive),
        (sg.constant(0, "int64"), start),
    )
    return [start, decay, drive, limit, bound], last


def code_of(step: sg.Step, number: int, stage: str = "llvm-opt") -> str:
    """Return the code of the function that is loop `number`."""
    head = (
        rf"^define [^\n]*step\.loop\.{number}\W" if stage != "asm" else rf"^step\.loop\.{number}:"
    )
    end = r"^}" if stage != "asm" else r"^\.Lfunc_end"
    found = re.search(rf"{head}.*?{end}", step.ir(stage), re.MULTILINE | re.DOTALL)
    assert found, f"loop {number} has no function of its own"
    return found[0]


def test_the_loop_variables_of_a_loop_are_in_memory_only_before_and_after_it():
    inputs, last = decaying(64)
    code = code_of(sg.compile(inputs, last, target="x86-64-v4"), 0)
    assert "alloca" not in code
    called = re.findall(r" call [^@\n]*@([\w.]+)", code)
    assert set(called) <= {
        "poll",
        "llvm.umax.i64",
        "llvm.smin.i64",
        "llvm.sadd.sat.i64",
        "llvm.usub.sat.i64",
    }
    assert len(re.findall(r"load <16 x float>", code)) == 3 * 4  # start, decay and drive, once
    assert len(re.findall(r"store <16 x float>", code)) == 4
    assert _in_a_cycle(code, "store") == []


def test_a_loop_that_is_recorded_stores_nothing_but_the_record():
    inputs, last = decaying(64)
    both = sg.compile(inputs, [last, *sg.gradients(last, inputs[:3])], target="x86-64-v4")
    forward, backward = code_of(both, 0), code_of(both, 1)
    stores = [line for line in _in_a_cycle(forward, "store") if "<16 x float>" in line]
    assert len(stores) == 4
    assert _in_a_cycle(backward, "store") == []
    loads = [line for line in _in_a_cycle(backward, "load") if "<16 x float>" in line]
    assert len(loads) == 4


def test_loop_variables_that_fit_the_registers_are_not_spilled():
    inputs, last = decaying(64)
    outputs = [last, *sg.gradients(last, inputs[:3])]
    forward = code_of(sg.compile(inputs, last, target="x86-64-v4"), 0, "asm")
    backward = code_of(sg.compile(inputs, outputs, target="x86-64-v4"), 1, "asm")
    for code in (forward, backward):
        assert "%zmm" in code
        _, *blocks = re.split(r"^\.L\w+:", code, flags=re.MULTILINE)  # those behind the first
        hot = [block for block in blocks if not re.search(r"callq\s+poll", block)]
        assert len(hot) > len(blocks) // 2
        assert not any(re.search(r"%zmm\d+, -?\d*\(%rsp\)", block) for block in hot)


def _in_a_cycle(code: str, instruction: str) -> list[str]:
    """Return the instructions of a kind in the blocks that reach themselves."""
    blocks = _blocks(code)
    after = {name: set(re.findall(r"label %([\w.]+)", text)) for name, text in blocks.items()}
    looped = [name for name in blocks if name in _reached(after, after[name])]
    lines = (line for name in looped for line in blocks[name].splitlines())
    return [line for line in lines if re.search(rf"(^|= ){instruction} ", line.strip())]


def _blocks(code: str) -> dict[str, str]:
    parts = re.split(r"^([\w.]+):.*$", code, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _reached(after: dict[str, set[str]], pending: set[str]) -> set[str]:
    found: set[str] = set()
    while pending - found:
        found |= pending
        pending = set().union(*(after[name] for name in pending))
    return found


@pytest.mark.parametrize("count", [8, pytest.param(30, marks=pytest.mark.slow)])
def test_equal_loops_share_their_code(count):
    v, n = sg.placeholder((16,)), sg.placeholder((), "int64")
    x = v
    for _ in range(count):
        x = sg.fori_loop(0, n, lambda _i, x: sg.tanh(x) * v, x)
    x = sg.fori_loop(0, n, lambda _i, x: sg.tanh(x) + v, x)
    step = sg.compile([v, n], [x, gradient(x, v)])
    assert len(registers_of(step.executable.program)) >= 2 * count
    found = re.findall(r"^define .*step\.loop\.\d+\"", step.ir("llvm"), re.MULTILINE)
    assert len(found) <= 6
    graph = Graph([x, gradient(x, v)], [v, n])
    assert_same_bits(graph, [np.linspace(0.5, 1.5, 16, dtype=np.float32), np.array(3)])
