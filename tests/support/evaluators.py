"""The ways to run a graph, by name: each must give what the others give.

An evaluator takes a graph and the arrays of its inputs and returns the outputs. What they share,
and how whole programs are compared, is in `floors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.codegen.program.run import run_program
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.reference import bind_sizes, evaluate
from tests.support.complex_results import as_stated
from tests.support.floors import compile_for, program_for, run_native

Array = np.ndarray[Any, Any]
Evaluator = Callable[[Graph, Sequence[Array]], list[Array]]


def evaluate_reference(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Run the NumPy meaning of each op."""
    outputs, _ = evaluate(graph, inputs)
    return outputs


def evaluate_loops(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Run the kernels in the loop interpreter."""
    known = specialize(graph, bind_sizes(graph, inputs))
    return as_stated(run_program(program_for(known), inputs).outputs, graph)


def evaluate_native(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Run machine code."""
    known = specialize(graph, bind_sizes(graph, inputs))
    return run_native(compile_for(known, opt_level=0), inputs).outputs


def evaluate_compiled(graph: Graph, inputs: Sequence[Array]) -> dict[str, list[Array]]:
    """Run machine code, and in the loop interpreter the very kernels that it was made of.

    What both give, by the name of the evaluator: a program is lowered once for the two of them.
    """
    step = compile_for(specialize(graph, bind_sizes(graph, inputs)), opt_level=0)
    loops, native = run_program(step.program, inputs), run_native(step, inputs)
    return {"loops": as_stated(loops.outputs, graph), "native": native.outputs}


EVALUATORS: dict[str, Evaluator] = {
    "reference": evaluate_reference,
    "loops": evaluate_loops,
    "native": evaluate_native,
}
