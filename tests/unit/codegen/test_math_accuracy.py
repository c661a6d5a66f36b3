"""The math functions keep the error bounds they state: against mpmath, over the whole range.

What they do at special values (zeros, infinities, nan) is compared in `test_scalar_ops.py`.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import symgrad as sg
from symgrad.codegen.llvm.math.functions import ULP_BOUNDS
from symgrad.codegen.target import target_named
from symgrad.compiler import emit_linkable
from symgrad.graph.dtypes import BY_SHORT, DType, float32, float64
from symgrad.graph.scalars import SCALAR_OPS
from tests.support.special_points import erf_inverse
from tests.unit.codegen.math_points import HARD_ANGLES, REGIONS, Points, pair_regions
from tests.unit.codegen.test_scalar_ops import (
    ROUNDED,
    TARGETS,
    Array,
    Loaded,
    compile_kernels,
    op_kernel,
)

ROOT = Path(__file__).parents[3]
NAMES = tuple(dict.fromkeys(name for name, _ in ULP_BOUNDS))
EXACT: dict[str, Callable[..., mpf]] = {
    "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "exp": mp.exp,
    "decay": mp.exp,
    "expm1": mp.expm1,
    "log": mp.log,
    "log1p": mp.log1p,
    "sin": mp.sin,
    "cos": mp.cos,
    "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "erf": mp.erf,
    "erfinv": erf_inverse,
    "pow": mp.power,
    "exp2": lambda x: mpf(2) ** x,
    "log2": lambda x: mp.log(x) / mp.log(2),
    "log10": mp.log10,
    "tan": mp.tan,
    "sinpi": mp.sinpi,
    "cospi": mp.cospi,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "atan2": mp.atan2,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "hypot": mp.hypot,
}


@cache
def loaded(target_name: str) -> Loaded:
    target = target_named(target_name)
    kernels = [op_kernel(n, BY_SHORT[s], target.lanes(BY_SHORT[s].itemsize)) for n, s in ULP_BOUNDS]
    return Loaded(target, compile_kernels(target, kernels), kernels)


def evaluate(target_name: str, name: str, dtype: DType, points: list[Array]) -> Array:
    """Return what the code for the target gives; the number of points may be any."""
    width = target_named(target_name).lanes(dtype.itemsize)
    count = len(points[0])
    padded = [np.concatenate([x, np.resize(x, -count % width)]) for x in points]
    return loaded(target_name).call(op_kernel(name, dtype, width), *padded)[:count]


def unary_regions(name: str, points: Points) -> list[Array]:
    """Return where `name` is hard: near zeros, edges of its formulas, over- and underflow."""
    least = -149 if points.dtype == float32 else -1074
    top = 88.72283 if points.dtype == float32 else 709.782712893384
    low = -103.2 if points.dtype == float32 else -744.4
    low_normal = -87.33 if points.dtype == float32 else -708.39
    half_ln2 = math.log(2) / 2
    tiny = points.exponents(least, -10)
    if name in ("sqrt", "rsqrt"):
        return [np.abs(tiny), points.uniform(1, 4)]
    if name in REGIONS:
        return REGIONS[name](points)
    if name in ("exp", "decay", "expm1", "sigmoid"):
        vanishing = (least - 1) * math.log(2)  # from here on it rounds to 0
        centres = (half_ln2, -half_ln2, 1.0397, low_normal, vanishing)
        edges = [points.around(centre) for centre in centres]
        return [tiny, points.uniform(low, top), points.uniform(-2, 2), points.uniform(-40, 5),
                points.uniform(low, low_normal), *edges]  # fmt: skip
    if name == "log":
        return [points.around(1), points.uniform(0.5, 2), points.around(math.sqrt(0.5)),
                np.abs(tiny), np.abs(points.exponents(least, 127))]  # fmt: skip
    if name == "log1p":
        return [tiny, points.uniform(-0.9, 2), points.around(-1), points.around(math.sqrt(2) - 1),
                np.abs(points.exponents(0, 127)), points.uniform(-0.5, 0)]  # fmt: skip
    if name in ("sin", "cos"):
        hard = np.resize(np.array(HARD_ANGLES[points.dtype.short]), points.count)
        return [tiny, points.uniform(-4, 4), points.multiples_of_half_pi(100),
                points.multiples_of_half_pi(2.0**20), points.multiples_of_half_pi(2.0**40),
                points.exponents(17, 23), points.exponents(20, 127), points.around(math.pi / 4),
                hard.astype(points.dtype.numpy)]  # fmt: skip
    edge = 0.9 if name == "tanh" else 1.0
    return [tiny, points.uniform(-1, 1), points.uniform(-6.5, 6.5), points.around(edge),
            points.uniform(0.9, 1.3), points.uniform(8, 21)]  # fmt: skip


def pow_regions(points: Points) -> list[list[Array]]:
    """Return bases and exponents: mostly such that the result neither over- nor underflows."""
    short = points.dtype == float32
    low, high = (-103.0, 88.5) if short else (-744.0, 709.5)
    bases = [np.abs(points.every_exponent()), np.abs(points.exponents(-4, 4)), points.around(1)]
    pairs = []
    for base in bases:
        base = np.where((base == 1) | (base == 0), points.dtype.numpy.type(3), base)
        power = points.uniform(low, high) / np.log(base.astype(np.float64))
        pairs.append([base, power.astype(points.dtype.numpy)])
    whole = np.rint(points.uniform(-20, 20)).astype(points.dtype.numpy)
    return [*pairs, [points.exponents(-3, 3), whole]]


def arguments(name: str, dtype: DType, count: int, *, seed: int = 0) -> list[Array]:
    """Return about `count` points for each argument, spread over all that is worth testing."""
    arity = SCALAR_OPS[name].arity
    parts = 4 if arity == 2 else len(unary_regions(name, Points(dtype, 1, 0))) + 1
    points = Points(dtype, count // parts, seed)
    if arity == 2:
        pairs = pow_regions(points) if name == "pow" else pair_regions(points)
        return [np.concatenate(column) for column in zip(*pairs, strict=True)]
    every = np.concatenate([points.every_exponent(), *unary_regions(name, points)])
    return [np.minimum(every, dtype.numpy.type(SCALAR_OPS[name].highest))]


# Where the real function has a value: elsewhere it is nan.
_DOMAINS = {
    "log": (0.0, math.inf), "sqrt": (0.0, math.inf), "log1p": (-1.0, math.inf),
    "rsqrt": (0.0, math.inf),
    "log2": (0.0, math.inf), "log10": (0.0, math.inf), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
    "acosh": (1.0, math.inf), "atanh": (-1.0, 1.0), "erfinv": (-1.0, 1.0),
}  # fmt: skip
_POLES = {
    ("log", 0),
    ("log2", 0),
    ("log10", 0),
    ("log1p", -1),
    ("atanh", -1),
    ("atanh", 1),
    ("erfinv", -1),
    ("erfinv", 1),
}
_OVERFLOW = {"exp": 800.0, "expm1": 800.0, "sigmoid": 800.0, "tanh": 800.0, "erf": 800.0,
             "exp2": 2000.0, "sinh": 800.0, "cosh": 800.0}  # fmt: skip


class Reference:
    """Exact results, kept as the nearest float and what it lacks, in units in the last place."""

    def __init__(self, nearest: Array, unit: Array, lacking: Array) -> None:
        self.nearest = nearest
        self.unit = unit
        self.lacking = lacking

    def worst(self, actual: Array, points: list[Array]) -> tuple[float, list[float]]:
        """Return the largest error in ulp and the arguments it occurs at."""
        finite = np.isfinite(self.nearest)
        same = (actual == self.nearest) | (np.isnan(actual) & np.isnan(self.nearest))
        with np.errstate(all="ignore"):
            error = np.abs((actual.astype(np.float64) - self.nearest) / self.unit - self.lacking)
        error = np.where(finite, np.where(np.isfinite(actual), error, np.inf), np.inf)
        error = np.where(~finite & same, 0, error)
        at = int(np.argmax(error))
        return float(error[at]), [float(x[at]) for x in points]


def unit_of(nearest: Array, dtype: DType) -> Array:
    least = np.finfo(dtype.numpy).tiny
    size = np.where(np.isfinite(nearest), np.abs(nearest), 1).astype(dtype.numpy)
    unit: Array = np.spacing(np.maximum(size, least))
    return unit.astype(np.float64)


def reference_in_float64(name: str, points: list[Array]) -> Reference:
    """Return results for float32: the error of float64 functions is below 2**-26 of its ulp."""
    with np.errstate(all="ignore"):
        function = np.sqrt if name == "sqrt" else ROUNDED[name]
        exact = function(*[x.astype(np.float64) for x in points])
        nearest = exact.astype(np.float32)
        unit = unit_of(nearest, float32)
        lacking = np.where(np.isfinite(nearest), (exact - nearest) / unit, 0)
    return Reference(nearest.astype(np.float64), unit, lacking)


def exact_value(name: str, args: list[float]) -> tuple[float, mpf]:
    """Return the exact result and the float nearest to it."""
    low, high = _DOMAINS.get(name, (-math.inf, math.inf))
    if not low <= args[0] <= high:
        return math.nan, mpf(0)
    if (name, args[0]) in _POLES:
        return math.copysign(math.inf, args[0] if name in ("atanh", "erfinv") else -1), mpf(0)
    # Beyond, the results differ from 0, 1 or -1 by nothing a float could show or overflow, and
    # would take mpmath numbers of as many digits as the argument is large.
    most = _OVERFLOW.get(name, math.inf)
    limited = [max(min(args[0], most), -most), *args[1:]]
    exact = EXACT[name](*map(mpf, limited))
    return float(exact), exact


def reference_in_mpmath(name: str, points: list[Array]) -> Reference:
    nearest, values = [], []
    with mp.workprec(180):
        for args in zip(*(x.tolist() for x in points), strict=True):
            rounded, exact = exact_value(name, list(args))
            nearest.append(rounded)
            values.append(exact)
        floats = np.array(nearest)
        unit = unit_of(floats, float64)
        lacking = [
            float((exact - mpf(rounded)) / mpf(step)) if math.isfinite(rounded) else 0.0
            for exact, rounded, step in zip(values, nearest, unit.tolist(), strict=True)
        ]
    return Reference(floats, unit, np.array(lacking))


@cache
def float32_case(name: str) -> tuple[list[Array], Reference]:
    points = arguments(name, float32, 300_000)
    return points, reference_in_float64(name, points)


@cache
def float64_case(name: str, count: int) -> tuple[list[Array], Reference]:
    points = arguments(name, float64, count, seed=count)
    return points, reference_in_mpmath(name, points)


def assert_within_bound(
    target_name: str, name: str, dtype: DType, case: tuple[list[Array], Reference]
) -> None:
    points, reference = case
    error, at = reference.worst(evaluate(target_name, name, dtype, points), points)
    bound = ULP_BOUNDS[name, dtype.short]
    assert error <= bound, f"{error:.4f} ulp at {at}; {name} promises {bound}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target_name", TARGETS)
def test_float32_keeps_its_bound(target_name: str, name: str) -> None:
    assert_within_bound(target_name, name, float32, float32_case(name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target_name", TARGETS)
def test_float64_keeps_its_bound(target_name: str, name: str) -> None:
    # mpmath takes longest for the inverse of erf.
    count = 2_000 if name != "erfinv" else 600
    assert_within_bound(target_name, name, float64, float64_case(name, count))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target_name", TARGETS)
def test_float64_keeps_its_bound_on_many_points(target_name: str, name: str) -> None:
    assert_within_bound(target_name, name, float64, float64_case(name, 100_000))


@pytest.mark.parametrize("name", NAMES)
def test_reference_in_float64_agrees_with_mpmath(name: str) -> None:
    """The pre-filter for float32 is sound: mpmath says the same of a sample."""
    points = [x.astype(np.float64) for x in arguments(name, float32, 400, seed=7)]
    quick = reference_in_float64(name, points)
    exact = reference_in_mpmath(name, points)
    finite = np.isfinite(quick.nearest)
    apart = (exact.nearest[finite] - quick.nearest[finite]) / quick.unit[finite]
    assert finite.sum() > 100
    assert np.max(np.abs(apart - quick.lacking[finite])) < 1e-6


def test_bounds_are_as_good_as_required() -> None:
    for (name, _), bound in ULP_BOUNDS.items():
        required = {"sqrt": 0.5, "exp": 2, "log": 2, "tanh": 2}.get(name, 4)
        assert bound <= required, name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coefficients", "erfinv_coefficients"])
def test_tables_are_what_the_script_prints(name: str) -> None:
    script = ROOT / "tools" / "derive_math.py"
    printed = subprocess.run(
        [sys.executable, script, name], capture_output=True, text=True, check=True, timeout=120
    )
    file = ROOT / "symgrad" / "codegen" / "llvm" / "math" / f"{name}.py"
    assert printed.stdout == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v4", "aarch64"])
def test_tanh_limits_its_argument_once(target):
    """What it takes e**x of is no more than twice the limit, so that of e**x is not asked for."""
    x = sg.placeholder((64,))
    step = sg.compile([x], sg.tanh(x), opt_level=1)
    text = emit_linkable(step.executable.program, target_named(target)).emitted
    assert text.count(" fcmp ogt ") == 1
