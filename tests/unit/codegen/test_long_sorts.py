"""Sorts of long rows, whatever their elements and their pivots are."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.sorting.plan import SortPlan


def _awkward_rows(dtype: str, length: int) -> dict[str, np.ndarray]:
    """Return rows on which pivots are bad, or all that there is."""
    rng = np.random.default_rng(0)
    rising = np.arange(length).astype(dtype)
    is_float = rising.dtype.kind == "f"
    limits = np.finfo(dtype) if is_float else np.iinfo(dtype)
    extremes = np.array([limits.min, limits.max], dtype)
    rows = {
        "rising": rising,
        "falling": rising[::-1],
        "organ pipes": np.minimum(rising, rising[::-1]),
        "sawtooth": rising % 17,
        "equal": np.full(length, 3, dtype),
        "greatest": np.full(length, limits.max),
        "least and greatest": rng.choice(extremes, length),
        "two values": rng.integers(0, 2, length).astype(dtype),
        "mostly one": np.where(rng.random(length) < 0.01, rising, 0).astype(dtype),
        "one less": np.where(rising == 5, -1, 7).astype(dtype),
    }
    if is_float:
        tiny = float(np.finfo(dtype).smallest_subnormal)
        rows["specials"] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny], length)
        rows["nans"] = np.full(length, np.nan)
        rows["zeros"] = rng.choice([0.0, -0.0], length)
    return {name: np.ascontiguousarray(row, dtype) for name, row in rows.items()}


def _check_sorted(given: np.ndarray, target: str) -> None:
    """Sort rows both ways, and compare with a stable order, to the signs of zeros."""
    x = sg.placeholder(given.shape, given.dtype.name)
    step = sg.compile([x], [sg.sort(x), sg.sort(x, descending=True)], target=target)
    order = np.argsort(given, axis=1, kind="stable")
    # From the other end, and then back: equal elements stay in order, and nan last.
    keys = given[:, ::-1]
    falling = given.shape[1] - 1 - np.argsort(keys, axis=1, kind="stable")[:, ::-1]
    for found, wanted in zip(step(given), (order, falling), strict=True):
        expected = np.take_along_axis(given, wanted, 1)
        if given.dtype.kind == "f":
            nans = np.isnan(expected).sum(axis=1)
            shifted = [
                np.roll(row, -n if np.isnan(row[0]) else 0)
                for row, n in zip(expected, nans, strict=True)
            ]
            expected = np.stack(shifted)
            is_number = ~np.isnan(expected)
            np.testing.assert_array_equal(
                np.signbit(found[is_number]), np.signbit(expected[is_number])
            )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_long_rows_are_sorted_however_bad_their_pivots_are(dtype):
    _check_sorted(np.stack(list(_awkward_rows(dtype, 3001).values())), "native")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "uint8"])
@pytest.mark.parametrize("length", [257, 300, 511, 4097, 20_000])
def test_long_rows_of_any_kind_are_sorted_on_all_targets(dtype, target, length):
    if dtype == "uint8":
        given = np.random.default_rng(0).integers(0, 255, (3, length)).astype(dtype)
    else:
        given = np.stack(list(_awkward_rows(dtype, length).values()))
    _check_sorted(given, target)


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_parts_that_were_cut_too_often_are_sorted_by_a_heap(monkeypatch, target):
    monkeypatch.setattr(SortPlan, "depth", property(lambda plan: 1))
    given = np.random.default_rng(0).standard_normal((2, 1500)).astype(np.float32)
    given[1, ::7] = np.nan
    _check_sorted(given, target)
