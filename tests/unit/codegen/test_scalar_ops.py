"""Every scalar operation and cast as native code, on every element type, against NumPy.

One module a target holds all of them, at four widths; the same module shows that nothing of it
calls out. The compiler of arrays of kernels made here serves `test_math_accuracy.py` too.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from statistics import NormalDist
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from symgrad.codegen import ir
from symgrad.codegen.llvm.lanes import (
    Lanes,
    emit_cast,
    emit_scalar_op,
    emit_select,
    memory_type,
)
from symgrad.codegen.llvm.math.functions import ULP_BOUNDS
from symgrad.codegen.native.jit import emit_object, optimize
from symgrad.codegen.target import Target, target_named
from symgrad.graph.dtypes import REAL, DType, bfloat16, bool_, float16, float32, float64
from symgrad.graph.scalars import SCALAR_OPS

Array = np.ndarray[Any, np.dtype[Any]]

WIDTHS = (1, 4, 8, 16)
CAST_WIDTHS = (1, 8)
TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=[pytest.mark.isa("avx2"), pytest.mark.slow]),
    pytest.param("x86-64", marks=[pytest.mark.isa("sse2"), pytest.mark.slow]),
)
COMPILED_ONLY = (
    pytest.param("x86-64-v2", marks=pytest.mark.slow),
    pytest.param("x86-64-v4", marks=pytest.mark.slow),
    pytest.param("aarch64", marks=pytest.mark.slow),
)
_I64 = ir.IntType(64)


@dataclass(frozen=True, slots=True)
class ArrayKernel:
    """A loop over arrays whose length is a multiple of `width`: an operation, or a cast."""

    op: str
    inputs: tuple[DType, ...]
    output: DType
    width: int

    @property
    def name(self) -> str:
        types = ".".join(dtype.short for dtype in (*self.inputs, self.output))
        return f"{self.op}.{types}.{self.width}"

    def emit_value(self, lanes: Lanes, args: Sequence[ir.Value]) -> ir.Value:
        if self.op == "cast":
            return emit_cast(lanes, args[0], self.inputs[0], self.output)
        if self.op == "select":
            return emit_select(lanes, *args)
        return emit_scalar_op(lanes, self.op, args, self.inputs[0])


def op_kernel(name: str, dtype: DType, width: int) -> ArrayKernel:
    row = SCALAR_OPS[name]
    output = bool_ if row.gives == "bool" else dtype
    return ArrayKernel(name, (dtype,) * row.arity, output, width)


def emit_array_kernel(
    module: ir.Module, target: Target, kernel: ArrayKernel, *, inline_math: bool
) -> None:
    dtypes = [*kernel.inputs, kernel.output]
    kinds = [ir.PointerType()] * len(dtypes) + [_I64]
    function = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), kinds), kernel.name)
    entry, loop, done = (function.append_basic_block(n) for n in ("entry", "loop", "done"))
    builder = ir.IRBuilder(entry)
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(_I64)
    lanes = Lanes(builder, target, kernel.width, inline_math=inline_math)
    places = [
        builder.gep(pointer, [index], source_etype=memory_type(dtype))
        for pointer, dtype in zip(function.args[:-1], dtypes, strict=True)
    ]
    args = [
        lanes.load(place, dtype, dtype.itemsize)
        for place, dtype in zip(places[:-1], kernel.inputs, strict=True)
    ]
    value = kernel.emit_value(lanes, args)
    lanes.store(value, places[-1], kernel.output, kernel.output.itemsize)
    following = builder.add(index, ir.Constant(_I64, kernel.width))
    index.add_incoming(ir.Constant(_I64, 0), entry)
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, function.args[-1]), loop, done)
    builder.position_at_end(done)
    builder.ret_void()


def compile_kernels(
    target: Target, kernels: Iterable[ArrayKernel], *, inline_math: bool = True
) -> bytes:
    """Return the object file of a module with `kernels`, optimized as in production."""
    module = ir.Module("scalar_ops")
    for kernel in kernels:
        emit_array_kernel(module, target, kernel, inline_math=inline_math)
    optimized = optimize(str(module), target, 3)
    declared = [f.name for f in optimized.functions if f.is_declaration]
    assert all(name.startswith("llvm.") for name in declared), declared
    return emit_object(optimized, target, 3)


class Loaded:
    """Kernels in memory, called with arrays."""

    def __init__(self, target: Target, code: bytes, kernels: Iterable[ArrayKernel]) -> None:
        names = [kernel.name for kernel in kernels]
        library = llvm.JITLibraryBuilder().add_object_img(code)
        for name in names:
            library.export_symbol(name)
        self._jit = llvm.create_lljit_compiler(target.machine())
        self._library = library.link(self._jit, "scalar_ops")
        self._addresses = {name: self._library[name] for name in names}

    def call(self, kernel: ArrayKernel, *inputs: Array) -> Array:
        output = np.empty(inputs[0].shape, kernel.output.numpy)
        count = len(output)
        assert count % kernel.width == 0, f"{count} elements in vectors of {kernel.width}"
        arrays = [np.ascontiguousarray(x) for x in inputs] + [output]
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64)
        signature(self._addresses[kernel.name])(*[x.ctypes.data for x in arrays], count)
        return output


def dtypes_of(name: str) -> list[DType]:
    """Return the dtypes an operation is called with: halves are computed in float32."""
    takes = SCALAR_OPS[name].takes
    full = [dtype for dtype in REAL if not dtype.is_half]
    if takes == "any":
        return full
    if takes == "number":
        return [dtype for dtype in full if not dtype.is_bool]
    kinds = {
        "float": ("float",),
        "bits": ("bool", "signed", "unsigned"),
        "integer": ("signed", "unsigned"),
    }[takes]
    return [dtype for dtype in full if dtype.kind in kinds]


def all_kernels(widths: Sequence[int], cast_widths: Sequence[int]) -> list[ArrayKernel]:
    ops = [op_kernel(n, d, w) for n in SCALAR_OPS for d in dtypes_of(n) for w in widths]
    casts = [ArrayKernel("cast", (a,), b, w) for a in REAL for b in REAL for w in cast_widths]
    selects = [ArrayKernel("select", (bool_, d, d), d, w) for d in REAL for w in cast_widths]
    return ops + casts + selects


def usual_widths(target_name: str) -> tuple[int, ...]:
    """Return the widths of code for a target: that of its vectors of float32, and of the rest."""
    return 1, target_named(target_name).lanes(4)


@cache
def object_for(target_name: str, widths: tuple[int, ...]) -> bytes:
    # Outlined, the math functions are compiled once for all kernels of a width.
    kernels = all_kernels(widths, CAST_WIDTHS)
    return compile_kernels(target_named(target_name), kernels, inline_math=False)


@cache
def loaded(target_name: str, widths: tuple[int, ...] = ()) -> Loaded:
    widths = widths or usual_widths(target_name)
    kernels = all_kernels(widths, CAST_WIDTHS)
    return Loaded(target_named(target_name), object_for(target_name, widths), kernels)


def specials(dtype: DType) -> Array:
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        near = [limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2]
        small = [0, 1, 2, 3, 5, 7, 10, 63, 100]
        return np.array(near + small + [-n for n in small if limits.min < 0], dtype.numpy)
    tiny, least, huge = (1e-38, 1e-45, 3e38) if dtype.bits == 32 else (1e-308, 5e-324, 1.7e308)
    if dtype.is_half:
        tiny, least, huge = (6e-5, 6e-8, 6e4) if dtype != bfloat16 else (1e-38, 1e-40, 3e38)
    positive = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.25, 100.0, 2.0**23 + 1, 2.0**52 + 1, 0.1]
    positive += [tiny, least, huge, math.inf, math.nan, 2.0**31, 2.0**63, 2.0**64, 127.5, 255.9]
    with np.errstate(over="ignore"):
        return np.array(positive + [-x for x in positive], np.float64).astype(dtype.numpy)


def random_values(dtype: DType, count: int, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    if dtype.is_bool:
        return generator.integers(0, 2, count).astype(np.bool_)
    bits = generator.integers(0, 2**dtype.bits, count, dtype=f"u{dtype.itemsize}")
    if dtype.is_integer:
        # Half of them small, so that quotients and powers are not all 0 or all overflow.
        return np.where(np.arange(count) % 2 == 0, bits, bits % 16).view(dtype.numpy)
    ordinary = generator.normal(size=count) * np.exp2(generator.uniform(-12, 12, count))
    every = np.arange(count) % 2 == 0
    return np.where(every, bits.view(dtype.numpy), ordinary.astype(dtype.numpy))


def arguments(dtype: DType, arity: int) -> list[Array]:
    """Return columns of all combinations of special values, and random ones below."""
    special = specials(dtype)
    columns = [
        np.array(column, dtype.numpy)
        for column in zip(*product(special, repeat=arity), strict=True)
    ]
    count = 512 + -len(columns[0]) % 16
    return [
        np.concatenate([column, random_values(dtype, count, seed)])
        for seed, column in enumerate(columns)
    ]


def integer_power(a: Array, b: Array) -> Array:
    modulus = 2 ** (8 * a.itemsize)

    def power(x: int, y: int) -> int:
        if y < 0:
            return (1 if y % 2 == 0 else x) if x in (1, -1) else 0
        return int(pow(x, y, modulus))

    wrapped = [power(int(x), int(y)) % modulus for x, y in zip(a, b, strict=True)]
    return np.array(wrapped, f"u{a.itemsize}").view(a.dtype)


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def erf(x: Array) -> Array:
    return np.array([math.erf(value) for value in x])


def erfinv(x: Array) -> Array:
    """Return what the quantiles of Python's normal distribution give, and a step of Newton's."""
    size = np.where(np.abs(x) < 1, np.abs(x), 0.5)
    near = np.minimum(size, 0.5)
    y = near * (math.sqrt(math.pi) / 2)
    for _ in range(5):
        y = y + (near - erf(y)) * np.exp(y * y) * (math.sqrt(math.pi) / 2)
    rest = np.minimum(1 - size, 0.5)
    far = np.array([NormalDist().inv_cdf(v) for v in (rest / 2).tolist()]) * -math.sqrt(0.5)
    erfc = np.array([math.erfc(value) for value in far])
    far = far - (rest - erfc) * np.exp(far * far) * (math.sqrt(math.pi) / 2)
    found = np.where(size < 0.5, y, far)
    outside = np.where(np.abs(x) == 1, math.inf, math.nan)
    return np.copysign(np.where(np.abs(x) < 1, found, outside), x)


def sinpi(x: Array) -> Array:
    """Return sin(pi * x) of a number brought to [-1/2, 1/2], where nothing is lost but by pi."""
    within = np.fmod(x, 2.0)
    near = np.where(np.abs(within) > 1, within - np.copysign(2.0, within), within)
    folded = np.where(np.abs(near) > 0.5, np.copysign(1.0, near) - near, near)
    return np.where(folded == 0, np.copysign(0.0, x), np.sin(np.pi * folded))


def cospi(x: Array) -> Array:
    within = np.abs(np.fmod(x, 2.0))
    return np.where(within == 1.5, 0.0, sinpi(0.5 - np.where(within > 1, 2 - within, within)))


def shifted_left(a: Array, b: Array) -> Array:
    bits = 8 * a.itemsize
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    wrapped = [(x << y) % 2**bits if 0 <= y < bits else 0 for x, y in pairs]
    return np.array(wrapped, f"u{a.itemsize}").view(a.dtype)


def shifted_right(a: Array, b: Array) -> Array:
    bits = 8 * a.itemsize
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return np.array([x >> (y if 0 <= y < bits else bits) for x, y in pairs], a.dtype)


EXACT: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "neg": np.negative, "abs": np.abs,
    "min": np.minimum, "max": np.maximum, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc, "copysign": np.copysign, "nextafter": np.nextafter,
    "fmod": np.fmod, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "not": np.invert, "shl": shifted_left, "shr": shifted_right,
}  # fmt: skip


def long_cbrt(x: Array) -> Array:
    """Return cube roots, by the C library's of long doubles: its others are up to four ulps off."""
    return np.cbrt(x.astype(np.longdouble)).astype(np.float64)


