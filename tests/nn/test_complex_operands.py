"""Losses, distances and norms of complex numbers: refused, or real as those of magnitudes."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.together import together

GENERATOR = np.random.default_rng(3)
REAL = GENERATOR.standard_normal((3, 4))
COMPLEX = REAL + 1j * GENERATOR.standard_normal((3, 4))
CLASSES = np.array([0, 1, 2])


def losses() -> list[str]:
    """Return the names of all functions that have a reduction, and of distances."""
    named = {n: f for n, f in vars(sg.nn).items() if callable(f) and not n.startswith("_")}
    found = {n for n, f in named.items() if "reduction" in inspect.signature(f).parameters}
    found -= {"embedding_bag", "ctc"}  # no loss; one of sequences, which is below
    return [*sorted(found), "pairwise_distance", "pdist", "cosine_similarity", "cosine_distance"]


def operands(name: str) -> int:
    parameters = inspect.signature(getattr(sg.nn, name)).parameters.values()
    return sum(p.default is p.empty for p in parameters)


def test_all_losses_are_found():
    assert {"mse", "nll", "kl_div", "triplet", "binary_cross_entropy"} <= set(losses())
    assert len(losses()) > 20


@together("name", losses())
def test_no_loss_is_complex(name):
    loss, count = getattr(sg.nn, name), operands(name)
    outcomes = []
    for given in product((COMPLEX, COMPLEX[:, 0], REAL, REAL[:, 0], CLASSES), repeat=count):
        if not any(np.iscomplexobj(x) for x in given):
            continue
        try:
            found = loss(*map(sg.constant, given))
        except sg.DTypeError:
            outcomes.append("refused")
        except (sg.ShapeError, sg.GraphError):
            continue
        else:
            assert not found.dtype.is_complex, [x.shape for x in given]
            outcomes.append("real")
    assert outcomes


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, np.inf])
def test_distances_of_complex_numbers_are_those_of_magnitudes(p):
    x, y = sg.constant(COMPLEX), sg.constant(COMPLEX[::-1].copy())
    distances, within = sg.run([sg.nn.pairwise_distance(x, y, p, epsilon=0), sg.nn.pdist(x, p)])
    apart = np.abs(COMPLEX - COMPLEX[::-1])
    with np.errstate(divide="ignore"):
        wanted = apart.max(1) if p == np.inf else (apart**p).sum(1) ** (1 / p)
    np.testing.assert_allclose(distances, wanted, rtol=1e-12)
    np.testing.assert_allclose(within[[1]], distances[[0]], rtol=1e-12)


def test_a_triplet_of_complex_vectors_is_that_of_their_lengths():
    x = [COMPLEX, COMPLEX[::-1], COMPLEX[[1, 2, 0]]]
    near, far = (np.linalg.norm(x[0] - y + 1e-6, axis=1) for y in x[1:])
    found = sg.run(sg.nn.triplet(x[0], x[1].copy(), x[2]))
    np.testing.assert_allclose(found, np.maximum(0, near - far + 1).mean(), rtol=1e-12)


def test_the_gradient_of_a_distance_of_complex_numbers():
    x, y = sg.placeholder((3, 4), "complex128"), sg.constant(COMPLEX[::-1].copy())
    apart_from = sg.constant(COMPLEX[[1, 2, 0]])  # of equal rows there is a kink
    sg.testing.check_gradients(lambda z: sg.nn.pairwise_distance(z, apart_from, 3), [COMPLEX])
    (g,) = sg.gradients(sg.sum(sg.nn.pairwise_distance(x, y, epsilon=0)), [x])
    assert g is not None
    apart = COMPLEX - COMPLEX[::-1]
    wanted = np.conj(apart) / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(sg.compile([x], g)(COMPLEX), wanted, rtol=1e-12)


SQUASHED: dict[str, Any] = {
    "softsign": lambda z: z / (1 + np.abs(z)),
    "tanh_shrink": lambda z: z - np.tanh(z),
}


@pytest.mark.parametrize("name", SQUASHED)
def test_functions_that_take_complex_numbers(name):
    function = getattr(sg.nn, name)
    found = sg.run(function(sg.constant(COMPLEX)))
    np.testing.assert_allclose(found, SQUASHED[name](COMPLEX), rtol=1e-12)
    sg.testing.check_gradients(function, [COMPLEX])


REFUSED: dict[str, Any] = {
    "ctc": lambda x: sg.nn.ctc(x[:, None], CLASSES[None, 1:], CLASSES[2:], CLASSES[2:]),
    "gelu": lambda x: sg.nn.gelu(x, approximate=True),
    "hard_shrink": sg.nn.hard_shrink,
    "lp_pool": lambda x: sg.nn.lp_pool(x[None], 2, 2),
    "local_response_norm": lambda x: sg.nn.local_response_norm(x, 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_for_complex_numbers_is_refused(name):
    with pytest.raises(sg.DTypeError, match=rf"{name}: .*c128"):
        REFUSED[name](sg.constant(COMPLEX))
