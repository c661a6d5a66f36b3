"""Texts of programs that mean harm: only `GraphError` comes out, in time linear in the text."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.codegen.program.language import Program
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.print import print_program
from symgrad.codegen.program.verify import verify_program
from symgrad.errors import GraphError
from symgrad.graph.graph import specialize
from symgrad.graph.reference import bind_sizes
from tests.support.floors import program_for
from tests.support.mutants import count_calls, mutant, mutants_of
from tests.support.strategies import random_graph


@cache
def _texts() -> tuple[str, ...]:
    """Return random programs as text, of which the half have loops, branches and routines."""
    texts = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        graph, inputs = random_graph(rng, size=3, control=seed % 2 == 1)
        text = print_program(program_for(specialize(graph, bind_sizes(graph, inputs))))
        # One word of a kernel more or less changes nothing here.
        texts += [text, text[text.index("\nprogram @") + 1 :]]
    return tuple(texts)


def _read(text: str) -> Program | None:
    try:
        return parse_program(text)
    except GraphError:
        return None


def _check(text: str) -> None:
    assert count_calls(partial(_read, text)) < 5_000 + 100 * len(text)
    program = _read(text)
    if program is not None:
        again = print_program(program)
        assert print_program(parse_program(again)) == again
        try:
            verify_program(program)
        except AssertionError:
            return


@pytest.mark.parametrize("count", [30, pytest.param(None, marks=pytest.mark.slow)])
def test_a_changed_text_is_a_program_or_refused(count):
    @settings(max_examples=count or settings().max_examples)
    @given(st.deferred(lambda: mutants_of(_texts())))
    def check(text):
        _check(text)

    check()


@pytest.mark.slow
def test_ten_thousand_changed_texts_are_programs_or_refused():
    rng = np.random.default_rng(12)
    texts = _texts()
    for _ in range(10_000):
        _check(mutant(texts[rng.integers(len(texts))], rng))


_HEAD = "program @p arena(0) {\ninput0: f32[4]\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_HEAD + "switch input0 { case 0 {" * 20_000, "brackets nest more than 60 deep"),
        (_HEAD + "launch @" + "k" * 20_000 + "(", "there is no kernel"),
        (_HEAD + "switch input0" + "[iteration of loop 0: f32[4]]" * 20_000, "more than 60 slices"),
        (_HEAD + "switch input" + "9" * 5_000, "is not declared"),
        (_HEAD + "input" + "1" * 5_000 + ": f32[4]", "expected an instruction"),
        (_HEAD + "temporary0: f32[4] at " + "9" * 5_000, "is too large"),
        (_HEAD + "temporary0: f32[9223372036854775807]", "more bytes than there are addresses"),
        (_HEAD + "while loop " + "9" * 5_000, "is too large"),
        (_HEAD + 'variable0: f32[4] {name = "\\q", trainable = true}', "is no string"),
    ],
)
def test_what_is_no_program_is_refused(text, problem):
    with pytest.raises(GraphError, match=f"program text: line 3: .*{problem}"):
        parse_program(text)


def test_time_is_linear_in_the_text():
    kernel = "kernel @k{}(in a: f32[4]) {{\n}}\n"

    def programs(count: int) -> str:
        kernels = "".join(kernel.format(i) for i in range(count))
        temporaries = "".join(f"temporary{i}: f32[4] at 0\n" for i in range(count))
        launches = "".join(f"launch @k{i}(temporary{i})  // it\n" for i in range(count))
        return f"{kernels}program @p arena(16) {{\n{temporaries}{launches}}}\n"

    short, long = (count_calls(partial(parse_program, programs(n))) for n in (100, 400))
    assert long < 5 * short
