"""Reproducible elementary functions: a logarithm and others that have the same bits everywhere.

A sampler that rejects compares such values, and a last bit that differs gives another number
altogether. So these use nothing but sums, products, quotients and comparisons, each rounded as
IEEE 754 says, and no fused multiply-add: machine code of every target and NumPy give the same bits.
Powers of two are taken off by steps, the rest is a Taylor polynomial. They are for `symgrad/random`
and hold in the ranges samplers need; the functions users call are in `transcendental.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.formulas import FloatExpr, Formula, body_of_formula, horner
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define, elementwise
from symgrad.graph.operands import require_dtype
from symgrad.graph.ops.arithmetic import divide, multiply, negative
from symgrad.graph.ops.elementwise import infer_same, is_float
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import Map
from symgrad.graph.types import Array, TensorType

# Terms of the series, so that what is left out is less than half a unit in the last place.
_ATANH_TERMS = {"f32": 8, "f64": 17}  # for 1/2 <= x <= 3/2
_EXP_TERMS = {"f32": 7, "f64": 13}
_SINE_TERMS = {"f32": 5, "f64": 9}
_REST_TERMS = {"f32": 9, "f64": 14}
_REST_RANGE = {"f32": 0.125, "f64": 0.0625}
# The powers of two of all normal numbers.
_EXPONENTS = {"f32": 128, "f64": 1024}
# Below these, e**x rounds to 0.
_LEAST_EXPONENT = {"f32": -104.0, "f64": -746.0}
_HALF_PI = math.pi / 2


def _steps(span: int) -> list[int]:
    """Return powers of two, from the greatest on, whose sum is at least `span`."""
    return [1 << i for i in reversed(range(max(1, span.bit_length())))]


def _ln2_parts(short: str) -> tuple[float, float]:
    """Return ln(2) in two parts; that times an exponent is exact for the first."""
    scale = 2.0**14 if short == "f32" else 2.0**40
    high = math.floor(math.log(2) * scale) / scale
    return high, (math.log(2) - high) + 2.3190468138462996e-17


class ArrayScalars:
    """Scalar expressions that are NumPy arrays: what the formulas mean, operation by operation."""

    _FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
        "neg": np.negative, "abs": np.abs, "max": np.maximum, "min": np.minimum, "floor": np.floor,
        "round": np.rint, "lt": np.less, "ge": np.greater_equal, "gt": np.greater,
        "eq": np.equal, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.bitwise_not,
        "shr": np.right_shift,
        "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a),
        "fma": lambda a, b, c: a * b + c, "fnma": lambda a, b, c: c - a * b,
    }  # fmt: skip

    def call(self, name: str, *args: Any) -> Any:
        return self._FUNCTIONS[name](*args)

    def select(self, condition: Any, chosen: Any, otherwise: Any) -> Any:
        return np.where(condition, chosen, otherwise)

    def cast(self, value: Any, dtype: DType) -> Any:
        return np.asarray(value).astype(dtype.numpy)

    def const(self, value: bool | int | float, dtype: DType) -> Any:
        return np.asarray(value).astype(dtype.numpy)

    def dtype_of(self, value: Any) -> DType:
        return dtypes.as_dtype(value.dtype)


def _reference_of(formula: Formula) -> Callable[..., Array]:
    body: Callable[..., Any] = body_of_formula(formula)

    def reference(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(body(ArrayScalars(), *operands))

    return reference


# ----------------------------------------------------------------------------------- logarithms


def portable_log(x: Tensor, low: int = -1023, high: int = 1023) -> Tensor:
    """Return the natural logarithm of x from 2**low to 2**high, within 3 ulp; -inf of 0.

    It is nan of negative numbers, and what the steps for the range make of others. The steps that
    the dtype has no exponents for are left out.
    """
    limit = _EXPONENTS[x.dtype.short] - 1 if x.dtype.short in _EXPONENTS else 127
    return apply(portable_log_op, x, low=max(low, -limit), high=min(high, limit))


def _normalized(x: FloatExpr, low: int, high: int) -> tuple[FloatExpr, FloatExpr]:
    """Return m and n with x = m * 2**n and 1/2 <= m <= 2, for x from 2**low to 2**high."""
    n = x.like(0.0)
    for step in _steps(high) if high > 0 else ():
        is_far = x >= 2.0**step
        x, n = is_far.choose(x * 2.0**-step, x), is_far.choose(n + step, n)
    for step in _steps(-low) if low < 0 else ():
        is_far = x < 2.0**-step
        x, n = is_far.choose(x * 2.0**step, x), is_far.choose(n - step, n)
    return x, n


def _log_of_parts(d: FloatExpr, n: FloatExpr) -> FloatExpr:
    """Return log((1 + d) * 2**n) = n * ln(2) + 2 * atanh(d / (2 + d))."""
    s = d / (d + 2.0)
    z = s * s
    tail = horner(z, [2.0 / (2 * i + 3) for i in range(_ATANH_TERMS[d.short])])
    high, low = _ln2_parts(d.short)
    return n * high + ((s + s) + (s * (z * tail) + n * low))


def _log_formula(low: int, high: int) -> Formula:
    def formula(x: FloatExpr) -> FloatExpr:
        m, n = _normalized(x, low, high)
        far = m > math.sqrt(2.0)
        m, n = far.choose(m * 0.5, m), far.choose(n + 1.0, n)
        result = _log_of_parts(m - 1.0, n)
        at_zero = x.equals(0.0).choose(x.like(-math.inf), x.like(math.nan))
        return (x > 0.0).choose(result, at_zero)

    return formula


def _log_infer(x: TensorType, *, low: int, high: int) -> TensorType:
    require_dtype("portable_log", "x", x, is_float)
    return x


def _log_reference(x: Array, *, low: int, high: int) -> Array:
    return _reference_of(_log_formula(low, high))(x)


def _log_grad(node: Node, g: Tensor, *, low: int, high: int) -> Grads:
    return (divide(g, node.inputs[0]),)


def _log_kernel(_x: TensorType, *, low: int, high: int) -> Map:
    return Map(body_of_formula(_log_formula(low, high)))


portable_log_op = define(
    "portable_log",
    infer=_log_infer,
    reference=_log_reference,
    grad=_log_grad,
    kernel=_log_kernel,
)


def log1p_rest(x: Tensor) -> Tensor:
    """Return log(1 + x) - x + x**2 / 2 - x**3 / 3 for -1 < x < 2**4, without loss near 0.

    That is -x**4 / 4 + x**5 / 5 - ...; it is never positive.
    """
    return apply(log1p_rest_op, x)


def _log1p_rest_formula(x: FloatExpr) -> FloatExpr:
    terms = range(_REST_TERMS[x.short])
    square = x * x
    series = (square * square) * horner(x, [(-1.0) ** (i + 1) / (i + 4) for i in terms])
    m, n = _normalized(x + 1.0, -63, 4)
    cubic = square * (x * (1.0 / 3.0) - 0.5) + x
    return (abs(x) < _REST_RANGE[x.short]).choose(series, _log_of_parts(m - 1.0, n) - cubic)


def _log1p_rest_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    cube = multiply(x, multiply(x, x))
    return (negative(multiply(g, divide(cube, x + 1))),)


log1p_rest_op = elementwise(
    "log1p_rest",
    infer=infer_same("log1p_rest", is_float),
    reference=_reference_of(_log1p_rest_formula),
    grad=_log1p_rest_grad,
    body=body_of_formula(_log1p_rest_formula),
)


# ------------------------------------------------------------------- exponentials, sines, cosines


def portable_exp(x: Tensor) -> Tensor:
    """Return e**x for x <= 0 within 2 ulp, and half a unit of the least float more."""
    return apply(portable_exp_op, x)


def _exp_formula(x: FloatExpr) -> FloatExpr:
    x = x.greatest(_LEAST_EXPONENT[x.short])
    n = (x * (1.0 / math.log(2))).round()
    high, low = _ln2_parts(x.short)
    r = (x - n * high) - n * low
    count = _EXP_TERMS[x.short]
    result = ((r * r) * horner(r, [1.0 / math.factorial(i + 2) for i in range(count)]) + r) + 1.0
    rest = -n
    for step in _steps(_EXPONENTS[x.short]):
        is_far = rest >= step
        result = is_far.choose(result * math.ldexp(1.0, -step), result)
        rest = is_far.choose(rest - step, rest)
    return result


portable_exp_op = elementwise(
    "portable_exp",
    infer=infer_same("portable_exp", is_float),
    reference=_reference_of(_exp_formula),
    grad=lambda node, g: (multiply(g, node.output),),
    body=body_of_formula(_exp_formula),
)


def turn_cos(x: Tensor) -> Tensor:
    """Return the cosine of x turns, cos(2 pi x), for |x| <= 4, within 2 units of 1's last place."""
    return apply(turn_cos_op, x)


