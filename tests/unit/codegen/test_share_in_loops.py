"""Small kernels of a loop are shared where the threads are awake, and give the same bits."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.runtime.step import Step

ROWS, UNITS, ARRAYS, TRIPS = 32, 256, 12, 3
random = np.random.default_rng(0)
X = random.normal(size=(ROWS, UNITS)).astype("float32")
WEIGHT = random.normal(0, 0.05, (UNITS, UNITS)).astype("float32")
ITEMS = random.normal(0, 0.3, (TRIPS, ARRAYS, ROWS, UNITS)).astype("float32")
SHARED = "where threads are awake"


def recurrent(threads: int, *, has_product: bool = True) -> Step:
    """Return a loop whose iterations multiply matrices, and then elements of some arrays."""
    x, items = sg.placeholder(X.shape), sg.placeholder(ITEMS.shape)
    w = sg.variable(WEIGHT)

    def body(state: tuple[sg.Tensor, sg.Tensor], item: sg.Tensor) -> object:
        h, mixed = state
        for number in range(ARRAYS):
            mixed = mixed * item[number] + 0.5
        return (h @ w if has_product else h + 1, mixed), sg.sum(h)

    (h, mixed), sums = sg.scan(body, (x, x), items)
    return sg.compile([x, items], [h, mixed, sums], threads=threads)


def awake(step: Step) -> list[str]:
    """Return why kernels are shared that would not be if threads had to be woken for them."""
    return [reason for kernel in step.kernels for reason in kernel.reasons if SHARED in reason]


def test_what_is_little_is_shared_in_a_loop_whose_products_are() -> None:
    assert len(awake(recurrent(2))) == 1
    assert not awake(recurrent(1))


def test_it_is_not_where_threads_would_have_to_be_woken() -> None:
    assert not awake(recurrent(2, has_product=False))
    x, items = sg.placeholder(X.shape), sg.placeholder(ITEMS.shape[1:])
    product = x
    for number in range(ARRAYS):
        product = product * items[number] + 0.5
    assert not awake(sg.compile([x, items], product, threads=2))


def test_results_are_the_same_bits_for_every_number_of_threads() -> None:
    wanted = recurrent(1)(X, ITEMS)
    for threads in (2, 3, 4):
        for one, other in zip(recurrent(threads)(X, ITEMS), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
