"""The Array API's namespace of eager arrays: each function of symgrad, applied at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import symgrad as sg
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


# ------------------------------------------------- shapes that depend on values, known here


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Repeat elements as often as `repeats` says."""
    counts = repeats.values if isinstance(repeats, Array) else repeats
    return call(sg.repeat, x, counts, axis=axis)