def turn_sin(x: Tensor) -> Tensor:
    """Return the sine of x turns, sin(2 pi x), for |x| <= 4; near 0 within 3 ulp."""
    return apply(turn_sin_op, x)


def _turn(x: FloatExpr, shift: float) -> FloatExpr:
    """Return the cosine of x turns and `shift` quarters of one."""
    quarters = x * 4.0
    nearest = quarters.round()
    angle = (quarters - nearest) * _HALF_PI
    z = angle * angle
    count = _SINE_TERMS[x.short]
    signs = [(-1.0) ** i for i in range(count + 2)]
    sine_terms = [signs[i + 1] / math.factorial(2 * i + 3) for i in range(count)]
    cosine_terms = [signs[i] / math.factorial(2 * i) for i in range(count + 1)]
    sine = angle * (z * horner(z, sine_terms)) + angle
    cosine = horner(z, cosine_terms)
    k = nearest + shift
    k = k - (k * 0.25).floor() * 4.0
    is_odd = abs(k - 2.0).equals(1.0)
    value = is_odd.choose(sine, cosine)
    return (abs(k - 1.5) < 1.0).choose(-value, value)


def _cos_formula(x: FloatExpr) -> FloatExpr:
    return _turn(x, 0.0)


def _sin_formula(x: FloatExpr) -> FloatExpr:
    return _turn(x, -1.0)


