"""Sparse vector forward mode: Jacobians of what reads slices of x, beside tangents one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array

SIZE = 9
RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.normal(size=(6000, 6))
POINT = RANDOM.normal(size=SIZE)
Function = Callable[[Tensor], Tensor]


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((SIZE,), "float64", name="x")


def _parts(x: Tensor, count: int = 3) -> list[Tensor]:
    """Return rows, of which each is made of its own three elements of x, or fewer."""
    return [sg.sin(x[3 * i]) * x[3 * i : 3 * i + 3].sum() * sg.ones((2,)) for i in range(count)]


def _placed(x: Tensor) -> Tensor:
    return sg.constant(WEIGHTS[:20]) @ sg.concat(_parts(x))


def _moved(x: Tensor) -> Tensor:
    rows = sg.concat([sg.reshape(part, (1, 2)) for part in _parts(x)])
    turned = sg.permute_dims(-rows * sg.constant(WEIGHTS[:3, :2]), (1, 0))
    return sg.einsum("vb,ib->vi", sg.constant(WEIGHTS[:20, :3]), turned[1:])


def _large(x: Tensor) -> Tensor:
    rows = sg.einsum("vb,bi->vi", sg.constant(WEIGHTS), sg.outer(sg.concat(_parts(x)), [1.0, 2.0]))
    return (rows * sg.constant(WEIGHTS[:, :2])).sum(1) + x[1]


def _between(x: Tensor) -> Tensor:
    first, second, third = _parts(x)
    joined = sg.stack([first, second * x[8], third, first + second], axis=1)
    halves = (joined[:, 1:3] * 2.0).mT[:, ::-1] - joined[:, :2].mT
    return sg.outer(halves, [1.0, 2.0, 3.0])


def _products_of_a_batch(x: Tensor) -> Tensor:
    matrices = sg.stack(_parts(x))[:, None, :] @ sg.constant(RANDOM.normal(size=(3, 2, 4)))
    return sg.einsum("vb,bij->vij", sg.constant(WEIGHTS[:30, :3]), matrices[:, :, 1:])


def _many(x: Tensor) -> Tensor:
    return sg.constant(WEIGHTS[:10, :5]) @ sg.stack(
        [x[i] * x[i + 1] for i in range(0, 8, 2)] + [x[8]]
    )


def _left_out(x: Tensor) -> Tensor:
    return sg.concat([x[2:4] * 2.0, x[6:7], sg.ones((12,), "float64")])


def _of_all(x: Tensor) -> Tensor:
    return sg.concat([x * x[0], x[::2]])


def _loop(x: Tensor) -> Tensor:
    found: Tensor = sg.fori_loop(
        0, 3, lambda _, y: y * x[1] + x[4], sg.ones((12,), "float64") * x[2]
    )
    return found


FUNCTIONS = [
    _placed, _moved, _large, _between, _products_of_a_batch, _many, _left_out, _of_all, _loop,
]  # fmt: skip


def _one_by_one(y: Tensor, x: Tensor) -> Array:
    columns = [sg.jvp(y, x, sg.constant(seed))[0] for seed in np.eye(SIZE)]
    return np.stack(sg.run(columns, {x: POINT}), axis=-1)


def _products(y: Tensor, x: Tensor) -> list[tuple[int, ...]]:
    """Return the shapes of what products of the Jacobian read that has an axis of seeds."""
    nodes = Graph(sg.jacobian(y, x), [x]).nodes
    factors = [node.inputs[1].type for node in nodes if node.op == "einsum"]
    return [factor.static_shape for factor in factors if len(factor.shape) > 1]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_jacobian_is_that_of_tangents_one_by_one(function: Function, x: Tensor) -> None:
    y = function(x)
    found = sg.run(sg.jacobian(y, x), {x: POINT})
    np.testing.assert_allclose(found, _one_by_one(y, x), rtol=1e-12, atol=1e-13)


def test_a_product_over_parts_reads_the_places_of_each_part(x: Tensor) -> None:
    assert _products(_placed(x), x) == [(3, 2)] * 3


def test_parts_stay_apart_where_what_they_are_in_is_scaled_permuted_and_cut(x: Tensor) -> None:
    assert _products(_moved(x), x) == [(3, 1, 1)] * 3


def test_of_parts_that_share_an_element_products_read_all_places(x: Tensor) -> None:
    parts = [part * x[4] for part in _parts(x)]
    assert _products(sg.constant(WEIGHTS[:20]) @ sg.concat(parts), x) == [(SIZE, 6)]


def test_what_is_made_of_one_element_has_one_seed(x: Tensor) -> None:
    nodes = Graph(sg.jacobian(sg.exp(x[2:3]) * sg.ones((12,), "float64"), x), [x]).nodes
    assert {n.output.shape for n in nodes if n.op == "multiply"} <= {(1, 1), (1, 12), (12,)}


def test_a_concat_that_no_product_follows_has_all_seeds_while_it_is_computed(x: Tensor) -> None:
    y = sg.tanh(sg.concat([sg.exp(x[i] * sg.ones((3,), "float64")) for i in range(4)]))
    nodes = Graph(sg.jacobian(y, x), [x]).nodes
    assert "pad" not in {node.op for node in nodes}


def test_more_parts_than_kernels_are_worth_are_one(x: Tensor) -> None:
    many = sg.placeholder((40,), "float64", name="many")
    y = sg.constant(RANDOM.normal(size=(50, 40))) @ sg.stack([sg.sin(many[i]) for i in range(40)])
    assert _products(y, many) == [(40, 40)]


def test_what_no_seed_reaches_is_zero_beside_what_is_not_finite(x: Tensor) -> None:
    weights = WEIGHTS[:20].copy()
    weights[:, 5] = np.inf
    found = sg.run(sg.jacobian(sg.constant(weights) @ sg.concat(_parts(x)), x), {x: POINT})
    assert np.isfinite(found[:, :6]).all()
    assert not np.isfinite(found[:, 6:]).all()
