"""Configurations of golden losses: what is given to one, and arrays drawn from its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class Configuration:
    """A loss of `sg.nn`, and what is given to it: by place, by keyword as arrays, and otherwise.

    `peer` takes the same tensors and gives PyTorch's result. No gradient is asked for by arrays
    in `without_gradient`.
    """

    loss: str
    peer: Callable[..., Any]
    places: list[Array]
    keywords: dict[str, Array] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    without_gradient: tuple[str, ...] = ()


class Draw:
    """Arrays and choices that depend on a number alone."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def real(self, *shape: int, low: float = -3.0, high: float = 3.0) -> Array:
        return self.rng.uniform(low, high, shape).astype(np.float32).astype(np.float64)

    def whole(self, *shape: int, low: int = 0, high: int) -> Array:
        return self.rng.integers(low, high, shape)

    def signs(self, *shape: int) -> Array:
        return self.rng.choice([-1.0, 1.0], shape)

    def one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def reduction(self) -> str:
        return str(self.one_of("mean", "sum", "none"))
