"""Floating-point exception checks: a program stops before it gives or stores nan or infinity.

Before:

    graph @step(%x: f32[3]) -> f32[3] {
      %0 = log %x : f32[3]
      return %0
    }

After, where `check_numerics` stops the program if its operand says so of one of its labels:

    graph @step(%x: f32[3]) -> f32[3] {
      %0 = log %x : f32[3]
      %1 = isfinite %0 : bool[3]
      ...
      %9 = check_numerics %7, %8 {labels = ["output 0"]} : i64[1]
      ...
      update %numeric_checks = %10
      return %0
    }

The variable stands for the check, as nothing else reads what that gives. Updates wait for all that
can fail, so variables have their old values if the program is stopped.
"""

from __future__ import annotations

from symgrad.graph import dtypes
from symgrad.graph.build import inside
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import Variable, variable_op
from symgrad.graph.node import Tensor, make_node
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import isfinite
from symgrad.graph.ops.comparison import logical_not
from symgrad.graph.ops.numeric_checks import stop_if
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.reduction import sum as sum_of
from symgrad.graph.ops.slicing import stack
from symgrad.graph.types import State, TensorType

_COUNT = TensorType(dtypes.int64, ())
# All programs have it: what they write there is 0.
CHECKS = State.zeros(_COUNT, name="numeric_checks", trainable=False)


def check_numerics(graph: Graph) -> Graph:
    """Return `graph` with a check of all numbers that it gives and that it stores."""
    labels = checked_roots(graph)
    if not labels:
        return graph
    node = make_node(
        variable_op, (), {"state": CHECKS}, (_COUNT,), name=CHECKS.name, tensor_class=Variable
    )
    variable = node.output
    assert isinstance(variable, Variable), "a state is read by a variable"
    with inside(graph.region):
        flags = stack([cast(any_of(logical_not(isfinite(t))), dtypes.int64) for t in labels])
        checked = sum_of(stop_if(flags, tuple(labels.values())))
    updates = (*graph.updates, Update(variable, checked))
    return Graph(graph.outputs, graph.inputs, updates, name=graph.name, region=graph.region)


def checked_roots(graph: Graph) -> dict[Tensor, str]:
    """Return what `check_numerics` checks of a graph, and how messages call it."""
    labels = {update.value: f"the new value of {update.variable.name}" for update in graph.updates}
    single = len(graph.outputs) == 1
    for number, tensor in enumerate(graph.outputs):
        labels[tensor] = "the output" if single else f"output {number}"
    return {t: label for t, label in labels.items() if t.dtype.is_float or t.dtype.is_complex}
