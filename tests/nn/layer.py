"""What a row of the table of layers is, and the programs that tests make of it.

The rows are gathered in `layer_cases`; what every one of them must have is in `test_every_layer`.
Inputs are drawn as those of the table of ops are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from tests.support.case import Case, Input, Real, Truth, Whole, draw

Array = np.ndarray[Any, Any]

LAYER_DTYPES = (dtypes.float32, dtypes.float64, dtypes.bfloat16)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as a function of tensors, which gives one tensor.

    `inputs` are made in the dtype under test, but for integers and bools. `batched` are the
    positions of those whose axis 0 is the batch: its size may be unknown, and these are what vmap
    and scan give another axis in front. `slack` multiplies the tolerances of low precision.
    """

    name: str
    build: Callable[..., Any]
    inputs: tuple[Input, ...]
    batched: tuple[int, ...] = (0,)
    dtypes: tuple[DType, ...] = LAYER_DTYPES
    slack: float = 1.0


def arrays_of(layer: Layer, dtype: DType, seed: int = 0) -> list[Array]:
    """Return arrays for the inputs of `layer`, the same ones for each dtype but for rounding."""
    return draw(Case(layer.name, None, layer.build, layer.build, layer.inputs), dtype, seed)


def dtype_of(given: Input, dtype: DType) -> DType:
    """Return the dtype of an input where `dtype` is under test."""
    match given:
        case Real():
            return dtype
        case Whole():
            return dtypes.int64
        case Truth():
            return dtypes.bool_


def inputs_of(
    layer: Layer, dtype: DType, *, lead: tuple[Any, ...] = (), batch: Any = 0
) -> list[Tensor]:
    """Return placeholders for the inputs of `layer`.

    Those that are batched have the axes `lead` before their own, and `batch`, if it is not 0, for
    the size of the batch.
    """
    made = []
    for place, given in enumerate(layer.inputs):
        shape: tuple[Any, ...] = given.shape
        if place in layer.batched:
            shape = (*lead, batch or shape[0], *shape[1:])
        made.append(sg.placeholder(shape, dtype_of(given, dtype), name=f"x{place}"))
    return made


def with_gradients(layer: Layer, xs: Sequence[Tensor], y: Any = None) -> list[Tensor]:
    """Return the result of `layer` for `xs`, or `y` in its place, and gradients to float inputs.

    They are those of a sum that weighs no two elements alike, so that none can cancel.
    """
    result = layer.build(*xs) if y is None else y
    floats = [x for x in xs if x.dtype.is_float]
    wide = sg.astype(result, "float64")
    found = sg.gradients(sg.sum(sg.sin(wide + 1)), floats, unconnected_gradients="zero")
    return [result, *found]
