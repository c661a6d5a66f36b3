"""Optimizer update rules as pure functions of tensors and of pytrees (nests) of them.

A formula maps over the leaves of its operands, and an operand that is no nest belongs to each leaf
of the others. Each part of a formula has the nest of what it is made of: where only the weights are
a container, the averages of their gradient are an array.

Gradients and averages are computed with in float32 at least, since a small term would vanish in a
16-bit float, and results have the dtype to which weights, gradients and averages promote. A
learning rate and a step are numbers of their own and no part of that. Nothing here knows arrays,
`out` or updates in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.nests import describe, flatten, join, map_leaves
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType, promote
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.elementwise import common_shape
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.roots import root_of_squares
from symgrad.graph.ops.transcendental import sqrt

# What is added to the norm below a fraction, so that a gradient of zeros moves nothing.
_LEAST_NORM = 1e-12


def adam_step(
    dcdw: Any, mw: Any, vw: Any, step: Any, *, beta1: float, beta2: float, epsilon: float
) -> tuple[Any, Any, Any]:
    """Return what Adam subtracts from weights at a learning rate of 1, and the new averages.

        mw' = beta1 * mw + (1 - beta1) * dcdw
        vw' = beta2 * vw + (1 - beta2) * dcdw**2
        delta = sqrt(1 - beta2**step) / (1 - beta1**step + epsilon) * mw' / (sqrt(vw') + epsilon)

    These are the averages of Kingma and Ba (2015), section 2, with epsilon at the place where the
    efficient form of their algorithm has it, and once more below the fraction of the corrections.
    """
    _require_fitting("adam_step", dcdw=dcdw, mw=mw, vw=vw, step=step)
    g, m, v = _widen("adam_step", dcdw=dcdw, mw=mw, vw=vw)
    delta, m, v = _adam(g, m, v, step, beta1, beta2, epsilon)
    return _narrow(delta, dcdw, mw, vw), _narrow(m, dcdw, mw), _narrow(v, dcdw, vw)


def optimizer_update(w: Any, effective_grad: Any, lr: Any) -> Any:
    """Return `w - lr * effective_grad`."""
    _require_fitting("optimizer_update", w=w, effective_grad=effective_grad, lr=lr)
    wide, by = _widen("optimizer_update", w=w, effective_grad=effective_grad)
    return _narrow(_moved(wide, by, lr), w, effective_grad)


def gradient_descent_update(w: Any, dcdw: Any, lr: Any) -> Any:
    """Return `w - lr * dcdw`."""
    _require_fitting("gradient_descent_update", w=w, dcdw=dcdw, lr=lr)
    wide, g = _widen("gradient_descent_update", w=w, dcdw=dcdw)
    return _narrow(_moved(wide, g, lr), w, dcdw)


def lars_update(w: Any, dcdw: Any, lr: Any, *, decay_lambda: float) -> Any:
    """Return `w - rate * dcdw`, where each leaf has a rate of its own.

        rate = lr * |w| / (|dcdw| + 1e-12)
        rate = rate / (|w| * decay_lambda)          if decay_lambda > 0

    With decay the norm of the weights cancels, so of weights that are 0 the limit is taken; without
    it they stay 0. You, Gitman and Ginsburg (2017) without decay; theirs adds the decay below the
    fraction instead.
    """
    _require_fitting("lars_update", w=w, dcdw=dcdw, lr=lr)
    wide, g = _widen("lars_update", w=w, dcdw=dcdw)

    def rate(of_w: Tensor, of_g: Tensor, given: Tensor) -> Tensor:
        norm = _norm(of_w)
        if decay_lambda > 0:
            norm = where(equal(norm, 0), 1, norm)
        trusted = cast(given, norm.dtype) * norm / (_norm(of_g) + _LEAST_NORM)
        return trusted / (norm * decay_lambda) if decay_lambda > 0 else trusted

    return _narrow(_moved(wide, g, map_leaves(rate, wide, g, lr)), w, dcdw)


def adam_update(
    w: Any,
    dcdw: Any,
    lr: Any,
    mw: Any,
    vw: Any,
    step: Any,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Any, Any, Any]:
    """Return `w - lr * delta` and the new averages, all as `adam_step` has them."""
    _require_fitting("adam_update", w=w, dcdw=dcdw, lr=lr, mw_tm1=mw, vw_tm1=vw, step=step)
    wide, g, m, v = _widen("adam_update", w=w, dcdw=dcdw, mw_tm1=mw, vw_tm1=vw)
    delta, m, v = _adam(g, m, v, step, beta1, beta2, epsilon)
    new = _moved(wide, delta, lr)
    return _narrow(new, w, dcdw, mw, vw), _narrow(m, dcdw, mw), _narrow(v, dcdw, vw)


def lamb_update(
    w: Any,
    dcdw: Any,
    lr: Any,
    mw: Any,
    vw: Any,
    step: Any,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    max_trust_ratio: float,
    decay_lambda: float,
) -> tuple[Any, Any, Any]:
    """Return `w - lr * ratio * delta` and the new averages, with `delta` as in `adam_step`.

        ratio = min(|w| / (|delta + decay_lambda * w| + 1e-12), max_trust_ratio)

    You et al. (2020) without decay; theirs also moves the weights along the decayed direction.
    """
    _require_fitting("lamb_update", w=w, dcdw=dcdw, lr=lr, mw_tm1=mw, vw_tm1=vw, step=step)
    wide, g, m, v = _widen("lamb_update", w=w, dcdw=dcdw, mw_tm1=mw, vw_tm1=vw)
    delta, m, v = _adam(g, m, v, step, beta1, beta2, epsilon)

    def rate(of_w: Tensor, by: Tensor, given: Tensor) -> Tensor:
        decayed = by + decay_lambda * of_w if decay_lambda > 0 else by
        ratio = _norm(of_w) / (_norm(decayed) + _LEAST_NORM)
        return cast(given, ratio.dtype) * minimum(ratio, float(max_trust_ratio))

    new = _moved(wide, delta, map_leaves(rate, wide, delta, lr))
    return _narrow(new, w, dcdw, mw, vw), _narrow(m, dcdw, mw), _narrow(v, dcdw, vw)


def _adam(
    g: Any, m: Any, v: Any, step: Any, beta1: float, beta2: float, epsilon: float
) -> tuple[Any, Any, Any]:
    def correction(t: Tensor) -> Tensor:
        # In float64 whatever the weights are: in float32 1 - 0.999 is wrong in its fifth digit.
        exact = cast(t, dtypes.float64)
        return sqrt(1 - beta2**exact) / (1 - beta1**exact + epsilon)

    m = map_leaves(lambda old, new: beta1 * old + (1 - beta1) * new, m, g)
    v = map_leaves(lambda old, new: beta2 * old + (1 - beta2) * square(new), v, g)
    corrections = map_leaves(correction, step)
    delta = map_leaves(
        lambda m, v, by: cast(by, m.dtype) * m / (root_of_squares(v) + epsilon), m, v, corrections
    )
    return delta, m, v


def _moved(w: Any, by: Any, rate: Any) -> Any:
    return map_leaves(lambda w, by, rate: w - cast(rate, by.dtype) * by, w, by, rate)


def _norm(x: Tensor) -> Tensor:
    """Return the Euclidean norm of all elements, whose gradient at 0 is 0."""
    return root_of_squares(sum_over(square(x)))


def _require_fitting(subject: str, **operands: Any) -> None:
    """Raise unless each operand is a leaf or fits the largest nest, and the leaves broadcast."""
    for name, operand in operands.items():
        if operand is None:  # to nests it is one without leaves, and the result would be None
            raise DTypeError(subject, f"{name} is None", source=user_source())
    try:
        _, columns = join(list(operands.values()))
    except ValueError as error:
        nests = ((name, flatten(operand)[1]) for name, operand in operands.items())
        kinds = ", ".join(f"{name} is {describe(nest)}" for name, nest in nests)
        raise GraphError(
            subject, f"nests that do not fit together: {kinds}", source=user_source()
        ) from error
    for row in zip(*columns, strict=True):
        leaves = zip(operands, row, strict=True)
        common_shape(subject, **{n: leaf.type for n, leaf in leaves if isinstance(leaf, Tensor)})


def _widen(subject: str, **operands: Any) -> list[Any]:
    """Return the operands as tensors to compute with; numbers and integers join the widest."""
    dtype = _common_dtype(*(leaf for tree in operands.values() for leaf in flatten(tree)[0]))
    return [map_leaves(_widener(subject, name, dtype), tree) for name, tree in operands.items()]


def _widener(subject: str, name: str, dtype: DType) -> Callable[[Any], Tensor]:
    def widen(leaf: Any) -> Tensor:
        if not isinstance(leaf, Tensor | int | float):
            problem = f"{name}: {leaf!r} is neither an array nor a tensor nor a number"
            raise DTypeError(subject, problem, source=user_source())
        if not isinstance(leaf, Tensor):
            return as_tensor(leaf, _computed_in(dtype))
        return cast(leaf, _computed_in(leaf.dtype if leaf.dtype.is_float else dtype))

    return widen


def _narrow(results: Any, *operands: Any) -> Any:
    """Return `results` in the dtypes to which the operands promote, leaf by leaf."""
    return map_leaves(
        lambda result, *leaves: cast(result, _common_dtype(*leaves)), results, *operands
    )


def _common_dtype(*leaves: Any) -> DType:
    """Return the dtype that the floats among `leaves` promote to, float32 if there is none."""
    given = (leaf.dtype for leaf in leaves if isinstance(leaf, Tensor) and leaf.dtype.is_float)
    floats = list(dict.fromkeys(given))
    return reduce(lambda a, b: promote("update", a, b), floats) if floats else dtypes.float32


def _computed_in(dtype: DType) -> DType:
    return dtypes.float32 if dtype.is_half else dtype
