"""A temporary that is last read where a result is written lies in the memory of the result."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.cost_model import LEAST_REUSED

N = LEAST_REUSED // 4


def _temporaries(step: sg.Step) -> int:
    """Return how many large temporaries a step has."""
    lines = step.ir("loops").splitlines()
    return sum(f"f32[{N}] at" in line or f"f32[{N // 64}, 64] at" in line for line in lines)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_scaled_by_its_sum_needs_no_memory_of_its_own(threads):
    x = sg.placeholder((N,))
    y = sg.exp(x)
    step = sg.compile([x], y / y.sum(), threads=threads)
    assert _temporaries(step) == 0
    given = np.random.default_rng(0).random(N).astype(np.float32)
    wanted = np.exp(given) / np.exp(given.astype(np.float64)).sum()
    np.testing.assert_allclose(step(given), wanted, rtol=1e-5)
    np.testing.assert_array_equal(step(given), step(given))


def test_of_two_results_one_has_it():
    x = sg.placeholder((N,))
    y = sg.exp(x)
    total = y.sum()
    step = sg.compile([x], [y / total, sg.sin(y) * total])
    assert _temporaries(step) <= 1
    given = np.linspace(-1, 1, N, dtype=np.float32)
    e = np.exp(given)
    np.testing.assert_allclose(step(given)[0], e / e.sum(), rtol=1e-5)
    np.testing.assert_allclose(step(given)[1], np.sin(e) * e.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda y, total: (y / total)[::-1],  # written elsewhere
        lambda y, total: y / total + sg.roll(y, 1),  # read elsewhere, too
        lambda y, total: sg.astype(y / total, "float64"),  # of another size
    ],
    ids=["reversed", "shifted", "wider"],
)
def test_what_is_read_elsewhere_than_it_is_written_stays_in_memory(build):
    x = sg.placeholder((N,))
    y = sg.exp(x)
    out = build(y, y.sum())
    step = sg.compile([x], out)
    assert _temporaries(step) >= 1
    given = np.linspace(-1, 1, N, dtype=np.float32)
    (wanted,) = sg.testing.interpret([out], {x: given})
    np.testing.assert_allclose(step(given), wanted, rtol=1e-5)


def test_a_result_in_the_memory_of_an_argument_is_right():
    x = sg.placeholder((N,))
    y = sg.exp(x)
    step = sg.compile([x], y / y.sum() + x)
    given = np.linspace(-1, 1, N, dtype=np.float32)
    wanted = step(given)
    step(given, out=given)
    np.testing.assert_array_equal(given, wanted)
