"""Foreign function interface (FFI) for users: calls of functions of C, with their gradients.

What it is in a graph is in `graph/ops/extern.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph.dtypes import as_dtype
from symgrad.graph.foreign_functions import ForeignFunction, is_symbol
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.types import TensorType
from symgrad.passes.gradients.custom_gradient import custom_gradient

ForeignGradient = Callable[..., Any]

# The class of all functions that ctypes makes and finds, and the flag of those that ctypes calls
# under Python's global lock.
_FunctionOfC = ctypes.CFUNCTYPE(None).__mro__[1]
_KEEPS_LOCK = 0x4  # FUNCFLAG_PYTHONAPI


def extern(
    name: str,
    inputs: Sequence[Any],
    out_types: Sequence[tuple[Sequence[Dim], Any]],
    *,
    pointer: Any = None,
    grad: ForeignGradient | None = None,
    workspace: int = 0,
    pure: bool = True,
) -> list[Tensor]:
    """Call a function of C.

    It is `int32_t name(const T *in..., T *out..., void *workspace)`: arrays are contiguous, in
    row-major order and do not overlap, and the workspace, of so many bytes, is passed if there is
    one. Half floats are their bits and a bool is a byte, 0 or 1. `out_types` is a list of
    `(shape, dtype)`, and the result a list of tensors. A status other than 0 stops the program
    before any variable has been changed, as a `ForeignCallError` with the status.

    `pointer` is an address, or a function of ctypes, which is kept alive. Without one the symbol
    `name` is looked up in the process when a program is compiled; an exported program has it as an
    undefined symbol, in either case.

    `grad(node, *dys)` gives one tensor or None for each input, from the node, whose `inputs` and
    `outputs` it may use, and one gradient for each result. Without it a gradient through the call
    is a `LookupError`. A call with `pure=False` is never merged with another or left out, and such
    calls are made in the order in which they were built, in branches and loops too. It is part of a
    program if a result of the program depends on it. A call is made by the thread that runs the
    step, without Python's global lock, which a callback of ctypes takes by itself; a function of
    `ctypes.PyDLL` or `ctypes.PYFUNCTYPE` is called under the lock. No other step runs meanwhile.

    >>> import ctypes, numpy as np
    >>> kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    >>> @kind
    ... def halve(x, y):
    ...     ctypes.cast(y, ctypes.POINTER(ctypes.c_double))[0] = (
    ...         ctypes.cast(x, ctypes.POINTER(ctypes.c_double))[0] / 2
    ...     )
    ...     return 0
    >>> x = sg.placeholder([], "float64")
    >>> (y,) = sg.extern("halve", [x], [((), "float64")], pointer=halve)
    >>> float(sg.compile([x], y)(3.0))
    1.5
    """
    function = _function(name, pointer)
    tensors = [as_tensor(x) for x in inputs]
    types = [_type(name, position, given) for position, given in enumerate(out_types)]
    if not types:
        raise _wrong(name, "out_types has no result, and nothing could depend on the call")
    if type(workspace) is not int or workspace < 0:
        raise _wrong(name, f"workspace is {workspace!r}, no number of bytes")

    def call(*operands: Tensor) -> Node:
        return extern_node(function, operands, types, workspace=workspace, is_pure=pure)

    if grad is None:
        return list(call(*tensors).outputs)
    return _with_gradient(call, grad, tensors)


def _with_gradient(
    call: Callable[..., Node], grad: ForeignGradient, tensors: Sequence[Tensor]
) -> list[Tensor]:
    def run(*operands: Tensor) -> tuple[list[Tensor], ForeignGradient]:
        node = call(*operands)

        def gradient(*dys: Tensor) -> Any:
            return grad(node, *dys)

        return list(node.outputs), gradient

    found: list[Tensor] = custom_gradient(run)(*tensors)
    return found


def _function(name: str, pointer: Any) -> ForeignFunction:
    if not is_symbol(name):
        raise GraphError("extern", f"{name!r} is no name of a function of C", source=user_source())
    if pointer is None:
        return ForeignFunction(name)
    if isinstance(pointer, int) and not isinstance(pointer, bool):
        address: int | None = pointer
    elif isinstance(pointer, _FunctionOfC | ctypes.c_void_p):
        address = _address_of(pointer)
    else:
        problem = f"pointer is {pointer!r}, neither an address nor a function of ctypes"
        raise DTypeError(f"extern {name}", problem, source=user_source())
    if not address or address < 0:
        raise _wrong(name, f"pointer is {pointer!r}, the address of nothing")
    flags = getattr(pointer, "_flags_", 0)
    return ForeignFunction(name, address, owner=pointer, keeps_lock=bool(flags & _KEEPS_LOCK))


def _address_of(pointer: Any) -> int | None:
    return ctypes.cast(pointer, ctypes.c_void_p).value


def _type(name: str, position: int, given: Any) -> TensorType:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise _wrong(name, f"result {position} is {given!r}, not (shape, dtype)")
    shape, dtype = given
    sizes = (shape,) if isinstance(shape, int | Size) else tuple(shape)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | Size):
            raise DTypeError(
                f"extern {name}", f"result {position}: {size!r} is no size", source=user_source()
            )
        if isinstance(size, int) and size < 0:
            problem = f"result {position}: size {size} is negative"
            raise ShapeError(f"extern {name}", problem, source=user_source())
    return TensorType(as_dtype(dtype), sizes)


def _wrong(name: str, problem: str) -> GraphError:
    return GraphError(f"extern {name}", problem, source=user_source())
