"""Alpha-renaming: canonical names, under which equal kernels have equal text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from symgrad.codegen.loops.index_arithmetic import index_of
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
    Index,
    IndexAtom,
    IndexValue,
    Kernel,
    Let,
    Load,
    Modulus,
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
)
from symgrad.records import replace

CANONICAL_NAME = "kernel"


def canonical(kernel: Kernel) -> Kernel:
    """Alpha-rename: return the kernel with names replaced in the order in which they are bound.

    Kernels that do the same but for names have the same canonical text. Compare the text and not
    the kernels: 0.0 == -0.0, and nan differs from itself.
    """
    return _Renamer().kernel(kernel, canonical_buffers(kernel))


def canonical_buffers(kernel: Kernel) -> list[str]:
    """Return the canonical names of the parameters of a kernel."""
    return [f"b{i}" for i in range(len(kernel.params))]


def renamed(kernel: Kernel, buffers: Sequence[str], ending: str) -> Kernel:
    """Alpha-rename apart: return the kernel with its parameters called `buffers`.

    All that it binds has names with `.` and `ending`, so that it can stand beside another kernel.
    """
    return _Renamer(f".{ending}").kernel(kernel, buffers)


def renamed_apart(
    body: Sequence[Stmt], buffers: Sequence[str], around: Sequence[str], ending: str
) -> tuple[Stmt, ...]:
    """Alpha-rename apart: return statements within loops `around` with other names of their own."""
    return _Renamer(f".{ending}").statements(body, buffers, around)


class _Renamer:
    """The new names; a name that is bound anew after its loop has ended gets another one."""

    def __init__(self, ending: str = "") -> None:
        self._ending = ending
        self._buffers: dict[str, str] = {}
        self._vars: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._bound_vars = 0
        self._bound_values = 0

    def kernel(self, kernel: Kernel, buffers: Sequence[str]) -> Kernel:
        names = [param.name for param in kernel.params]
        self._buffers = dict(zip(names, buffers, strict=True))
        params = (Param(self._buffers[p.name], p.dtype, p.count, p.mode) for p in kernel.params)
        return Kernel(CANONICAL_NAME, tuple(params), self._body(kernel.body))

    def statements(
        self, body: Sequence[Stmt], buffers: Sequence[str], around: Sequence[str]
    ) -> tuple[Stmt, ...]:
        self._buffers = dict(zip(buffers, buffers, strict=True))
        self._vars = dict(zip(around, around, strict=True))
        return self._body(tuple(body))

    def _bind_var(self, name: str) -> str:
        renamed = self._vars[name] = f"i{self._bound_vars}{self._ending}"
        self._bound_vars += 1
        return renamed

    def _new_value(self) -> str:
        self._bound_values += 1
        return f"t{self._bound_values - 1}{self._ending}"

    def _bind_value(self, name: str) -> str:
        renamed = self._values[name] = self._new_value()
        return renamed

    def _index(self, index: Index) -> Index:
        # In normal form the order of the terms depends on the names, so it is made anew.
        terms = [(self._index_atom(atom), coefficient) for atom, coefficient in index.terms]
        return index_of(*terms, const=index.const)

    def _index_atom(self, atom: IndexAtom) -> IndexAtom:
        if isinstance(atom, str):
            return self._vars[atom]
        inner = self._index(atom.index)
        return Quotient(inner, atom.by) if isinstance(atom, Quotient) else Modulus(inner, atom.by)

    def _atom(self, atom: Atom) -> Atom:
        return atom if isinstance(atom, Const) else Ref(self._values[atom.name], atom.dtype)

    def _atoms(self, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple(self._atom(atom) for atom in atoms)

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Const() | Ref():
                return self._atom(expr)
            case Load(buffer, index, dtype):
                return Load(self._buffers[buffer], self._index(index), dtype)
            case Op(name, args, dtype):
                return Op(name, self._atoms(args), dtype)
            case Select(condition, chosen, otherwise, dtype):
                values = self._atom(chosen), self._atom(otherwise)
                return Select(self._atom(condition), *values, dtype)
            case Cast(value, dtype):
                return Cast(self._atom(value), dtype)
            case IndexValue(index, dtype):
                return IndexValue(self._index(index), dtype)
            case BinarySearch(value, buffer, index):
                place = self._buffers[buffer], self._index(index)
                return replace(expr, value=self._atom(value), buffer=place[0], index=place[1])
            case _:
                assert_never(expr)

    def _body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self._statement(statement) for statement in body)

    def _statement(self, statement: Stmt) -> Stmt:
        match statement:
            case Let():
                return self._let(statement)
            case Store(buffer, index, value):
                place = self._buffers[buffer], self._index(index)
                return Store(*place, self._atom(value), statement.is_streamed)
            case Check(name, value):
                renamed = self._atom(value)
                return replace(statement, name=self._bind_var(name), value=renamed)
            case For(var):
                renamed_var = self._bind_var(var)
                return replace(statement, var=renamed_var, body=self._body(statement.body))
            case Fold():
                return self._fold(statement)
            case Prefix():
                return self._prefix(statement)
            case Product():
                return self._product(statement)
            case SortRows(result=result, source=source, scratch=scratch):
                return replace(
                    statement,
                    result=self._operand(result),
                    source=self._operand(source),
                    scratch=None if scratch is None else self._buffers[scratch],
                )
            case _:
                assert_never(statement)

    def _let(self, let: Let) -> Let:
        value = self._expr(let.value)
        return Let(self._bind_value(let.name), value)

    def _fold(self, fold: Fold) -> Fold:
        # Bound outside only after the loop: until then the body may use the name for its own.
        results = [self._new_value() for _ in fold.accumulators]
        var = self._bind_var(fold.var)
        body = self._body(fold.body)
        items = self._atoms(fold.items)
        left = tuple(self._bind_value(name) for name in fold.left)
        right = tuple(self._bind_value(name) for name in fold.right)
        combine = tuple(self._let(let) for let in fold.combine)
        combined = self._atoms(fold.combined)
        self._values.update(
            (a.name, new) for a, new in zip(fold.accumulators, results, strict=True)
        )
        return Fold(
            accumulators=tuple(map(Accumulator, results, (a.identity for a in fold.accumulators))),
            var=var,
            extent=fold.extent,
            lanes=fold.lanes,
            body=body,
            items=items,
            left=left,
            right=right,
            combine=combine,
            combined=combined,
            prefetches=fold.prefetches,
        )

    def _prefix(self, prefix: Prefix) -> Prefix:
        var = self._bind_var(prefix.var)
        body = self._body(prefix.body)
        items = self._atoms(prefix.items)
        left = tuple(self._bind_value(name) for name in prefix.left)
        right = tuple(self._bind_value(name) for name in prefix.right)
        combine = tuple(self._let(let) for let in prefix.combine)
        combined = self._atoms(prefix.combined)
        names = (self._bind_value(a.name) for a in prefix.accumulators)
        identities = (a.identity for a in prefix.accumulators)
        return Prefix(
            accumulators=tuple(map(Accumulator, names, identities)),
            var=var,
            extent=prefix.extent,
            lanes=prefix.lanes,
            body=body,
            items=items,
            left=left,
            right=right,
            combine=combine,
            combined=combined,
            each=self._body(prefix.each),
            exclusive=prefix.exclusive,
            ordered=prefix.ordered,
        )

    def _operand(self, operand: StridedOperand) -> StridedOperand:
        buffer, index = self._buffers[operand.buffer], self._index(operand.index)
        return replace(operand, buffer=buffer, index=index)

    def _product(self, product: Product) -> Product:
        lhs, rhs = self._operand(product.lhs), self._operand(product.rhs)
        name = self._bind_value(product.name)
        rows, columns, inner = (
            (self._bind_var(var), extent)
            for var, extent in (product.rows, product.columns, product.inner)
        )
        return Product(
            name=name,
            dtype=product.dtype,
            element=product.element,
            rows=rows,
            columns=columns,
            inner=inner,
            lhs=lhs,
            rhs=rhs,
            blocking=product.blocking,
            scratch=None if product.scratch is None else self._buffers[product.scratch],
            body=self._body(product.body),
            parallel=product.parallel,
            borders=product.borders,
            read=product.read,
            shift=self._index(product.shift),
            prefetches=product.prefetches,
        )
