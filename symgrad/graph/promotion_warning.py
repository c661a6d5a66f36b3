"""Warning of implicit promotion: a float64 array that a user hands to a float32 graph.

NumPy makes float64 arrays unless told otherwise, and promotion is the Array API's, so one of them
makes float64 of all that follows. That is no mistake that could be refused, and nothing but the
time it takes shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.config import settings
from symgrad.errors import PromotionWarning, user_source
from symgrad.graph import dtypes
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor

# What Python keeps for each module: which warnings of which lines there were.
_SHOWN: dict[Any, Any] = {}


def warn_of_float64(op: str, operands: Sequence[Any]) -> None:
    """Warn, once a line, if arrays make float64 of operands of which a tensor is float32.

    An array is one of NumPy's, or a variable that holds one; scalars of NumPy's are floats of
    Python, which are weak. `SYMGRAD_WARN_FLOAT64=off` turns it off, and so does a filter for
    `PromotionWarning`.
    """
    if not settings().warn_float64:
        return
    narrow = [t for t in operands if isinstance(t, Tensor) and t.dtype is dtypes.float32]
    wide = [v for v in operands if _is_float64_array(v)]
    source = user_source()
    if not narrow or not wide or source is None:
        return
    text = (
        f"{op}: {_description(wide[0])} makes float64 of {_description(narrow[0])}\n"
        f"  --> {source}\n"
        f"  hint: {_hint(wide[0])}; SYMGRAD_WARN_FLOAT64=off turns this warning off"
    )
    warnings.warn_explicit(
        text, PromotionWarning, source.file, source.line, module=source.file, registry=_SHOWN
    )


def _is_float64_array(value: Any) -> bool:
    if isinstance(value, Variable):
        return value.dtype is dtypes.float64
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _description(operand: Any) -> str:
    if isinstance(operand, Variable):
        return f"the variable {operand.name}: {operand.type}"
    if isinstance(operand, Tensor):
        return f"{operand.name or operand.node.op}: {operand.type}"
    return f"an array of shape {list(operand.shape)}"


def _hint(operand: Any) -> str:
    if isinstance(operand, Variable):
        return "sg.variable(value, 'float32') makes it float32"
    return "convert it: .astype('float32')"
