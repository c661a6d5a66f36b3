"""Functional (stateless) optimizers: weights, gradients and averages in, new ones out.

Operands are arrays, tensors, numbers, or nests of them: an operand that is no nest belongs to every
leaf of the others. Arrays are run by a program that is compiled once for each signature; with a
tensor among the operands the results are tensors. The formulas are in `symgrad/arrays/formulas.py`,
optimizers that keep their averages themselves in `symgrad/optim/`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.arrays import formulas
from symgrad.arrays.storing import finish, write_out
from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.nests import flatten, map_leaves
from symgrad.frontend.state import variable_data
from symgrad.functional import Function
from symgrad.graph.build import current_region
from symgrad.graph.foreign_arrays import as_numpy
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array

_adam_step = Function(formulas.adam_step)
_optimizer_update = Function(formulas.optimizer_update)
_gradient_descent_update = Function(formulas.gradient_descent_update)
_lars_update = Function(formulas.lars_update)
_adam_update = Function(formulas.adam_update)
_lamb_update = Function(formulas.lamb_update)


def adam_step(
    dcdw: Any,
    mw: Any,
    vw: Any,
    step: Any,
    /,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the step of Adam for gradients `dcdw`, and the new averages: `(delta, mw, vw)`.

    `mw` and `vw` are the running averages of the gradient and of its square, `step` counts from 1
    and may be an integer or a float. Shapes broadcast; dtypes promote, and `step` takes no part in
    that. `out` receives `delta`. See `symgrad.arrays.formulas.adam_step` for the formula.

    >>> delta, mw, vw = sg.adam_step(np.float32([0.1, -9.0]), 0.0, 0.0, 1)
    >>> delta
    array([ 0.9999674, -0.9999986], dtype=float32)
    """
    numbers = _numbers("adam_step", beta1=beta1, beta2=beta2, epsilon=epsilon)
    delta, mw, vw = _adam_step(dcdw, mw, vw, _as_arrays("adam_step", "step", step), **numbers)
    return (delta if out is None else write_out("adam_step", out, delta)), mw, vw


def optimizer_update(
    w: Any,
    effective_grad: Any,
    lr: Any,
    /,
    *,
    inplace: bool = False,
    stop_gradients: bool = True,
    out: Any = None,
) -> Any:
    """Return the new weights `w - lr * effective_grad`.

    `lr` is a number, an array that broadcasts, or a nest with a rate for each leaf; it takes no
    part in the dtype of the result. With `inplace`, arrays and variables `w` are changed and
    returned, and a variable whose gradient is a tensor gives an `Update`; otherwise `out`, a nest
    of arrays, may receive the result. With `stop_gradients` no gradient flows through new weights
    that are tensors.

    >>> sg.optimizer_update({"w": np.float32([1.0, 2.0])}, {"w": np.float32([1.0, 1.0])}, 0.5)
    {'w': array([0.5, 1.5], dtype=float32)}
    """
    rate = _as_arrays("optimizer_update", "lr", lr)
    start = _start("optimizer_update", w, (effective_grad, rate), inplace, out)
    new = _optimizer_update(start, effective_grad, rate)
    return finish(
        "optimizer_update", w, new, inplace=inplace, stop_gradients=stop_gradients, out=out
    )


def gradient_descent_update(
    w: Any,
    dcdw: Any,
    lr: Any,
    /,
    *,
    inplace: bool = False,
    stop_gradients: bool = True,
    out: Any = None,
) -> Any:
    """Return the new weights `w - lr * dcdw`; arguments are those of `optimizer_update`.

    >>> sg.gradient_descent_update(np.float32([1.0, 2.0]), np.float32([10.0, 20.0]), 0.01)
    array([0.9, 1.8], dtype=float32)
    """
    rate = _as_arrays("gradient_descent_update", "lr", lr)
    start = _start("gradient_descent_update", w, (dcdw, rate), inplace, out)
    new = _gradient_descent_update(start, dcdw, rate)
    return finish(
        "gradient_descent_update", w, new, inplace=inplace, stop_gradients=stop_gradients, out=out
    )


def lars_update(
    w: Any,
    dcdw: Any,
    lr: Any,
    /,
    *,
    decay_lambda: float = 0,
    inplace: bool = False,
    stop_gradients: bool = True,
    out: Any = None,
) -> Any:
    """Return weights moved by layer-wise adaptive rate scaling (You et al. 2017).

    The rate of each leaf is `lr * |w| / |dcdw|`, divided by `|w| * decay_lambda` if there is decay;
    of weights that are 0 it is the limit, and without decay they stay 0.
    Other arguments are those of `optimizer_update`.

    >>> sg.lars_update(np.float32([3.0, 4.0]), np.float32([1.0, 0.0]), 0.1)
    array([2.5, 4. ], dtype=float32)
    """
    numbers = _numbers("lars_update", decay_lambda=decay_lambda)
    rate = _as_arrays("lars_update", "lr", lr)
    start = _start("lars_update", w, (dcdw, rate), inplace, out)
    new = _lars_update(start, dcdw, rate, **numbers)
    return finish("lars_update", w, new, inplace=inplace, stop_gradients=stop_gradients, out=out)


