"""The interpreter of the loop language: what a kernel means, computed slowly with NumPy.

It is the second of three oracles, between the references of ops and native code, and shares no
code with either. It rounds where the language says so; native code differs from it in elementary
functions, within their error bounds, and where a product and a sum are one fused instruction.

Independent iterations are computed side by side: the variable of such a loop is an array with an
axis of its own, in front of the axes of the loops around. Other loops go one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from symgrad.codegen.loops import (
    Atom,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    For,
    Index,
    IndexAtom,
    IndexValue,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Product,
    Quotient,
    Ref,
    Select,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.graph.dtypes import DType, bfloat16, float64

Array = NDArray[Any]
Position = int | NDArray[np.int64]

# Elements computed side by side at most; a longer loop is taken in parts.
_SIDE_BY_SIDE = 1 << 18


def run_kernel(kernel: Kernel, buffers: Mapping[str, Array]) -> int:
    """Run a verified kernel on flat arrays; return its status, 0 if no check failed.

    The arrays of `out` and `inout` parameters are changed in place; those of `scratch` parameters
    may be left out.
    """
    arrays = {param.name: _buffer(param, buffers) for param in kernel.params}
    with np.errstate(all="ignore"):
        try:
            _Interpreter(arrays).body(kernel.body)
        except _CheckFailed as failure:
            return failure.status
    return 0


class _CheckFailed(Exception):  # noqa: N818 - ends the run and never leaves this module
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _buffer(param: Param, buffers: Mapping[str, Array]) -> Array:
    if param.mode == "scratch" and param.name not in buffers:
        return np.zeros(param.count, param.dtype.numpy)
    assert param.name in buffers, f"there is no array for {param.name}"
    array = buffers[param.name]
    assert array.dtype == param.dtype.numpy, f"{param.name} is {param.dtype}, not {array.dtype}"
    assert array.shape == (param.count,), f"{param.name} has {param.count}, not {array.shape}"
    return array


class _Interpreter:
    """The values and indices bound so far.

    `_axes` is how many loops around are computed side by side, and `_size` how many elements that
    makes. An array may have fewer axes: it is then the same for all iterations of the inner loops.
    """

    def __init__(self, buffers: Mapping[str, Array]) -> None:
        self._buffers = buffers
        self._values: dict[str, Array] = {}
        self._positions: dict[str, Position] = {}
        self._axes = 0
        self._size = 1

    # ----------------------------------------------------------------------------- expressions

    def _position(self, index: Index) -> Position:
        position: Position = index.const
        for atom, coefficient in index.terms:
            position = position + coefficient * self._index_atom(atom)
        return position

    def _index_atom(self, atom: IndexAtom) -> Position:
        if isinstance(atom, str):
            return self._positions[atom]
        inner = self._position(atom.index)
        return inner // atom.by if isinstance(atom, Quotient) else inner % atom.by

    def _atom(self, atom: Atom) -> Array:
        return self._values[atom.name] if isinstance(atom, Ref) else _constant(atom)

    def _expr(self, expr: Expr) -> Array:
        match expr:
            case Const() | Ref():
                return self._atom(expr)
            case Load(buffer, index, _):
                return np.asarray(self._buffers[buffer][self._position(index)])
            case Op(name, args, dtype):
                result = _OPS[name](*(self._atom(arg) for arg in args))
                return np.asarray(result).astype(dtype.numpy, copy=False)
            case Select(condition, chosen, otherwise, _):
                values = self._atom(chosen), self._atom(otherwise)
                return np.where(self._atom(condition), *values)
            case Cast(value, dtype):
                return _convert(self._atom(value), value.dtype, dtype)
            case IndexValue(index, _):
                return np.asarray(self._position(index), np.int64)
            case _:
                assert_never(expr)

    # ------------------------------------------------------------------------------ statements

    def body(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            match statement:
                case Let(name, value):
                    self._values[name] = self._expr(value)
                case Store(buffer, index, value):
                    # An array also of one position, so that axes of one iteration do no harm.
                    position = np.atleast_1d(self._position(index))
                    self._buffers[buffer][position] = self._atom(value)
                case Check():
                    self._check(statement)
                case For():
                    self._for(statement)
                case Fold():
                    self._fold(statement)
                case Product():
                    self._product(statement)
                case _:
                    assert_never(statement)

    def _check(self, check: Check) -> None:
        value = int(self._atom(check.value))
        if not -check.extent <= value < check.extent:
            raise _CheckFailed(check.status)
        self._positions[check.name] = value if value >= 0 else value + check.extent

    @contextmanager
    def _axis(self, var: str, start: int, stop: int) -> Iterator[None]:
        """Compute iterations `start` to `stop - 1` of the loop over `var` side by side."""
        around = self._axes, self._size
        self._positions[var] = np.arange(start, stop).reshape((-1,) + (1,) * self._axes)
        self._axes, self._size = self._axes + 1, self._size * (stop - start)
        yield
        self._axes, self._size = around

    def _parts(self, extent: int, multiple: int = 1) -> Iterator[tuple[int, int]]:
        """Cut a loop into parts of at most `_SIDE_BY_SIDE` elements, multiples of `multiple`."""
        step = max(_SIDE_BY_SIDE // self._size // multiple, 1) * multiple
        for start in range(0, extent, step):
            yield start, min(start + step, extent)

    def _for(self, loop: For) -> None:
        if loop.ordered or not _is_free(loop.body, Check | Product):
            for i in range(loop.extent):
                self._positions[loop.var] = i
                self.body(loop.body)
            return
        for start, stop in self._parts(loop.extent):
            with self._axis(loop.var, start, stop):
                self.body(loop.body)

    # ------------------------------------------------------------------------------- reduction

    def _fold(self, fold: Fold) -> None:
        partials = [self._rows(_constant(a.identity), fold.lanes) for a in fold.accumulators]
        for start, stop, items in self._items(fold):
            for first in range(start, stop, fold.lanes):
                some = [item[first - start : first - start + fold.lanes] for item in items]
                partials = self._combine_into(fold, partials, first % fold.lanes, some)
        half = fold.lanes // 2
        while half:
            lower, upper = [p[:half] for p in partials], [p[half:] for p in partials]
            partials = self._combined(fold, lower, upper)
            half //= 2
        for accumulator, partial in zip(fold.accumulators, partials, strict=True):
            self._values[accumulator.name] = np.asarray(partial[0])

    def _items(self, fold: Fold) -> Iterator[tuple[int, int, list[Array]]]:
        """Give the items of the elements start to stop - 1, along a first axis."""
        if _is_free(fold.body, Check | Product | Store):
            # Items do not depend on the partial results: many are computed before any is used.
            for start, stop in self._parts(fold.extent, fold.lanes):
                with self._axis(fold.var, start, stop):
                    self.body(fold.body)
                yield start, stop, [self._rows(self._atom(i), stop - start) for i in fold.items]
            return
        for k in range(fold.extent):
            self._positions[fold.var] = k
            self.body(fold.body)
            yield k, k + 1, [self._rows(self._atom(item), 1) for item in fold.items]

    def _rows(self, value: Array, count: int) -> Array:
        """Return `value` with an axis of `count` in front of those of the loops around."""
        shape = (1,) * (self._axes + 1 - value.ndim) + value.shape
        return np.broadcast_to(value.reshape(shape), (count, *shape[1:]))

    def _combine_into(
        self, fold: Fold, partials: list[Array], lane: int, items: list[Array]
    ) -> list[Array]:
        """Combine items into as many partial results, from `lane` on; return all of those."""
        stop = lane + len(items[0])
        results = self._combined(fold, [p[lane:stop] for p in partials], items)
        if stop - lane == fold.lanes:
            return results
        whole = []
        for partial, result in zip(partials, results, strict=True):
            shape = np.broadcast_shapes(partial.shape[1:], result.shape[1:])
            copy = np.broadcast_to(partial, (fold.lanes, *shape)).copy()
            copy[lane:stop] = result
            whole.append(copy)
        return whole

    def _combined(self, fold: Fold, left: list[Array], right: list[Array]) -> list[Array]:
        self._values.update(zip(fold.left, left, strict=True))
        self._values.update(zip(fold.right, right, strict=True))
        self.body(fold.combine)
        return [self._rows(self._atom(atom), len(left[0])) for atom in fold.combined]

    # --------------------------------------------------------------------------------- product

    def _product(self, product: Product) -> None:
        (row, m), (column, n) = product.rows, product.columns
        if 0 in (m, n):
            return
        assert self._axes == 0, "loops around a product go one by one"
        sums = self._sums(product)
        if _is_free(product.body, Check | Product):
            with self._axis(column, 0, n), self._axis(row, 0, m):
                self._values[product.name] = sums
                self.body(product.body)
            return
        for i, j in np.ndindex(m, n):
            self._positions.update({row: i, column: j})
            self._values[product.name] = np.asarray(sums[i, j])
            self.body(product.body)

    def _sums(self, product: Product) -> Array:
        m, n, k = product.rows[1], product.columns[1], product.inner[1]
        matrices = self._matrix(product.lhs, m, k), self._matrix(product.rhs, k, n)
        lhs, rhs = (_convert(matrix, product.element, product.dtype) for matrix in matrices)
        sums = np.zeros((m, n), product.dtype.numpy)
        for i in range(k):
            sums = sums + lhs[:, i : i + 1] * rhs[i : i + 1, :]
        return sums

    def _matrix(self, operand: StridedOperand, rows: int, columns: int) -> Array:
        along_rows = operand.rows * np.arange(rows)[:, np.newaxis]
        offsets = along_rows + operand.columns * np.arange(columns)
        return np.asarray(self._buffers[operand.buffer][self._position(operand.index) + offsets])


def _is_free(body: Sequence[Stmt], of: Any) -> bool:
    """Return whether no statement, however deep, is one of the classes `of`."""
    return not any(
        isinstance(s, of) or (isinstance(s, For | Fold | Product) and not _is_free(s.body, of))
        for s in body
    )


# ------------------------------------------------------------------------ constants and conversion


def _constant(const: Const) -> Array:
    if const.dtype.is_float:
        return _convert(np.asarray(const.value, np.float64), float64, const.dtype)
    return np.asarray(const.value, const.dtype.numpy)


def _convert(value: Array, source: DType, to: DType) -> Array:
    if source == to:
        return value
    if to.is_bool:
        return np.asarray(value != 0)
    if source.is_float and to.is_integer:
        return _saturated(value.astype(np.float64), to)
    if to == bfloat16 and source == float64:
        value = _rounded_to_odd(value)
    elif to.is_half and source != float64:
        value = value.astype(np.float32)
    return value.astype(to.numpy)


def _saturated(value: Array, to: DType) -> Array:
    limits = np.iinfo(to.numpy)
    # The greatest integer may not be a float64, but the power of two above it is.
    above, below = value >= float(limits.max) + 1, value < float(limits.min)
    inside = np.where(above | below | np.isnan(value), 0.0, value).astype(to.numpy)
    result = np.where(below, to.numpy.type(limits.min), inside)
    return np.where(above, to.numpy.type(limits.max), result)


def _rounded_to_odd(value: Array) -> Array:
    """Round to float32 so that rounding on, to fewer bits, gives what rounding once does.

    A number between two neighbours becomes the one with an odd last bit.
    """
    single = value.astype(np.float32)
    back = single.astype(np.float64)
    bits = np.asarray(single).view(np.int32) - (np.abs(back) > np.abs(value))
    odd = np.where((back == value) | np.isnan(value), bits, bits | 1)
    return odd.astype(np.int32).view(np.float32)


# ------------------------------------------------------------------------------ scalar operations


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function computed in float64; the caller rounds the result."""
    return lambda *args: function(*(arg.astype(np.float64) for arg in args))


def _sigmoid(a: Array) -> Array:
    decay = np.exp(-np.abs(a))
    return np.where(a >= 0, 1.0, decay) / (1.0 + decay)


def _erf(a: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(a), np.float64)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(_in_double(np.power)(a, b))
    power, square, left = np.ones_like(a), a, np.maximum(b, 0)
    while np.any(left):
        power = np.where(left & 1, power * square, power)
        square, left = square * square, left >> 1
    if a.dtype.kind == "u":
        return power
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, inverse, power)


def _first_if(wins: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that takes its first argument if that wins or is nan."""
    return lambda a, b: np.where(wins(a, b) | (a != a), a, b)


_OPS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "neg": np.negative,
    "abs": np.abs,
    "min": _first_if(np.less),
    "max": _first_if(np.greater),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "exp": _in_double(np.exp),
    "expm1": _in_double(np.expm1),
    "log": _in_double(np.log),
    "log1p": _in_double(np.log1p),
    "sin": _in_double(np.sin),
    "cos": _in_double(np.cos),
    "tanh": _in_double(np.tanh),
    "sigmoid": _in_double(_sigmoid),
    "erf": _in_double(_erf),
    "pow": _power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
}
