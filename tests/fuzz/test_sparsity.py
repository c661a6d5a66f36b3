"""Random programs whose Jacobians and Hessians are computed by colours of their pattern.

They must be equal to the dense ones, so no element that is not zero is missing in a pattern. A
family and a seed are a program; `complaint(family, seed)` is the way to look at one again.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.sparse_tensor import SparseTensor
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops.extern import extern_op
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.passes.calls.callees import graphs_within
from tests.support.fuzz_families import FAMILIES

# Families, seeds that take part in every run, and how many each does not.
SEEDS = {"ops": range(0, 10), "control": range(18, 22), "recurrences": range(0, 1)}
MORE = {"ops": 2000, "control": 300, "recurrences": 120, "layers": 80}
_BLOCK = 20
_MOST = 120  # elements of a result or an argument: dense derivatives of more take long
_SMALL = 40  # of an argument whose Hessian is taken


def complaint(family: str, seed: int) -> str:
    """Return what is wrong with the derivatives of a program, '' if nothing is."""
    graph, inputs = FAMILIES[family].program(seed)
    if _calls_functions_of_c(graph):
        return ""
    xs = [x for x in graph.inputs if _is_differentiated(x)][:2]
    ys = [y for y in graph.outputs if _is_differentiated(y)][:3]
    pairs: list[tuple[SparseTensor, Tensor]] = []
    for x in xs:
        pairs += [(sg.jacobian(y, x, sparsity="auto"), sg.jacobian(y, x)) for y in ys]
        total = sg.stack([sg.sum(y * y) for y in ys[:1]] or [sg.sum(x)])[0]
        if x.type.count <= _SMALL:
            pairs.append((sg.hessian(total, x, sparsity="auto"), sg.hessian(total, x)))
    if not pairs:
        return ""
    wanted = [tensor for sparse, dense in pairs for tensor in (sparse.values, dense)]
    found, _ = evaluate(Graph(wanted, graph.inputs), inputs)
    for position, (sparse, _) in enumerate(pairs):
        problem = _difference(sparse, found[2 * position], found[2 * position + 1])
        if problem:
            return f"{family} {seed}, derivative {position}: {problem}\n{graph}"
    return ""


def _calls_functions_of_c(graph: Graph) -> bool:
    """Return whether a program has lost gradients: of functions of C the user gives them.

    The passes that a program has been through put what was differentiated in the place of that.
    """
    return any(n.definition is extern_op for g in graphs_within(graph) for n in g.nodes)


def _is_differentiated(tensor: Tensor) -> bool:
    is_float = tensor.dtype.is_trainable and not tensor.dtype.is_half
    return is_float and tensor.type.is_static and tensor.type.count <= _MOST


def _difference(sparse: SparseTensor, values: Array, dense: Array) -> str:
    want = dense.reshape(sparse.shape)
    rows = np.repeat(np.arange(sparse.shape[0]), np.diff(sparse.indptr))
    found = np.zeros_like(want)
    found[rows, sparse.indices] = values
    if not (np.isfinite(want).all() and np.isfinite(found).all()):
        return ""  # 0 * inf is nan where it is computed, and 0 where nothing is
    missing = want.copy()
    missing[rows, sparse.indices] = 0
    scale = max(1.0, np.abs(want).max(initial=0))
    apart = np.abs(want - found).max(initial=0) / scale
    if np.abs(missing).max(initial=0) / scale > 1e-12:
        return f"the pattern lacks elements: {np.argwhere(missing)}"
    return f"{apart} apart" if apart > (1e-4 if want.dtype == np.float32 else 1e-9) else ""


@pytest.mark.parametrize("family", SEEDS)
def test_derivatives_with_a_pattern_are_the_dense_ones(family):
    assert not any(found := [complaint(family, seed) for seed in SEEDS[family]]), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "start"),
    [(family, start) for family, count in MORE.items() for start in range(0, count, _BLOCK)],
)
def test_more_derivatives_with_a_pattern_are_the_dense_ones(family, start):
    found = [complaint(family, seed) for seed in range(start, start + _BLOCK)]
    assert not any(found), next(filter(None, found))
