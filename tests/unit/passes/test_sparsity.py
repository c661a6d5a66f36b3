"""Index propagation: what each structure makes of what its operands depend on."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array
from symgrad.passes.sparsity.dependence import dependences
from symgrad.passes.sparsity.index_sets import IndexSets

X = sg.placeholder((6,), "float64", name="x")
M = sg.placeholder((2, 3), "float64", name="m")
FREE = sg.placeholder((), "int64", name="free")


def depends(y: Tensor, x: Tensor = X) -> list[list[int]]:
    """Return what each element of `y` depends on, in row-major order."""
    sets, (numbers,) = dependences("test", [y], x)
    assert numbers.shape == y.shape
    return [sets.indices_of(np.array([n])).tolist() for n in numbers.flat]


def around(size: int, before: int, after: int) -> list[list[int]]:
    return [list(range(max(i - before, 0), min(i + after + 1, size))) for i in range(size)]


ALL = [list(range(6))]
EACH = [[i] for i in range(6)]

STRUCTURES = {
    "map": (sg.sin(X) * X + 1.0, EACH),
    "a view backwards": (X[::-2], [[5], [3], [1]]),
    "windows that overlap": (X[1:] - X[:-1], [[i, i + 1] for i in range(5)]),
    "reshape and transpose": (X.reshape((2, 3)).T, [[0], [3], [1], [4], [2], [5]]),
    "broadcast": (sg.broadcast_to(X[:2].reshape((2, 1)), (2, 2)), [[0], [0], [1], [1]]),
    "pad": (sg.pad(X[:2], [(1, 1)]), [[], [0], [1], []]),
    "concat": (sg.concat([X[4:], X[:1]]), [[4], [5], [0]]),
    "fold": (
        sg.nn.fold(X.reshape((1, 3, 2, 1)), (4,), (2,)).reshape((-1,)),
        [[0], [1, 2], [3, 4], [5]],
    ),
    "sum": (X.reshape((2, 3)).sum(axis=1), [[0, 1, 2], [3, 4, 5]]),
    "max": (sg.max(X), ALL),
    "prefix scan": (sg.cumsum(X), around(6, 6, 0)),
    "prefix scan backwards": (sg.flip(sg.cumsum(sg.flip(X))), around(6, 0, 6)),
    "product": (X.reshape((2, 3)) @ M.T, [[0, 1, 2]] * 2 + [[3, 4, 5]] * 2),
    "both operands of a product": (X[:2] * X[2:4], [[0, 2], [1, 3]]),
    "batched product": (
        sg.einsum("bi,bij->bj", X.reshape((3, 2)), sg.placeholder((3, 2, 2), "float64")),
        [[0, 1]] * 2 + [[2, 3]] * 2 + [[4, 5]] * 2,
    ),
    "a product with zeros": (X[:3] @ np.array([[1.0, 0, 0], [2, 0, 3], [0, 0, 4]]),
                             [[0, 1], [], [1, 2]]),
    "times zeros": (X[:3] * np.array([1.0, 0, 2]), [[0], [], [2]]),
    "a function of C": (
        sg.extern("f", [X[:2], M, sg.constant([1.0])], [((3,), "float64")])[0],
        [[0, 1]] * 3,
    ),
    "a function of C with known operands": (sg.extern("f", [1.0], [((), "float64")])[0] * X, EACH),
    "convolution": (
        sg.nn.conv1d(X.reshape((1, 6, 1)), sg.placeholder((3, 1, 1), "float64")),
        [[i, i + 1, i + 2] for i in range(4)],
    ),
    "a mask": (sg.where(np.array([True, False, True]), X[:3], X[3:]), [[0], [4], [2]]),
    "an unknown mask": (sg.where(X[:3] > 0, X[:3], X[3:]), [[0, 3], [1, 4], [2, 5]]),
    "a triangle": (sg.tril(X[:4].reshape((2, 2))), [[0], [], [2], [3]]),
    "gather": (sg.take(X, np.array([2, -1, 2])), [[2], [5], [2]]),
    "gather of rows": (sg.take(X.reshape((3, 2)), np.array([2, 0]), axis=0),
                       [[4], [5], [0], [1]]),
    "gather anywhere": (sg.take(X.reshape((3, 2)), FREE, axis=0), [[0, 2, 4], [1, 3, 5]]),
    "scatter": (X[:3].at[np.array([0, 0])].add(X[3:5]), [[0, 3, 4], [1], [2]]),
    "scatter that replaces": (X[:3].at[np.array([0, 0])].set(X[3:5]), [[4], [1], [2]]),
    "scatter anywhere": (X[:2].at[FREE].set(X[5]), [[0, 5], [1, 5]]),
    "block": (sg.dynamic_slice(X, [4], [3]), [[3], [4], [5]]),
    "block anywhere": (sg.dynamic_slice(X, [FREE], [2]), ALL * 2),
    "block written": (sg.dynamic_update_slice(X[:4], X[4:], [1]), [[0], [4], [5], [3]]),
    "sort": (sg.sort(X.reshape((2, 3)), axis=0), [[0, 3], [1, 4], [2, 5]] * 2),
    "matrices": (sg.linalg.det(X[:4].reshape((1, 2, 2))), [[0, 1, 2, 3]]),
    # Its columns are written along another axis than they are read.
    "matrices of matrices": (
        sg.linalg.inv(sg.concat([X, X[:2]]).reshape((2, 2, 2))).reshape((-1,)),
        [[0, 1, 2, 3]] * 4 + [[0, 1, 4, 5]] * 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURES)
def test_elements_depend_on_what_they_are_computed_of(name):
    y, expected = STRUCTURES[name]
    assert depends(y) == expected


def chain(carry: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return x, carry * x


LOOPS = {
    "a scan whose variable forgets": (
        sg.scan(chain, X[0], X[1:])[1], [[i, i + 1] for i in range(5)]),
    "a scan backwards": (
        sg.scan(chain, X[5], X[:5], reverse=True)[1], [[i, i + 1] for i in range(5)]),
    "a recurrence": (
        sg.scan(lambda c, x: (c * x, c * x), X[0], X[1:])[1], around(6, 6, 0)[1:]),
    "a counter that reads": (
        sg.fori_loop(0, 2, lambda i, c: c + X[2 * i + 1], X[0]), [[0, 1, 3]]),
    "a condition that is known": (
        sg.while_loop(lambda i, _: i < 3, lambda i, c: [i + 1, c + X[i]], (0, X[5]))[1],
        [[0, 1, 2, 5]]),
    "a condition on values": (
        sg.while_loop(lambda c, _: c < 3.0, lambda c, d: [c + d, X[1]], (X[0], X[5]))[0],
        [[0, 1, 5]]),
    "branches": (sg.cond(X[0] > 0, lambda: X[:2], lambda: X[2:4]), [[0, 2], [1, 3]]),
    "a branch that is known": (
        sg.switch_case(sg.constant(1), [lambda: X[:2], lambda: X[2:4]]), [[2], [3]]),
    "a function": (sg.function(lambda a: a[::-1])(X[:3]), [[2], [1], [0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_nested_depends_on_what_its_graphs_do(name):
    y, expected = LOOPS[name]
    assert depends(y) == expected


def test_a_loop_of_unknown_length_is_walked_until_nothing_is_added():
    count = sg.placeholder((), "int64")
    moved = sg.fori_loop(0, count, lambda _, c: sg.concat([c[1:], c[:1]]), X)
    assert depends(moved) == ALL * 6
    kept = sg.fori_loop(0, count, lambda _, c: c * 2.0, X)
    assert depends(kept) == EACH


def test_a_loop_that_goes_on_adding_depends_on_all():
    count, x = sg.placeholder((), "int64"), sg.placeholder((100,), "float64")
    moved = sg.fori_loop(0, count, lambda _, c: c + sg.concat([c[1:], c[-1:]]), x)
    found = depends(moved, x)
    assert all(set(range(i, 100)) <= set(own) for i, own in enumerate(found))


def test_a_loop_too_long_to_be_walked_is_walked_at_once():
    _, ys = sg.scan(lambda c, x: (c, c + x), X[0], sg.broadcast_to(X[1], (100_000,)))
    sets, (numbers,) = dependences("test", [ys], X)
    assert numbers.shape == (100_000,)
    assert (numbers == numbers[0]).all()
    assert sets.indices_of(numbers[:1]).tolist() == [0, 1]


def test_other_inputs_are_depended_on_by_nothing():
    assert depends(M.sum() + 1.0, X) == [[]]


# ------------------------------------------------------------------------------------ index sets


def random_sets(
    rng: np.random.Generator, sets: IndexSets, count: int
) -> tuple[Array, list[set[int]]]:
    """Return numbers of random sets, and the sets."""
    numbers = rng.integers(0, sets.size + 1, count)
    wanted = [{int(n) - 1} - {-1} for n in numbers]
    for _ in range(3):
        order = rng.permutation(count)
        numbers = sets.union(numbers, numbers[order])
        wanted = [a | wanted[i] for a, i in zip(wanted, order, strict=True)]
    return numbers, wanted


@pytest.mark.parametrize("collides", [False, True])
def test_unions_are_those_of_sets(collides):
    rng = np.random.default_rng(3)
    sets = IndexSets(9, "test")
    if collides:  # no two sets are told apart by their hashes
        sets._weights[:] = 1
    numbers, wanted = random_sets(rng, sets, 40)
    assert [set(sets.indices_of(n[None]).tolist()) for n in numbers] == wanted
    table = numbers.reshape(8, 5)
    rows = sets.union_over(table, (1,))
    expected = [set().union(*wanted[5 * i : 5 * i + 5]) for i in range(8)]
    assert [set(sets.indices_of(n[None]).tolist()) for n in rows] == expected
    columns = sets.union_along(table, 0)
    assert set(sets.indices_of(columns[-1, :1]).tolist()) == set().union(*wanted[::5])


def test_equal_sets_have_one_number():
    sets = IndexSets(5, "test")
    a, b, c = (np.array([n]) for n in (1, 2, 3))
    left = sets.union(sets.union(a, b), c)
    right = sets.union(a, sets.union(c, b))
    assert left == right
    assert sets.union_over(np.array([[1, 2, 3], [3, 2, 1]]), (1,)).tolist() == [left[0]] * 2


def test_the_layout_of_operands_does_not_matter():
    sets = IndexSets(6, "test")
    numbers = sets.singletons((2, 3))
    both = sets.union(numbers[:, ::-1].T, numbers.T)
    assert sets.indices_of(both[0, :1]).tolist() == [0, 2]


def test_a_pattern_too_large_for_memory_is_refused(monkeypatch):
    monkeypatch.setattr("symgrad.passes.sparsity.index_sets.MOST_INDICES", 30)
    with pytest.raises(sg.CompileError, match=r"test: .*more than 30 non-zeros"):
        depends(sg.cumsum(X))
