"""Counts that no machine makes nodes for: refused at once, or answered without a node for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

_HUGE = (2**31, 2**40, 2**62, 2**63, 2**200)


def _unknown() -> sg.Tensor:
    return sg.placeholder((None,), name="x")


def _vander(count: int) -> Any:
    vector: Any = _unknown()[:3]
    return np.vander(vector, count)


_NODES_EACH: dict[str, Callable[[int], Any]] = {
    "array_split": lambda n: sg.array_split(sg.zeros(3), n),
    "array_split of nothing": lambda n: sg.array_split(sg.zeros(0), n),
    "split of nothing": lambda n: sg.split(sg.zeros(0), n),
    "split of an unknown size": lambda n: sg.split(_unknown(), n),
    "diff": lambda n: sg.diff(_unknown(), n=n),
    "vander": _vander,
}


@pytest.mark.parametrize("count", _HUGE)
@pytest.mark.parametrize("name", _NODES_EACH)
def test_a_node_for_each_of_a_huge_count_is_refused(name, count):
    with pytest.raises(sg.ShapeError, match=f"{count} (parts|differences|columns) are as many"):
        _NODES_EACH[name](count)


def test_slices_of_a_huge_axis_are_refused():
    with pytest.raises(sg.ShapeError, match="1099511627776 slices are as many nodes"):
        sg.unstack(sg.zeros((2**40, 0)))


def test_differences_of_an_unknown_size_are_as_many_as_asked():
    x = _unknown()
    step = sg.compile([x], sg.diff(x, n=300))
    given = np.cumsum(np.ones(303, np.float32))
    np.testing.assert_array_equal(step(given), np.zeros(3, np.float32))
    assert step(given[:10]).shape == (0,)


def test_an_index_beyond_int64_grows_no_tensor_array():
    with pytest.raises(sg.ShapeError, match="an int64 counts to"):
        sg.TensorArray(0, (3,), dynamic_size=True).write(2**63, sg.zeros(3))


@pytest.mark.parametrize("stride", [4_097, 2**31])
def test_a_transposed_convolution_of_a_huge_stride_is_no_node_for_each_pixel(stride):
    x = sg.placeholder((1, 2, 1), name="x")
    y = sg.nn.conv_transpose(x, sg.constant([[[2.0]], [[3.0]]]), strides=stride)
    assert y.shape == (1, stride + 2, 1)
    if stride < 10_000:
        found = sg.compile([x], y)(np.array([[[1.0], [10.0]]], np.float32)).ravel()
        expected = np.zeros(stride + 2)
        expected[[0, 1, stride, stride + 1]] = 2, 3, 20, 30
        np.testing.assert_array_equal(found, expected)


_TABLES: dict[str, Callable[[int], Any]] = {
    "he_normal": lambda n: sg.nn.init.he_normal((n, n), seed=0),
    "glorot_uniform": lambda n: sg.nn.init.glorot_uniform((n, 3), seed=0),
    "orthogonal": lambda n: sg.nn.init.orthogonal((n, 2), seed=0),
    "truncated_normal": lambda n: sg.nn.init.truncated_normal((n,), seed=0),
    "interpolate": lambda n: sg.nn.interpolate(sg.zeros((1, 3, 1)), n + 1),
    "interpolate by cubics": lambda n: sg.nn.interpolate(sg.zeros((1, 3, 1)), n, method="cubic"),
    "pdist": lambda n: sg.nn.pdist(sg.zeros((n // 2**20, 2))),
    "repeat": lambda n: sg.repeat(sg.zeros(2), [n, 1]),
}


@pytest.mark.parametrize("size", [2**46, 2**62])
@pytest.mark.parametrize("name", _TABLES)
def test_a_table_beyond_memory_is_refused_by_name(name, size):
    with pytest.raises(sg.ShapeError, match=f"^{name.partition(' ')[0]}: .* is too large: "):
        _TABLES[name](size)
