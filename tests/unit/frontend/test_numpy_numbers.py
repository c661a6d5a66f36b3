"""Counts, offsets and sizes of NumPy, also arrays of no axes, are taken for ints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.given_arrays import as_int

_X = sg.constant([3, 1, 3, 0])
_M = sg.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
_IMAGE, _KERNEL = sg.ones((1, 6, 6, 2)), sg.ones((3, 3, 2, 2))
_CALLS: dict[str, Callable[[Any], Any]] = {
    "bincount": lambda n: sg.bincount(_X, length=n),
    "diagflat": lambda n: sg.diagflat(_X, k=n),
    "diagonal": lambda n: sg.diagonal(_M, offset=n),
    "trace": lambda n: sg.linalg.trace(_M, offset=n),
    "nonzero": lambda n: sg.nonzero(_X, size=n),
    "unique_values": lambda n: sg.unique_values(_X, size=n),
    "unique_counts": lambda n: list(sg.unique_counts(_X, size=n, fill_value=n)),
    "confusion_matrix": lambda n: sg.nn.confusion_matrix([0, 1, 1], [0, 1, 0], n),
    "permutation": lambda n: sg.random.permutation(sg.random.key(0), n),
    "choice": lambda n: sg.random.choice(sg.random.key(0), n, (3,)),
    "heads": lambda n: sg.nn.multi_head_attention(
        *[sg.ones((1, 2, 4))] * 3, *[sg.ones((4, 4))] * 4, heads=n
    ),
    "matrix_power": lambda n: sg.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], n),
    "maximum_iterations": lambda n: sg.while_loop(
        lambda i: i < 9, lambda i: (i + 1,), [sg.constant(0)], maximum_iterations=n
    ),
    "checkpoint": lambda n: sg.fori_loop(0, 3, lambda i, x: x + 1, _X, checkpoint=n),
    "upper": lambda n: sg.fori_loop(0, n, lambda i, x: x + 1, _X),
    "length": lambda n: sg.scan(lambda c, x: (c + 1, c), sg.constant(0), None, length=n)[1],
    "size of a TensorArray": lambda n: sg.TensorArray(n, (2,)).stack(),
    "key of a branch": lambda n: sg.switch_case(
        sg.constant(2), [(0, lambda: _X), (1, lambda: _X + 1), (n, lambda: _X + 2)]
    ),
    "init": lambda n: sg.constant(sg.nn.init.glorot_uniform((n, 3), seed=n)),
    "in_axes": lambda n: sg.vmap(lambda x: x + 1, in_axes=n)(sg.ones((1, 2, 3))),
    "argnums": lambda n: sg.grad(lambda x, y, z: sg.sum(x * y * z), argnums=(0, n))(_M, _M, _M),
    "seed": lambda n: sg.random.bits(sg.random.key(n), (2,)),
    "padding": lambda n: sg.nn.conv(_IMAGE, _KERNEL, padding=n),
    "padding of axes": lambda n: sg.nn.conv(_IMAGE, _KERNEL, padding=[n, (n, n)]),
    "strides of axes": lambda n: sg.nn.conv(_IMAGE, _KERNEL, strides=(n, n)),
    "window of axes": lambda n: sg.nn.max_pool(_IMAGE, (n, n)),
    "size of a fold": lambda n: sg.nn.fold(sg.ones((1, 1, 1, 2, 2, 2)), (n, n), 2),
    "size without pooling": lambda n: sg.nn.max_unpool(
        sg.ones((1, 1, 1, 1)), sg.zeros((1, 1, 1, 1), "int64"), n
    ),
    "groups": lambda n: sg.nn.conv(sg.ones((1, 3, 4)), sg.ones((1, 2, 4)), groups=n),
    "groups of a transposed one": lambda n: sg.nn.conv_transpose(
        sg.ones((1, 3, 4)), sg.ones((1, 2, 4)), groups=n
    ),
}


@pytest.mark.parametrize("name", _CALLS)
def test_integers_of_numpy_are_taken_for_ints(name):
    count = 1 if name in ("diagflat", "diagonal", "trace") else 4 if name == "bincount" else 2
    kinds: list[Callable[[int], Any]] = [int, np.int64, np.uint8, np.array]
    made = [_CALLS[name](kind(count)) for kind in kinds]
    wanted, *found = (sg.run(each) for each in made)
    for each in found:
        for got, right in zip(np.atleast_1d(each), np.atleast_1d(wanted), strict=True):
            np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array])
def test_integers_of_numpy_are_options_of_compile(kind, tmp_path):
    x = sg.placeholder(("n",), name="x")
    step = sg.compile([x], x + x, threads=kind(2), opt_level=kind(1), memory_limit=kind(200))
    np.testing.assert_array_equal(step(np.ones(3, np.float32)), [2, 2, 2])
    assert step.export(tmp_path / "a", formats=["h"], sizes={"n": kind(3)})


def test_a_size_of_numpy_stands_in_no_type_of_other_programs():
    of_numpy: Any = np.int64(977)
    sg.bincount(_X, length=of_numpy)
    assert {type(n) for n in sg.zeros((977,), "int64").shape} == {int}
    assert {type(n) for n in sg.bincount(_X, length=977).shape} == {int}
    assert sg.run(sg.bincount(_X, length=977)).shape == (977,)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, lambda n: np.array(n, np.uint8)])
@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal", "orthogonal"])
@pytest.mark.parametrize("shape", [(200, 100), (3, 3, 20, 200)])
def test_products_of_sizes_of_numpy_do_not_overflow(name, shape, kind):
    made = getattr(sg.nn.init, name)
    of_numpy = made(tuple(map(kind, shape)), seed=0)
    np.testing.assert_array_equal(of_numpy, made(shape, seed=0))


def test_offsets_of_numpy_do_not_overflow():
    x = np.arange(300 * 300, dtype=np.float32).reshape(300, 300)
    offsets: list[Any] = [np.uint8(0), np.uint8(100), np.uint8(200), np.int8(-128)]
    for offset in offsets:
        found = sg.run(sg.diagonal(x, offset=offset))
        np.testing.assert_array_equal(found, np.diagonal(x, int(offset)))
        assert sg.run(sg.diagonal(_M, offset=offset)).shape == (2 if offset == 0 else 0,)
    assert sg.run(sg.diag(sg.constant([1, 2]), offsets[-1])).shape == (130, 130)


def test_times_of_numpy_are_no_ints():
    assert as_int(np.timedelta64(2)) is None
    of_time: Any = np.timedelta64(2)
    with pytest.raises(sg.SymgradError, match="no positive number of threads"):
        sg.compile([], _X, threads=of_time)
