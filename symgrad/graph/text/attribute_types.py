"""Type checking of attributes: what the annotations of an op's `infer` say that they are.

Rules trust their attributes, whose types a type checker has seen. Those from a text it has not, so
they are compared with the annotations here before a rule meets them. Whether a value makes sense
beside the operands is for the rule to say.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, ForwardRef, Union, get_args, get_origin, get_type_hints

from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.node import OpDef
from symgrad.graph.sizes import Size
from symgrad.graph.types import ArrayLiteral, Attr, NestedGraph, PythonFunction, State

_CALLED: dict[object, str] = {
    NoneType: "none",
    bool: "true or false",
    int: "an int",
    float: "a float",
    str: "a string",
    DType: "a dtype",
    Size: "a size",
    ArrayLiteral: "a literal",
    State: "the state of a variable",
    PythonFunction: "a function",
    ForeignFunction: "a function of C",
    NestedGraph: "a block",
}


@functools.cache
def attribute_types(definition: OpDef) -> Mapping[str, Any]:
    """Return the annotations of the attributes that an op takes, by their names."""
    hints = get_type_hints(definition.infer)
    parameters = inspect.signature(definition.infer).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}


def is_of_type(value: Attr, wanted: Any) -> bool:
    """Return whether `value` is what the annotation `wanted` says: True is no int."""
    if wanted is Any or isinstance(wanted, ForwardRef):
        return True
    if get_origin(wanted) in (Union, UnionType):
        return any(is_of_type(value, choice) for choice in get_args(wanted))
    if get_origin(wanted) is tuple:
        item, _ellipsis = get_args(wanted)
        return type(value) is tuple and all(is_of_type(part, item) for part in value)
    return isinstance(value, NestedGraph) if wanted is NestedGraph else type(value) is wanted


def describe_type(wanted: Any) -> str:
    """Return the annotation `wanted` in the words of a graph's text."""
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(map(describe_type, get_args(wanted)))
    if get_origin(wanted) is tuple:
        return f"a list of which each is {describe_type(get_args(wanted)[0])}"
    return _CALLED.get(wanted, "a value")
