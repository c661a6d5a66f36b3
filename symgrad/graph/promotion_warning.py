"""Warning of implicit promotion and rounding: a float64 array that meets a float32 graph.

NumPy makes float64 arrays unless told otherwise, and promotion is the Array API's, so one of them
in a graph makes float64 of all that follows; where a step takes float32, it is rounded at every
call. Neither is a mistake that could be refused, and nothing but the time it takes shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.config import settings
from symgrad.errors import PromotionWarning, Source, user_source
from symgrad.graph import dtypes
from symgrad.graph.foreign_arrays import arrays_within, is_foreign_array
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor

# What Python keeps for each module: which warnings of which lines there were.
_SHOWN: dict[Any, Any] = {}
_CONVERSION = "convert it: .astype('float32')"


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
    problem = f"{op}: {_description(wide[0])} makes float64 of {_description(narrow[0])}"
    _warn(problem, source, _hint(wide[0]))


def warn_of_rounding(step: str, what: str) -> None:
    """Warn, once a line, that a step takes a float64 array as float32: `what` names the input."""
    source = user_source() if settings().warn_float64 else None
    if source is not None:
        problem = f"{step}: {what}: float64 was given, and is rounded to float32"
        _warn(problem, source, _CONVERSION)


def _warn(problem: str, source: Source, hint: str) -> None:
    text = (
        f"{problem}\n"
        f"  --> {source}\n"
        f"  hint: {hint}; SYMGRAD_WARN_FLOAT64=off turns this warning off"
    )
    warnings.warn_explicit(
        text, PromotionWarning, source.file, source.line, module=source.file, registry=_SHOWN
    )


def _is_float64_array(value: Any) -> bool:
    if isinstance(value, Variable):
        return value.dtype is dtypes.float64
    is_one = isinstance(value, np.ndarray) or is_foreign_array(value) or arrays_within(value)
    return bool(is_one) and np.asarray(value).dtype == np.float64


def _description(operand: Any) -> str:
    if isinstance(operand, Variable):
        return f"the variable {operand.name}: {operand.type}"
    if isinstance(operand, Tensor):
        return f"{operand.name or operand.node.op}: {operand.type}"
    return f"an array of shape {list(np.shape(operand))}"


def _hint(operand: Any) -> str:
    if isinstance(operand, Variable):
        return "sg.variable(value, 'float32') makes it float32"
    return _CONVERSION
