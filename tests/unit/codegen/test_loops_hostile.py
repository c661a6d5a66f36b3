"""Texts of kernels that mean harm: only `GraphError` comes out, in time linear in the text."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.program.language import Launch
from symgrad.errors import GraphError
from symgrad.graph.graph import specialize
from symgrad.graph.reference import bind_sizes
from tests.support.floors import program_for
from tests.support.mutants import count_calls, mutant, mutants_of
from tests.support.strategies import random_graph


@cache
def _texts(programs: int) -> tuple[str, ...]:
    """Return the printed kernels of random programs."""
    texts = []
    for seed in range(programs):
        graph, inputs = random_graph(np.random.default_rng(seed), size=5)
        program = program_for(specialize(graph, bind_sizes(graph, inputs)))
        texts += [print_kernel(i.kernel) for i in program.instrs if isinstance(i, Launch)]
    return tuple(texts)


def _read(text: str) -> Kernel | None:
    try:
        return parse_kernel(text)
    except GraphError:
        return None


def _check(text: str) -> None:
    assert count_calls(partial(_read, text)) < 5_000 + 100 * len(text)
    kernel = _read(text)
    if kernel is not None:
        assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.parametrize("count", [30, pytest.param(None, marks=pytest.mark.slow)])
def test_a_changed_text_is_a_kernel_or_refused(count):
    @settings(max_examples=count or settings().max_examples)
    @given(st.deferred(lambda: mutants_of(_texts(6 if count else 20))))
    def check(text):
        _check(text)

    check()


@pytest.mark.slow
def test_twenty_thousand_changed_texts_are_kernels_or_refused():
    rng = np.random.default_rng(12)
    texts = _texts(20)
    for _ in range(20_000):
        _check(mutant(texts[rng.integers(len(texts))], rng))


_HEAD = "kernel @k(in a: f32[4], out b: f32[4]) {\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_HEAD + "for i in 0..2 {" * 20_000, "brackets nest more than 100 deep"),
        (_HEAD + "b[" + "(" * 20_000, "brackets nest more than 100 deep"),
        (_HEAD + "for i in 0.." + "9" * 5_000, "is too large"),
        (_HEAD + "i: i64 = " + "9" * 5_000, "is too large"),
        (_HEAD + "b[" + "9" * 5_000, "is too large"),
    ],
)
def test_what_is_no_kernel_is_refused(text, problem):
    with pytest.raises(GraphError, match=f"line 2: .*{problem}"):
        parse_kernel(text)


def test_time_is_linear_in_the_text():
    def loops(count: int) -> str:
        return _HEAD + "for i in 0..4 {\nb[i] = 1.0\n}\n" * count + "}"

    short, long = (count_calls(partial(parse_kernel, loops(n))) for n in (100, 400))
    assert long < 5 * short
