"""What the benchmark of array functions measures: a row for each function, as data.

A row has the same computation for symgrad and for each library that has it. Those of JAX and torch
are made from their modules, which may not be installed. `shapes` are a small operand, one that fits
the cache and a large one, each made to a list of operands by `operands`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg

Shape = tuple[int, ...]
Function = Callable[..., Any]
OfModule = Callable[[Any], Function]
Draw = Callable[[np.random.Generator, Shape], list[Any]]


@dataclass(frozen=True, slots=True)
class ArrayCase:
    """One array function as each library computes it; None where one does not have it.

    What `of_jax` makes is compiled. Results must agree with those of symgrad to `tolerance`,
    absolutely and relatively, unless that is None: draws differ.
    """

    name: str
    of_symgrad: Function
    of_numpy: Function | None
    of_jax: OfModule | None
    of_torch: OfModule | None
    operands: Draw
    shapes: Mapping[str, Shape]
    tolerance: float | None = 1e-4


def signs(rng: np.random.Generator, shape: Shape) -> list[Any]:
    """Return one operand of 1 and -1, whose sums and products are exact in any order."""
    return [rng.choice(np.array([-1, 1], np.float32), shape)]


def normal(rng: np.random.Generator, shape: Shape) -> list[Any]:
    """Return one operand of normal numbers."""
    return [rng.standard_normal(shape).astype(np.float32)]


_LONG = {"small": (1_000,), "cache": (100_000,), "large": (4_000_000,)}
_ROWS = {"small": (16, 64), "cache": (1_000, 100), "large": (4_000, 1_000)}


def _along(module: Any, name: str, axis: int, word: str = "axis") -> Function:
    return partial(getattr(module, name), **{word: axis})


def _scans(name: str) -> list[ArrayCase]:
    """Return the rows of a cumulative function: one long row, many rows, and along columns."""
    ways = (("", 0, _LONG), (" of rows", 1, _ROWS), (" of columns", 0, _ROWS))
    return [
        ArrayCase(
            f"{name}{suffix}",
            _along(sg, name, axis),
            _along(np, name, axis),
            partial(_of_jax, name, axis),
            partial(_along, name=name, axis=axis, word="dim"),
            signs,
            shapes,
            tolerance=0,
        )
        for suffix, axis, shapes in ways
    ]


def _of_jax(name: str, axis: int, jax: Any) -> Function:
    return _along(jax.numpy, name, axis)


_SORTED = {"small": (16,), "cache": (100_000,), "large": (1_000_000,)}
_SHORT = {"small": (100, 16), "cache": (10_000, 16), "large": (10_000, 64)}
_SEARCHED = {"small": (100, 100), "cache": (10_000, 10_000), "large": (1_000_000, 1_000_000)}
_K = 10


def sorted_and_queries(rng: np.random.Generator, shape: Shape) -> list[Any]:
    """Return a sorted vector, and what is looked for in it."""
    rows, queries = (rng.standard_normal(n).astype(np.float32) for n in shape)
    return [np.sort(rows), queries]


def _order_cases() -> list[ArrayCase]:
    """Return the rows of functions that sort and search."""
    rows = []
    for suffix, shapes in (("", _SORTED), (" of short rows", _SHORT)):
        rows += [
            ArrayCase(
                f"sort{suffix}", sg.sort, np.sort, lambda jax: jax.numpy.sort,
                lambda torch: lambda x: torch.sort(x)[0], normal, shapes, tolerance=0,
            ),
            # Of equal elements torch and NumPy may take any first.
            ArrayCase(
                f"argsort{suffix}", sg.argsort, np.argsort, lambda jax: jax.numpy.argsort,
                lambda torch: torch.argsort, normal, shapes, tolerance=None,
            ),
            ArrayCase(
                f"top_k{suffix}", lambda x: list(sg.top_k(x, _K)), _numpy_top_k,
                lambda jax: lambda x: jax.lax.top_k(x, _K),
                lambda torch: lambda x: torch.topk(x, _K), normal, shapes, tolerance=None,
            ),
        ]  # fmt: skip
    rows.append(
        ArrayCase(
            "searchsorted",
            sg.searchsorted,
            np.searchsorted,
            lambda jax: jax.numpy.searchsorted,
            lambda torch: torch.searchsorted,
            sorted_and_queries,
            _SEARCHED,
            tolerance=0,
        )
    )
    return rows


def _numpy_top_k(x: Any) -> list[Any]:
    some = np.argpartition(x, -_K, axis=-1)[..., -_K:]
    values = np.take_along_axis(x, some, -1)
    order = np.argsort(-values, axis=-1)
    return [np.take_along_axis(found, order, -1) for found in (values, some)]


# Rows, their width, and how many are added.
_ADDED = {"small": (64, 16, 64), "cache": (1_000, 64, 1_000), "large": (100_000, 64, 10_000)}
_SEGMENTS = 100


def added_rows(rng: np.random.Generator, shape: Shape) -> list[Any]:
    """Return a table of rows, indices of some, which may meet, and what is added to them."""
    rows, width, count = shape
    table, updates = signs(rng, (rows, width)), signs(rng, (count, width))
    return [*table, rng.integers(0, rows, count), *updates]


def rows_with_ids(rng: np.random.Generator, shape: Shape) -> list[Any]:
    """Return rows and the number of the segment of each, in no order."""
    return [*signs(rng, shape), rng.integers(0, _SEGMENTS, shape[0])]


def _added_by_numpy(table: Any, indices: Any, updates: Any) -> Any:
    result = table.copy()
    np.add.at(result, indices, updates)
    return result


def _segments_by_numpy(rows: Any, ids: Any) -> Any:
    return _added_by_numpy(np.zeros((_SEGMENTS, *rows.shape[1:]), rows.dtype), ids, rows)


def _segments_of_jax(jax: Any) -> Function:
    return partial(jax.ops.segment_sum, num_segments=_SEGMENTS)


def _segments_of_torch(torch: Any) -> Function:
    return lambda rows, ids: torch.zeros(_SEGMENTS, *rows.shape[1:]).index_add(0, ids, rows)


_WRITES = (
    ArrayCase(
        "at[].add",
        lambda table, indices, updates: table.at[indices].add(updates),
        _added_by_numpy,
        lambda _jax: lambda table, indices, updates: table.at[indices].add(updates),
        lambda _torch: lambda table, indices, updates: table.index_add(0, indices, updates),
        added_rows,
        _ADDED,
        tolerance=0,
    ),
    ArrayCase(
        "segment_sum",
        lambda rows, ids: sg.segment_sum(rows, ids, _SEGMENTS),
        _segments_by_numpy,
        _segments_of_jax,
        _segments_of_torch,
        rows_with_ids,
        {"small": (64, 16), "cache": (1_000, 64), "large": (100_000, 64)},
        tolerance=0,
    ),
)

# ------------------------------------------------------------------- special functions and draws


def between(low: float, high: float) -> Draw:
    """Return what makes one operand of numbers between two."""
    return lambda rng, shape: [rng.uniform(low, high, shape).astype(np.float32)]


def seed_and_concentrations(rng: np.random.Generator, shape: Shape) -> list[Any]:
    """Return a seed, and the concentration of each gamma sample."""
    return [np.array(7, np.int32), *between(0.5, 10.0)(rng, shape)]


def _gammas(seed: Any, concentrations: Any) -> Any:
    return sg.random.gamma(sg.random.key(seed), concentrations.shape, concentrations)


def _gammas_of_numpy(_seed: Any, concentrations: Any) -> Any:
    return _NUMPY_RNG.standard_gamma(concentrations, dtype=np.float32)


def _gammas_of_jax(jax: Any) -> Function:
    return lambda seed, concentrations: jax.random.gamma(jax.random.key(seed), concentrations)


def _gammas_of_torch(torch: Any) -> Function:
    # What its distribution calls, without that.
    sample = getattr(torch, "_standard_gamma")  # noqa: B009
    return lambda _seed, concentrations: sample(concentrations)


_NUMPY_RNG = np.random.default_rng(0)
_ELEMENTS = {"small": (1_000,), "cache": (100_000,), "large": (4_000_000,)}
_SPECIAL = (
    ArrayCase(
        "erfinv",
        sg.erfinv,
        None,
        lambda jax: jax.scipy.special.erfinv,
        lambda torch: torch.erfinv,
        between(-0.999, 0.999),
        _ELEMENTS,
    ),
    ArrayCase(
        "lgamma",
        sg.lgamma,
        None,
        lambda jax: jax.scipy.special.gammaln,
        lambda torch: torch.lgamma,
        between(0.1, 20.0),
        _ELEMENTS,
    ),
    ArrayCase(
        "gamma draws",
        _gammas,
        _gammas_of_numpy,
        _gammas_of_jax,
        _gammas_of_torch,
        seed_and_concentrations,
        {"small": (1_000,), "cache": (100_000,), "large": (1_000_000,)},
        tolerance=None,
    ),
)

ARRAY_CASES = (
    *_scans("cumsum"),
    *_scans("cumprod"),
    *_order_cases(),
    *_WRITES,
    *_SPECIAL,
)
