"""Random programs in NumPy and in symgrad at once, of every dtype, whose results are equal bits.

The other fuzzers compare native code with our own reference, which folds constants as well: what
both understand wrongly they do not find. Here NumPy says what is right. Integers are taken from
their whole range and its ends; floats are quarters, which are rounded to quarters again where a
result is not one, so that every dtype computes them exactly in any order. Sizes are 0 and 1 as
often as others, and unknown in a third of the programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg

Array = np.ndarray[Any, Any]
Pair = tuple[sg.Tensor, Array]

_INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_FLOATS = ["float16", "bfloat16", "float32", "float64"]
_NUMBERS = _INTEGERS + _FLOATS
_SIZES = [0, 1, 1, 2, 3, 4, 5, 8, 16, 17, 33, 64]
_LARGEST = 5_000  # elements of a result; greater ones are left out
_LIMIT = 8.0  # of floats: sums of some dozens of quarters are exact in 16 bits


class NumPyProgram:
    """Placeholders with their arrays, and results with what NumPy says of them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.has_unknown = self.random.random() < 0.35
        self.sizes = [self._one_of(_SIZES) for _ in range(4)]
        self.placeholders: list[sg.Tensor] = []
        self.arrays: list[Array] = []
        self.results: list[tuple[str, sg.Tensor, Array]] = []
        for _ in range(3):
            shape = tuple(self._one_of(self.sizes) for _ in range(self.random.integers(0, 4)))
            name = self._one_of([*_NUMBERS, *_FLOATS, "bool"])
            self._keep(f"{name} of {shape}", self._given(self._drawn(shape, name)))
        for _ in range(int(self.random.integers(4, 12))):
            self._grow()

    def run(self) -> str | None:
        """Compile and run the program; return what differs from NumPy, or None."""
        threads, level = self._one_of([1, 2]), self._one_of([0, 1, 3])
        kept = [r for r in self.results[:-1] if self.random.random() < 0.4] + self.results[-1:]
        step = sg.compile(
            self.placeholders, [t for _, t, _ in kept], threads=threads, opt_level=level
        )
        found = step(*self.arrays)
        for (what, t, wanted), got in zip(kept, found, strict=True):
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                return f"{what}: {got.dtype}{got.shape}, NumPy {wanted.dtype}{wanted.shape}"
            if not np.array_equal(got, wanted, equal_nan=t.dtype.is_float):
                return f"{what}: {got!r}, NumPy {wanted!r}"
        return None

    # ------------------------------------------------------------------------------------ drawing

    def _one_of(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def _drawn(self, shape: tuple[int, ...], name: str) -> Array:
        dtype = _numpy(name)
        if name == "bool":
            return np.asarray(self.random.random(shape) < 0.5)
        if name in _FLOATS:
            quarters = np.asarray(self.random.integers(-16, 17, shape) / 4)
            is_nan = self.random.random(shape) < self._one_of([0, 0, 0, 0.1])
            return np.where(is_nan, np.nan, quarters).astype(dtype)
        limits = np.iinfo(dtype)
        low = max(int(limits.min), -9)
        choices = [
            self.random.integers(low, 10, shape).astype(dtype),
            self.random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True),
            self.random.choice(np.array([limits.min, limits.max, 0, 1], dtype), shape),
        ]
        return np.asarray(np.choose(self.random.integers(0, 3, shape), choices)).astype(dtype)

    def _given(self, array: Array, has_known_sizes: bool = False) -> Pair:
        is_known = has_known_sizes or not self.has_unknown
        shape = tuple(
            None if not is_known and self.random.random() < 0.5 else n for n in array.shape
        )
        t = sg.placeholder(shape, array.dtype)
        self.placeholders.append(t)
        self.arrays.append(array)
        return t, array

    def _any(self, holds: Callable[[sg.Tensor, Array], bool] = lambda _t, _v: True) -> Pair:
        found = [(t, v) for _, t, v in self.results if holds(t, v)]
        return self._one_of(found) if found else self._given(self._drawn((3, 4), "int32"))

    def _axis(self, v: Array) -> int:
        return int(self.random.integers(-v.ndim, v.ndim))

    def _operands(self, names: list[str]) -> tuple[Pair, Pair]:
        """Return two operands of one dtype: one shape, or one of them a scalar."""
        name = self._one_of(names)
        t, v = self._any()
        left = cast((t, v), name)
        if self.random.random() < 0.3:
            scalar = self._drawn((), name)
            right = sg.constant(scalar, dtype=name), scalar
            return (left, right) if self.random.random() < 0.5 else (right, left)
        same = [(u, w) for _, u, w in self.results if u.shape == t.shape and w.shape == v.shape]
        return left, cast(self._one_of([*same, (t, v)]), name)

    # ------------------------------------------------------------------------------------ growing

    def _grow(self) -> None:
        rule = self._one_of(_RULES)
        result = rule(self)
        if result is not None and result[1].size <= _LARGEST:
            self._keep(rule.__name__.strip("_"), result)

    def _keep(self, what: str, result: Pair) -> None:
        t, v = result[0], np.asarray(result[1])
        if t.dtype.is_float:
            t = sg.round(sg.clip(t, -_LIMIT, _LIMIT) * 4) / 4
            wide = np.clip(v.astype(np.float64), -_LIMIT, _LIMIT)
            v = (np.round(wide * 4) / 4).astype(v.dtype)
        self.results.append((what, t, v))


