"""Output arguments: results go into the arrays given as `out`, or in place over the weights.

Everything is checked before anything is written, so that a call that is refused changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.aliases import require_apart
from symgrad.frontend.nests import describe, flatten, map_leaves
from symgrad.frontend.state import change, check_storable, storage
from symgrad.graph.node import Tensor
from symgrad.graph.ops import conversion
from symgrad.suggestions import known_as


@known_as("detach", "no_gradient")
def stop_gradient(x: Any, preserve_type: bool = True, *, out: Any = None) -> Any:
    """Return what equals `x` and lets no gradient through; of a nest, a nest of these.

    What is no tensor has no gradient and is returned as it is, or copied into `out`, a nest of
    arrays like `x`. `preserve_type` is accepted for compatibility: a tensor stays a tensor.

    >>> sg.grad(lambda x: x * sg.stop_gradient(x))(3.0)
    array(3., dtype=float32)
    """
    cut = map_leaves(_cut, x)
    return cut if out is None else write_out("stop_gradient", out, cut)


def _cut(leaf: Any) -> Any:
    return conversion.stop_gradient(leaf) if isinstance(leaf, Tensor) else leaf


def write_out(subject: str, out: Any, results: Any) -> Any:
    """Copy `results` into the arrays of `out` and return it.

    Raises `GraphError` unless it is the same nest, of arrays that share no memory, `ShapeError` and
    `DTypeError` for an array of another shape, or of a dtype that does not hold the result.
    """
    _require_equal_nests(subject, "out", out, "the result", results)
    pairs = list(zip(flatten(out)[0], flatten(results)[0], strict=True))
    for target, result in pairs:
        _check_out(subject, target, result)
    targets = [target for target, _ in pairs]
    labels = [f"out {position}" for position in range(len(targets))]
    require_apart(subject, labels, targets, hint="each result needs an array of its own")
    for target, result in pairs:
        np.copyto(target, result, casting="same_kind")
    return out


def _check_out(subject: str, target: Any, result: Any) -> None:
    if isinstance(result, Tensor):
        raise DTypeError(
            subject, f"out takes no tensor, and the result is {result!r}", source=user_source()
        )
    if not isinstance(target, np.ndarray):
        raise DTypeError(subject, f"out is {target!r}, not an array", source=user_source())
    array = np.asarray(result)
    if target.shape != array.shape:
        raise ShapeError(
            subject,
            f"out has shape {target.shape}, the result has shape {array.shape}",
            source=user_source(),
        )
    check_storable(subject, "the result", storage(subject, target), array)


def finish(subject: str, w: Any, new: Any, *, inplace: bool, stop_gradients: bool, out: Any) -> Any:
    """Return new weights as the caller wants them: cut from their gradient, and stored.

    In place, arrays and variables `w` take them at once, and a variable whose new value is a tensor
    becomes an `Update`.
    """
    is_array = isinstance(new, np.ndarray)
    cut = map_leaves(_cut, new) if stop_gradients and not is_array else new
    if inplace:
        _require_equal_nests(subject, "w", w, "the result", cut)
        return change(subject, w, cut)
    return cut if out is None else write_out(subject, out, cut)


def _require_equal_nests(subject: str, name: str, tree: Any, other: str, wanted: Any) -> None:
    given, needed = flatten(tree)[1], flatten(wanted)[1]
    if given != needed:
        raise GraphError(
            subject,
            f"{name} is {describe(given)}, {other} is {describe(needed)}",
            source=user_source(),
        )
