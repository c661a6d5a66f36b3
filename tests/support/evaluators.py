"""The ways to run a graph, by name: each must give what the others give.

An evaluator takes a graph and the arrays of its inputs and returns the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.graph.graph import Graph
from symgrad.graph.reference import evaluate

Array = np.ndarray[Any, Any]
Evaluator = Callable[[Graph, Sequence[Array]], list[Array]]


def evaluate_reference(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Run the NumPy meaning of each op."""
    outputs, _ = evaluate(graph, inputs)
    return outputs


EVALUATORS: dict[str, Evaluator] = {"reference": evaluate_reference}
