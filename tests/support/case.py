"""What a row of the table of ops is, and how its inputs are drawn.

The rows themselves are in `elementwise_cases`, `structural_cases` and `composition_cases`;
`cases` has them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Tensor

Array = np.ndarray[Any, Any]

FLOATS = dtypes.FLOATS
INTEGERS = tuple(d for d in dtypes.REAL if d.is_integer)
NUMBERS = (*INTEGERS, *FLOATS)
BOOL = (dtypes.bool_,)

_MARGIN = 0.02  # how far an input stays from a kink; finite differences step much less


@dataclass(frozen=True, slots=True)
class Real:
    """An input in the dtype under test, drawn evenly from a range and away from `kinks`.

    `zeros` of its elements are 0.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    kinks: tuple[float, ...] = ()
    zeros: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """An int64 input, such as indices, drawn from `low` to `high - 1`."""

    shape: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Truth:
    """A bool input."""

    shape: tuple[int, ...]


Input = Real | Whole | Truth


@dataclass(frozen=True, slots=True)
class Case:
    """One way to use one op, and what NumPy says of it.

    `build` makes the result from placeholders; `expected` makes it from arrays, where floats are
    float64, by other means than the op's own reference. `op` is the op of the registry the row
    stands for, None for a composition. `also` are other shapes of the inputs that must work.
    `symbolic` says that it works when no size is known. `order` is the order up to which
    derivatives are compared with differences; `slack` multiplies the tolerance.
    """

    name: str
    op: str | None
    build: Callable[..., Tensor]
    expected: Callable[..., Any]
    inputs: tuple[Input, ...]
    dtypes: tuple[DType, ...] = FLOATS
    order: int = 2
    also: tuple[tuple[tuple[int, ...], ...], ...] = ()
    symbolic: bool = True
    slack: float = 1.0

    def with_shapes(self, shapes: tuple[tuple[int, ...], ...]) -> Case:
        """Return the row with inputs of other shapes."""
        inputs = tuple(replace(i, shape=s) for i, s in zip(self.inputs, shapes, strict=True))
        return replace(self, inputs=inputs)


def draw(case: Case, dtype: DType, seed: int = 0) -> list[Array]:
    """Return arrays for the inputs of `case`, the same ones each time."""
    rng = np.random.default_rng(seed)
    return [_draw(given, dtype, rng) for given in case.inputs]


def _draw(given: Input, dtype: DType, rng: np.random.Generator) -> Array:
    match given:
        case Whole(shape, low, high):
            return rng.integers(low, high, shape)
        case Truth(shape):
            return np.asarray(rng.random(shape) < 0.5)
        case Real():
            return _draw_real(given, dtype, rng)


def _draw_real(given: Real, dtype: DType, rng: np.random.Generator) -> Array:
    if dtype.is_bool:
        return np.asarray(rng.random(given.shape) < 0.5)
    low = max(given.low, 0.0) if dtype.kind == "unsigned" else given.low
    drawn = np.asarray(rng.uniform(low, given.high, given.shape))
    if dtype.is_integer:
        # The least integer of the range stands in for those that are kinks.
        drawn = np.floor(drawn)
        stand_in = next(v for v in np.arange(np.ceil(low), 99) if v not in given.kinks)
        drawn = np.where(np.isin(drawn, given.kinks), stand_in, drawn)
    else:
        for kink in given.kinks:
            is_near = np.abs(drawn - kink) < _MARGIN
            drawn = np.where(is_near, kink + np.copysign(_MARGIN, drawn - kink), drawn)
    drawn.flat[: given.zeros] = 0
    return drawn.astype(dtype.numpy)


def placeholders(case: Case, dtype: DType, *, symbolic: bool = False) -> list[Tensor]:
    """Return placeholders for the inputs of `case`; equal sizes other than 1 share a name."""
    made = []
    for position, given in enumerate(case.inputs):
        shape = [f"n{n}" if symbolic and n != 1 else n for n in given.shape]
        kind = {Real: dtype, Whole: dtypes.int64, Truth: dtypes.bool_}[type(given)]
        made.append(placeholder(shape, kind, name=f"x{position}"))
    return made


def widened(arrays: list[Array]) -> list[Array]:
    """Return the arrays with floats as float64, which `expected` of a row takes."""
    is_float = [dtypes.as_dtype(a.dtype).is_float for a in arrays]
    return [a.astype(np.float64) if f else a for a, f in zip(arrays, is_float, strict=True)]


_TOLERANCES = {"float64": 1e-12, "float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}


def tolerance(case: Case, dtype: DType) -> float:
    """Return how far a result may be from what is expected, absolutely and relatively."""
    return _TOLERANCES.get(dtype.name, 4e-6) * case.slack
