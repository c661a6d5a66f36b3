"""Clipping: by value, by norm, by the norm of all; None and what is not finite."""

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError
from symgrad.graph.graph import Graph
from symgrad.optim import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
from tests.support.floors import run_everywhere

A, B = np.array([3.0, -4.0]), np.array([[0.0, 12.0]])


def results(grads: list[Any]) -> list[Any]:
    return [None if g is None else sg.run(g) for g in grads]


def test_values_are_limited_on_the_sides_asked_for():
    a, none, b = results(clip_by_value([A, None, B], -3.5, 10.0))
    assert none is None
    np.testing.assert_array_equal(a, [3, -3.5])
    np.testing.assert_array_equal(b, [[0, 10]])
    np.testing.assert_array_equal(results(clip_by_value([A], max=1.0))[0], [1, -4])
    np.testing.assert_array_equal(results(clip_by_value([A], min=0.0))[0], [3, 0])


def test_each_gradient_is_scaled_to_the_norm_if_it_is_longer():
    a, none, b = results(clip_by_norm([A, None, B], 6.0))
    assert none is None
    np.testing.assert_array_equal(a, A)
    np.testing.assert_allclose(b, B / 2)


def test_all_gradients_are_scaled_by_one_factor():
    assert sg.run(global_norm([A, None, B])) == 13
    a, none, b = results(clip_by_global_norm([A, None, B], 6.5))
    assert none is None
    np.testing.assert_allclose(a, A / 2)
    np.testing.assert_allclose(b, B / 2)


def test_gradients_within_the_norm_do_not_change_at_all():
    for got, want in zip(results(clip_by_global_norm([A, B], 13.0)), [A, B], strict=True):
        np.testing.assert_array_equal(got, want)


def test_gradients_of_zero_stay_zero():
    np.testing.assert_array_equal(results(clip_by_norm([np.zeros(3)], 1.0))[0], np.zeros(3))
    np.testing.assert_array_equal(results(clip_by_global_norm([np.zeros(3)], 1.0))[0], np.zeros(3))


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_norm_that_is_not_finite_makes_all_gradients_nan(bad):
    poisoned = np.array([1.0, bad])
    for g in results(clip_by_global_norm([poisoned, A], 1.0)):
        assert np.isnan(g).all()
    each = results(clip_by_norm([poisoned, A], 10.0))
    assert np.isnan(each[0]).all()
    np.testing.assert_array_equal(each[1], A)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [1e21, 3e38])
def test_gradients_whose_squares_overflow_are_scaled(dtype, size):
    """The norm is in float32 of the first, and beyond it of the second."""
    grads = [np.full(4, size, dtype), np.full((3, 4), -size, dtype)]
    a, b = results(clip_by_global_norm(grads, 8.0))
    rounding = 1e-4 if dtype == "float32" else 2.0**-8
    wide = np.concatenate([a, b.ravel()]).astype(np.float64)
    np.testing.assert_allclose(wide, [2.0] * 4 + [-2.0] * 12, rtol=rounding)
    alone = results(clip_by_norm(grads, 8.0))[0].astype(np.float64)
    np.testing.assert_allclose(alone, 4.0, rtol=rounding)
    norm = sg.run(global_norm(grads))
    assert norm.dtype == np.float32
    np.testing.assert_allclose(norm, 4e21 if size == 1e21 else np.inf, rtol=2.0**-8)


def test_the_norm_of_large_gradients_has_a_gradient():
    x = sg.placeholder((2,), name="x")
    (slope,) = sg.gradients(global_norm([x]), [x])
    step = sg.compile([x], slope)
    np.testing.assert_allclose(step(np.array([3, -4], "f")), [0.6, -0.8], rtol=1e-6)
    np.testing.assert_allclose(step(np.array([3e30, -4e30], "f")), [0.6, -0.8], rtol=1e-6)
    np.testing.assert_allclose(step(np.array([3e-18, -4e-18], "f")), [0.6, -0.8], rtol=1e-5)


def test_where_nothing_has_a_gradient_nothing_is_clipped():
    assert clip_by_global_norm([None, None], 1.0) == [None, None]
    assert clip_by_norm([], 1.0) == []


def test_limits_may_be_placeholders():
    most = sg.placeholder((), "float32", name="most")
    step = sg.compile(
        [most],
        [
            *clip_by_global_norm([A, B], most),
            *clip_by_norm([A], most),
            *clip_by_value([A], 0, most),
        ],
    )
    a, b, alone, limited = step(np.float32(6.5))
    np.testing.assert_allclose([*a, *b[0]], [1.5, -2, 0, 6])
    np.testing.assert_array_equal(alone, A)
    np.testing.assert_array_equal(limited, [3, 0])
    assert step(np.float32(1))[3][0] == 1
    assert limited.dtype == np.float64


def test_16_bit_gradients_have_a_float32_norm():
    # The sum of these squares is beyond float16.
    halves = [np.full(4, 200, np.float16), np.full(12, 200, np.float16)]
    norm = sg.run(global_norm(halves))
    assert (norm.dtype, norm) == (np.float32, 800)
    a, b = results(clip_by_global_norm(halves, 400.0))
    assert a.dtype == b.dtype == np.float16
    assert (a == 100).all()
    assert (b == 100).all()


def test_gradients_of_several_dtypes_have_one_norm_of_the_widest():
    grads = [A.astype(np.float32), B]
    assert sg.run(global_norm(grads)).dtype == np.float64
    assert [g.dtype for g in results(clip_by_global_norm(grads, 1.0))] == [np.float32, np.float64]


def test_every_floor_agrees():
    x, y = sg.placeholder((7, 11), name="x"), sg.placeholder((5,), name="y")
    clipped = [
        *clip_by_global_norm([x, y], 1.0), *clip_by_norm([x, y], 2.0), *clip_by_value([y], -1, 1)
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(7, 11)).astype("f"), rng.normal(size=5).astype("f")]
    graph = Graph([g for g in clipped if g is not None], [x, y])
    assert run_everywhere(graph, arrays) is None


def test_the_norm_and_the_clipping_reduce_once():
    x = sg.placeholder((300,), name="x")
    (clipped,) = clip_by_global_norm([x], 1.0)
    step = sg.compile([x], [clipped, global_norm([x])])
    assert sum("sum" in kernel.ops for kernel in step.kernels) == 1


def test_what_cannot_be_clipped_is_refused():
    lone: Any = sg.placeholder((3,))
    whole: Any = sg.placeholder((3,), "int32")
    word: Any = "much"
    with pytest.raises(DTypeError, match=r"clip_by_norm: grads is .*, not a list of gradients\n"):
        clip_by_norm(lone, 1.0)
    with pytest.raises(DTypeError, match=r"clip_by_value: grads\[1\] is i32\[3\], no float\n"):
        clip_by_value([None, whole], 0, 1)
    with pytest.raises(GraphError, match=r"clip_by_value: min 2 is greater than max 1\n.*test_cl"):
        clip_by_value([A], 2, 1)
    with pytest.raises(GraphError, match=r"clip_by_global_norm: max_norm is 0.0, it must be pos"):
        clip_by_global_norm([lone], 0)
    with pytest.raises(DTypeError, match=r"clip_by_norm: max_norm is 'much', neither a number"):
        clip_by_norm([lone], word)
    with pytest.raises(GraphError, match="global_norm: there is no gradient"):
        global_norm([None])
