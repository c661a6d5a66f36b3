"""Reductions that need nothing of one another and read the same rows: which become one kernel."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.fuse_siblings import can_be_siblings, fuse_siblings
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native
from tests.support.programs import lines_of

SUM = """kernel @{name}(in x: f32[96], out {to}: f32[32]) {{
  for {i} in 0..{extent}{mark} {{
    for {j} in 0..8 vector(8) {{
      fold {s}: f32 = 0.0 for {k} in 0..3 {{
        {t}: f32 = x[{pitch}*{i} + 8*{k} + {j}]
        yield {t}
      }} combine ({a}) ({b}) {{
        {c}: f32 = add({a}, {b})
        yield {c}
      }}
      {to}[8*{i} + {j}] = {s}
    }}
  }}
}}"""


def kernel(ending: str, *, extent: int = 4, mark: str = "", pitch: int = 24) -> Kernel:
    names = {name: f"{name}{ending}" for name in ("i", "j", "k", "s", "t", "a", "b", "c")}
    text = SUM.format(
        name=f"k{ending}", to=f"y{ending}", extent=extent, mark=mark, pitch=pitch, **names
    )
    return parse_kernel(text)


def test_sums_of_the_same_rows_are_taken_together():
    first, second = kernel("1"), kernel("2")
    assert can_be_siblings(first, second)
    both = fuse_siblings(first, second, {"x"})
    assert both is not None
    verify_kernel(both)
    found = lines_of(both)
    assert sum(line.startswith("for i") for line in found) == 1
    assert {"y1[8*i1 + j1] = s1", "y2[8*i1 + j2] = s2"} <= set(found)
    x = np.arange(96, dtype=np.float32)
    apart = {name: np.zeros(32, np.float32) for name in ("y1", "y2")}
    together = {name: np.zeros(32, np.float32) for name in ("y1", "y2")}
    for one in (first, second):
        run_kernel(one, {"x": x} | {n: a for n, a in apart.items() if n == one.params[1].name})
    run_kernel(both, {"x": x} | together)
    for name, wanted in apart.items():
        np.testing.assert_array_equal(together[name], wanted)


@pytest.mark.parametrize("change", [{"extent": 3}, {"mark": " parallel(2)"}, {"mark": " ordered"}])
def test_loops_of_another_size_or_schedule_are_no_siblings(change):
    assert not can_be_siblings(kernel("1"), kernel("2", **change))


def test_rows_that_are_not_read_in_step_stay_apart():
    assert fuse_siblings(kernel("1"), kernel("2", pitch=8), {"x"}) is None
    assert fuse_siblings(kernel("1"), kernel("2"), set()) is None


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("shape", "kernels"), [((256, 1024), 1), ((8192, 256), 2)])
def test_layer_norm_with_all_its_gradients_is_few_sweeps_and_keeps_every_bit(
    shape, kernels, threads
):
    x, g = sg.placeholder(shape), sg.placeholder(shape)
    scale, shift = sg.placeholder(shape[1:]), sg.placeholder(shape[1:])
    y = sg.nn.layer_norm(x, scale, shift)
    found = sg.gradients(y, [x, scale, shift], grad_ys=g)
    graph = Graph([y, *(t for t in found if isinstance(t, Tensor))], [x, g, scale, shift])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.type.static_shape).astype(np.float32) for t in graph.inputs]
    alone, together = (
        Executable(
            graph,
            CompileOptions(target_named("native"), 1, False, False, Threads(count)),
            passes=Options(skip=skip),
        )
        for count, skip in ((1, ["fuse-sweeps"]), (threads, []))
    )
    assert len(together.program.launches) < len(alone.program.launches)
    if threads == 1:
        assert len(together.program.launches) == kernels
    outputs = [run_native(step, arrays).outputs for step in (alone, together)]
    for wanted, array in zip(*outputs, strict=True):
        np.testing.assert_array_equal(array, wanted)


def sums_beside_each_other(x: Tensor) -> Tensor:
    return sg.concat([sg.sum(x, axis=0), sg.sum(x * x, axis=0)])


def test_sums_that_are_written_beside_each_other_are_one_sweep_and_keep_every_bit():
    x = sg.placeholder((4096, 256))
    array = np.random.default_rng(0).normal(size=(4096, 256)).astype(np.float32)
    options = CompileOptions(target_named("native"), 1, False, False, Threads(1))
    alone, together = (
        Executable(Graph([sums_beside_each_other(x)], [x]), options, passes=Options(skip=skip))
        for skip in (["fuse-sweeps"], [])
    )
    assert len(alone.program.launches) == 2
    (launch,) = together.program.launches
    assert len(set(launch.arguments)) < len(launch.arguments)
    wanted, found = (run_native(step, [array]).outputs[0] for step in (alone, together))
    np.testing.assert_array_equal(found, wanted)
