"""Temporaries of which a row is kept: which are, by how many threads, and that no bit changes."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.contract_rows import contract_rows
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import compile_for, run_native
from tests.support.programs import lines_of

KERNEL = """kernel @k(in x: f32[96], out e: f32[96], out y: f32[12]) {{
  for i in 0..12{mark} {{
    for j in 0..8 vector(8) {{
      t: f32 = x[8*i + j]
      u: f32 = exp(t)
      e[8*i + j] = u
    }}
    fold s: f32 = 0.0 for k in 0..8 {{
      v: f32 = e[{read}]
      yield v
    }} combine (a) (b) {{
      c: f32 = add(a, b)
      yield c
    }}
    y[i] = s
  }}
}}"""


def lines(mark: str = "", read: str = "8*i + k") -> list[str] | None:
    kernel = contract_rows(parse_kernel(KERNEL.format(mark=mark, read=read)), "e")
    if kernel is None:
        return None
    verify_kernel(kernel)
    return lines_of(kernel)


def test_a_row_is_kept_of_what_is_read_in_the_same_row():
    found = lines()
    assert found is not None
    assert found[0] == "kernel @k(in x: f32[96], scratch e: f32[8], out y: f32[12]) {"
    assert "for i in 0..12 ordered {" in found
    assert {"e[j] = u", "v: f32 = e[k]"} <= set(found)


def test_each_part_of_a_shared_loop_has_a_row_of_its_own():
    found = lines(" parallel(3)")
    assert found is not None
    assert "scratch e: f32[32]" in found[0]
    assert {"for i.part in 0..4 parallel(1) {", "for i in 0..3 ordered {"} <= set(found)
    assert {"e[8*i.part + j] = u", "v: f32 = e[8*i.part + k]"} <= set(found)


@pytest.mark.parametrize(
    ("mark", "read"),
    [
        ("", "8*k"),  # the rows of other iterations
        ("", "8*i - k + 8"),  # and the first element of the next row
        (" parallel(5)", "8*i + k"),  # the last part is a shorter one
    ],
)
def test_what_is_read_elsewhere_or_shared_unevenly_stays_whole(mark, read):
    assert lines(mark, read) is None


def test_a_kernel_that_keeps_a_row_computes_the_same():
    x = np.random.default_rng(0).normal(size=96).astype(np.float32)
    for mark in ("", " parallel(3)"):
        plain = parse_kernel(KERNEL.format(mark=mark, read="8*i + k"))
        kept = contract_rows(plain, "e")
        assert kept is not None
        results = []
        for kernel in (plain, kept):
            buffers = {p.name: np.zeros(p.count, np.float32) for p in kernel.params} | {"x": x}
            run_kernel(kernel, buffers)
            results.append(buffers["y"])
        np.testing.assert_array_equal(results[0], results[1])


def step_of(graph: Graph, threads: int, *, skip: tuple[str, ...] = ()) -> Executable:
    options = CompileOptions(target_named("native"), 1, False, False, Threads(threads))
    return Executable(graph, options, passes=Options(skip=list(skip)))


def softmax() -> tuple[Graph, list[np.ndarray]]:
    x, g = sg.placeholder((256, 1024)), sg.placeholder((256, 1024))
    y = sg.nn.softmax(x)
    (found,) = sg.gradients(y, [x], grad_ys=g)
    assert isinstance(found, Tensor)
    random = np.random.default_rng(0)
    return Graph([y, found], [x, g]), [
        random.normal(size=(256, 1024)).astype(np.float32) for _ in range(2)
    ]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_softmax_and_its_gradient_keep_a_row_of_exponentials_and_every_bit(threads):
    graph, arrays = softmax()
    whole = step_of(graph, 1, skip=("fuse-sweeps", "contract-temporaries"))
    kept = step_of(graph, threads)
    assert len(kept.program.launches) == 1
    assert whole.program.arena_bytes > 1 << 20
    assert kept.program.arena_bytes < 1 << 16
    results = [run_native(step, arrays).outputs for step in (whole, kept)]
    for wanted, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_result_of_the_program_is_kept_whole():
    x = sg.placeholder((256, 1024))
    weights = sg.exp(x)
    graph = Graph([weights, sg.sum(weights, axis=1)], [x])
    step = compile_for(graph, opt_level=0)
    assert all(
        p.mode != "scratch" for launch in step.program.launches for p in launch.kernel.params
    )


def test_a_launch_that_keeps_a_row_says_what_it_came_of():
    step = step_of(softmax()[0], 1)
    (launch,) = step.program.launches
    assert len(step.sources.groups_of(launch)) == 6
    assert {"exp", "sum", "fmax"} <= {node.op for node in step.sources.nodes_of(launch)}
