"""Functional API: gradients of functions of arrays, and the steps of optimizers on arrays.

All of it is written on tensors and run on arrays by compiled programs, which are kept for each
signature by `symgrad/functional.py`. On tensors the same calls build graph.
"""

from symgrad.arrays.differentiate import grad, jac, value_and_grad
from symgrad.arrays.execution import execute_with_gradients
from symgrad.arrays.storing import stop_gradient
from symgrad.arrays.updates import (
    adam_step,
    adam_update,
    gradient_descent_update,
    lamb_update,
    lars_update,
    optimizer_update,
)

__all__ = [
    "adam_step",
    "adam_update",
    "execute_with_gradients",
    "grad",
    "gradient_descent_update",
    "jac",
    "lamb_update",
    "lars_update",
    "optimizer_update",
    "stop_gradient",
    "value_and_grad",
]
