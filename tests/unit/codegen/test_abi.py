"""The plan of a C interface: nothing overlaps, everything is aligned, every name is one of C."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.c_interface.abi import (
    FUNCTIONS,
    HEAD_BYTES,
    STATE_HEAD_BYTES,
    Interface,
    StepPrograms,
    c_identifiers,
    distinct,
    is_identifier,
    plan_interface,
)
from symgrad.codegen.c_interface.module import emit_interface
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.graph import Graph, Update
from symgrad.graph.types import ArrayLiteral
from tests.support.floors import program_for


def plan(*graphs: Graph, messages: dict[int, str] | None = None) -> Interface:
    steps = [
        StepPrograms(f"s{i}", graph, (program_for(graph),), (f"lib.s{i}",), messages or {})
        for i, graph in enumerate(graphs)
    ]
    return plan_interface("lib", (0,), steps)


def make_graphs() -> tuple[Graph, Graph]:
    a = sg.variable(np.ones((3, 5), np.float32), name="a")
    b = sg.variable(np.ones(7, np.int8), name="b")
    x = sg.placeholder((5, 9), name="x")
    product = a @ x
    deep = sg.sum(sg.sum(product, axis=1)) + sg.max(product)
    return Graph([deep], [x], [Update(a, a * 2.0)]), Graph([a + 1.0, b + 1], [])


def test_steps_share_the_variables_they_have_in_common():
    interface = plan(*make_graphs())
    assert [v.name for v in interface.variables] == ["a", "b"]
    first, second = (step.implementations[0].table for step in interface.steps)
    assert first[2] == second[2] == interface.variables[0].offset


def test_nothing_in_an_instance_overlaps_and_all_of_it_is_aligned():
    interface = plan(*make_graphs())
    arena, failure = interface.steps[0].implementations[0].table[:2]
    assert isinstance(arena, int)
    assert isinstance(failure, int)
    end = HEAD_BYTES
    for variable in interface.variables:
        assert variable.offset % ALIGNMENT == 0
        assert variable.offset >= end
        end = variable.offset + variable.type.nbytes
    assert arena >= end
    assert arena % ALIGNMENT == interface.size % ALIGNMENT == 0
    assert interface.size >= arena + program_for(make_graphs()[0]).arena_bytes
    assert failure < HEAD_BYTES


def test_a_state_holds_whole_words():
    interface = plan(*make_graphs())
    assert interface.state_bytes == STATE_HEAD_BYTES + 64 + 8


def test_what_a_state_must_agree_in_is_types_names_and_order():
    first, second = make_graphs()
    signature = plan(first, second).signature
    assert plan(*make_graphs()).signature == signature
    assert plan(first).signature != signature
    assert plan(second, first).signature == signature, "a is reached first in both"


def test_statuses_of_several_steps_do_not_meet():
    interface = plan(*make_graphs(), messages={2: "early", 9: "late"})
    assert [dict(step.messages) for step in interface.steps] == [
        {2: "early", 9: "late"},
        {11: "early", 18: "late"},
    ]


def test_constants_are_in_the_table_as_what_they_are():
    x = sg.placeholder((4,), name="x")
    table = np.arange(4, dtype=np.float32)
    interface = plan(Graph([x * sg.constant(table)], [x]))
    entries = interface.steps[0].implementations[0].table
    (literal,) = (entry for entry in entries if isinstance(entry, ArrayLiteral))
    assert np.array_equal(literal.array, table)


def test_every_function_of_the_plan_is_emitted_and_no_other():
    interface = plan(*make_graphs())
    module = emit_interface(interface, "x86_64-unknown-linux-gnu", "")
    emitted = {f.name for f in module.functions if not f.is_declaration and not f.linkage}
    types = {"instance", "variable"}
    steps = {"s0", "s0_run", "s1", "s1_run"}
    assert emitted == {f"lib_{name}" for name in ({*FUNCTIONS} - types) | steps}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["x", "scope/x", "scope_x"], ["x", "scope_x", "scope_x_1"]),
        (["x", "x", "x_1"], ["x", "x_2", "x_1"]),
        (["1", "größe", "class", "int", ""], ["x1", "gr__e", "class_", "int_", "x"]),
        (["self", "self"], ["self", "self_1"]),
        (["true", "false", "SIZE_MAX", "MAX"], ["true_", "false_", "SIZE_MAX_", "MAX"]),
    ],
)
def test_names_become_distinct_identifiers(names, found):
    assert c_identifiers(names) == found
    assert all(is_identifier(name) for name in found)


CPP_WORDS = """
alignas alignof and asm auto bool catch char class compl concept const constexpr decltype delete
double else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not nullptr operator or private protected public register requires restrict
return short signed sizeof static struct switch template this throw true try typedef typeid
typename typeof union unsigned using virtual void volatile wchar_t while xor NULL SIZE_MAX INT8_MIN
WCHAR_MAX linux unix
"""


def test_every_word_of_c_and_cpp_is_a_name_that_a_header_can_have():
    words = CPP_WORDS.split()
    assert set(c_identifiers(words)).isdisjoint(words)


def test_names_that_are_distinct_stay_what_they_are():
    assert distinct(["w", "b", "w", "w_1"]) == ["w", "b", "w_2", "w_1"]


@pytest.mark.parametrize("name", ["", "1a", "a-b", "_a", "é", "a b", "a\n"])
def test_what_is_no_identifier(name):
    assert not is_identifier(name)
