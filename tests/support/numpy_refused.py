"""Calls of NumPy's ufuncs which arrays and tensors both take, and what is refused for tensors."""

from __future__ import annotations

import numpy as np

from tests.support.numpy_calls import Call


def _names(text: str) -> set[str]:
    return set(text.split())


# ---------------------------------------------------------------------------------------- ufuncs

_OF_FLOAT = (
    "absolute cbrt ceil cos cosh deg2rad exp exp2 expm1 fabs floor isfinite isinf isnan log1p "
    "negative positive rad2deg rint sign signbit sin sinh square tan tanh trunc arcsin arccos "
    "arctan arcsinh arctanh degrees radians conjugate modf"
)
_OF_POSITIVE = "log log10 log2 sqrt reciprocal arccosh"
_OF_FLOATS = (
    "add arctan2 copysign divide divmod equal float_power floor_divide fmax fmin fmod greater "
    "greater_equal heaviside hypot less less_equal logaddexp logaddexp2 maximum minimum multiply "
    "nextafter not_equal remainder subtract"
)
_OF_INTEGERS = "bitwise_and bitwise_or bitwise_xor floor_divide remainder add multiply maximum"
_OF_BOOLS = "logical_and logical_or logical_xor bitwise_and equal"


def _one(name: str) -> Call:
    return lambda x, y, i, t: getattr(np, name)(x)


def _positive(name: str) -> Call:
    return lambda x, y, i, t: getattr(np, name)(y + 1)


def _two(name: str) -> Call:
    return lambda x, y, i, t: getattr(np, name)(x, y)


UFUNCS: dict[str, list[Call]] = {}
for _group, _make in (
    (_OF_FLOAT, _one),
    (_OF_POSITIVE, _positive),
    (_OF_FLOATS, _two),
    (_OF_INTEGERS, lambda name: lambda x, y, i, t: getattr(np, name)(i, i[:1] * 2 + 11)),
    (_OF_BOOLS, lambda name: lambda x, y, i, t: getattr(np, name)(t, t[:1])),
):
    for _name in _group.split():
        UFUNCS.setdefault(_name, []).append(_make(_name))
for _name, _call in {
    "power": lambda x, y, i, t: np.power(y, x),
    "left_shift": lambda x, y, i, t: np.left_shift(3, i + 4),
    "right_shift": lambda x, y, i, t: np.right_shift(i, 1),
    "invert": lambda x, y, i, t: np.invert(i),
    "logical_not": lambda x, y, i, t: np.logical_not(t),
    "matmul": lambda x, y, i, t: np.matmul(x, y.T),
    "vecdot": lambda x, y, i, t: np.vecdot(x, y),
    "matvec": lambda x, y, i, t: np.matvec(x, y[0]),
    "vecmat": lambda x, y, i, t: np.vecmat(x[:, 0], y),
    "ldexp": lambda x, y, i, t: np.ldexp(x, i),
    "gcd": lambda x, y, i, t: np.gcd(i * 6, i[:1] * 4 + 2),
    "lcm": lambda x, y, i, t: np.lcm(i * 6, i[:1] * 4 + 2),
    "bitwise_count": lambda x, y, i, t: np.bitwise_count(i * 12345678901),
    "frexp": lambda x, y, i, t: np.frexp(x * 100),
    "spacing": lambda x, y, i, t: np.spacing(x * 100),
}.items():
    UFUNCS.setdefault(_name, []).append(_call)

# ------------------------------------------------------------------------------------- refusals

REFUSED = _names(
    """
apply_along_axis argwhere array2string array_repr array_str busday_count busday_offset
common_type copyto datetime_as_string einsum_path fill_diagonal flatnonzero geomspace
histogram2d histogramdd intersect1d is_busday may_share_memory min_scalar_type packbits place
poly polydiv polyfit polyint polymul put put_along_axis putmask roots save savetxt savez
savez_compressed setdiff1d setxor1d shares_memory sort_complex trim_zeros union1d unique
unique_all unique_counts unique_inverse unique_values unpackbits
"""
)
# The shape of what these give depends on data, unless our functions are told a size.
NEED_A_SIZE = {
    "bincount": ("length=", lambda x, y, i, t: np.bincount(i[0])),
    "nonzero": ("size=", lambda x, y, i, t: np.nonzero(x)),
}
REFUSED_UFUNCS = {"isnat"}
# What only arrays can be asked: dates, shared memory, complex results.
OF_ARRAYS = _names(
    "busday_count busday_offset datetime_as_string is_busday may_share_memory shares_memory"
)