ROUNDED: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "decay": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sigmoid": sigmoid, "erf": erf, "erfinv": erfinv,
    "pow": np.power, "exp2": np.exp2, "log2": np.log2, "log10": np.log10, "tan": np.tan,
    "sinpi": sinpi, "cospi": cospi, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "cbrt": long_cbrt, "hypot": np.hypot, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


FUSED = ("fma", "fnma")


def halves(x: Array) -> tuple[Array, Array]:
    scaled = x * x.dtype.type(2 ** ((np.finfo(x.dtype).nmant + 2) // 2) + 1)
    high = scaled - (scaled - x)
    return high, x - high


def product_error(a: Array, b: Array) -> Array:
    """Return what rounding takes from products, as it is found without a fused multiply-add."""
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    error = (a_high * b_high - a * b) + a_high * b_low + a_low * b_high
    return np.asarray(error + a_low * b_low)


def fused(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, rounded once."""

    def one(x: float, y: float, z: float) -> float:
        if not (math.isfinite(x) and math.isfinite(y)):
            return x * y + z
        if not math.isfinite(z):
            return z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        try:
            return float(exact) if exact else x * y + z
        except OverflowError:
            return math.inf if exact > 0 else -math.inf

    found = [one(*map(float, each)) for each in zip(a, b, c, strict=True)]
    return np.array(found).astype(a.dtype)


def expected(name: str, target: Target, dtype: DType, args: Sequence[Array]) -> Array:
    if name == "pow" and dtype.is_integer:
        return integer_power(*args)
    with np.errstate(all="ignore"):
        if name in FUSED:
            a, b, c = args
            a = a if name == "fma" else -a
            return fused(a, b, c) if target.has_fma else a * b + c
        if name == "mul_error":
            a, b = args
            return fused(a, b, -(a * b)) if target.has_fma else product_error(a, b)
        if name in EXACT:
            return EXACT[name](*args)
        return ROUNDED[name](*[x.astype(np.float64) for x in args]).astype(dtype.numpy)


def assert_same(actual: Array, wanted: Array, args: Sequence[Array], *, ulps: float = 0) -> None:
    """Check for equality within `ulps`; nan equals nan, and zeros have to have the same sign."""
    if wanted.dtype.kind in "biu":
        wrong = actual != wanted
    else:
        with np.errstate(all="ignore"):
            unit = np.spacing(np.abs(np.where(np.isfinite(wanted), wanted, 1)))
            close = np.abs(actual - wanted) <= ulps * unit
        close |= actual == wanted
        signs_differ = (actual == 0) & (np.signbit(actual) != np.signbit(wanted))
        wrong = ~(close & ~signs_differ) & ~(np.isnan(actual) & np.isnan(wanted))
    first = np.flatnonzero(wrong)[:4]
    shown = [[x[i] for x in args] + [actual[i], wanted[i]] for i in first]
    assert not first.size, f"{wrong.sum()} wrong: (arguments, result, wanted) {shown}"


@pytest.mark.parametrize("name", SCALAR_OPS)
@pytest.mark.parametrize("target_name", TARGETS)
def test_operation_agrees_with_numpy(target_name: str, name: str) -> None:
    check_operation(name, target_name, usual_widths(target_name))


@pytest.mark.parametrize("target_name", TARGETS)
def test_a_decay_is_the_exponential_bit_for_bit(target_name: str) -> None:
    widths = usual_widths(target_name)
    machine_code = loaded(target_name, widths)
    for dtype, width in product((float32, float64), widths):
        (x,) = arguments(dtype, 1)
        x = -np.abs(np.concatenate([x, x[: -len(x) % 16]]))
        found, wanted = (
            machine_code.call(op_kernel(name, dtype, width), x) for name in ("decay", "exp")
        )
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALAR_OPS)
@pytest.mark.parametrize("target_name", TARGETS)
def test_operation_agrees_with_numpy_in_vectors_of_any_width(target_name: str, name: str) -> None:
    check_operation(name, target_name, WIDTHS)


def check_operation(name: str, target_name: str, widths: tuple[int, ...]) -> None:
    """Compare an operation with NumPy, element by element and in vectors."""
    machine_code = loaded(target_name, widths)
    for dtype in dtypes_of(name):
        args = arguments(dtype, SCALAR_OPS[name].arity)
        if SCALAR_OPS[name].highest < math.inf:
            args = [np.minimum(x, dtype.numpy.type(SCALAR_OPS[name].highest)) for x in args]
        wanted = expected(name, target_named(target_name), dtype, args)
        # The reference in float64 is itself up to 1 ulp off.
        ulps = ULP_BOUNDS[name, dtype.short] + 1 if name in ROUNDED and dtype.is_float else 0
        ulps = 1 if name in FUSED and dtype == float32 else ulps
        padded = [np.concatenate([x, x[: -len(x) % 16]]) for x in args]
        results = [
            machine_code.call(op_kernel(name, dtype, width), *padded)[: len(wanted)]
            for width in widths
        ]
        if name in ("min", "max"):
            # Either zero may be taken for the other.
            zero = dtype.numpy.type(0)
            results = [np.where(result == 0, zero, result) for result in results]
            wanted = np.where(wanted == 0, zero, wanted)
        assert_same(results[0], wanted, args, ulps=ulps)
        # An element's result must not depend on whether it is in a vector or in the rest.
        for result in results[1:]:
            assert_same(result, results[0], args)


def halves_around(dtype: DType) -> Array:
    """Return all finite halves that are not negative and the first number out of range."""
    codes = np.arange(0x7C00 if dtype != bfloat16 else 0x7F80, dtype=np.uint16)
    limit = 2.0**16 if dtype != bfloat16 else 2.0**128
    return np.append(codes.view(dtype.numpy).astype(np.float64), limit)


def rounded_to_half(x: Array, dtype: DType) -> Array:
    """Round float64 to nearest, ties to even, by looking up the neighbours."""
    table = halves_around(dtype)
    size = np.minimum(np.abs(np.where(np.isnan(x), 0, x)), table[-1])
    above = np.searchsorted(table, size)
    below = np.maximum(above - 1, 0)
    middle = (table[below] + table[above]) / 2
    upwards = (size > middle) | ((size == middle) & (above % 2 == 0))
    codes = np.where(upwards, above, below) | np.where(np.signbit(x), 0x8000, 0)
    with np.errstate(invalid="ignore"):
        nan = np.array(np.nan).astype(dtype.numpy)
        return np.where(np.isnan(x), nan, codes.astype(np.uint16).view(dtype.numpy))


def cast_in_numpy(x: Array, source: DType, to: DType) -> Array:
    with np.errstate(all="ignore"):
        if to.is_half:
            return rounded_to_half(x.astype(np.float64), to)
        if to.is_integer and source.is_float:
            limits = np.iinfo(to.numpy)
            whole = [0 if np.isnan(v) else v for v in x.astype(np.float64)]
            clipped = [int(min(max(v, -(2.0**65)), 2.0**65)) if v == v else 0 for v in whole]
            return np.array([min(max(v, limits.min), limits.max) for v in clipped], to.numpy)
        if source.is_half:
            return x.astype(np.float32).astype(to.numpy)
        return x.astype(to.numpy)


@pytest.mark.parametrize("source", REAL, ids=str)
@pytest.mark.parametrize("target_name", TARGETS)
def test_cast_agrees_with_numpy(target_name: str, source: DType) -> None:
    machine_code = loaded(target_name)
    (x,) = arguments(source, 1)
    x = np.concatenate([x, x[: -len(x) % 16]])
    for to in REAL:
        wanted = cast_in_numpy(x, source, to)
        for width in CAST_WIDTHS:
            actual = machine_code.call(ArrayKernel("cast", (source,), to, width), x)
            if to.is_half:
                actual, wanted = (y.astype(np.float32) for y in (actual, wanted))
            assert_same(actual, wanted, [x])


@pytest.mark.parametrize("half", [d for d in REAL if d.is_half], ids=str)
@pytest.mark.parametrize("wide", [float32, float64], ids=str)
@pytest.mark.parametrize("target_name", TARGETS)
def test_rounding_to_half_is_right_beside_every_tie(
    target_name: str, wide: DType, half: DType
) -> None:
    table = halves_around(half)
    ties = (table[1:] + table[:-1]) / 2
    exact = ties.astype(wide.numpy)
    x = np.concatenate([np.nextafter(exact, 0), exact, np.nextafter(exact, np.inf)])
    x = np.concatenate([x, -x])
    x = x[: len(x) // 16 * 16]
    actual = loaded(target_name).call(ArrayKernel("cast", (wide,), half, 8), x)
    wanted = rounded_to_half(x.astype(np.float64), half)
    assert np.array_equal(actual.view(np.uint16), wanted.view(np.uint16))


@pytest.mark.parametrize("half", [d for d in REAL if d.is_half], ids=str)
@pytest.mark.parametrize("target_name", TARGETS)
def test_every_half_survives_widening_and_narrowing(target_name: str, half: DType) -> None:
    codes = np.arange(2**16, dtype=np.uint16).view(half.numpy)
    machine_code = loaded(target_name)
    wide = machine_code.call(ArrayKernel("cast", (half,), float32, 8), codes)
    back = machine_code.call(ArrayKernel("cast", (float32,), half, 8), wide)
    is_nan = np.isnan(wide)
    assert np.array_equal(is_nan, np.isnan(codes.astype(np.float32)))
    assert np.array_equal(back[~is_nan].view(np.uint16), codes[~is_nan].view(np.uint16))
    assert np.isnan(back[is_nan].astype(np.float32)).all()


@pytest.mark.parametrize("target_name", TARGETS)
def test_select_takes_each_lane_by_its_condition(target_name: str) -> None:
    machine_code = loaded(target_name)
    condition = random_values(bool_, 64, seed=3)
    for dtype, width in product(REAL, CAST_WIDTHS):
        a, b = random_values(dtype, 64, seed=4), random_values(dtype, 64, seed=5)
        kernel = ArrayKernel("select", (bool_, dtype, dtype), dtype, width)
        actual = machine_code.call(kernel, condition, a, b)
        assert actual.tobytes() == np.where(condition, a, b).tobytes()


CONSTANTS = (
    [(bool_, True), (float16, 0.1), (float16, 1e9), (bfloat16, -1e-3), (bfloat16, math.nan)]
    + [(float32, x) for x in (0.1, -0.0, 1e300, 1e-45, math.nan, -math.inf)]
    + [(float64, x) for x in (0.1, 5e-324, 3)]
    + [(d, int(n)) for d in REAL if d.is_integer for n in (np.iinfo(d.numpy).max, -1, 0)
       if d.kind == "signed" or n >= 0]
)  # fmt: skip


def test_constant_is_rounded_to_its_dtype_in_every_lane() -> None:
    target = target_named("native")
    module = ir.Module("constants")
    kinds = [ir.PointerType()] * len(CONSTANTS)
    function = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), kinds), "fill")
    builder = ir.IRBuilder(function.append_basic_block())
    lanes = Lanes(builder, target, 4)
    for pointer, (dtype, value) in zip(function.args, CONSTANTS, strict=True):
        lanes.store(lanes.const(value, dtype), pointer, dtype, dtype.itemsize)
    builder.ret_void()
    image = target.machine().emit_object(llvm.parse_assembly(str(module)))
    library = llvm.JITLibraryBuilder().add_object_img(image).export_symbol("fill")
    jit = llvm.create_lljit_compiler(target.machine())
    linked = library.link(jit, "constants")
    filled = [np.zeros(4, dtype.numpy) for dtype, _ in CONSTANTS]
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(CONSTANTS))
    signature(linked["fill"])(*[array.ctypes.data for array in filled])
    with np.errstate(over="ignore"):
        for array, (dtype, value) in zip(filled, CONSTANTS, strict=True):
            assert array.tobytes() == np.full(4, value, dtype.numpy).tobytes(), (dtype, value)


def test_splat_of_one_lane_is_the_scalar() -> None:
    module = ir.Module()
    function = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), [ir.FloatType()]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    (scalar,) = function.args
    assert Lanes(builder, target_named("native"), 1).splat(scalar) is scalar
    wide = Lanes(builder, target_named("native"), 8).splat(scalar)
    assert wide.type == ir.VectorType(ir.FloatType(), 8)


def undefined_symbols(image: bytes) -> set[str]:
    """Return the names an ELF object file needs from elsewhere."""
    (table_offset,) = struct.unpack_from("<Q", image, 0x28)
    size, count, _ = struct.unpack_from("<HHH", image, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQII", image, table_offset + i * size) for i in range(count)
    ]
    names = set()
    for _, kind, _, _, offset, length, link, _ in headers:
        if kind != 2:  # the symbol table
            continue
        strings = headers[link][4]
        for place in range(offset + 24, offset + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", image, place)
            if section == 0:
                names.add(image[strings + name : image.index(b"\0", strings + name)].decode())
    return names


@pytest.mark.parametrize("target_name", TARGETS)
def test_nothing_calls_out_of_the_module(target_name: str) -> None:
    assert undefined_symbols(object_for(target_name, usual_widths(target_name))) == set()


@pytest.mark.parametrize("target_name", COMPILED_ONLY)
def test_nothing_calls_out_of_the_module_for_other_targets(target_name: str) -> None:
    target = target_named(target_name)
    kernels = all_kernels([target.lanes(4)], [1])
    assert undefined_symbols(compile_kernels(target, kernels, inline_math=False)) == set()


def test_no_operation_on_float32_calls_out_of_the_module_for_aarch64() -> None:
    target = target_named("aarch64")
    names = [name for name in SCALAR_OPS if float32 in dtypes_of(name)]
    kernels = [op_kernel(name, float32, target.lanes(4)) for name in names]
    assert undefined_symbols(compile_kernels(target, kernels, inline_math=False)) == set()


def test_call_of_a_library_would_be_noticed() -> None:
    module = llvm.parse_assembly(
        "declare double @llvm.sin.f64(double)\n"
        "define double @f(double %x) {\n"
        "  %y = call double @llvm.sin.f64(double %x)\n"
        "  ret double %y\n"
        "}"
    )
    image = target_named("x86-64").machine().emit_object(module)
    assert undefined_symbols(bytes(image)) == {"sin"}