def adam_update(
    w: Any,
    dcdw: Any,
    lr: Any,
    mw_tm1: Any,
    vw_tm1: Any,
    step: Any,
    /,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
    inplace: bool = False,
    stop_gradients: bool = True,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Return weights moved by Adam, and the new averages: `(w, mw, vw)`.

    `mw_tm1` and `vw_tm1` are the averages of the step before, zeros at first; `step` counts from 1.
    `inplace` changes the weights, and `out` receives them; the averages are always new. Other
    arguments are those of `adam_step` and `optimizer_update`.

    >>> w, dcdw = np.float32([1.0, 1.0]), np.float32([0.1, -9.0])
    >>> w, mw, vw = sg.adam_update(w, dcdw, 0.01, 0.0, 0.0, 1)
    >>> w
    array([0.9900003, 1.01     ], dtype=float32)
    """
    numbers = _numbers("adam_update", beta1=beta1, beta2=beta2, epsilon=epsilon)
    rate, count = _as_arrays("adam_update", "lr", lr), _as_arrays("adam_update", "step", step)
    start = _start("adam_update", w, (dcdw, rate, mw_tm1, vw_tm1, count), inplace, out)
    new, mw, vw = _adam_update(start, dcdw, rate, mw_tm1, vw_tm1, count, **numbers)
    return (
        finish("adam_update", w, new, inplace=inplace, stop_gradients=stop_gradients, out=out),
        mw,
        vw,
    )


def lamb_update(
    w: Any,
    dcdw: Any,
    lr: Any,
    mw_tm1: Any,
    vw_tm1: Any,
    step: Any,
    /,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
    max_trust_ratio: float = 10,
    decay_lambda: float = 0,
    inplace: bool = False,
    stop_gradients: bool = True,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Return weights moved by LAMB (You et al. 2020), and the new averages: `(w, mw, vw)`.

    The rate of each leaf is `lr * min(|w| / |delta + decay_lambda * w|, max_trust_ratio)`, where
    `delta` is the step of Adam. Other arguments are those of `adam_update`.

    >>> w, dcdw = np.float32([1.0, 1.0]), np.float32([0.1, -9.0])
    >>> w, mw, vw = sg.lamb_update(w, dcdw, 0.01, 0.0, 0.0, 1)
    >>> w
    array([0.9900001, 1.0100001], dtype=float32)
    """
    numbers = _numbers(
        "lamb_update",
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        max_trust_ratio=max_trust_ratio,
        decay_lambda=decay_lambda,
    )
    rate, count = _as_arrays("lamb_update", "lr", lr), _as_arrays("lamb_update", "step", step)
    start = _start("lamb_update", w, (dcdw, rate, mw_tm1, vw_tm1, count), inplace, out)
    new, mw, vw = _lamb_update(start, dcdw, rate, mw_tm1, vw_tm1, count, **numbers)
    return (
        finish("lamb_update", w, new, inplace=inplace, stop_gradients=stop_gradients, out=out),
        mw,
        vw,
    )


def _as_arrays(subject: str, name: str, value: Any) -> Any:
    """Return a rate or a count with its numbers as arrays: they change, and are not compiled in."""
    if isinstance(value, np.ndarray | int | float):  # most are: a nest takes as long as the call
        return _as_array(subject, name, value)
    return map_leaves(lambda leaf: _as_array(subject, name, leaf), value)


def _as_array(subject: str, name: str, leaf: Any) -> Tensor | Array:
    leaf = as_numpy(subject, leaf)
    if isinstance(leaf, Tensor | np.ndarray | np.generic):
        return leaf if isinstance(leaf, Tensor) else np.asarray(leaf)
    if isinstance(leaf, int | float):
        return np.asarray(leaf, np.float64)
    raise DTypeError(
        subject,
        f"{name}: {leaf!r} is neither an array nor a tensor nor a number",
        source=user_source(),
    )


def _numbers(subject: str, **options: Any) -> dict[str, float]:
    for name, value in options.items():
        if not isinstance(value, int | float):
            options[name] = _number(subject, name, value)
    return options


def _number(subject: str, name: str, value: Any) -> float:
    if isinstance(value, np.ndarray | np.generic) and value.size == 1:
        return float(value.item())
    raise DTypeError(subject, f"{name} is {value!r}, not a number", source=user_source())


def _start(subject: str, w: Any, others: Any, inplace: bool, out: Any) -> Any:
    """Return the weights to start from: those of variables that can be changed at once are read."""
    if not inplace:
        return w
    if out is not None:
        raise GraphError(
            subject, "both inplace and out say where the weights go", source=user_source()
        )
    is_known = not any(isinstance(leaf, Tensor) for leaf in flatten(others)[0])
    return variable_data(w) if is_known and current_region() is None else w
