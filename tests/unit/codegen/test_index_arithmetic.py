"""Indices in normal form: splitting and merging axes, in any order, leaves no trace."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.index_arithmetic import index_of, modulus, quotient, scaled_sum
from symgrad.codegen.loops.language import Index

I = index_of(("i", 1))  # noqa: E741 - the variable of a loop


def split(index: Index, shape: tuple[int, ...]) -> list[Index]:
    """Return the indices along the axes of `shape` of the element number `index`."""
    extents = {"i": math.prod(shape)}
    parts = []
    for axis in range(len(shape)):
        whole = quotient(index, math.prod(shape[axis + 1 :]), extents)
        parts.append(modulus(whole, shape[axis], extents) if axis else whole)
    return parts


def merged(parts: list[Index], shape: tuple[int, ...]) -> Index:
    factors = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return scaled_sum(list(zip(parts, factors, strict=True)))


@pytest.mark.parametrize(
    "shape", [(12,), (3, 4), (2, 3, 2), (2, 2, 3), (1, 12, 1), (2, 2, 3, 5), (7, 1, 2, 2, 3)]
)
def test_splitting_and_merging_leaves_no_trace(shape: tuple[int, ...]) -> None:
    assert merged(split(I, shape), shape) == I


def test_what_is_joined_is_joined_again():
    """The remainder by 2 waits for the quotient by 2, which the remainder by 3 holds."""
    half = quotient(I, 2, {"i": 12})
    parts = [(quotient(half, 3, {"i": 12}), 6), (modulus(half, 3, {"i": 12}), 2)]
    assert scaled_sum([(modulus(I, 2, {"i": 12}), 1), *parts]) == I
    assert scaled_sum([*parts, (modulus(I, 2, {"i": 12}), 1)]) == I


def test_what_does_not_belong_together_stays_apart():
    extents = {"i": 12}
    by_two = scaled_sum([(quotient(I, 2, extents), 3), (modulus(I, 2, extents), 1)])
    by_three = scaled_sum([(quotient(I, 2, extents), 3), (modulus(I, 3, extents), 1)])
    assert len(by_two.terms) == len(by_three.terms) == 2


def _factored(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    """Return a random shape of `count` elements."""
    shape: list[int] = []
    while count > 1:
        sizes = [n for n in range(2, count + 1) if count % n == 0]
        shape.append(int(rng.choice(sizes)))
        count //= shape[-1]
    return tuple(shape) or (1,)


@pytest.mark.parametrize("seed", range(12))
def test_epilogues_in_other_shapes_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        count = int(rng.choice([12, 24, 30, 36, 60]))
        first, second, third = (_factored(rng, count) for _ in range(3))
        x, b = sg.placeholder((*first, 3), "float64"), sg.placeholder(second, "float64")
        total = sg.reshape(sg.sum(x, axis=-1), second)
        step = sg.compile([x, b], sg.reshape(total * b, third) + 1.0)
        arrays = [rng.normal(size=t.type.static_shape) for t in (x, b)]
        wanted = (arrays[0].sum(-1).reshape(second) * arrays[1]).reshape(third) + 1.0
        np.testing.assert_allclose(step(*arrays), wanted, rtol=1e-13)
