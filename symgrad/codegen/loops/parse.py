"""Parser of the loop IR: kernels from their text.

The text is read for its form and for the dtypes of names. Whether the kernel makes sense is for
`verify.py` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from symgrad.codegen.loops.blocking import Blocking
from symgrad.codegen.loops.language import (
    Accumulator,
    Atom,
    BinarySearch,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    For,
    IndexValue,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Prefix,
    Product,
    Ref,
    Select,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.print import argument_dtype
from symgrad.codegen.loops.tokens import WORDS, TokenReader
from symgrad.graph.dtypes import BY_SHORT, DType, bool_, int64
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.graph.structures import Bound

_Body = tuple[Stmt, ...]
_Atoms = tuple[Atom, ...]
_Sides = tuple[str, ...]


def parse_kernel(text: str, first_line: int = 1) -> Kernel:
    """Return the kernel that `text` is the printed form of.

    Raises `GraphError` with the line if it is none; lines are counted from `first_line`.
    """
    return _Parser(text, first_line).kernel()


class _Parser(TokenReader):
    """Reads statements, knowing the dtypes of what was bound before them."""

    def __init__(self, text: str, first_line: int) -> None:
        super().__init__(text, first_line)
        self._buffers: dict[str, DType] = {}
        self._values: dict[str, DType] = {}

    # ----------------------------------------------------------------------------- expressions

    def _atom(self, expected: DType | None) -> Atom:
        """Take a name or a constant; `expected` is the dtype of a constant that tells none."""
        is_negative = self.accept("-")
        is_name = self.kind == "name" and self.token not in WORDS
        if self.kind in ("symbol", "end") or (is_name and is_negative):
            raise self.expected("a number" if is_negative else "a name or a number")
        token = self.any_token()
        if is_name:
            if token not in self._values:
                raise self.refused(f"{token} is not bound")
            return Ref(token, self._values[token])
        dtype = self.dtype() if self.accept(":") else expected
        if dtype is None:
            raise self.refused(f"a constant needs its dtype here: {token}:f32")
        return Const(self.number(token, is_negative, dtype), dtype)

    def _atoms(self, dtypes: list[DType | None]) -> tuple[Atom, ...]:
        atoms = [self._atom(dtypes[0])]
        for dtype in dtypes[1:]:
            self.take(",")
            atoms.append(self._atom(dtype))
        return tuple(atoms)

    def _expr(self, dtype: DType) -> Expr:
        if self.kind == "name" and self.next_is("(", 1):
            return self._call(self.name(), dtype)
        if self.kind == "name" and self.next_is("[", 1):
            return Load(self._buffer(), self.bracketed_index(), dtype)
        atom = self._atom(dtype)
        if atom.dtype != dtype:
            raise self.refused(f"the value is {atom.dtype}, not {dtype}")
        return atom

    def _call(self, name: str, dtype: DType) -> Expr:
        self.take("(")
        expr = self._call_of(name, dtype)
        self.take(")")
        return expr

    def _call_of(self, name: str, dtype: DType) -> Expr:
        if name == "index":
            return IndexValue(self.index(), dtype)
        if name == "select":
            condition, chosen, otherwise = self._atoms([bool_, dtype, dtype])
            return Select(condition, chosen, otherwise, dtype)
        if name in ("count_less", "count_less_equal"):
            return self._search(name == "count_less_equal", dtype)
        if name in SCALAR_OPS:
            expected = [argument_dtype(name, dtype)] * SCALAR_OPS[name].arity
            return Op(name, self._atoms(expected), dtype)
        if name not in BY_SHORT:
            raise self.refused(f"{name} is neither an operation nor a dtype")
        if BY_SHORT[name] != dtype:
            raise self.refused(f"a conversion to {name} is not {dtype}")
        return Cast(self._atom(None), dtype)

    def _search(self, or_equal: bool, dtype: DType) -> BinarySearch:
        value = self._atom(None)
        self.take(",")
        buffer, index = self._buffer(), self.bracketed_index()
        stride = self.integer() if self.accept("by") else 1
        self.take(",")
        return BinarySearch(value, buffer, index, stride, self.integer(), or_equal, dtype)

    def _buffer(self) -> str:
        name = self.name()
        if name not in self._buffers:
            raise self.refused(f"{name} is no buffer")
        return name

    # ------------------------------------------------------------------------------ statements

    def _body(self) -> tuple[Stmt, ...]:
        statements: list[Stmt] = []
        with self.nested():
            while not (self.next_is("}") or self.next_is("yield")):
                statements.append(self._statement())
        return tuple(statements)

    def _block(self) -> tuple[Stmt, ...]:
        self.take("{")
        body = self._body()
        self.take("}")
        return body

    def _statement(self) -> Stmt:
        if self.next_is(":", 1):
            return self._let()
        if self.next_is("[", 1):
            return self._store()
        readers: dict[str, Callable[[], Stmt]] = {
            "for": self._for,
            "check": self._check,
            "clamp": lambda: self._place("clamp"),
            "known": lambda: self._place("known"),
            "fold": self._fold,
            "prefix": self._prefix,
            "product": self._product,
            "sort": self._sort,
        }
        if self.token not in readers:
            raise self.expected("a statement")
        return readers[self.any_token()]()

    def _let(self) -> Let:
        name = self.name()
        self.take(":")
        dtype = self.dtype()
        self.take("=")
        value = self._expr(dtype)
        self._values[name] = dtype
        return Let(name, value)

    def _store(self) -> Store:
        buffer, index = self._buffer(), self.bracketed_index()
        self.take("=")
        return Store(buffer, index, self._atom(self._buffers[buffer]), self.accept("streamed"))

    def _check(self) -> Check:
        name, value, extent, is_strict = self._checked()
        self.take("else")
        return Check(name, value, extent, self.integer(), "strict" if is_strict else "wrap")

    def _place(self, bound: Bound) -> Check:
        name, value, extent, _ = self._checked()
        return Check(name, value, extent, 0, bound)

    def _checked(self) -> tuple[str, Atom, int, bool]:
        name = self.name()
        self.take("=")
        value = self._atom(int64)
        self.take("in")
        return name, value, *self.checked_extent()

    def _for(self) -> For:
        var, extent = self.range()
        vector = self.marked_number("vector")
        interleave = self.marked_number("interleave")
        prefetches = self.accept("prefetches")
        ordered = self.accept("ordered")
        parallel = self.integers(1)[0] if self.accept("parallel") else None
        return For(var, extent, self._block(), vector, ordered, parallel, interleave, prefetches)

    def _accumulator(self) -> Accumulator:
        name = self.name()
        self.take(":")
        dtype = self.dtype()
        self.take("=")
        identity = self._atom(dtype)
        if not isinstance(identity, Const):
            raise self.refused(f"the identity of {name} is no constant")
        return Accumulator(name, identity)

    def _yield(self, dtypes: list[DType | None]) -> tuple[Atom, ...]:
        self.take("yield")
        atoms = self._atoms(dtypes)
        self.take("}")
        return atoms

    def _sides(self, dtypes: list[DType | None]) -> tuple[str, ...]:
        """Take `(a0, a1)`, names for one partial result of each accumulator."""
        self.take("(")
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        self.take(")")
        if len(names) != len(dtypes):
            raise self.refused(f"{len(names)} names for {len(dtypes)} accumulators")
        self._values.update((n, dtype) for n, dtype in zip(names, dtypes, strict=True) if dtype)
        return tuple(names)

    def _fold(self) -> Fold:
        accumulators, var, extent, lanes = self._head()
        prefetches = self.accept("prefetches")
        combining = self._combining(accumulators)
        self._values.update((a.name, a.identity.dtype) for a in accumulators)
        return Fold(accumulators, var, extent, lanes, *combining, prefetches)

    def _prefix(self) -> Prefix:
        accumulators, var, extent, lanes = self._head()
        is_exclusive, is_ordered = self.accept("exclusive"), self.accept("ordered")
        combining = self._combining(accumulators)
        self.take("each")
        self._values.update((a.name, a.identity.dtype) for a in accumulators)
        return Prefix(
            accumulators,
            var,
            extent,
            lanes,
            *combining,
            each=self._block(),
            exclusive=is_exclusive,
            ordered=is_ordered,
        )

    def _head(self) -> tuple[tuple[Accumulator, ...], str, int, int]:
        """Take the accumulators of a reduction, its variable, its extent and its lanes."""
        accumulators = [self._accumulator()]
        while self.accept(","):
            accumulators.append(self._accumulator())
        self.take("for")
        return tuple(accumulators), *self.range(), self.marked_number("lanes")

    def _combining(
        self, accumulators: Sequence[Accumulator]
    ) -> tuple[_Body, _Atoms, _Sides, _Sides, tuple[Let, ...], _Atoms]:
        """Take the body of a reduction with its items, and how they are combined."""
        dtypes: list[DType | None] = [a.identity.dtype for a in accumulators]
        self.take("{")
        body, items = self._body(), self._yield(dtypes)
        self.take("combine")
        left, right = self._sides(dtypes), self._sides(dtypes)
        self.take("{")
        combine: list[Let] = []
        while not self.next_is("yield"):
            combine.append(self._let())
        return body, items, left, right, tuple(combine), self._yield(dtypes)

    def _operand(self) -> StridedOperand:
        buffer, index = self._buffer(), self.bracketed_index()
        self.take("by")
        self.take("(")
        rows, row_digits = self.stride()
        self.take(",")
        columns, column_digits = self.stride()
        self.take(")")
        return StridedOperand(buffer, index, rows, columns, row_digits, column_digits)

    def _product(self) -> Product:
        name = self.name()
        self.take(":")
        dtype = self.dtype()
        self.take("for")
        rows, columns, inner = (self.axis_range() for _ in range(3))
        lhs = self._operand()
        self.take("*")
        rhs = self._operand()
        borders, read, shift = tuple(self.borders()), self.diagonals("read"), self.shift()
        blocking, scratch = self._blocking()
        parallel = self.share() if self.accept("parallel") else None
        self._values[name] = dtype
        return Product(
            name=name,
            dtype=dtype,
            element=self._buffers[lhs.buffer],
            rows=rows,
            columns=columns,
            inner=inner,
            lhs=lhs,
            rhs=rhs,
            blocking=blocking,
            scratch=scratch,
            prefetches=self.prefetched_part(),
            body=self._block(),
            parallel=parallel,
            borders=borders,
            read=read,
            shift=shift,
        )

    def _sort(self) -> SortRows:
        gives: Literal["values", "positions"] = "values" if self.accept("values") else "positions"
        if gives == "positions":
            self.take("positions")
        result = self._operand()
        self.take("=")
        source = self._operand()
        self.take("for")
        rows = self.integer()
        self.take("rows", "of")
        length = self.integer()
        self.take("keep")
        count = self.integer()
        descending = self.accept("descending")
        size, scratch = self._scratch()
        parallel = self.integers(1)[0] if self.accept("parallel") else None
        return SortRows(
            gives=gives,
            element=self._buffers[source.buffer],
            result=result,
            source=source,
            rows=rows,
            length=length,
            count=count,
            descending=descending,
            scratch_bytes=size,
            scratch=scratch,
            parallel=parallel,
        )

    def _scratch(self) -> tuple[int, str | None]:
        size, buffer = 0, None
        if self.accept("scratch"):
            self.take("(")
            size = self.integer()
            buffer = self._buffer() if self.accept("in") else None
            self.take(")")
        return size, buffer

    def _blocking(self) -> tuple[Blocking, str | None]:
        self.take("tile")
        high, wide = self.integers(2)
        self.take("block")
        m, n, k = self.integers(3)
        pack = self.packed()
        along = self.along()
        size, buffer = self._scratch()
        return Blocking((high, wide), (m, n, k), pack, along, size), buffer

    # --------------------------------------------------------------------------------- kernels

    def _param(self) -> Param:
        mode, name = self.mode(), self.name()
        self.take(":")
        dtype = self.dtype()
        self.take("[")
        count = self.integer()
        self.take("]")
        self._buffers[name] = dtype
        return Param(name, dtype, count, mode)

    def kernel(self) -> Kernel:
        self.take("kernel", "@")
        name = self.name()
        self.take("(")
        params: list[Param] = []
        while not self.accept(")"):
            if params:
                self.take(",")
            params.append(self._param())
        body = self._block()
        if self.kind != "end":
            raise self.expected("the end of the text")
        return Kernel(name, tuple(params), body)
