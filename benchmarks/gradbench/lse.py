"""Log-sum-exp of GradBench, of a vector, written from exp and log with the maximum taken off."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem
from benchmarks.timing import optional


def make(random: np.random.Generator, n: int) -> Given:
    """Return n numbers from 0 to 1."""
    return {"x": random.random(n)}


def primal(x: Any) -> Any:
    """Return the logarithm of the sum of exponentials."""
    greatest = sg.stop_gradient(sg.max(x))  # the result does not depend on it
    return greatest + sg.log(sg.exp(x - greatest).sum())


def gradient(x: Any) -> Any:
    """Return the derivatives by the numbers."""
    return sg.gradients(primal(x), [x])


def _jax_primal(x: Any) -> Any:
    jax = optional("jax")
    jnp = jax.numpy
    greatest = jax.lax.stop_gradient(jnp.max(x))
    return greatest + jnp.log(jnp.exp(x - greatest).sum())


def _jax_gradient(x: Any) -> Any:
    return optional("jax").grad(_jax_primal)(x)


LSE = Problem(
    "lse",
    make,
    {"primal": primal, "gradient": gradient},
    ((10_000,), (160_000,), (1_280_000,)),
    (5,),
    {"primal": _jax_primal, "gradient": _jax_gradient},
)
