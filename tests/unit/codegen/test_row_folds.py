"""Folds over rows that lie apart: which are taken row by row, and that they give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.row_folds import interchange_folds
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, compile_for, run_variants
from tests.support.schedules import rows_interchanged

COLUMNS = """kernel @k(in x: f32[{size}], in w: f32[{rows}], out y: f32[{results}]) {{
  for p in 0..{pieces} {{
    for j in 0..{width} {{
      fold s: f32 = 1.0 for k in 0..{rows} {{
        t: f32 = x[{piece}*p + {width}*k + j]
        u: f32 = w[k]
        v: f32 = mul(t, u)
        yield v
      }} combine (a) (b) {{
        c: f32 = add(a, b)
        yield c
      }}
      d: f32 = mul(s, 2.0)
      y[{width}*p + j] = d
    }}
  }}
}}"""


def columns(rows: int, width: int, pieces: int = 2) -> Kernel:
    sizes = {"rows": rows, "width": width, "pieces": pieces, "piece": rows * width}
    text = COLUMNS.format(size=pieces * rows * width, results=pieces * width, **sizes)
    return parse_kernel(text)


def is_interchanged(kernel: Kernel) -> bool:
    ordered = [s for s in statements(kernel.body) if isinstance(s, For) and s.ordered]
    return any(isinstance(s, Fold) for loop in ordered for s in statements(loop.body))


@pytest.mark.parametrize("rows", [9, 16, 23, 300])
def test_rows_are_added_to_rows(rows):
    kernel = columns(rows, 40)
    with rows_interchanged():
        changed = interchange_folds(kernel)
    verify_kernel(changed)
    assert is_interchanged(changed)
    random = np.random.default_rng(0)
    results = []
    for each in (kernel, changed):
        counts = {p.name: p.count for p in each.params if p.mode == "in"}
        given = {n: random.integers(-3, 4, c).astype(np.float32) for n, c in counts.items()}
        random = np.random.default_rng(0)
        buffers = {**given, "y": np.zeros(80, np.float32)}
        # The identity of this sum is 1, and each piece of a sum begins with it.
        assert run_kernel(each, buffers) == 0
        results.append(buffers["y"])
    blocks = -(-rows // 2)
    np.testing.assert_array_equal(results[1], results[0] + 2 * blocks)


def test_what_a_cache_keeps_is_left_alone():
    for kernel in (columns(256, 256), columns(4000, 64), columns(32, 100_000)):
        assert interchange_folds(kernel) == kernel
    assert is_interchanged(interchange_folds(columns(256, 1024)))


def test_a_tall_matrix_is_walked_through_by_rows():
    x, d = sg.placeholder((8192, 1024)), sg.placeholder((8192,))
    program = compile_for(Graph([d @ x], [x, d]), opt_level=0).program
    assert any(map(is_interchanged, program.kernels))
    wide = Graph([sg.sum(sg.placeholder((8192, 4096)), axis=0)])
    assert any(map(is_interchanged, compile_for(wide, opt_level=0).program.kernels))
    short = Graph([sg.sum(sg.placeholder((8192, 200)), axis=0)])
    assert not any(map(is_interchanged, compile_for(short, opt_level=0).program.kernels))


def reductions() -> Graph:
    x = sg.placeholder((3, 21, 40), name="x")
    w = sg.placeholder((21,), name="w")
    return Graph(
        [
            sg.sum(x, axis=1),
            sg.max(x, axis=1) * 2.0,
            sg.argmin(x, axis=1),
            sg.nn.logsumexp(x, axis=1),
            sg.var(x, axis=1),
            sg.einsum("nkj,k->nj", x, w),
            sg.any(x > 2.0, axis=1),
            sg.sum(sg.reshape(x, (63, 40)) * 3.0, axis=0),
        ],
        [x, w],
    )


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
def test_every_fold_gives_the_same(target):
    graph = reductions()
    random = np.random.default_rng(2)
    arrays = [random.normal(size=t.type.static_shape).astype(np.float32) for t in graph.inputs]
    variants = [
        Variant(target, threads=Threads(n, 0.0), memory=Memory("end", is_apart=True), apart=True)
        for n in (1, 3)
    ]
    with rows_interchanged():
        program = compile_for(graph, target, opt_level=0).program
    assert sum(map(is_interchanged, program.kernels)) >= 4
    assert run_variants(graph, arrays, variants) is None
