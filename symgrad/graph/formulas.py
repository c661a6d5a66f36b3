"""Operator overloading for scalar bodies: an op's formula is written as a formula.

`x * y + 1.0` of `FloatExpr`s is what a body builds by `s.call("add", s.call("mul", ...), ...)`.
Each operator is one scalar operation of `graph/scalars.py`, in the order in which it is written,
and a Python number beside a `FloatExpr` is a constant of its dtype. Nothing is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import Body, ScalarExpr
from symgrad.records import dataclass

# Coefficients in order of rising powers, by the short name of a dtype.
Table = dict[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A scalar expression that is true or false."""

    scalars: Scalars[Any]
    value: ScalarExpr

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.scalars, self.scalars.call("and", self.value, other.value))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.scalars, self.scalars.call("or", self.value, other.value))

    def __invert__(self) -> Condition:
        return Condition(self.scalars, self.scalars.call("not", self.value))

    def choose(self, chosen: FloatExpr, otherwise: FloatExpr | float) -> FloatExpr:
        """Return `chosen` where the condition holds and `otherwise` elsewhere."""
        picked = self.scalars.select(self.value, chosen.value, chosen.like(otherwise).value)
        return FloatExpr(self.scalars, picked)


@dataclass(frozen=True, slots=True, eq=False)
class FloatExpr:
    """A scalar expression of one float dtype; comparisons are false where a side is nan."""

    scalars: Scalars[Any]
    value: ScalarExpr

    @property
    def dtype(self) -> DType:
        return self.scalars.dtype_of(self.value)

    @property
    def short(self) -> str:
        """The key of tables of coefficients: f32 or f64."""
        return self.dtype.short

    @property
    def is_single(self) -> bool:
        return self.dtype == dtypes.float32

    def like(self, other: FloatExpr | float) -> FloatExpr:
        """Return `other` as a constant of this dtype, if it is not an expression already."""
        if isinstance(other, FloatExpr):
            return other
        return FloatExpr(self.scalars, self.scalars.const(other, self.dtype))

    def call(self, name: str, *others: FloatExpr | float) -> FloatExpr:
        """Apply the scalar operation `name` to this and to `others`."""
        args = [self.like(other).value for other in others]
        return FloatExpr(self.scalars, self.scalars.call(name, self.value, *args))

    def _compare(self, name: str, other: FloatExpr | float) -> Condition:
        return Condition(self.scalars, self.call(name, other).value)

    def __add__(self, other: FloatExpr | float) -> FloatExpr:
        return self.call("add", other)

    def __radd__(self, other: float) -> FloatExpr:
        return self.like(other).call("add", self)

    def __sub__(self, other: FloatExpr | float) -> FloatExpr:
        return self.call("sub", other)

    def __rsub__(self, other: float) -> FloatExpr:
        return self.like(other).call("sub", self)

    def __mul__(self, other: FloatExpr | float) -> FloatExpr:
        return self.call("mul", other)

    def __rmul__(self, other: float) -> FloatExpr:
        return self.like(other).call("mul", self)

    def plus(self, a: FloatExpr, b: FloatExpr) -> FloatExpr:
        """Return `self + a * b`, rounded once where the target fuses."""
        return a.call("fma", b, self)

    def less(self, a: FloatExpr, b: FloatExpr) -> FloatExpr:
        """Return `self - a * b`, rounded once where the target fuses."""
        return a.call("fnma", b, self)

    def product_error(self, other: FloatExpr) -> FloatExpr:
        """Return what rounding takes from `self * other`, exactly barring underflow."""
        return self.call("mul_error", other)

    def __truediv__(self, other: FloatExpr | float) -> FloatExpr:
        return self.call("div", other)

    def __rtruediv__(self, other: float) -> FloatExpr:
        return self.like(other).call("div", self)

    def __neg__(self) -> FloatExpr:
        return self.call("neg")

    def __abs__(self) -> FloatExpr:
        return self.call("abs")

    def __lt__(self, other: FloatExpr | float) -> Condition:
        return self._compare("lt", other)

    def __le__(self, other: FloatExpr | float) -> Condition:
        return self._compare("le", other)

    def __gt__(self, other: FloatExpr | float) -> Condition:
        return self._compare("gt", other)

    def __ge__(self, other: FloatExpr | float) -> Condition:
        return self._compare("ge", other)

    def equals(self, other: FloatExpr | float) -> Condition:
        return self._compare("eq", other)

    def is_nan(self) -> Condition:
        return self._compare("ne", self)

    def exp(self) -> FloatExpr:
        return self.call("exp")

    def log(self) -> FloatExpr:
        return self.call("log")

    def sqrt(self) -> FloatExpr:
        return self.call("sqrt")

    def rsqrt(self) -> FloatExpr:
        return self.call("rsqrt")

    def floor(self) -> FloatExpr:
        return self.call("floor")

    def round(self) -> FloatExpr:
        return self.call("round")

    def least(self, other: FloatExpr | float) -> FloatExpr:
        """Return the lesser of the two; nan if either is nan."""
        return self.call("min", other)

    def greatest(self, other: FloatExpr | float) -> FloatExpr:
        """Return the greater of the two; nan if either is nan."""
        return self.call("max", other)

    def clamp(self, low: float, high: float) -> FloatExpr:
        """Return this, limited to [low, high]; nan stays."""
        return self.greatest(low).least(high)

    def to(self, dtype: DType) -> FloatExpr:
        return FloatExpr(self.scalars, self.scalars.cast(self.value, dtype))


def polynomial(x: FloatExpr, table: Table) -> FloatExpr:
    """Evaluate the polynomial of `table` for the dtype of `x` by Horner's rule."""
    return horner(x, table[x.short])


def horner(x: FloatExpr, coefficients: Sequence[float]) -> FloatExpr:
    """Evaluate a polynomial; coefficients in order of rising powers."""
    total = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


Formula = Callable[..., FloatExpr]


def body_of_formula(formula: Formula) -> Body:
    """Return the scalar body that `formula` describes, of one result of its operands' dtype.

    A 16-bit float is computed in float32 from beginning to end, and rounded once.
    """

    def body(s: Scalars[ScalarExpr], *elements: ScalarExpr) -> ScalarExpr:
        dtype = s.dtype_of(elements[0])
        wide = dtypes.float32 if dtype.is_half else dtype
        operands = [FloatExpr(s, s.cast(element, wide)) for element in elements]
        return s.cast(formula(*operands).value, dtype)

    return body
