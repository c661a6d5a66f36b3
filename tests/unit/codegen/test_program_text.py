"""The text of programs: it is read back, runs as what it was printed from, and names its errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings

import symgrad as sg
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.print import print_program
from symgrad.codegen.program.run import ProgramInterpreter, run_program
from symgrad.codegen.program.verify import verify_program
from symgrad.errors import GraphError
from symgrad.graph.graph import Graph, Update, specialize
from symgrad.graph.reference import bind_sizes
from symgrad.graph.types import Array
from tests.support.control_programs import gradient
from tests.support.floors import program_for
from tests.support.fuzz_families import FAMILIES
from tests.support.program_texts import DOUBLE, WHOLE
from tests.support.strategies import graphs

X = sg.placeholder((3, 4), name="x")


def results(program: Program, inputs: Sequence[Array]) -> tuple[int, list[bytes]]:
    """Return the status of a program, and the bits of all that it gives."""
    interpreter = ProgramInterpreter(program, inputs)
    status, found = interpreter.run(), interpreter.results
    return status, [a.tobytes() for a in (*found.outputs, *found.state.values())]


def assert_same_program(program: Program, inputs: Sequence[Array]) -> None:
    """Compare a program with the one that its text is."""
    text = print_program(program)
    again = parse_program(text)
    assert print_program(again) == text
    verify_program(again)
    for state, found in zip(program.variables, again.variables, strict=True):
        found.array[...] = state.array
    assert results(again, inputs) == results(program, inputs)


def assert_same_graph(graph: Graph, inputs: Sequence[Array]) -> None:
    assert_same_program(program_for(specialize(graph, bind_sizes(graph, inputs))), inputs)


@settings(max_examples=5)
@given(graphs(control=True, max_size=3))
def test_a_random_program_is_its_text(drawn):
    assert_same_graph(*drawn)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_random_program_with_gradients_is_its_text(name):
    assert_same_graph(*FAMILIES[name].program(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_many_random_programs_are_their_texts(name):
    for seed in range(100):
        assert_same_graph(*FAMILIES[name].program(seed))


def test_a_program_with_all_that_there_is_is_its_text():
    f = sg.function(lambda x: sg.tanh(x @ x.T) @ x)
    y = sg.while_loop(lambda v: v.sum() < 9.0, lambda v: (f(v) + sg.exp(v),), (X,))[0]
    chosen = sg.switch_case(sg.placeholder((), "int64", name="i"), [lambda: y, lambda: f(X)])
    table = sg.constant(np.linspace(0, 1, 40, dtype=np.float32))
    taken = sg.take(table, sg.placeholder((2,), "int64", name="at"))
    w = sg.variable(np.ones((3, 4), np.float32), name="a name\nof two lines")
    rows = sg.scan(lambda c, row: (c + row, c * row), sg.zeros((4,)), chosen * w)
    graph = Graph([*rows, gradient(y, X), taken], updates=[Update(w, w * 2.0)])
    values: dict[str, Array] = {
        "x": np.full((3, 4), 0.1, np.float32),
        "i": np.array(1),
        "at": np.array([0, -1]),
    }
    inputs = [values[str(t.name)] for t in graph.inputs]
    program = program_for(graph)
    text = print_program(program)
    for word in ("switch", "while", "tapes(", "scan", "call @", "registers(", "else (", "bytes"):
        assert word in text
    assert "polls(" in text
    assert_same_program(program, inputs)
    # A failure is one of the text as well.
    inputs[[t.name for t in graph.inputs].index("at")] = np.array([0, 40])
    status, _ = results(parse_program(text), inputs)
    assert status == results(program, inputs)[0] != 0


def test_a_program_is_written_by_hand():
    program = parse_program(WHOLE)
    assert print_program(program) == WHOLE
    verify_program(program)
    ones = np.ones(4, np.float32)
    (found,) = run_program(program, [ones, np.array(3)]).outputs
    np.testing.assert_array_equal(found, ones * 32)


def test_what_a_step_shows_is_a_program():
    step = sg.compile([X], sg.tanh(X @ X.T) @ X)
    again = parse_program(step.ir("loops"))
    assert print_program(again) == print_program(step.executable.program)


@pytest.mark.parametrize(
    ("shape", "rows", "text"),
    [
        ((3, 2, 2), (3, 4), "input0[iteration of loop 0: f32[4]]"),
        ((), (1, 1), "input0[iteration of loop 0: f32[1]]"),
        ((), (1,), "input0[iteration of loop 0: f32[]]"),
    ],
)
def test_a_slice_of_another_shape_names_its_type(shape, rows, text):
    stack = sg.reshape(sg.placeholder(shape, name="stack"), rows)
    program = program_for(Graph(sg.scan(lambda c, x: (c + x, c * x), sg.zeros(rows[1:]), stack)))
    assert text in print_program(program)
    assert_same_program(program, [np.ones(shape, np.float32)])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("program @", "partition @", "expected 'program', found 'partition'"),
        ("launch @k3", "launch @k9", "there is no kernel @k9"),
        ("call @f.0", "call @g", "there is no routine @g before this"),
        ("launch @k3(temporary2)", "launch @k3(temporary7)", "temporary7 is not declared"),
        ("launch @k3(temporary2)", "launch @k3(tape0)", "tape0 is not declared"),
        ("launch @k3(temporary2)", "skip", "expected an instruction, found 'skip'"),
        ("input1: i64[]", "input2: i64[]", "expected input1, found input2"),
        ("temporary3:", "temporary2:", "temporary2 is declared twice"),
        ("output0: f32[4]\n    ", "variable0: f32[4]\n    ", "variable0 cannot be declared"),
        ("f32[2, 2]", "f32[n, 2]", r"f32\[n, 2\] has a size that is not known"),
        ("f32[2] =", "f32[3] =", r"the elements have not the shape of f32\[3\]"),
        ("[0.5, -inf]", "<elided 2>", "one that was elided cannot be read"),
        ("trainable = false", "trainable = 3", "a variable is trainable, true or false"),
        ("local temporary3", "out temporary3", "expected in, inout or local, found 'out'"),
        ("arena(192)", "arena(1, 2)", "arena has 2 numbers, not 1"),
        ("arena(192)", "arena(192) polls(0: 1, 0: 2)", "a loop polls twice"),
        ("arena(192)", "arena(192) polls(0)", r"expected ':', found '\)'"),
        ("launch @k3(", "call @f.0(input0[4]", "only a launch begins at element 4"),
        ("(temporary2, input1,", "(temporary2[iteration of loop 0], input1,", "names no type"),
    ],
)
def test_what_is_no_program_is_refused_with_its_line(old, new, problem):
    line = WHOLE[: WHOLE.index(old)].count("\n") + 1
    with pytest.raises(GraphError, match=f"program text: line {line}: .*{problem}"):
        parse_program(WHOLE.replace(old, new, 1))


def test_kernels_of_a_program_are_refused_with_their_lines():
    with pytest.raises(GraphError, match="kernel text, line 12: t9 is not bound"):
        parse_program(WHOLE.replace("lt(t0, t1)", "lt(t0, t9)"))
    with pytest.raises(GraphError, match="program text: line 9: there are two kernels @k0"):
        parse_program(WHOLE.replace("@k1(in b0", "@k0(in b0"))
    with pytest.raises(GraphError, match="program text: line 1: the kernel does not end"):
        parse_program(DOUBLE.replace("\n}\n", "\n"))