def _cos_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(turn_sin(node.inputs[0]), -2 * math.pi)),)


def _sin_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(turn_cos(node.inputs[0]), 2 * math.pi)),)


turn_cos_op = elementwise(
    "turn_cos",
    infer=infer_same("turn_cos", is_float),
    reference=_reference_of(_cos_formula),
    grad=_cos_grad,
    body=body_of_formula(_cos_formula),
)

turn_sin_op = elementwise(
    "turn_sin",
    infer=infer_same("turn_sin", is_float),
    reference=_reference_of(_sin_formula),
    grad=_sin_grad,
    body=body_of_formula(_sin_formula),
)


# ------------------------------------------------------------------------------ samples of bits


def exponential_of_bits(words: Tensor, dtype: DType) -> Tensor:
    """Return samples of the exponential distribution, one for each uint64 of random bits.

    The first bit says on which side of the median log(2) a sample is. The rest are a fraction t in
    (0, 1/2], and the sample is -log(1 - t) or -log(t): so both ends are as fine as floats are.
    float32 takes the upper 40 bits only; samples are below 29, of float64 below 46.
    """
    return apply(exponential_of_bits_op, words, dtype=dtype)


def _exponential_infer(words: TensorType, *, dtype: DType) -> TensorType:
    require_dtype("exponential_of_bits", "words", words, lambda given: given == dtypes.uint64)
    return words.with_dtype(dtype)


def _fields(dtype: DType) -> tuple[int, int]:
    """Return the bits of the two parts of a fraction, the first exact in `dtype`."""
    return (53, 10) if dtype == dtypes.float64 else (24, 15)


def _exponential_body(s: Scalars[Any], words: Any, dtype: DType) -> Any:
    fine, coarse = _fields(dtype)
    signed = dtypes.int64 if dtype == dtypes.float64 else dtypes.int32

    def field(shift: int, width: int) -> FloatExpr:
        shifted = s.call("shr", words, s.const(shift, dtypes.uint64))
        kept = s.call("and", shifted, s.const((1 << width) - 1, dtypes.uint64))
        return FloatExpr(s, s.cast(s.cast(kept, signed), dtype))

    low = (field(63 - fine - coarse, coarse) + 0.5) * 2.0 ** -(fine + coarse + 1)
    t = field(63 - fine, fine) * 2.0 ** -(fine + 1) + low
    is_upper = s.call("ge", words, s.const(1 << 63, dtypes.uint64))
    m, n = _normalized(t, -fine - coarse - 2, 0)
    is_far = t > 1 - math.sqrt(0.5)
    near = is_far.choose(1.0 - (t + t), -t)
    d = FloatExpr(s, s.select(is_upper, (m - 1.0).value, near.value))
    near_n = is_far.choose(t.like(-1.0), t.like(0.0))
    n = FloatExpr(s, s.select(is_upper, n.value, near_n.value))
    return (-_log_of_parts(d, n)).value


def _exponential_reference(words: Array, *, dtype: DType) -> Array:
    return np.asarray(_exponential_body(ArrayScalars(), words, dtype))


def _exponential_kernel(_words: TensorType, *, dtype: DType) -> Map:
    return Map(lambda s, words: _exponential_body(s, words, dtype))


exponential_of_bits_op = define(
    "exponential_of_bits",
    infer=_exponential_infer,
    reference=_exponential_reference,
    grad="none",
    kernel=_exponential_kernel,
)
