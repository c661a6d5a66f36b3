"""Gradient clipping: limits to be put between `gradients` and `apply_gradients`.

    grads = sg.gradients(loss, variables)
    grads = sg.optim.clip_by_global_norm(grads, 1.0)
    updates = sg.optim.Adam().apply_gradients(zip(grads, variables))

All take a list as `sg.gradients` returns it, with None where there is no gradient, and return one
of the same length and dtypes. Limits may be scalar tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, common_dtype
from symgrad.graph.ops.extrema import clip
from symgrad.graph.types import Array
from symgrad.optim.hyperparameters import Rate, check_positive, check_rate
from symgrad.optim.lengths import factors, length_of

Gradients = Sequence[Tensor | Array | None]


def clip_by_value(
    grads: Gradients, min: Rate | None = None, max: Rate | None = None
) -> list[Tensor | None]:
    """Limit every element to `min` below and `max` above; a limit of None is none.

    Raises `GraphError` if `min` is greater than `max`.

    >>> sg.run(sg.optim.clip_by_value([sg.constant([3.0, -4.0])], -1.0, 1.0))
    [array([ 1., -1.], dtype=float32)]
    """
    subject = "clip_by_value"
    if isinstance(min, int | float) and isinstance(max, int | float) and min > max:
        raise GraphError(subject, f"min {min!r} is greater than max {max!r}", source=user_source())
    return [
        None if g is None else cast(clip(g, min=_limit(min, g), max=_limit(max, g)), g.dtype)
        for g in _read(subject, grads)
    ]


def _limit(limit: Rate | None, g: Tensor) -> Rate | None:
    return cast(limit, g.dtype) if isinstance(limit, Tensor) else limit


def clip_by_norm(grads: Gradients, max_norm: Rate) -> list[Tensor | None]:
    """Scale each gradient whose norm is above `max_norm` down to that norm.

    A gradient that is not finite becomes NaN as a whole; that its norm is beyond its dtype does
    no harm.

    >>> sg.run(sg.optim.clip_by_norm([sg.constant([3.0, 4.0]), sg.constant([0.1])], 1.0))
    [array([0.6, 0.8], dtype=float32), array([0.1], dtype=float32)]
    """
    max_norm = _read_max_norm("clip_by_norm", max_norm)
    given = _read("clip_by_norm", grads)
    return [
        None if g is None else _scaled(g, factors([g], max_norm, _wide_dtype(g))) for g in given
    ]


def clip_by_global_norm(grads: Gradients, max_norm: Rate) -> list[Tensor | None]:
    """Scale all gradients by one factor, so that their norm together is at most `max_norm`.

    This is the clipping of Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent
    neural networks" (2013). Where a gradient is not finite all become NaN, as in
    TensorFlow: scaling by 0 would hide it. That the norm or its square is beyond their dtype does
    no harm. The norm itself is `global_norm(grads)`; compiled together with this it is computed
    once.

    >>> sg.run(sg.optim.clip_by_global_norm([sg.constant([3.0]), sg.constant([4.0])], 1.0))
    [array([0.6], dtype=float32), array([0.8], dtype=float32)]
    """
    max_norm = _read_max_norm("clip_by_global_norm", max_norm)
    given = _read("clip_by_global_norm", grads)
    present = [g for g in given if g is not None]
    if not present:
        return given
    # Once for each dtype: a graph of all gradients for each of them would grow by their square.
    wide = dict.fromkeys(_wide_dtype(g) for g in present)
    scales = {dtype: factors(present, max_norm, dtype) for dtype in wide}
    return [None if g is None else _scaled(g, scales[_wide_dtype(g)]) for g in given]


def global_norm(grads: Gradients) -> Tensor:
    """Return the norm of all gradients together, a scalar of their widest dtype.

    It is float32 for 16-bit gradients. No square of a float32 or float64 overflows or vanishes.
    Where the norm is 0 its gradient is 0. Raises `GraphError` if there is no gradient.

    >>> sg.run(sg.optim.global_norm([sg.constant([3.0]), sg.constant([4.0])]))
    array(5., dtype=float32)
    """
    given = [g for g in _read("global_norm", grads) if g is not None]
    if not given:
        raise GraphError("global_norm", "there is no gradient", source=user_source())
    dtype = common_dtype("global_norm", [_wide_dtype(g) for g in given], [])
    return cast(length_of(given), dtype)


def _read(subject: str, grads: Any) -> list[Tensor | None]:
    if isinstance(grads, Tensor | np.ndarray):
        raise DTypeError(
            subject, f"grads is {grads!r}, not a list of gradients", source=user_source()
        )
    given = [None if g is None else as_tensor(g) for g in grads]
    for i, g in enumerate(given):
        if g is not None and not g.dtype.is_float:
            raise DTypeError(subject, f"grads[{i}] is {g.type}, no float", source=user_source())
    return given


def _read_max_norm(subject: str, max_norm: Any) -> Rate:
    rate = check_rate(subject, "max_norm", max_norm)
    return rate if isinstance(rate, Tensor) else float(check_positive(subject, "max_norm", rate))


def _wide_dtype(g: Tensor) -> dtypes.DType:
    return dtypes.float32 if g.dtype.is_half else g.dtype


def _wide(g: Tensor) -> Tensor:
    return cast(g, _wide_dtype(g))


def _scaled(g: Tensor, by: tuple[Tensor, Tensor]) -> Tensor:
    """Return `g` times both of two factors, in the dtype of these."""
    coarse, fine = by
    return cast(_wide(g) * coarse * fine, g.dtype)
