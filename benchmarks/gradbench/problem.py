"""GradBench problems: what one is, and how a function of one is called, in symgrad and in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.timing import Contestant, optional
from symgrad.graph.aligned import aligned_copy
from symgrad.graph.types import Array

# What a problem is given, by name: arrays, and numbers that are known when it is compiled.
Given = dict[str, Any]
# Of what is given, as tensors, to one tensor or a list of them.
Function = Callable[..., Any]
LARGE = 1 << 20  # bytes of results whose memory costs more to get than to name


@dataclass(frozen=True, slots=True)
class Problem:
    """A function and its derivative: how inputs are made for some sizes, and the sizes to time.

    Where all functions compute the same, in several modes of differentiation, the fastest counts.
    """

    name: str
    make: Callable[..., Given]
    functions: Mapping[str, Function]
    sizes: tuple[tuple[int, ...], ...]
    quick: tuple[int, ...]
    jax: Mapping[str, Function] = field(default_factory=dict)
    is_of_modes: bool = False

    def given(self, *sizes: int) -> Given:
        """Return inputs of `sizes`, the same ones each time."""
        return self.make(np.random.default_rng(31337), *sizes)


@dataclass(frozen=True, slots=True)
class Call:
    """A function that is ready to run, and the results that a run has had."""

    run: Contestant
    results: list[Array]


def arrays_of(given: Given) -> dict[str, Array]:
    """Return the arrays among what a problem is given."""
    return {name: value for name, value in given.items() if isinstance(value, np.ndarray)}


def compiled(function: Function, given: Given) -> sg.Step:
    """Compile a function of the arrays that are given, for their sizes and the numbers given."""
    inputs = {name: sg.placeholder(a.shape, a.dtype) for name, a in arrays_of(given).items()}
    outputs = function(**(given | inputs))
    return sg.compile([*inputs.values()], outputs if isinstance(outputs, list) else [outputs])


def symgrad_call(function: Function, given: Given) -> Call:
    """Return a call of the compiled function: large results go where they were before."""
    step = compiled(function, given)
    arrays = [*arrays_of(given).values()]
    results = [aligned_copy(found) for found in step(*arrays)]
    if sum(found.nbytes for found in results) < LARGE:
        return Call(partial(step, *arrays), results)
    return Call(partial(step, *arrays, out=results), results)


def jax_call(function: Function, given: Given) -> Contestant:
    """Return a call of a function by JAX in double precision, which waits for its results."""
    jax = optional("jax")
    jax.config.update("jax_enable_x64", True)
    arrays = {name: jax.numpy.asarray(a) for name, a in arrays_of(given).items()}
    numbers = {name: value for name, value in given.items() if name not in arrays}
    run = jax.jit(partial(function, **numbers))
    return lambda: jax.block_until_ready(run(**arrays))