def _numpy(name: str) -> Any:
    return sg.bool_.numpy if name == "bool" else getattr(sg, name).numpy


def cast(operand: Pair, name: str) -> Pair:
    """Return `operand` in another dtype, of which every element is in its range."""
    t, v = operand
    if t.dtype.name == name:
        return operand
    if t.dtype.is_float and name not in _FLOATS:
        t, v = sg.where(sg.isnan(t), 0, t), np.where(np.isnan(v), v.dtype.type(0), v)
    if t.dtype.is_float and name.startswith("uint"):
        t, v = sg.abs(t), np.abs(v)
    elif t.dtype.is_integer and name in _FLOATS:
        t, v = t & 7, v & v.dtype.type(7)
    return sg.astype(t, name), v.astype(_numpy(name))


def _has_rows(_t: sg.Tensor, v: Array) -> bool:
    return v.ndim > 0


def _has_elements(t: sg.Tensor, v: Array) -> bool:
    return v.ndim > 0 and v.size > 0 and not t.dtype.is_bool


def _of_numbers(t: sg.Tensor, v: Array) -> bool:
    return v.ndim > 0 and not t.dtype.is_bool


# ---------------------------------------------------------------------------------------- rules


def _by_name(p: NumPyProgram, names: str, operands: tuple[Pair, Pair]) -> Pair:
    name, (a, b) = p._one_of(names.split()), operands
    known_as = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}
    wanted = getattr(np, known_as.get(name, name))(a[1], b[1])
    return getattr(sg, name)(a[0], b[0]), np.asarray(wanted)


def _arithmetic(p: NumPyProgram) -> Pair:
    return _by_name(p, "add subtract multiply minimum maximum", p._operands(_NUMBERS))


def _division(p: NumPyProgram) -> Pair:
    return _by_name(p, "floor_divide remainder fmod", p._operands(_INTEGERS))


def _shift(p: NumPyProgram) -> Pair:
    x, (t, v) = p._operands(_INTEGERS)
    return _by_name(
        p, "bitwise_left_shift bitwise_right_shift", (x, (t & 63, v & v.dtype.type(63)))
    )


def _bits(p: NumPyProgram) -> Pair:
    return _by_name(p, "bitwise_and bitwise_or bitwise_xor", p._operands([*_INTEGERS, "bool"]))


def _comparison(p: NumPyProgram) -> Pair:
    names = "less less_equal greater greater_equal equal not_equal"
    return _by_name(p, names, p._operands(_NUMBERS))


def _choice(p: NumPyProgram) -> Pair:
    (a, x), (b, y) = p._operands([*_NUMBERS, "bool"])
    return sg.where(a == b, a, b), np.asarray(np.where(x == y, x, y))


def _of_one(p: NumPyProgram) -> Pair:
    t, v = p._any(lambda t, _: not t.dtype.is_bool)
    name = p._one_of(["abs", "negative", "sign", "square"])
    return getattr(sg, name)(t), np.asarray(getattr(np, name)(v)).astype(v.dtype)


def _conversion(p: NumPyProgram) -> Pair:
    return cast(p._any(), p._one_of([*_NUMBERS, "bool"]))


def _sum(p: NumPyProgram) -> Pair:
    t, v = p._any(_of_numbers)
    if t.dtype.is_float:
        t, v = sg.sign(t), np.sign(v)
    axis = p._one_of([None, p._axis(v)])
    name = p._one_of(["sum", "prod"])
    r = getattr(sg, name)(t, axis=axis)
    wide = np.float64 if t.dtype.is_float else r.dtype.numpy
    return r, np.asarray(getattr(np, name)(v.astype(wide), axis=axis)).astype(r.dtype.numpy)


def _extreme(p: NumPyProgram) -> Pair:
    t, v = p._any(_has_elements)
    name, axis = p._one_of(["max", "min", "argmax", "argmin"]), p._axis(v)
    return getattr(sg, name)(t, axis=axis), np.asarray(getattr(np, name)(v, axis=axis))


def _test(p: NumPyProgram) -> Pair:
    t, v = p._any(_has_rows)
    name, axis = p._one_of(["any", "all", "count_nonzero"]), p._one_of([None, p._axis(v)])
    r = getattr(sg, name)(t, axis=axis)
    return r, np.asarray(getattr(np, name)(v, axis=axis)).astype(r.dtype.numpy)


