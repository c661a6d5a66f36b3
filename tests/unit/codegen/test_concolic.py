"""What is recorded for one size gives, on the same path, what runs with another one give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from symgrad.codegen.concolic import NOT_SYMBOLIC, Path, TakenPath
from symgrad.codegen.loops.language import For


def taken(run: Callable[..., Any], *sizes: int) -> tuple[TakenPath, Callable[..., Any]]:
    path = Path()
    make = path.maker(run(*path.sizes(sizes)))
    return path.taken(), make


def test_a_comparison_is_a_condition():
    path, make = taken(lambda n: n * 2 if n > 16 else n, 20)
    assert [path.holds((n,)) for n in (16, 17, 100)] == [False, True, True]
    assert make(path.numbers((50,))) == 100


@pytest.mark.parametrize(
    "run",
    [
        lambda n: (n // 16, n % 16, divmod(n, 7), -n, 3 - n, 100 // n, n >> 2, n & 7),
        lambda n: (max(n, 40), min(40, n), sum([n, n, 2])),
        lambda n: tuple(w for w in (64, 16, 8) if n - n % w > 0 and n // w * w < n),
        lambda n: n.bit_length(),
        lambda n: (1 if n else 0, n == 64, n != 64, n <= 64),
        lambda n: n * 0.75 / 2 > 20.0,
        lambda n: f"{n}" < "50",
        lambda n: (min(n, float("inf")), n / 4 < float("inf"), -float("inf") < n),
        lambda n: For("i", n - n % 8, (), vector=8).widths,
    ],
)
def test_numbers_on_a_path_are_those_of_a_run(run):
    for first in (8, 40, 64, 65, 100):
        path, make = taken(run, first)
        assert path.holds((first,))
        for n in range(1, 300):
            if path.holds((n,)):
                assert make(path.numbers((n,))) == run(n)


def test_sizes_that_are_equal_by_chance_are_on_a_path_of_their_own():
    path, make = taken(lambda a, b: (a, b - 1), 7, 8)
    assert [path.holds(sizes) for sizes in [(7, 8), (9, 10), (9, 11)]] == [True, True, False]
    assert make(path.numbers((9, 10))) == (9, 9)


@pytest.mark.parametrize(
    "run",
    [
        lambda n: {n: 1},
        lambda n: range(n),
        lambda n: [1, 2, 3][n],
        lambda n: (0,) * n,
        lambda n: float(n),
    ],
)
def test_what_cannot_be_noted_is_refused(run):
    with pytest.raises(NOT_SYMBOLIC):
        taken(run, 2)


def test_a_symbolic_size_is_an_int():
    (n,) = Path().sizes([4])
    assert isinstance(n, int)
    match n:
        case int():
            pass
        case _:
            raise AssertionError


def test_what_has_no_sizes_is_kept_as_it_is():
    body = ("a", 3)
    _, make = taken(lambda n: (n, body), 8)
    assert make((9,))[1] is body


def test_a_text_has_places_for_sizes():
    path = Path()
    (n,) = path.sizes([20])
    text = path.text(lambda: f"%1 = {n} of {n + 1}, 100%")
    assert text.of(path.taken().numbers((30,))) == "%1 = 30 of 31, 100%"
