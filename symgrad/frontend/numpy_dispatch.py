"""NumPy's functions on tensors: `numpy.exp(x)` or `numpy.sum(x, axis=0)` builds graph.

Which op stands for a function of NumPy's is declared where the op is defined
(`symgrad/graph/public_ops.py`), or by an adapter in a module `numpy_*` beside this
one. What stands for nothing is refused, and so is an argument without a meaning,
by a `DTypeError` that says what to use. All of it is imported when NumPy first asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.frontend import numpy_exact as numpy_exact  # which declares ufuncs
from symgrad.frontend import numpy_formulas as numpy_formulas  # which declares adapters
from symgrad.frontend import numpy_positions as numpy_positions  # likewise
from symgrad.frontend import numpy_shapes as numpy_shapes  # likewise
from symgrad.frontend import numpy_values as numpy_values  # likewise
from symgrad.frontend.container import Container, leafwise
from symgrad.frontend.numpy_arguments import ADAPTERS, call_adapter, call_op, refuse
from symgrad.frontend.numpy_refusals import instead_of
from symgrad.frontend.numpy_ufuncs import call_ufunc
from symgrad.graph.node import Tensor
from symgrad.graph.public_ops import FUNCTIONS
from symgrad.late_modules import load_awaited


@leafwise  # NumPy asks a tensor, of which a container may be beside it
def array_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Do what `x.__array_ufunc__` is asked for."""
    if any(isinstance(x, Container) for x in inputs):
        return NotImplemented  # NumPy then asks the container, which maps over its leaves
    return call_ufunc(ufunc, method, inputs, options)


@leafwise
def array_function(
    function: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """Do what `x.__array_function__` is asked for; `DTypeError` if nothing stands for it."""
    # A container among the operands has been mapped over by now; NumPy asks others itself.
    if not all(issubclass(type_, Tensor | np.ndarray | Container) for type_ in types):
        return NotImplemented
    if function not in FUNCTIONS and function not in ADAPTERS:
        load_awaited()  # `numpy.linalg.norm`, for instance, is declared there
    if function in FUNCTIONS:
        return call_op(function, FUNCTIONS[function].function, args, options)
    if function in ADAPTERS:
        return call_adapter(function, args, options)
    name = getattr(function, "__name__", str(function))
    raise refuse(function, "nothing stands for it on a tensor", instead_of(name))
