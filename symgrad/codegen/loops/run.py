"""Interpreter of the loop IR: what a kernel means, computed slowly with NumPy.

It is the second of three oracles, between the references of ops and native code, and shares no
code with either. It rounds where the language says so; native code differs from it in elementary
functions, within their error bounds, and where a product and a sum are one fused instruction.

Independent iterations are computed side by side: the variable of such a loop is an array with an
axis of its own, in front of the axes of the loops around. Other loops go one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    For,
    Generated,
    Index,
    IndexAtom,
    IndexValue,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Prefix,
    Product,
    Quotient,
    Ref,
    Select,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
    has_check,
)
from symgrad.codegen.loops.ordering import counts_before, stable_order
from symgrad.codegen.loops.rewrite import is_free_of
from symgrad.codegen.loops.scalars import NUMPY_OPS, constant_array, convert
from symgrad.codegen.loops.strided import read_padded, walked, without_unread
from symgrad.records import replace

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
            return int(failure.args[0])
    return 0


class _CheckFailed(Exception): ...  # noqa: N818 - ends the run and never leaves this module


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
        first: Position = index.const
        return sum((by * self._index_atom(atom) for atom, by in index.terms), first)

    def _index_atom(self, atom: IndexAtom) -> Position:
        if isinstance(atom, str):
            return self._positions[atom]
        inner = self._position(atom.index)
        return inner // atom.by if isinstance(atom, Quotient) else inner % atom.by

    def _atom(self, atom: Atom) -> Array:
        return self._values[atom.name] if isinstance(atom, Ref) else constant_array(atom)

    def _expr(self, expr: Expr) -> Array:
        match expr:
            case Const() | Ref():
                return self._atom(expr)
            case Load(buffer, index, _):
                return np.asarray(self._buffers[buffer][self._position(index)])
            case Op(name, args, dtype):
                result = NUMPY_OPS[name](*(self._atom(arg) for arg in args))
                return np.asarray(result).astype(dtype.numpy, copy=False)
            case Select(condition, chosen, otherwise, _):
                values = self._atom(chosen), self._atom(otherwise)
                return np.where(self._atom(condition), *values)
            case Cast(value, dtype):
                return convert(self._atom(value), value.dtype, dtype)
            case IndexValue(index, _):
                return np.asarray(self._position(index), np.int64)
            case BinarySearch():
                return self._search(expr)
            case _:
                assert_never(expr)

    def _search(self, search: BinarySearch) -> Array:
        buffer, value = self._buffers[search.buffer], self._atom(search.value)
        place, steps = self._position(search.index), search.stride * np.arange(search.length)
        return counts_before(buffer, place, steps, value, or_equal=search.or_equal)

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
                case Prefix():
                    self._prefix(statement)
                case Product():
                    self._product(statement)
                case SortRows():
                    self._sort(statement)
                case _:
                    assert_never(statement)

    def _check(self, check: Check) -> None:
        value, least = self._atom(check.value), -check.extent if check.bound == "wrap" else 0
        if check.bound == "clamp":
            value = np.clip(value, 0, check.extent - 1)
        if not np.all((least <= value) & (value < check.extent)):
            assert check.can_fail, f"{check.name} is known to be in {check.extent}"
            raise _CheckFailed(check.status)
        self._positions[check.name] = np.where(value >= 0, value, value + check.extent)

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
        if loop.parallel is None:
            self._iterations(loop, 0, loop.extent)
            return
        failed: _CheckFailed | None = None
        # The last part first: one that needed what another computes would not find it.
        for start in reversed(range(0, loop.extent, loop.parallel)):
            try:
                self._iterations(loop, start, min(start + loop.parallel, loop.extent))
            except _CheckFailed as failure:
                failed = failure
        if failed is not None:
            raise failed

    def _iterations(self, loop: For, first: int, last: int) -> None:
        if loop.ordered or not is_free_of(loop.body, Generated):
            for i in range(first, last):
                self._positions[loop.var] = i
                self.body(loop.body)
            return
        # What fails first decides what is stored, and which status there is.
        vectors = loop.vectors(0, last - first) if has_check(loop.body) else None
        for start, stop in vectors or self._parts(last - first):
            with self._axis(loop.var, first + start, first + stop):
                self.body(loop.body)

    # ------------------------------------------------------------------------------- reduction

    def _fold(self, fold: Fold) -> None:
        partials = [self._rows(constant_array(a.identity), fold.lanes) for a in fold.accumulators]
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
        if is_free_of(fold.body, Generated | Store) and not has_check(fold.body):
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

    # ---------------------------------------------------------------------------- prefix scans

    def _prefix(self, prefix: Prefix) -> None:
        totals = [self._rows(constant_array(a.identity), 1)[0] for a in prefix.accumulators]
        if not prefix.has_values_as_indices:
            for start, stop in self._parts(prefix.extent, prefix.lanes):
                with self._axis(prefix.var, start, stop):
                    self.body(prefix.body)
                items = [self._rows(self._atom(item), stop - start) for item in prefix.items]
                running, totals = self._running(prefix, totals, items)
                self._bind(prefix, running)
                with self._axis(prefix.var, start, stop):
                    self.body(prefix.each)
            return
        for k in range(prefix.extent):
            self._positions[prefix.var] = k
            self.body(prefix.body)
            items = [self._rows(self._atom(item), 1) for item in prefix.items]
            running, totals = self._running(prefix, totals, items)
            self._bind(prefix, [values[0] for values in running])
            self.body(prefix.each)

    def _bind(self, prefix: Prefix, running: list[Array]) -> None:
        self._values.update((a.name, r) for a, r in zip(prefix.accumulators, running, strict=True))

    def _running(
        self, prefix: Prefix, totals: list[Array], items: list[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Return the running results of items after `totals`, and what they all come to."""
        results: list[list[Array]] = []
        for start, stop, size in replace(prefix, extent=len(items[0])).blocks:
            local = [item[start:stop].reshape(-1, size, *item.shape[1:]) for item in items]
            distance = 1
            while distance < size:
                local = self._joined(prefix, self._moved(prefix, local, distance), local)
                distance *= 2
            before, totals = self._before(prefix, totals, [lanes[:, -1] for lanes in local])
            if not prefix.exclusive:
                local = self._joined(prefix, before, local)
            elif size > 1:
                local = self._joined(prefix, before, self._moved(prefix, local, 1))
            else:
                local = before
            results.append([lanes.reshape(-1, *lanes.shape[2:]) for lanes in local])
        return [np.concatenate(column) for column in zip(*results, strict=True)], totals

    def _moved(self, prefix: Prefix, blocks: list[Array], distance: int) -> list[Array]:
        """Return blocks with each lane moved to a later one, identities coming in."""
        moved = []
        for accumulator, lanes in zip(prefix.accumulators, blocks, strict=True):
            shifted = np.roll(lanes, distance, axis=1)
            shifted[:, :distance] = constant_array(accumulator.identity)
            moved.append(shifted)
        return moved

    def _before(
        self, prefix: Prefix, totals: list[Array], last: list[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Return what comes before each block, an axis for lanes included, and after them all."""
        before = []
        for number in range(len(last[0])):
            before.append(totals)
            totals = self._joined(prefix, totals, [lane[number] for lane in last])
        stacked = (np.stack(np.broadcast_arrays(*c)) for c in zip(*before, strict=True))
        return [column[:, np.newaxis] for column in stacked], totals

    def _joined(self, prefix: Prefix, left: list[Array], right: list[Array]) -> list[Array]:
        self._values.update(zip(prefix.left, left, strict=True))
        self._values.update(zip(prefix.right, right, strict=True))
        self.body(prefix.combine)
        shape = np.broadcast_shapes(*(side.shape for side in (*left, *right)))
        return [np.broadcast_to(self._atom(atom), shape) for atom in prefix.combined]

    # --------------------------------------------------------------------------------- product

    def _product(self, product: Product) -> None:
        (row, m), (column, n) = product.rows, product.columns
        if 0 in (m, n):
            return
        assert self._axes == 0, "loops around a product go one by one"
        sums = self._sums(product)
        if is_free_of(product.body, Check | Generated):
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
        places, shift = self._places(product.lhs, m, k), int(self._position(product.shift))
        lhs = read_padded(self._buffers[product.lhs.buffer], places, product.borders, shift)
        sides = lhs, self._matrix(product.rhs, k, n)
        lhs, rhs = (convert(side, product.element, product.dtype) for side in sides)
        sums = np.zeros((m, n), product.dtype.numpy)
        for i in range(k):
            sums = sums + lhs[:, i : i + 1] * rhs[i : i + 1, :]
        return without_unread(sums, product.read, shift)

    def _matrix(self, operand: StridedOperand, rows: int, columns: int) -> Array:
        return np.asarray(self._buffers[operand.buffer][self._places(operand, rows, columns)])

    def _places(self, operand: StridedOperand, rows: int, columns: int) -> Array:
        along_rows = walked(operand.rows, operand.row_digits, rows)[:, np.newaxis]
        offsets = along_rows + walked(operand.columns, operand.column_digits, columns)
        return np.asarray(self._position(operand.index) + offsets)

    # ----------------------------------------------------------------------------------- sorts

    def _sort(self, sort: SortRows) -> None:
        assert self._axes == 0, "loops around a sort go one by one"
        if sort.count == 0:
            return
        places = self._places(sort.result, sort.rows, sort.count)
        source = self._matrix(sort.source, sort.rows, sort.length)
        for row, place in zip(source, places, strict=True):
            order = stable_order(row, descending=sort.descending)[: sort.count]
            found = row[order] if sort.gives == "values" else order
            self._buffers[sort.result.buffer][place] = found
