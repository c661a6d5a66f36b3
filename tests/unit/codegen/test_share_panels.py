"""Panels that several blocks of queries read: made once, for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.program.fuse_batches import RowKernel
from symgrad.codegen.program.language import Launch, Program
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.share_panels import share_panels
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from tests.support.attention_steps import step_of
from tests.support.floors import run_native


def attention(heads: int) -> tuple[Graph, list[Array]]:
    q, k, v, g = (sg.placeholder((heads, 512, 64), "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v, causal=True)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal((heads, 512, 64)).astype(np.float32) for _ in range(4)]
    return Graph([y, *sg.gradients(y, [q, k, v], grad_ys=g)], [q, k, v, g]), inputs


def launches(program: Program) -> list[Launch]:
    return [instr for instr in program.instrs if isinstance(instr, Launch)]


@pytest.mark.parametrize("heads", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_blocks_of_queries_read_panels_that_are_made_once(heads):
    program = step_of(attention(heads)[0]).program
    makers = [launch for launch in launches(program) if launch.label.startswith("panels of")]
    assert len(makers) == 2  # of keys and of values
    for maker in makers:
        _, panels = maker.arguments
        assert maker.kernel.params[1].count == heads * 512 * 64
        readers = [one for one in launches(program) if panels in one.arguments and one != maker]
        assert len(readers) > 1
        for reader in readers:
            param = reader.kernel.params[reader.arguments.index(panels)]
            assert param.mode == "in"
            assert param.name not in buffers_used(reader.kernel.body)[1]


@pytest.mark.slow
def test_many_matrices_are_done_one_after_another_with_panels_of_each():
    assert not any(
        "panels" in launch.label for launch in launches(step_of(attention(4)[0]).program)
    )


@pytest.mark.slow
@pytest.mark.parametrize("heads", [1, 3])
def test_no_bit_changes_for_any_number_of_threads(heads):
    graph, inputs = attention(heads)
    steps = [step_of(graph, skip=("share-panels",))]
    steps += [step_of(graph, threads=Threads(count)) for count in (1, 2, 4)]
    alone, *others = [[a.tobytes() for a in run_native(s, inputs).outputs] for s in steps]
    assert all(other == alone for other in others)


PANELS = """  for p in 0..{panels} {{
    for k in 0..2 {{
      for j in 0..4 {{
        t{n}: f32 = {source}[8*p + k + 2*j]
        {made}[8*p + 4*k + j] = t{n}
      }}
    }}
  }}
"""
READS = """  for q in 0..{panels} {{
    u: f32 = x[8*q]
    y[q] = u
  }}
"""


def program(between: str, source: str = "input0", second: str = PANELS) -> Program:
    kernels = [
        f"kernel @k{n}(in b: f32[{8 * n}], out y: f32[{n}], scratch x: f32[{8 * n}]) {{\n"
        + panels.format(panels=n, n=n, source="b", made="x")
        + READS.format(panels=n)
        + "}\n"
        for n, panels in ((1, PANELS), (2, second))
    ]
    return parse_program(
        "".join(kernels)
        + "kernel @k3(out b: f32[16]) {\n  for i in 0..16 {\n    b[i] = 0.0\n  }\n}\n"
        + "program @step arena(0) {\n  input0: f32[16]\n  output0: f32[1]\n  output1: f32[2]\n"
        + "  output2: f32[16]\n  temporary0: f32[8]\n  temporary1: f32[16]\n"
        + f"  launch @k1({source}, output0, temporary0)\n{between}"
        + f"  launch @k2({source}, output1, temporary1)\n}}\n"
    )


def rows_of(before: Program) -> dict[str, RowKernel]:
    return {kernel.name: RowKernel((1,), kernel) for kernel in before.kernels}


def test_the_first_panels_are_those_of_fewer_columns():
    first, *readers = launches(share_panels(before := program(""), rows_of(before)))
    assert [p.count for p in first.kernel.params] == [16, 16]
    assert [[p.mode for p in r.kernel.params] for r in readers] == [["in", "out", "in"]] * 2
    assert {r.arguments[2] for r in readers} == {first.arguments[1]}


@pytest.mark.parametrize(
    "before",
    [
        program("  launch @k3(output2)\n", source="output2"),  # it is written in between
        program("", second=PANELS.replace("k + 2*j", "4*k + j")),  # they are other panels
    ],
)
def test_panels_of_other_elements_are_made_again(before):
    assert share_panels(before, rows_of(before)) is before
