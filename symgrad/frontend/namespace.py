"""The Array API namespace of tensors: what `x.__array_namespace__()` returns.

Every name of the standard that symgrad has, under the standard's name, and nothing else. The
functions are those that are declared to be standard where they are defined.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from symgrad.frontend import creation as creation  # which declares its functions
from symgrad.frontend.container import mapped_op
from symgrad.graph import dtypes
from symgrad.graph.ops import declare_all
from symgrad.graph.public_ops import PUBLIC_OPS

__array_api_version__ = "2024.12"

_CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}
# The types of 16 bits are none of the standard.
_DTYPES = {dtype.name: dtype for dtype in dtypes.ALL if not dtype.is_half}

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # the names are known when all ops are declared


declare_all()
_NAMES = {
    **_CONSTANTS,
    **_DTYPES,
    **{name: mapped_op(op.function) for name, op in PUBLIC_OPS.items() if op.is_standard},
}
globals().update(_NAMES)
__all__ = sorted(_NAMES)
