"""Kernels and functions of rows, run and compiled with and without passes of rows."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

WIDTH = 64  # elements of a row
ROW_FUNCTIONS = ("softmax", "log_softmax", "layer_norm")


def row_program(function: str, rows: int) -> Graph:
    """Return one of `ROW_FUNCTIONS` of so many rows, and its gradient."""
    x, g = sg.placeholder((rows, WIDTH), name="x"), sg.placeholder((rows, WIDTH), name="g")
    if function == "layer_norm":
        y = sg.nn.layer_norm(x, sg.constant(np.full(WIDTH, 2.0, np.float32)), sg.zeros(WIDTH))
    else:
        y = getattr(sg.nn, function)(x)
    return Graph([y, *sg.gradients(y, [x], grad_ys=g)], [x, g])


def compiled_rows(graph: Graph, threads: Threads, *skipped: str) -> Executable:
    """Compile a program of rows for this machine, without the passes `skipped`."""
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    return Executable(graph, options, passes=Options(skip=skipped))


def assert_same_bits(one: Executable, other: Executable, rows: int) -> None:
    """Run both on the same normal numbers."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(rows, WIDTH)).astype(np.float32) for _ in "xg"]
    wanted = run_native(other, arrays).outputs
    for found, want in zip(run_native(one, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def run_on_ones(kernel: Kernel, **given: Array) -> dict[str, Array]:
    """Interpret a kernel of float32 on the arrays `given` and ones; return all of its buffers."""
    buffers = {param.name: np.ones(param.count, np.float32) for param in kernel.params} | given
    run_kernel(kernel, buffers)
    return buffers
