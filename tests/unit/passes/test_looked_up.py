"""What is looked up element by element does not keep what is done with it from vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.cost_model import LEAST_LOOKED_UP

N = LEAST_LOOKED_UP


def _kernels(*inputs: sg.Tensor, of: Any) -> list[set[str]]:
    return [set(kernel.ops) for kernel in sg.compile(list(inputs), of, opt_level=0).kernels]


def _looked_up(n: int = N) -> tuple[sg.Tensor, sg.Tensor]:
    return sg.placeholder((1000,), name="x"), sg.placeholder((n,), "int64", name="i")


def test_an_index_that_may_be_out_of_range_is_checked_in_a_kernel_before():
    x, i = _looked_up()
    w = sg.variable(np.zeros(N, np.float32))
    step = sg.compile([x, i], [], updates=[(w, sg.exp(sg.take(x, i)) + w)], opt_level=0)
    found = [set(kernel.ops) for kernel in step.kernels]
    assert [("gather" in ops, "exp" in ops) for ops in found] == [(True, False), (False, True)]


@pytest.mark.parametrize(
    "index",
    [lambda i: i % 1000, lambda i: sg.arange(N) * 7, lambda i: sg.where(i > 0, i % 3, 999)],
    ids=["remainder", "arithmetic", "one_of_two"],
)
def test_what_is_known_to_be_in_range_is_looked_up_where_it_is_used(index):
    x, i = _looked_up()
    step = sg.compile([x, i], sg.exp(sg.take(x, index(i))) * 2.0, opt_level=1)
    (kernel,) = step.kernels
    assert {"gather", "exp"} <= set(kernel.ops)
    assert "known" in step.ir("loops")
    assert "check" not in step.ir("loops")
    given = np.linspace(-1, 1, 1000, dtype=np.float32), np.arange(N) - 5
    y = sg.exp(sg.take(x, index(i))) * 2.0
    (wanted,) = sg.testing.interpret([y], dict(zip((x, i), given, strict=True)))
    np.testing.assert_allclose(step(*given), wanted, rtol=1e-6)


def test_what_is_not_known_to_be_in_range_is_checked():
    x, i = _looked_up()
    for index in (i % 1001, i % -3, sg.where(i > 0, i % 3, i), sg.abs(i)):
        assert "check" in sg.compile([x, i], sg.take(x, index), opt_level=0).ir("loops")


def test_no_index_is_known_to_lie_in_an_axis_without_elements():
    x, places = sg.placeholder((0, 3)), sg.constant(np.zeros(0, np.int64))
    (found,) = sg.compile([x], [sg.take(x, places, axis=0)], cache=False)(np.ones((0, 3), "f"))
    assert found.shape == (0, 3)


def test_the_first_lane_that_is_out_of_range_is_reported():
    x, i = _looked_up()
    step = sg.compile([x, i], sg.take(x, i))
    index = np.arange(N)
    index[[19, 21]] = 1000, -1001
    with pytest.raises(sg.IndexOutOfRangeError, match="index 1000 is out of range"):
        step(np.zeros(1000, np.float32), index)


@pytest.mark.parametrize(
    "build",
    [
        lambda x, i: sg.take(x, i) + 1.0,  # as cheap as writing it
        lambda x, i: sg.exp(sg.take(x, i[: N - 1])),  # too few for a kernel
        lambda x, i: sg.exp(sg.take(sg.reshape(x, (100, 10)), i % 100, axis=0)),  # whole rows
        lambda x, i: sg.exp(x[i[0]]),
    ],
    ids=["cheap", "few", "rows", "one"],
)
def test_what_has_no_vectors_to_lose_is_one_kernel(build):
    x, i = _looked_up()
    assert len(_kernels(x, i, of=build(x, i))) == 1


def test_what_is_written_element_by_element_is_computed_before():
    x, i = _looked_up()
    y = sg.placeholder((N,), name="y")
    found = _kernels(x, i, y, of=x.at[i].add(sg.exp(y)))
    assert [("exp" in ops, "scatter_add" in ops) for ops in found] == [(True, False), (False, True)]
    cheap = _kernels(x, i, y, of=x.at[i].add(y * 2.0))
    assert len(cheap) == 1


def test_the_values_are_the_same():
    x, i = _looked_up()
    y = sg.sum(sg.sin(sg.take(x, i)) * sg.take(x, -1 - i))
    given = np.linspace(-1, 1, 1000, dtype=np.float32), np.arange(N) % 50
    outputs = [y, *sg.gradients(y, [x])]
    found = sg.compile([x, i], outputs)(*given)
    by_numpy = sg.testing.interpret(outputs, dict(zip((x, i), given, strict=True)))
    for one, other in zip(found, by_numpy, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
