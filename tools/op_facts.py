"""Facts about public ops that are asked of the package: dtypes, gradients, other names.

An op is called with placeholders of each dtype; what it takes, what it gives and of which operands
it has a gradient is what comes of it. So a reference page cannot say what is not so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from symgrad.commands.op_index import methods_of, numpy_names_of, operators
from tools.public_names import PublicName

_OPERANDS = {"x", "y", "a", "b", "x1", "x2", "p", "q", "condition"}
_SHAPE = (2, 2)


def facts_of(name: PublicName) -> dict[str, str]:
    """Return facts about a function by their titles; none for what is no op of operands alone."""
    from symgrad.graph.public_ops import PUBLIC_OPS

    op = PUBLIC_OPS.get(getattr(name.value, "__name__", ""))
    if op is None or inspect.unwrap(name.value) is not inspect.unwrap(op.function):
        return {}
    facts: dict[str, str] = {}
    operands = _operands_of(op.function)
    if operands:
        facts |= _asked(op.function, operands)
    known = [*operators().get(op.function.__name__, []), *methods_of(op), *numpy_names_of(op)]
    if known:
        facts["On tensors also"] = ", ".join(f"`{other}`" for other in known)
    if op.is_standard:
        facts["Array API"] = "a function of the standard"
    return facts


def _operands_of(function: Callable[..., Any]) -> list[str]:
    """Return the operands of a function that needs no other argument, else none."""
    parameters = inspect.signature(function).parameters.values()
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    return needed if set(needed) <= _OPERANDS else []


def _asked(function: Callable[..., Any], operands: list[str]) -> dict[str, str]:
    import symgrad as sg

    dtypes = [value for value in vars(sg).values() if isinstance(value, sg.DType)]
    order = sorted(set(dtypes), key=lambda dtype: (dtype.kind, dtype.bits, dtype.name))
    results = {dtype.name: _result(function, len(operands), dtype) for dtype in order}
    results = {name: result for name, result in results.items() if result}
    if not results:
        return {}
    is_one = len(set(results.values())) == 1 < len(results)
    taken: dict[str, list[str]] = {}
    for name, result in results.items():
        taken.setdefault("the same" if result == name and not is_one else result, []).append(name)
    shown = "; ".join(f"{_listed(names)} → {result}" for result, names in taken.items())
    facts = {"Dtypes": shown}
    shape = _shape(function, operands)
    if shape:
        facts["Shape"] = shape
    gradient = _gradient(function, operands)
    if gradient:
        facts["Gradient"] = gradient
    return facts


def _shape(function: Callable[..., Any], operands: list[str]) -> str:
    """Return what the shape of the result is made of, where that is all of the operands' shapes."""
    import symgrad as sg

    shapes = [(2, 1), (1, 3)] if len(operands) == 2 else [(2, 3)] * len(operands)
    try:
        found = function(*(sg.placeholder(shape) for shape in shapes))
    except (sg.SymgradError, ValueError):
        return ""
    if not isinstance(found, sg.Tensor) or found.shape != (2, 3):
        return ""
    return f"that of `{operands[0]}`" if len(operands) == 1 else "the operands broadcast together"


def _result(function: Callable[..., Any], count: int, dtype: Any) -> str:
    """Return the dtypes of what operands of one give; nothing where that is refused."""
    import symgrad as sg

    try:
        result = function(*(sg.placeholder(_SHAPE, dtype) for _ in range(count)))
    except sg.SymgradError:
        return ""
    parts = result if isinstance(result, tuple | list) else (result,)
    return ", ".join(dict.fromkeys(p.dtype.name for p in parts))


def _listed(names: list[str]) -> str:
    """Return dtypes by their kinds where all of a kind are there."""
    kinds = {
        "integers": ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
        "floats": ["bfloat16", "float16", "float32", "float64"],
    }
    shown = []
    for kind, members in kinds.items():
        if set(members) <= set(names):
            shown.append(kind)
            names = [name for name in names if name not in members]
    return ", ".join([*shown, *names])


def _gradient(function: Callable[..., Any], operands: list[str]) -> str:
    import symgrad as sg

    xs = [sg.placeholder(_SHAPE, "float32") for _ in operands]
    try:
        result = function(*xs)
        ys = list(result) if isinstance(result, tuple | list) else [result]
        reals = [sg.real(y) if y.dtype.is_complex else y for y in ys]
        found = sg.gradients([y for y in reals if y.dtype.is_float], xs)
    except (sg.SymgradError, ValueError):
        return ""
    given = [name for name, g in zip(operands, found, strict=True) if g is not None]
    return f"by {' and '.join(f'`{name}`' for name in given)}" if given else "none"
