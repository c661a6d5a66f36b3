"""Functional API: transformations of functions of arrays, and the steps of optimizers on arrays.

All of it is written on tensors and run on arrays by compiled programs, which are kept for each
signature by `symgrad/functional.py`. On tensors the same calls build graph.
"""

from symgrad.arrays.differentiate import grad, hessian, jac, value_and_grad
from symgrad.arrays.execution import execute_with_gradients
from symgrad.arrays.linearization import jvp, linearize, vjp
from symgrad.arrays.storing import stop_gradient
from symgrad.arrays.updates import (
    adam_step,
    adam_update,
    gradient_descent_update,
    lamb_update,
    lars_update,
    optimizer_update,
)
from symgrad.arrays.vmap import vmap

__all__ = [
    "adam_step",
    "adam_update",
    "execute_with_gradients",
    "grad",
    "gradient_descent_update",
    "hessian",
    "jac",
    "jvp",
    "lamb_update",
    "lars_update",
    "linearize",
    "optimizer_update",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
]
