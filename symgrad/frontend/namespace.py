"""The Array API namespace of tensors: what `x.__array_namespace__()` returns.

Every name of the standard that symgrad has, under the standard's name, and nothing else. The
functions are those that are declared to be standard where they are defined. It is made when it is
first asked for, when all of them have been.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.frontend import creation as creation  # these two declare their functions
from symgrad.frontend import matrices as matrices
from symgrad.frontend.data_types import can_cast, finfo, iinfo, isdtype, result_type
from symgrad.frontend.inspection import __array_api_version__ as __array_api_version__
from symgrad.frontend.inspection import __array_namespace_info__
from symgrad.frontend.publication import published
from symgrad.frontend.shapes import broadcast_shapes
from symgrad.graph import dtypes
from symgrad.graph.late_binding import provided
from symgrad.graph.public_ops import PUBLIC_OPS
from symgrad.late_modules import load_awaited

_CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}
# Functions that are no ops: they take and return no tensors.
_FUNCTIONS = (can_cast, finfo, iinfo, isdtype, result_type, broadcast_shapes)
# The types of 16 bits are none of the standard.
_DTYPES = {dtype.name: dtype for dtype in dtypes.ALL if not dtype.is_half}


def __getattr__(name: str) -> Any:
    """Return an extension of the standard, which lies above: `fft` or `linalg`."""
    if name in ("fft", "linalg"):
        load_awaited()
        return provided(f"{name}_extension")()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_NAMES = {
    **_CONSTANTS,
    **_DTYPES,
    **{f.__name__: f for f in (*_FUNCTIONS, __array_namespace_info__)},
    **{name: published(op.function) for name, op in PUBLIC_OPS.items() if op.is_standard},
}
globals().update(_NAMES)
__all__ = sorted(_NAMES)
