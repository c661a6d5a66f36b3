"""The math functions as internal functions of a module, made once each, and their error bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence


from llvmlite import ir

from symgrad.codegen.llvm.math.exponentials import emit_exp, emit_expm1, emit_sigmoid, emit_tanh
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.internal import call_internal
from symgrad.codegen.llvm.math.logarithms import emit_log, emit_log1p
from symgrad.codegen.llvm.math.values import Real
from symgrad.codegen.llvm.target import Target
from symgrad.graph.dtypes import DType

Emit = Callable[..., Real]

# Largest error in units in the last place of the exact result, over all inputs, for every target:
# with a fused multiply-add and without. Results below the normal numbers count the least of them
# as the unit.
ULP_BOUNDS = {
    ("exp", "f32"): 2.0,
    ("exp", "f64"): 2.0,
}

FUNCTIONS: dict[str, Emit] = {
    "exp": emit_exp,
    "expm1": emit_expm1,
    "log": emit_log,
    "log1p": emit_log1p,
    "tanh": emit_tanh,
    "sigmoid": emit_sigmoid,
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
