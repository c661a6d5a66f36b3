"""Sparse Jacobians and Hessians: equal to the dense ones, in as many seeds as there are colours."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import symgrad as sg
from symgrad.frontend.sparse_tensor import SparseTensor
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from tests.support.control_programs import arrays

POINT = np.array([0.9, -0.8, 1.1, 0.4, 0.7, -1.2])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((6,), "float64", name="x")


def dense(matrix: SparseTensor, values: Array) -> Array:
    """Return a matrix of these values; its pattern must be in order."""
    result = np.zeros(matrix.shape)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    places = rows * matrix.shape[1] + matrix.indices
    assert (np.diff(places) > 0).all()
    assert len(matrix.indptr) == matrix.shape[0] + 1
    result[rows, matrix.indices] = values
    return result


def check(sparse: SparseTensor, wanted: Tensor, given: Mapping[Tensor, Any]) -> None:
    """Hold a sparse derivative to the dense one."""
    assert sparse.values.dtype == wanted.dtype
    (values, expected), _ = evaluate(Graph([sparse.values, wanted], list(given)), arrays(given))
    np.testing.assert_allclose(dense(sparse, values), expected.reshape(sparse.shape), rtol=1e-12)


def seeds(matrix: SparseTensor) -> set[int]:
    """Return for how many seeds it is computed: each is where a colour equals its number."""
    nodes = Graph(matrix.values, None).nodes
    return {
        n.output.type.static_shape[0]
        for n in nodes
        if n.op == "equal" and n.inputs[1].node.op == "iota"
    }


def chain(x: Tensor) -> Tensor:
    return sg.sin(x[1:]) * x[:-1]


def has_axis_of_seeds(matrix: SparseTensor) -> bool:
    """Return whether tangents or gradients for several seeds are one."""
    return bool(seeds(matrix))


def test_a_jacobian_by_columns(x):
    y = sg.cumsum(x)[1:3] * x[3:5]
    found = sg.jacobian(y, x, sparsity="auto")
    assert (found.shape, found.nnz) == ((2, 6), 7)
    assert found.indices.tolist() == [0, 1, 3, 0, 1, 2, 4]
    assert seeds(found) == {2}  # by rows
    check(found, sg.jacobian(y, x), {x: POINT})


def test_a_jacobian_through_selections_has_no_axis_of_seeds(x):
    found = sg.jacobian(chain(x), x, sparsity="auto")
    assert found.shape == (5, 6)
    assert found.nnz == 10
    assert found.indices.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert not has_axis_of_seeds(found)
    assert not any(n.op == "gather" for n in Graph(found.values, [x]).nodes)
    check(found, sg.jacobian(chain(x), x), {x: POINT})


def test_rows_of_several_selections_are_written_in_runs(x):
    i, j = np.array([4, 0, 3]), np.array([1, 5, 2])
    left, right = sg.take(x, i), sg.take(x, j)
    y = sg.concat([left * right, sg.exp(left), right])
    found = sg.jacobian(y, x, sparsity="auto")
    assert found.nnz == 12
    assert not has_axis_of_seeds(found)
    check(found, sg.jacobian(y, x), {x: POINT})


def test_rows_of_many_kinds_are_gathered():
    x = sg.placeholder((60,), "float64")
    mask = np.arange(59) % 2 == 0
    y = x[1:] * sg.where(mask, x[:-1], sg.constant(np.ones(59)))
    found = sg.jacobian(y, x, sparsity="auto")
    assert found.nnz == 30 * 2 + 29
    assert not has_axis_of_seeds(found)
    check(found, sg.jacobian(y, x), {x: np.random.default_rng(0).random(60)})


def test_selections_that_meet_in_a_column_are_coloured(x):
    i, j = np.array([4, 0, 3]), np.array([1, 0, 2])
    y = sg.take(x, i) * sg.sin(sg.take(x, j))
    found = sg.jacobian(y, x, sparsity="auto")
    assert found.nnz == 5
    assert has_axis_of_seeds(found)
    check(found, sg.jacobian(y, x), {x: POINT})


def test_a_selection_of_a_selection_that_is_used_is_coloured(x):
    inner = x[1:]
    y = sg.exp(inner)[:-1] * inner[1:]
    found = sg.jacobian(y, x, sparsity="auto")
    assert has_axis_of_seeds(found)
    check(found, sg.jacobian(y, x), {x: POINT})


def test_what_is_selected_alone_is_a_jacobian_of_ones(x):
    y = sg.take(x, np.array([2, 2, 5]))
    found = sg.jacobian(y, x, sparsity="auto")
    assert found.indices.tolist() == [2, 2, 5]
    check(found, sg.jacobian(y, x), {x: POINT})


def test_a_jacobian_by_rows(x):
    y = sg.stack([x.sum() ** 2, x[0] * x[1]])  # a dense row: no two columns are apart
    found = sg.jacobian(y, x, sparsity="auto")
    assert seeds(found) == {2}
    check(found, sg.jacobian(y, x), {x: POINT})


def test_blocks_of_several_shapes(x):
    y = sg.concat([x[:2] @ np.ones((2, 3)), x[2:5] @ np.ones((3, 2)), sg.zeros(1, dtype="float64")])
    found = sg.jacobian(y.reshape((2, 3)), x.reshape((2, 3)), sparsity="auto")
    assert found.nnz == 0  # y is not computed of what is made of x here
    found = sg.jacobian(y.reshape((2, 3)), x, sparsity="auto")
    assert found.nnz == 12
    check(found, sg.jacobian(y, x), {x: POINT})


def test_a_batch_is_one_sweep():
    x = sg.placeholder((50, 2, 3), "float64")
    y = sg.einsum("bij,bkj->bik", x, sg.sin(x))
    found = sg.jacobian(y, x, "auto")
    assert found.nnz == 50 * 4 * 6 - 50 * 2 * 3  # a product of two rows of six, or of one with it
    assert seeds(found) == {3}  # by rows: two products of a row and one of it with itself
    check(found, sg.jacobian(y, x), {x: np.random.default_rng(0).random((50, 2, 3))})


def test_a_diagonal_is_one_seed(x):
    found = sg.jacobian(sg.exp(x), x, sparsity="auto")
    assert not has_axis_of_seeds(found)
    assert not any(n.op == "gather" for n in Graph(found.values, [x]).nodes)
    check(found, sg.jacobian(sg.exp(x), x), {x: POINT})


def test_nothing_is_a_matrix_without_values(x):
    other = sg.placeholder((2,), "float64")
    found = sg.jacobian(other, x, sparsity="auto")
    assert (found.shape, found.nnz, found.values.shape) == ((2, 6), 0, (0,))
    assert sg.hessian((x * 3.0).sum(), x, sparsity="auto").nnz == 0
    assert sg.hessian(other.sum(), x, sparsity="auto").nnz == 0


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x[1:] * np.zeros(5),
        lambda x: sg.where(np.zeros(5, bool), sg.sin(x[1:]), 1.0),
        lambda x: sg.where(np.zeros(0, bool), sg.sin(x[6:]), 1.0),
        lambda x: sg.take(x, np.array([3, 1])) * 0.0 + x[:2] * np.zeros(2),
    ],
    ids=["known zeros", "a mask that holds nowhere", "no elements", "two selections"],
)
def test_selections_of_which_nothing_is_left_make_a_matrix_without_values(x, build):
    y = build(x)
    found = sg.jacobian(y, x, sparsity="auto")
    assert (found.shape, found.nnz) == ((y.type.count, 6), 0)
    check(found, sg.jacobian(y, x), {x: POINT})


def test_a_hessian_of_a_chain_takes_three_seeds(x):
    y = (chain(x) ** 2).sum()
    found = sg.hessian(y, x, sparsity="auto")
    assert found.nnz == 16
    assert seeds(found) == {3}
    check(found, sg.hessians(y, x)[0], {x: POINT})


def test_a_hessian_like_an_arrow_takes_two_seeds():
    x = sg.placeholder((30,), "float64")
    y = (x[0] * x[1:] ** 2).sum()
    found = sg.hessian(y, x, sparsity="auto")
    assert seeds(found) == {2}
    point = np.random.default_rng(0).random(30)
    check(found, sg.hessians(y, x)[0], {x: point})
    (values,), _ = evaluate(Graph(found.values, [x]), [point])
    assert (dense(found, values) == dense(found, values).T).all()


def test_a_dense_hessian_of_tensors(x):
    y = (chain(x) ** 2).sum()
    (wanted,) = sg.hessians(y, x)
    rows = sg.hessian(chain(x), x)
    a, b = x[:3], x[3:]
    blocks = sg.hessian((a * b * b).sum(), {"a": a, "b": b})
    outputs = [sg.hessian(y, x), wanted, rows, blocks["a"]["b"], blocks["b"]["b"]]
    step = sg.compile([x], outputs, opt_level=0)
    found, expected, of_rows, across, own = step(POINT)
    np.testing.assert_allclose(found, expected)
    assert of_rows.shape == (5, 6, 6)
    np.testing.assert_allclose(across, np.diag(2 * POINT[3:]))
    np.testing.assert_allclose(own, np.diag(2 * POINT[:3]))


def test_a_gradient_of_users_need_not_be_symmetric(x):
    @sg.custom_gradient
    def skewed(v: Tensor) -> Any:
        return sg.sum(v * v), lambda g: g * sg.concat([v[1:], v[:1]])

    y = skewed(x)
    found = sg.hessian(y, x, sparsity="auto")
    check(found, sg.hessians(y, x)[0], {x: POINT})
    assert found.indices.tolist() == [1, 2, 3, 4, 5, 0]


def test_what_stops_a_gradient_is_not_in_the_pattern(x):
    y = sg.stop_gradient(x[:2]) * x[2:4]
    assert sg.jacobian(y, x, sparsity="auto").indices.tolist() == [2, 3]


def test_a_nest_of_xs_gives_that_nest():
    a, b = sg.placeholder((4,), "float64"), sg.placeholder((4, 2), "float64")
    found = sg.jacobian(a * b[:, 0], {"a": a, "b": [b]}, sparsity="auto")
    assert found["a"].shape == (4, 4)
    assert found["b"][0].indices.tolist() == [0, 2, 4, 6]


def test_indices_that_are_data_may_be_any(x):
    places = sg.placeholder((2,), "int64")
    found = sg.jacobian(sg.take(x, places), x, sparsity="auto")
    assert found.nnz == 12
    check(found, sg.jacobian(sg.take(x, places), x), {x: POINT, places: [4, 1]})


def test_within_a_function_and_a_loop(x):
    @sg.function
    def values(v: Tensor) -> Any:
        return sg.jacobian(chain(v), v, sparsity="auto").values

    inside = sg.map(lambda s: sg.jacobian(chain(s * x), x, sparsity="auto").values, x[:2])
    step = sg.compile([x], [values(x), inside], opt_level=0)
    alone, each = step(POINT)
    np.testing.assert_allclose(alone, values(POINT))
    s = POINT[1]
    wanted = np.stack([s * np.sin(s * POINT[1:]), s * s * POINT[:-1] * np.cos(s * POINT[1:])])
    np.testing.assert_allclose(each[1], wanted.T.reshape(-1))


# ------------------------------------------------------------------------------------- as results


def test_what_comes_back_is_a_matrix_of_scipy(x):
    found = sg.jacobian(chain(x), x, sparsity="auto")
    step = sg.compile([x], {"r": chain(x), "j": found}, opt_level=0)
    result = step(POINT)["j"]
    assert isinstance(result, csr_array)
    assert result.shape == (5, 6)
    assert result.has_canonical_format
    vector = np.arange(6.0)
    (want,) = sg.run(sg.jvp(chain(x), x, vector), {x: POINT})
    np.testing.assert_allclose(result @ vector, want)
    np.testing.assert_allclose(sg.run(found, {x: POINT}).toarray(), result.toarray())


def test_values_are_written_to_an_array(x):
    found = sg.jacobian(chain(x), x, sparsity="auto")
    step = sg.compile([x], found, opt_level=0)
    out = SparseTensor(found.pattern, np.empty(10))
    step(POINT, out=out)
    assert (out.values == step(POINT).data).all()


def test_a_function_of_arrays_gives_a_matrix():
    f = sg.function(lambda v: sg.jacobian(chain(v), v, sparsity="auto"))
    assert isinstance(f(POINT), csr_array)


def test_without_scipy_the_values_can_be_had(x, monkeypatch):
    found = sg.jacobian(chain(x), x, sparsity="auto")
    step = sg.compile([x], found, opt_level=0)
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(sg.CompileError, match=r"SciPy.*is not installed"):
        step(POINT)


def test_the_pattern_is_not_written_to(x):
    found = sg.jacobian(chain(x), x, sparsity="auto")
    with pytest.raises(ValueError, match="read-only"):
        found.indices[0] = 3
    assert repr(found) == "<SparseTensor 5 x 6, 10 values: f64>"
    assert repr(found.pattern) == "pattern(5 x 6, 10 non-zeros)"
