"""The Array API's namespace of eager arrays: each function of symgrad, applied at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import optree

from symgrad.frontend import namespace
from tests.array_api.eager import Array, call


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def applied(*args: Any, **kwargs: Any) -> Any:
        return call(function, *args, **kwargs)

    return applied


_NAMES = {name: getattr(namespace, name) for name in namespace.__all__}
globals().update({n: _eager(v) if inspect.isfunction(v) else v for n, v in _NAMES.items()})
__array_api_version__ = namespace.__array_api_version__


def _extension(module: Any) -> SimpleNamespace:
    """Return an extension of the standard: its functions, and the classes that they return."""
    found = {name: getattr(module, name) for name in module.__all__}
    return SimpleNamespace(
        **{n: _eager(v) if inspect.isfunction(v) else v for n, v in found.items()}
    )


fft = _extension(namespace.fft)
linalg = _extension(namespace.linalg)


# ------------------------------------------------- shapes that depend on values, known here


def _asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Any:
    """Return an array of what has arrays without axes among its numbers."""
    known = obj if isinstance(obj, Array) else optree.tree_map(_number, obj, none_is_leaf=True)
    return call(namespace.asarray, known, dtype=dtype, device=device, copy=copy)


def _number(leaf: Any) -> Any:
    return leaf.values.item() if isinstance(leaf, Array) and leaf.ndim == 0 else leaf


def _repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Repeat elements as often as `repeats` says."""
    counts = repeats.values if isinstance(repeats, Array) else repeats
    return call(namespace.repeat, x, counts, axis=axis)


def _nonzero(x: Any, /) -> Any:
    """Return the indices of what is not 0: first how many there are, then which."""
    return call(namespace.nonzero, x, size=int(call(namespace.count_nonzero, x)))


def _set_function(name: str) -> Callable[..., Any]:
    """Return a function that counts the different elements before it returns them."""

    def applied(x: Any, /) -> Any:
        counts = call(namespace.unique_counts, x, size=x.size).counts
        size = int(call(namespace.count_nonzero, counts))
        return call(getattr(namespace, name), x, size=size)

    return applied


_SETS = ("unique_all", "unique_counts", "unique_inverse", "unique_values")
_SIZED = {
    **{"asarray": _asarray, "repeat": _repeat, "nonzero": _nonzero},
    **{name: _set_function(name) for name in _SETS},
}
globals().update({name: function for name, function in _SIZED.items() if name in _NAMES})
