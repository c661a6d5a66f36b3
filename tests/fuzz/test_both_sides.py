"""Random programs on complex numbers, whose derivatives are asked for from both sides.

Floors of one program share their gradient rules, and so cannot disagree about them. Here forward
mode is held to reverse mode, and Jacobians of as many rows as it takes to be computed from either
side to gradients, row by row. A seed is a program and its inputs; `complaint(seed)` is the way to
look at one again.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array
from tests.support.complex_programs import random_complex_graph, total_of

SEEDS = range(12)
MORE_SEEDS = range(12, 212)
_BLOCK = 50
_TOLERANCE = 1e-9  # relative to the largest element
_MOST = 1 << 10  # elements of a Jacobian


def _outputs(y: Tensor, z: Tensor, along: Tensor) -> list[Tensor]:
    """Return what must be equal, one after another: a tangent and two Jacobians, both twice."""
    (g,) = sg.gradients(y, [z], unconnected_gradients="zero")
    (tangent,) = sg.jvp([y], [z], [along])
    size = z.type.count
    row = sg.reshape(g, (1, size))
    one, many = (sg.stack([y] * rows) for rows in (1, size + 1))
    found = [sg.reshape(sg.jacobian(ys, z), (-1, size)) for ys in (one, many)]
    wanted = [row, sg.broadcast_to(row, (size + 1, size))]
    pairs = [(tangent, sg.sum(sg.real(g * along))), *zip(found, wanted, strict=True)]
    return [t for pair in pairs for t in pair]


def complaint(seed: int) -> str:
    """Return what is wrong with the derivatives of the program of a seed, '' if nothing is."""
    rng = np.random.default_rng(seed)
    graph, inputs = random_complex_graph(
        rng, dtypes.complex128, int(rng.integers(1, 8)), control=seed % 4 == 3
    )
    z = graph.inputs[0]
    if not 0 < z.type.count * (z.type.count + 1) <= _MOST:
        return ""
    along = sg.placeholder(z.shape, z.dtype)
    ways = (rng.normal(size=z.shape) + 1j * rng.normal(size=z.shape)).astype(np.complex128)
    outputs = _outputs(total_of(graph.outputs), z, along)
    feed = {**dict(zip(graph.inputs, inputs, strict=True)), along: ways}
    found = [np.asarray(a) for a in sg.testing.interpret(outputs, feed)]
    names = ("tangent", "Jacobian of one row", "Jacobian of many rows")
    wrong = [n for n, a, b in zip(names, found[::2], found[1::2], strict=True) if _differ(a, b)]
    return f"seed {seed}: {', '.join(wrong)}" if wrong else ""


def _differ(found: Array, wanted: Array) -> bool:
    if found.shape != wanted.shape:
        return True
    if not np.isfinite(wanted).all() or not np.isfinite(found).all():
        return False
    size = np.max(np.abs(wanted), initial=1e-30)
    return bool(np.max(np.abs(found - wanted), initial=0) > _TOLERANCE * size + 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_derivatives_are_the_same_from_both_sides(seed):
    assert not complaint(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MORE_SEEDS.start, MORE_SEEDS.stop, _BLOCK))
def test_derivatives_of_more_programs_are_the_same_from_both_sides(first):
    assert not [c for seed in range(first, first + _BLOCK) if (c := complaint(seed))]
