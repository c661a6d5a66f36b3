"""The Array API namespace of tensors: what `x.__array_namespace__()` returns.

Every name of the standard that symgrad has, under the standard's name, and nothing else.
"""

from __future__ import annotations

import sys
from math import e, inf, nan, pi
from types import ModuleType

from symgrad.errors import GraphError, user_source
from symgrad.frontend.container import map_ops_over_containers
from symgrad.frontend.creation import (
    arange,
    asarray,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from symgrad.graph.dtypes import bool_ as bool
from symgrad.graph.dtypes import (
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from symgrad.graph.ops.arithmetic import (
    abs,
    add,
    ceil,
    clip,
    divide,
    floor,
    floor_divide,
    isfinite,
    isinf,
    maximum,
    minimum,
    multiply,
    negative,
    positive,
    remainder,
    round,
    sign,
    square,
    subtract,
)
from symgrad.graph.ops.bits import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from symgrad.graph.ops.comparison import (
    equal,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    where,
)
from symgrad.graph.ops.contraction import matmul, tensordot, vecdot
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.indexing import take, take_along_axis
from symgrad.graph.ops.reduction import all, any, argmax, argmin, max, mean, min, prod, sum
from symgrad.graph.ops.slicing import concat, flip, stack
from symgrad.graph.ops.structure import broadcast_to, expand_dims, permute_dims, reshape, squeeze
from symgrad.graph.ops.transcendental import cos, exp, expm1, log, log1p, pow, sin, sqrt, tanh
from symgrad.graph.ops.views import matrix_transpose, moveaxis, repeat, roll, tile, unstack
from symgrad.graph.public_ops import provide

newaxis = None

__array_api_version__ = "2024.12"

__all__ = [
    "abs",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "astype",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_to",
    "ceil",
    "clip",
    "concat",
    "cos",
    "divide",
    "e",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "flip",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "remainder",
    "repeat",
    "reshape",
    "roll",
    "round",
    "sign",
    "sin",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tanh",
    "tensordot",
    "tile",
    "tril",
    "triu",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unstack",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]


def _array_namespace(api_version: str | None) -> ModuleType:
    if api_version is not None and api_version > __array_api_version__:
        raise GraphError(
            "array namespace",
            f"version {api_version} was asked for, this is {__array_api_version__}",
            source=user_source(),
        )
    return sys.modules[__name__]


provide("array_namespace", _array_namespace)
map_ops_over_containers(globals())
