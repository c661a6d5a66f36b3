"""Argument checking and conversion of `gradients`, before any of the graph is walked."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.nests import Nest, flatten, is_leaf
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_arrays import has_own_dtype
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, constant, meet_shapes
from symgrad.graph.ops.marks import match_shape
from symgrad.passes.gradients.aggregate import AggregationMethod
from symgrad.records import dataclass


class UnconnectedGradients(Enum):
    """What the gradient of an x is that no y depends on: None, or zeros.

    >>> x, y = sg.placeholder(()), sg.placeholder(())
    >>> sg.gradients(x, y), sg.gradients(x, y, unconnected_gradients=sg.UnconnectedGradients.ZERO)
    ([None], [<Tensor constant: f32[]>])
    """

    NONE = "none"
    ZERO = "zero"


@dataclass(frozen=True, slots=True, eq=False)
class GradientArguments:
    """The arguments of a call. A seed is None where the gradient of that y starts as ones."""

    ys: tuple[Tensor, ...]
    xs: tuple[Tensor, ...]
    seeds: tuple[Tensor | None, ...]
    stops: frozenset[Tensor]
    method: AggregationMethod
    unconnected: UnconnectedGradients


def read_arguments(
    ys: Any,
    xs: Sequence[Tensor],
    grad_ys: Any,
    stop_gradients: Any,
    aggregation_method: Any,
    unconnected_gradients: Any,
) -> GradientArguments:
    """Check the arguments of `gradients` and make tensors of them.

    Raises `ValueError` for options that do not exist, for too few or too many seeds and for a seed
    of another shape than its y, `TypeError` for a seed of another dtype.
    """
    unconnected = _option("unconnected_gradients", UnconnectedGradients, unconnected_gradients)
    method = AggregationMethod.DEFAULT
    if aggregation_method is not None:
        method = _option("aggregation_method", AggregationMethod, aggregation_method)
    _require_given("ys", ys)
    tensors = [as_tensor(y) for y in as_list(ys)]
    return GradientArguments(
        ys=tuple(tensors),
        xs=tuple(xs),
        seeds=_read_seeds(tensors, grad_ys),
        stops=frozenset(as_tensor(t) for t in flatten(stop_gradients)[0]),
        method=method,
        unconnected=unconnected,
    )


Option = TypeVar("Option", bound=Enum)


def _option(argument: str, options: type[Option], value: Any) -> Option:
    try:
        return options(value)
    except ValueError as error:
        known = ", ".join(repr(option.value) for option in options)
        raise GraphError(
            "gradients", f"{argument} is {value!r}, none of {known}", source=user_source()
        ) from error


def _require_given(label: str, value: Any) -> None:
    """Raise `DTypeError` for None, which is what a function without a `return` gives."""
    if value is None:
        raise DTypeError(
            "gradients", f"{label} is None", hint=f"{label} may be an empty list",
            source=user_source(),
        )  # fmt: skip


def read_xs(xs: Any, label: str = "xs") -> tuple[list[Tensor], Nest]:
    """Return the leaves of `xs`, a nest, as tensors, and the nest their gradients come back in.

    A tensor alone, and the entries of a list or tuple, have theirs in a list, as in TensorFlow.
    Raises `DTypeError`, which calls them `label`, for None.
    """
    _require_given(label, xs)
    leaves, nest = flatten(as_list(xs) if is_flat(xs) else xs)
    return [as_tensor(leaf) for leaf in leaves], nest


def is_flat(xs: Any) -> bool:
    """Return whether `xs` is a tensor alone, or a list or tuple of tensors."""
    nest = flatten(xs)[1]
    is_sequence = isinstance(xs, list | tuple)
    return is_leaf(nest) or (is_sequence and all(map(is_leaf, nest.children())))


def as_list(value: Any) -> list[Any]:
    """Return what a list or tuple holds, and anything else alone."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _read_seeds(ys: Sequence[Tensor], grad_ys: Any) -> tuple[Tensor | None, ...]:
    given = [None] * len(ys) if grad_ys is None else as_list(grad_ys)
    if len(given) != len(ys):
        raise GraphError(
            "gradients",
            f"there are {len(given)} grad_ys for {len(ys)} ys",
            hint="None in grad_ys stands for ones",
            source=user_source(),
        )
    for position, (y, value) in enumerate(zip(ys, given, strict=True)):
        if value is None:
            _require_real(position, y)
    return tuple(
        None
        if value is None
        else read_seed(f"gradients: grad_ys[{position}]", value, f"ys[{position}]", y)
        for position, (y, value) in enumerate(zip(ys, given, strict=True))
    )


def _require_real(position: int, y: Tensor) -> None:
    """Raise `DTypeError` for a complex y, of which ones would not be the seed of a gradient."""
    if y.dtype.is_complex:
        raise DTypeError(
            "gradients",
            f"ys[{position}]: {y.type} is complex, and a gradient is that of a real number",
            hint="take sg.real, sg.imag or sg.abs of it, or give grad_ys",
            source=user_source(),
        )


def read_seed(subject: str, value: Any, label: str, y: Tensor) -> Tensor:
    """Return `value` as a tensor of the type of `y`, which messages call `label`."""
    source = user_source()
    if y.dtype.is_bool:
        raise DTypeError(subject, f"a seed is given for {y.type}, not a number", source=source)
    seed = _as_seed(value, y.dtype)
    if seed.dtype != y.dtype:
        raise DTypeError(
            subject,
            f"dtypes differ: {seed.type} is given for {label}: {y.type}",
            hint="use astype",
            source=source,
        )
    try:
        meet_shapes(subject, "the seed", seed.type, label, y.type)
    except ShapeError as error:
        error.source = source
        raise
    return match_shape(seed, y.shape)


def _as_seed(value: Any, dtype: DType) -> Tensor:
    """Convert a seed; numbers of Python take the dtype of y if that loses nothing."""
    if isinstance(value, Tensor) or has_own_dtype(value):
        return as_tensor(value)
    kind = np.asarray(value).dtype.kind
    is_weak = kind == "i" or dtype.is_complex or (kind == "f" and dtype.is_float)
    return constant(value, dtype if is_weak else None)
