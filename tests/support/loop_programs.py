"""Random small loops: several loop variables of several dtypes, stacks, checks, gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array

WIDTHS = (1, 1, 2, 3, 7, 16, 20, 33, 64)
DTYPES = ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")

Body = Callable[[Sequence[Tensor]], list[Tensor]]


def random_loop(seed: int) -> tuple[Graph, list[Array]]:
    """Return a graph with a loop of random loop variables, and its inputs."""
    rng = np.random.default_rng(seed)
    width, trips = int(rng.choice(WIDTHS)), int(rng.choice([0, 1, 2, 3, 9]))
    arrays = [_variable(rng, width, number) for number in range(int(rng.integers(1, 5)))]
    given = [*arrays, *(_shuffled(rng, a) for a in arrays), _rows(rng, trips, arrays[0])]
    given.append(np.array(trips))
    inputs = [sg.placeholder(a.shape, a.dtype.name) for a in given]
    *tensors, xs, limit = inputs
    starts, fixed = tensors[: len(arrays)], tensors[len(arrays) :]
    # What is known when a loop is compiled makes another loop than what is an input.
    bound = limit if rng.random() < 0.5 else trips
    results = _looped(rng, bound, xs, _random_body(rng, fixed), starts)
    floats = [r for r in results if _is_smooth(r)]
    wanted = [t for t in (*tensors, xs) if _is_smooth(t)]
    found = sg.gradients(floats, wanted) if floats and rng.random() < 0.7 else []
    return Graph([*results, *(g for g in found if g is not None)], inputs), given


def _is_smooth(t: Tensor) -> bool:
    return t.dtype.is_float and not t.dtype.is_half


def _variable(rng: np.random.Generator, width: int, number: int) -> Array:
    """Return a vector or a scalar; the first is of floats, so that most loops have gradients."""
    dtype = np.dtype(str(rng.choice(DTYPES[: 2 if number == 0 else None])))
    shape = () if number and rng.random() < 0.3 else (width,)
    if dtype.kind == "f":
        return np.asarray(rng.uniform(0.5, 1.5, shape), dtype)
    return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 9, shape), dtype)


def _shuffled(rng: np.random.Generator, a: Array) -> Array:
    return rng.permutation(a.reshape(-1)).reshape(a.shape)


def _rows(rng: np.random.Generator, count: int, like: Array) -> Array:
    return np.asarray(rng.uniform(0.5, 1.5, (count, *like.shape)), like.dtype)


def _random_body(rng: np.random.Generator, fixed: Sequence[Tensor]) -> Body:
    kinds = [int(kind) for kind in rng.integers(0, 8, len(fixed))]

    def body(values: Sequence[Tensor]) -> list[Tensor]:
        steps = zip(kinds, values, fixed, strict=True)
        return [_next(kind, own, other, values) for kind, own, other in steps]

    return body


def _next(kind: int, own: Tensor, other: Tensor, values: Sequence[Tensor]) -> Tensor:
    """Return a new value of one loop variable."""
    if own.dtype.is_bool:
        return sg.logical_xor(own, other) if kind % 2 else sg.logical_not(own)
    if not own.dtype.is_float:
        return own * 3 + other if kind % 2 else sg.maximum(own, other) - 1
    scaled = own * 0.5
    match kind:
        case 0:
            return sg.sin(scaled) + other
        case 1 if own.shape:
            return scaled + sg.mean(own) * other
        case 2 if own.shape:
            return sg.flip(scaled) + other * own
        case 3:
            return sg.where(own > other, scaled, other)
        case 4:
            return scaled + sg.sum(sg.astype(values[-1], own.dtype)) * 0.01
        case 5 if own.shape:
            return scaled + other * own[0]
        case 7:
            # Another loop variable of the type, the last there is, or what is around.
            return ([other] + [v for v in values if v is not own and v.type == own.type])[-1]
        case _:
            return scaled * other + 0.25


def _looped(
    rng: np.random.Generator, limit: Tensor | int, xs: Tensor, body: Body, starts: Sequence[Tensor]
) -> list[Tensor]:
    """Return what a loop of one of several kinds makes of `starts`."""
    kind = int(rng.integers(0, 5))
    if kind == 0:
        checkpoint = [None, 2, 6][int(rng.integers(0, 3))]
        run = partial(sg.fori_loop, 0, limit, lambda _i, values: body(values))
        return list(run(list(starts), checkpoint=checkpoint))
    if kind == 1:
        carry, ys = sg.scan(
            lambda values, x: (body(values), values[0] * x), list(starts), xs, reverse=True
        )
        return [*carry, ys]
    options: dict[str, Any] = [{}, {"maximum_iterations": 12}, {"checkpoint": 3}][kind - 2]
    count, *results = sg.while_loop(
        lambda i, *_values: i < limit,
        lambda i, *values: (i + 1, *body(values)),
        (sg.constant(0, "int64"), *starts),
        **options,
    )
    return [count, *results]
