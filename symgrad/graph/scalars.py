"""Scalar instruction set: all that one element of a kernel can compute.

This is the vocabulary in which an op of the Map structure states its body and which the loop
language prints. Meaning is fixed here, once; the loop interpreter and the LLVM emitter each have
one row an operation. A row says which kinds of element it takes and what it gives.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, TypeVar

from symgrad.graph.dtypes import DType
from symgrad.records import dataclass

Value = TypeVar("Value")

Takes = Literal["number", "float", "integer", "bits", "any"]
Gives = Literal["same", "bool"]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One scalar operation: how many arguments, of which kind, what result, how costly.

    What takes `bits` takes integers and bools, which have one.
    `flops` counts the arithmetic the operation stands for as the profile reports it. Arguments
    above `highest` have no meaning: who writes the operation has proved that there are none.
    """

    name: str
    arity: int
    takes: Takes
    gives: Gives
    flops: int
    meaning: str
    highest: float = math.inf


_ROWS = (
    ScalarOp("add", 2, "number", "same", 1, "a + b; integers wrap around"),
    ScalarOp("sub", 2, "number", "same", 1, "a - b; integers wrap around"),
    ScalarOp("mul", 2, "number", "same", 1, "a * b; integers wrap around"),
    ScalarOp("fma", 3, "float", "same", 2, "a * b + c, rounded once where the target fuses, else twice"),  # noqa: E501 - a table row
    ScalarOp("fnma", 3, "float", "same", 2, "c - a * b, rounded as fma is"),
    ScalarOp("mul_error", 2, "float", "same", 2, "what rounding takes from a * b, exactly barring underflow"),  # noqa: E501 - a table row
    ScalarOp("div", 2, "float", "same", 1, "a / b, correctly rounded"),
    ScalarOp("floordiv", 2, "number", "same", 2, "floor of the exact a / b; integers by 0 give 0"),
    ScalarOp("mod", 2, "number", "same", 3, "a - b * floor(a / b), exact; integers by 0 give 0"),
    ScalarOp("fmod", 2, "number", "same", 3, "a - b * trunc(a / b), exact; integers by 0 give 0"),
    ScalarOp("neg", 1, "number", "same", 1, "-a; unsigned integers wrap around"),
    ScalarOp("abs", 1, "number", "same", 1, "|a|; the least signed integer stays"),
    ScalarOp("min", 2, "number", "same", 1, "the lesser; nan if either is nan"),
    ScalarOp("max", 2, "number", "same", 1, "the greater; nan if either is nan"),
    ScalarOp("sqrt", 1, "float", "same", 1, "square root, correctly rounded"),
    ScalarOp("rsqrt", 1, "float", "same", 2, "1 / sqrt(a), not correctly rounded"),
    ScalarOp("floor", 1, "float", "same", 1, "greatest integer not above a"),
    ScalarOp("ceil", 1, "float", "same", 1, "least integer not below a"),
    ScalarOp("round", 1, "float", "same", 1, "nearest integer, ties to even"),
    ScalarOp("trunc", 1, "float", "same", 1, "nearest integer not farther from 0 than a"),
    ScalarOp("copysign", 2, "float", "same", 1, "|a| with the sign bit of b"),
    ScalarOp("nextafter", 2, "float", "same", 3, "the float next to a towards b; b if equal"),
    ScalarOp("exp", 1, "float", "same", 12, "e**a"),
    ScalarOp("decay", 1, "float", "same", 12, "e**a of an a that is nan or not above 0", highest=0.0),  # noqa: E501 - a table row
    ScalarOp("expm1", 1, "float", "same", 16, "e**a - 1, accurate near 0"),
    ScalarOp("log", 1, "float", "same", 16, "natural logarithm"),
    ScalarOp("log1p", 1, "float", "same", 20, "log(1 + a), accurate near 0"),
    ScalarOp("sin", 1, "float", "same", 20, "sine of a in radians"),
    ScalarOp("cos", 1, "float", "same", 20, "cosine of a in radians"),
    ScalarOp("tanh", 1, "float", "same", 20, "hyperbolic tangent"),
    ScalarOp("sigmoid", 1, "float", "same", 14, "1 / (1 + e**-a)"),
    ScalarOp("erf", 1, "float", "same", 24, "error function"),
    ScalarOp("erfinv", 1, "float", "same", 52, "inverse of the error function"),
    ScalarOp("pow", 2, "number", "same", 40, "a**b; an integer to a negative power gives 0 but for a = 1, -1"),  # noqa: E501 - a table row
    ScalarOp("exp2", 1, "float", "same", 13, "2**a"),
    ScalarOp("log2", 1, "float", "same", 20, "logarithm to base 2"),
    ScalarOp("log10", 1, "float", "same", 22, "logarithm to base 10"),
    ScalarOp("tan", 1, "float", "same", 24, "tangent of a in radians"),
    ScalarOp("sinpi", 1, "float", "same", 24, "sine of pi * a"),
    ScalarOp("cospi", 1, "float", "same", 24, "cosine of pi * a"),
    ScalarOp("asin", 1, "float", "same", 24, "arcsine in radians"),
    ScalarOp("acos", 1, "float", "same", 26, "arccosine in radians"),
    ScalarOp("atan", 1, "float", "same", 24, "arctangent in radians"),
    ScalarOp("atan2", 2, "float", "same", 30, "angle of the point with height a and width b"),
    ScalarOp("sinh", 1, "float", "same", 22, "hyperbolic sine"),
    ScalarOp("cosh", 1, "float", "same", 16, "hyperbolic cosine"),
    ScalarOp("asinh", 1, "float", "same", 30, "inverse hyperbolic sine"),
    ScalarOp("acosh", 1, "float", "same", 30, "inverse hyperbolic cosine"),
    ScalarOp("atanh", 1, "float", "same", 30, "inverse hyperbolic tangent"),
    ScalarOp("cbrt", 1, "float", "same", 24, "cube root"),
    ScalarOp("hypot", 2, "float", "same", 5, "square root of a**2 + b**2"),
    ScalarOp("eq", 2, "any", "bool", 1, "a == b"),
    ScalarOp("ne", 2, "any", "bool", 1, "a != b, true if either is nan"),
    ScalarOp("lt", 2, "any", "bool", 1, "a < b"),
    ScalarOp("le", 2, "any", "bool", 1, "a <= b"),
    ScalarOp("gt", 2, "any", "bool", 1, "a > b"),
    ScalarOp("ge", 2, "any", "bool", 1, "a >= b"),
    ScalarOp("and", 2, "bits", "same", 0, "both, bit by bit"),
    ScalarOp("or", 2, "bits", "same", 0, "either, bit by bit"),
    ScalarOp("xor", 2, "bits", "same", 0, "one but not the other, bit by bit"),
    ScalarOp("not", 1, "bits", "same", 0, "the opposite, bit by bit"),
    ScalarOp("shl", 2, "integer", "same", 1, "a * 2**b wrapped around; 0 unless 0 <= b < width"),
    ScalarOp("shr", 2, "integer", "same", 1, "floor of a / 2**b; 0, or -1 for a < 0, unless 0 <= b < width"),  # noqa: E501 - a table row
)  # fmt: skip

# `select` (cond, a, b) and `cast` (a, to a dtype) are written out where they are used: their
# arguments are of mixed dtypes, so no row of this table can type them.
SCALAR_OPS = {row.name: row for row in _ROWS}


class Scalars(Protocol[Value]):
    """What the body of a Map op is written against: a builder of scalar expressions."""

    def call(self, name: str, *args: Value) -> Value:
        """Apply the scalar operation `name` of `SCALAR_OPS`."""
        ...

    def select(self, condition: Value, chosen: Value, otherwise: Value) -> Value:
        """Take `chosen` where `condition` holds and `otherwise` elsewhere; both are evaluated."""
        ...

    def cast(self, value: Value, dtype: DType) -> Value:
        """Convert; float to integer truncates and saturates (nan gives 0), to bool tests != 0."""
        ...

    def const(self, value: bool | int | float, dtype: DType) -> Value:
        """Make a constant of `dtype`."""
        ...

    def dtype_of(self, value: Value) -> DType:
        """Return the dtype of an expression."""
        ...
