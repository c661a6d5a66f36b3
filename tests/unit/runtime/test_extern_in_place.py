"""Calls of functions of C that write over an operand: its place is that of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.language import ExternInstr, Launch, Program
from symgrad.codegen.program.run import run_program
from symgrad.codegen.program.verify import verify_program
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Attr
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.verify import verify_partition

X = sg.placeholder((3, 4), name="x")
ROWS = np.arange(1, 13, dtype="float32").reshape(3, 4)


def without_start(x: sg.Tensor, *, is_passed: bool = False) -> sg.Tensor:
    """Return `x` with zeros for its first two elements, which are written over it."""
    target: tuple[Attr, ...] = ("in", 0) if is_passed else ("out", 0)
    layout: list[tuple[Attr, ...]] = [target, ("int32", 0), ("int64", 8), ("status*",)]
    function = ForeignFunction("memset")
    return extern_node(function, [x], [x.type], layout=layout, copied=[(0, 0)]).output


def program_of(*outputs: sg.Tensor) -> Program:
    graph = sg.Graph(list(outputs), [X])
    verify_partition(fuse(graph))
    options = CompileOptions(target_named("native"), 1, fast_math=False, cache=False)
    program = lower_graph(graph, options).program
    verify_program(program)
    wanted, interpreted = evaluate(graph, [ROWS])[0], run_program(program, [ROWS]).outputs
    native = sg.compile([X], list(outputs), opt_level=1)(ROWS)
    for found in (interpreted, native):
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    return program


def copies_in(program: Program) -> int:
    labels = [instr.label for instr in program.instrs if isinstance(instr, Launch)]
    return labels.count("what a function writes over")


def test_what_nothing_else_reads_is_written_over():
    program = program_of(without_start(X * 2) + 1)
    (call,) = [instr for instr in program.instrs if isinstance(instr, ExternInstr)]
    assert call.inputs == call.outputs
    assert copies_in(program) == 0


def test_calls_write_over_the_results_of_calls():
    once = without_start(sg.permute_dims(X * 2, (1, 0)))
    assert copies_in(program_of(without_start(sg.reshape(once, (2, 6))))) == 0


def test_what_is_read_before_is_written_over():
    doubled = X * 2
    assert copies_in(program_of(without_start(doubled), sg.sum(doubled))) == 0


@pytest.mark.parametrize("case", ["result", "read behind", "input", "passed"])
def test_what_is_needed_still_is_copied(case: str) -> None:
    doubled = X * 2
    given = X if case == "input" else doubled
    called = without_start(given, is_passed=case == "passed")
    other: dict[str, Any] = {"result": [doubled], "read behind": [doubled + sg.sum(called)]}
    assert copies_in(program_of(called, *other.get(case, []))) == 1


def test_an_operand_that_is_given_twice_is_copied():
    doubled = X * 2
    layout: list[tuple[Attr, ...]] = [("out", 0), ("int32", 0), ("int64", 8), ("status*",)]
    function, operands = ForeignFunction("memset"), [doubled, doubled]
    node = extern_node(function, operands, [X.type], layout=layout, copied=[(0, 0)])
    assert copies_in(program_of(node.output)) == 1


def test_parts_of_what_is_written_over_are_written_where_they_belong():
    w = sg.constant(np.ones((4, 16), "float32"))
    joined = sg.concat([X @ w, (X + 1) @ w], axis=0)
    program = program_of(without_start(joined) * 1)
    labels = [instr.label for instr in program.instrs if isinstance(instr, Launch)]
    assert not [label for label in labels if "concat" in label or "copy" in label]
    assert copies_in(program) == 0


def test_a_variable_that_is_written_over_is_the_old_one_where_the_call_fails():
    v = sg.variable(ROWS, name="v")
    layout: list[tuple[Attr, ...]] = [("out", 0), ("int32", 0), ("int64", 8)]
    # What memset returns is an address, which is a status other than 0.
    node = extern_node(ForeignFunction("memset"), [v], [v.type], layout=layout, copied=[(0, 0)])
    step = sg.compile([], [], [(v, node.output)])
    with pytest.raises(sg.ForeignCallError):
        step()
    np.testing.assert_array_equal(v.value, ROWS)


def test_a_loop_variable_may_be_written_over():
    body = sg.fori_loop(0, 3, lambda _, a: without_start(a) + 1, X * 1)
    program_of(body)
    grown = sg.scan(lambda a, _: (without_start(a * 2), a), X * 1, length=3)
    program_of(grown[0], grown[1])