def _cumulative(p: NumPyProgram) -> Pair:
    t, v = p._any(_of_numbers)
    axis = p._axis(v)
    if p.random.random() < 0.5:
        t, v = sg.flip(t, axis=axis), np.flip(v, axis)
    if p.random.random() < 0.4:
        name, f = p._one_of([("cummax", np.maximum), ("cummin", np.minimum)])
        return getattr(sg, name)(t, axis=axis), f.accumulate(v, axis=axis)
    if t.dtype.is_float:
        t, v = sg.sign(t), np.sign(v)
    name, g = p._one_of([("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)])
    r = getattr(sg, name)(t, axis=axis)
    wide = np.float64 if t.dtype.is_float else r.dtype.numpy
    return r, g(v.astype(wide), axis=axis).astype(r.dtype.numpy)


def _order(p: NumPyProgram) -> Pair:
    t, v = p._any(_has_rows)
    axis, wide = p._axis(v), v.astype(np.float64) if t.dtype.is_float else v
    if p.random.random() < 0.5:
        return sg.argsort(t, axis=axis), np.argsort(wide, axis=axis, kind="stable")
    # Where nan goes in descending order NumPy does not say.
    is_descending = bool(p.random.random() < 0.5) and not bool(np.any(wide != wide))
    wanted = np.sort(wide, axis=axis).astype(v.dtype)
    wanted = np.flip(wanted, axis) if is_descending else wanted
    return sg.sort(t, axis=axis, descending=is_descending), wanted


def _view(p: NumPyProgram) -> Pair:
    t, v = p._any(_has_rows)
    axis, count = p._axis(v), int(p.random.integers(0, 4))
    order = tuple(p.random.permutation(v.ndim).tolist())
    choices: list[Callable[[], Pair]] = [
        lambda: (sg.permute_dims(t, order), np.transpose(v, order)),
        lambda: (sg.flip(t, axis=axis), np.flip(v, axis)),
        lambda: (sg.roll(t, 5 * count - 9, axis=axis), np.roll(v, 5 * count - 9, axis=axis)),
        lambda: (sg.expand_dims(t, axis=axis), np.expand_dims(v, axis)),
        lambda: (sg.repeat(t, count, axis=axis), np.repeat(v, count, axis=axis)),
        lambda: (sg.tile(t, (count,) * v.ndim), np.tile(v, (count,) * v.ndim)),
        lambda: (sg.concat([t, t[::-1], t], axis=axis), np.concatenate([v, v[::-1], v], axis=axis)),
        lambda: (sg.stack([t, t], axis=axis), np.stack([v, v], axis=axis)),
        lambda: (sg.pad(t, [(count, 1)] * v.ndim), np.pad(v, [(count, 1)] * v.ndim)),
    ]
    made: Pair = p._one_of(choices)()
    return made


def _slice(p: NumPyProgram) -> Pair:
    t, v = p._any(_has_rows)

    def bound(n: int) -> int | None:
        some = int(p.random.integers(-n - 2, n + 3))
        return None if p.random.random() < 0.5 else some

    key = tuple(slice(bound(n), bound(n), p._one_of([None, 2, -1, -1, -3])) for n in v.shape)
    return t[key], v[key]


def _indices(p: NumPyProgram, n: int, count: int) -> Pair:
    dtype = p._one_of(["int8", "uint8", "int32", "int64"])
    low = 0 if dtype == "uint8" else -n
    return p._given(p.random.integers(low, n, count).astype(dtype), has_known_sizes=True)


def _gather(p: NumPyProgram) -> Pair:
    t, v = p._any(_has_elements)
    axis = p._axis(v)
    i, where = _indices(p, v.shape[axis], p._one_of([0, 1, 5, 40]))
    return sg.take(t, i, axis=axis), np.take(v, where, axis=axis)


def _scatter(p: NumPyProgram) -> Pair:
    t, v = p._any(_has_elements)
    i, where = _indices(p, v.shape[0], p._one_of([0, 1, 5, 12]))
    u, more = p._given(p._drawn((where.size, *v.shape[1:]), t.dtype.name), has_known_sizes=True)
    if t.dtype.is_float:
        u, more = sg.sign(u), np.sign(more)
    name, ufunc = p._one_of([("add", np.add), ("max", np.maximum), ("min", np.minimum)])
    wanted = v.astype(np.float64) if t.dtype.is_float else v.copy()
    ufunc.at(wanted, where, more.astype(wanted.dtype))
    return getattr(t.at[i], name)(u), wanted.astype(v.dtype)


_RULES: list[Callable[[NumPyProgram], Pair]] = [
    _arithmetic, _arithmetic, _division, _shift, _bits, _comparison, _choice, _of_one, _conversion,
    _sum, _extreme, _test, _cumulative, _order, _view, _view, _slice, _gather, _scatter,
]  # fmt: skip
