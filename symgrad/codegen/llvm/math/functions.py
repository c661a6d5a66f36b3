"""Table of elementary functions, made once each in a module, with their error bounds in ulps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.math.error_function import emit_erf, emit_erfinv
from symgrad.codegen.llvm.math.exponentials import (
    emit_exp,
    emit_exp2,
    emit_expm1,
    emit_sigmoid,
    emit_tanh,
)
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.hyperbolic import (
    emit_acosh,
    emit_asinh,
    emit_atanh,
    emit_cosh,
    emit_sinh,
)
from symgrad.codegen.llvm.math.internal import call_internal
from symgrad.codegen.llvm.math.inverse_trigonometry import (
    emit_acos,
    emit_asin,
    emit_atan,
    emit_atan2,
)
from symgrad.codegen.llvm.math.logarithms import emit_log, emit_log1p, emit_log2, emit_log10
from symgrad.codegen.llvm.math.power import emit_pow
from symgrad.codegen.llvm.math.remainder import emit_floordiv, emit_fmod, emit_mod
from symgrad.codegen.llvm.math.roots import emit_cbrt, emit_hypot
from symgrad.codegen.llvm.math.trigonometry import (
    emit_cos,
    emit_cospi,
    emit_sin,
    emit_sinpi,
    emit_tan,
)
from symgrad.codegen.llvm.math.values import Real
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import DType

Emit = Callable[..., Real]

# Largest error in units in the last place of the exact result, over all inputs and for targets with
# and without a fused multiply-add. Below the normal numbers the unit is the least positive number.
ULP_BOUNDS: dict[tuple[str, str], float] = {
    ("sqrt", "f32"): 0.5,
    ("sqrt", "f64"): 0.5,
    ("rsqrt", "f32"): 1.5,
    ("rsqrt", "f64"): 1.5,
    ("exp", "f32"): 1.25,
    ("exp", "f64"): 1.25,
    ("expm1", "f32"): 2.0,
    ("expm1", "f64"): 2.5,
    ("log", "f32"): 1.0,
    ("log", "f64"): 1.0,
    ("log1p", "f32"): 1.0,
    ("log1p", "f64"): 1.0,
    ("sin", "f32"): 2.0,
    ("sin", "f64"): 1.25,
    ("cos", "f32"): 2.0,
    ("cos", "f64"): 1.25,
    ("tanh", "f32"): 1.5,
    ("tanh", "f64"): 1.5,
    ("sigmoid", "f32"): 2.75,
    ("sigmoid", "f64"): 2.75,
    ("erf", "f32"): 1.75,
    ("erf", "f64"): 1.5,
    ("erfinv", "f32"): 4.0,
    ("erfinv", "f64"): 4.0,
    ("pow", "f32"): 0.75,
    ("pow", "f64"): 1.5,
    ("exp2", "f32"): 1.25,
    ("exp2", "f64"): 1.25,
    ("log2", "f32"): 1.0,
    ("log2", "f64"): 1.0,
    ("log10", "f32"): 1.0,
    ("log10", "f64"): 1.0,
    ("tan", "f32"): 3.5,
    ("tan", "f64"): 2.5,
    ("sinpi", "f32"): 1.75,
    ("sinpi", "f64"): 1.75,
    ("cospi", "f32"): 1.25,
    ("cospi", "f64"): 1.25,
    ("asin", "f32"): 1.25,
    ("asin", "f64"): 1.25,
    ("acos", "f32"): 1.25,
    ("acos", "f64"): 1.25,
    ("atan", "f32"): 1.5,
    ("atan", "f64"): 1.5,
    ("atan2", "f32"): 1.75,
    ("atan2", "f64"): 1.75,
    ("sinh", "f32"): 1.75,
    ("sinh", "f64"): 1.75,
    ("cosh", "f32"): 1.75,
    ("cosh", "f64"): 1.75,
    ("asinh", "f32"): 1.5,
    ("asinh", "f64"): 1.5,
    ("acosh", "f32"): 2.0,
    ("acosh", "f64"): 2.0,
    ("atanh", "f32"): 1.25,
    ("atanh", "f64"): 1.25,
    ("cbrt", "f32"): 0.75,
    ("cbrt", "f64"): 0.75,
    ("hypot", "f32"): 0.75,
    ("hypot", "f64"): 1.25,
}

FUNCTIONS: dict[str, Emit] = {
    "exp": emit_exp,
    "expm1": emit_expm1,
    "log": emit_log,
    "log1p": emit_log1p,
    "tanh": emit_tanh,
    "sigmoid": emit_sigmoid,
    "sin": emit_sin,
    "cos": emit_cos,
    "erf": emit_erf,
    "erfinv": emit_erfinv,
    "pow": emit_pow,
    "exp2": emit_exp2,
    "log2": emit_log2,
    "log10": emit_log10,
    "tan": emit_tan,
    "sinpi": emit_sinpi,
    "cospi": emit_cospi,
    "asin": emit_asin,
    "acos": emit_acos,
    "atan": emit_atan,
    "atan2": emit_atan2,
    "sinh": emit_sinh,
    "cosh": emit_cosh,
    "asinh": emit_asinh,
    "acosh": emit_acosh,
    "atanh": emit_atanh,
    "cbrt": emit_cbrt,
    "hypot": emit_hypot,
    "floordiv": emit_floordiv,
    "mod": emit_mod,
    "fmod": emit_fmod,
}


def call_math(
    builder: ir.IRBuilder,
    target: Target,
    width: int,
    name: str,
    args: Sequence[ir.Value],
    dtype: DType,
    *,
    inline: bool,
) -> ir.Value:
    """Call the internal function for `name` on `width` lanes of `dtype`, making it if need be."""

    def body(inside: ir.IRBuilder, params: Sequence[ir.Value]) -> ir.Value:
        floats = Floats(inside, target, width, dtype)
        return FUNCTIONS[name](floats, *map(floats.real, params)).value

    return call_internal(builder, name, args, args[0].type, body, inline=inline)
