"""Table of elementary functions, made once each in a module, with their error bounds in ulps."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from symgrad.codegen import ir
from symgrad.codegen.llvm.math import exponentials as exponentials  # most programs have some
from symgrad.codegen.llvm.math import logarithms as logarithms  # likewise
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.internal import call_internal, full_name
from symgrad.codegen.llvm.math.values import Real
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass

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
    ("decay", "f32"): 1.25,
    ("decay", "f64"): 1.25,
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

# Functions by the module beside this one that emits them, as `emit_` and their name. A program has
# few of them, so but for those above a module is imported when a function of it is first asked for.
_MODULES: dict[str, tuple[str, ...]] = {
    "error_function": ("erf", "erfinv"),
    "exponentials": ("decay", "exp", "exp2", "expm1", "sigmoid", "tanh"),
    "hyperbolic": ("acosh", "asinh", "atanh", "cosh", "sinh"),
    "inverse_trigonometry": ("acos", "asin", "atan", "atan2"),
    "logarithms": ("log", "log1p", "log2", "log10"),
    "power": ("pow",),
    "remainder": ("floordiv", "fmod", "mod"),
    "roots": ("cbrt", "hypot"),
    "trigonometry": ("cos", "cospi", "sin", "sinpi", "tan"),
}
FUNCTIONS = {name: module for module, names in _MODULES.items() for name in names}


@cache
def emitter(name: str) -> Emit:
    """Return what emits the function `name`, one of `FUNCTIONS`."""
    module = importlib.import_module(f"symgrad.codegen.llvm.math.{FUNCTIONS[name]}")
    emit: Emit = getattr(module, f"emit_{name}")
    return emit


@dataclass(frozen=True, slots=True)
class MathFunction:
    """A function on `width` lanes of `dtype`, for a target, that is to be inlined or called."""

    name: str
    dtype: DType
    width: int
    target: Target
    inline: bool

    def called(self, builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        """Call it within the module of the builder, where it is made if it is not there."""

        def body(inside: ir.IRBuilder, params: Sequence[ir.Value]) -> ir.Value:
            floats = Floats(inside, self.target, self.width, self.dtype)
            return emitter(self.name)(floats, *map(floats.real, params)).value

        return call_internal(builder, self.name, args, args[0].type, body, inline=self.inline)


def call_math(builder: ir.IRBuilder, function: MathFunction, args: Sequence[ir.Value]) -> ir.Value:
    """Call an internal function, making it if need be.

    One that calls no other is emitted once in a process; modules have copies.
    """
    full, module = _full_name(function, args[0].type), builder.module
    # What a kernel of symbolic sizes asks is noted as it is emitted.
    if full not in module.globals and type(function.width) is int:
        made = _emitted(function, tuple([arg.type for arg in args]))
        if made is not None:
            made.copied(module, full)
            for called in _others(made):
                module.globals.setdefault(called.name, called)
    return function.called(builder, args)


def _full_name(function: MathFunction, kind: ir.Type) -> str:
    return full_name(function.name, kind, inline=function.inline)


@lru_cache(maxsize=256)
def _emitted(function: MathFunction, takes: tuple[ir.Type, ...]) -> ir.LLVMFunction | None:
    """Return the function in a module of its own, None of one that needs others."""
    module = ir.Module()
    around = ir.LLVMFunction(module, ir.FunctionType(takes[0], takes), "around")
    function.called(ir.IRBuilder(around.append_basic_block("entry")), around.args)
    del module.globals["around"]
    made: ir.LLVMFunction = module.globals[_full_name(function, takes[0])]
    is_alone = not module.metadata and all(called.is_declaration for called in _others(made))
    return made if is_alone else None


def _others(made: ir.LLVMFunction) -> list[ir.LLVMFunction]:
    """Return what else is in the module of a function, which is what that calls."""
    return [called for called in made.module.functions if called is not made]
