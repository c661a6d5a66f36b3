"""Printer of the loop IR, and canonical names, under which equal kernels have equal text.

The text is what the docstrings of the loop language show, and `parse.py` reads it back. Nothing
is checked here: a kernel that is not well formed prints too, so that it can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Accumulator,
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
    Modulus,
    Op,
    Param,
    Prefix,
    Product,
    Quotient,
    Reduction,
    Ref,
    Select,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.graph.dtypes import DType, bool_, int64
from symgrad.graph.scalars import SCALAR_OPS


def print_kernel(kernel: Kernel) -> str:
    """Return the text of a kernel; it ends with a line break."""
    printer = _Printer({param.name: param.dtype for param in kernel.params})
    params = ", ".join(f"{p.mode} {p.name}: {p.dtype}[{p.count}]" for p in kernel.params)
    printer.line(f"kernel @{kernel.name}({params}) {{")
    printer.block(kernel.body)
    printer.line("}")
    return "\n".join(printer.lines) + "\n"


def print_statement(statement: Stmt) -> str:
    """Return the first line of a statement, for messages."""
    printer = _Printer({})
    printer.statement(statement)
    return printer.lines[0]


def print_index(index: Index) -> str:
    """Return the text of an index; Python reads it as the same number."""
    parts = [_print_term(atom, coefficient) for atom, coefficient in index.terms]
    if index.const or not parts:
        parts.append(str(index.const))
    signed = (f" - {part[1:]}" if part.startswith("-") else f" + {part}" for part in parts[1:])
    return parts[0] + "".join(signed)


def _print_term(atom: IndexAtom, coefficient: int) -> str:
    text = _print_index_atom(atom)
    if coefficient == 1:
        return text
    if not isinstance(atom, str):
        text = f"({text})"
    return f"-{text}" if coefficient == -1 else f"{coefficient}*{text}"


def _print_index_atom(atom: IndexAtom) -> str:
    if isinstance(atom, str):
        return atom
    inner = print_index(atom.index)
    if not inner.isidentifier():
        inner = f"({inner})"
    return f"{inner} {'//' if isinstance(atom, Quotient) else '%'} {atom.by}"


def _print_atom(atom: Atom, expected: DType | None) -> str:
    """Print a constant with its dtype unless that is `expected` at its place."""
    if isinstance(atom, Ref):
        return atom.name
    text = _print_number(atom)
    return text if atom.dtype == expected else f"{text}:{atom.dtype}"


def _print_number(const: Const) -> str:
    if const.dtype.is_bool:
        return "true" if const.value else "false"
    return repr(float(const.value)) if const.dtype.is_float else str(int(const.value))


def _print_expr(expr: Expr) -> str:
    match expr:
        case Const() | Ref():
            return _print_atom(expr, expr.dtype)
        case Load():
            return f"{expr.buffer}[{print_index(expr.index)}]"
        case Op():
            return f"{expr.name}({_print_atoms(expr.args, argument_dtype(expr.name, expr.dtype))})"
        case Select():
            values = _print_atoms((expr.chosen, expr.otherwise), expr.dtype)
            return f"select({_print_atom(expr.condition, bool_)}, {values})"
        case Cast():
            return f"{expr.dtype}({_print_atom(expr.value, None)})"
        case IndexValue():
            return f"index({print_index(expr.index)})"
        case _:
            assert_never(expr)


def argument_dtype(op: str, result: DType) -> DType | None:
    """Return the dtype of an operation's arguments where that of the result tells it."""
    return result if op in SCALAR_OPS and SCALAR_OPS[op].gives == "same" else None


def _print_atoms(atoms: Iterable[Atom], expected: DType | None) -> str:
    return ", ".join(_print_atom(atom, expected) for atom in atoms)


class _Printer:
    """Collects the lines of a kernel whose buffers have the given dtypes."""

    def __init__(self, buffers: dict[str, DType]) -> None:
        self.buffers = buffers
        self.lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def block(self, body: Iterable[Stmt], results: str | None = None) -> None:
        self._depth += 1
        for statement in body:
            self.statement(statement)
        if results is not None:
            self.line(f"yield {results}")
        self._depth -= 1

    def statement(self, statement: Stmt) -> None:
        match statement:
            case Let(name, value):
                self.line(f"{name}: {value.dtype} = {_print_expr(value)}")
            case Store(buffer, index, value):
                text = _print_atom(value, self.buffers.get(buffer))
                self.line(f"{buffer}[{print_index(index)}] = {text}")
            case Check(name, value, extent, status, bound):
                text = f"{name} = {_print_atom(value, int64)} in"
                least = "0.." if bound == "strict" else ""
                checked = f"check {text} {least}{extent} else {status}"
                self.line(checked if statement.can_fail else f"clamp {text} {extent}")
            case For():
                self._print_for(statement)
            case Fold() | Prefix():
                self._print_reduction(statement)
            case Product():
                self._print_product(statement)
            case _:
                assert_never(statement)

    def _print_for(self, loop: For) -> None:
        vector = f" vector({loop.vector})" if loop.vector != 1 else ""
        ordered = " ordered" if loop.ordered else ""
        parallel = f" parallel({loop.parallel})" if loop.parallel is not None else ""
        self.line(f"for {loop.var} in 0..{loop.extent}{vector}{ordered}{parallel} {{")
        self.block(loop.body)
        self.line("}")

    def _print_reduction(self, loop: Reduction) -> None:
        dtypes = [accumulator.identity.dtype for accumulator in loop.accumulators]
        heads = ", ".join(
            f"{a.name}: {a.identity.dtype} = {_print_number(a.identity)}" for a in loop.accumulators
        )
        word = "prefix" if isinstance(loop, Prefix) else "fold"
        lanes = f" lanes({loop.lanes})" if loop.lanes != 1 else ""
        self.line(
            f"{word} {heads} for {loop.var} in 0..{loop.extent}{lanes}{_print_marks(loop)} {{"
        )
        self.block(loop.body, _print_results(loop.items, dtypes))
        self.line(f"}} combine ({', '.join(loop.left)}) ({', '.join(loop.right)}) {{")
        self.block(loop.combine, _print_results(loop.combined, dtypes))
        if isinstance(loop, Prefix):
            self.line("} each {")
            self.block(loop.each)
        self.line("}")

    def _print_product(self, product: Product) -> None:
        axes = (product.rows, product.columns, product.inner)
        ranges = " ".join(f"({var} in 0..{extent})" for var, extent in axes)
        self.line(f"product {product.name}: {product.dtype} for {ranges}")
        operands = f"{_print_operand(product.lhs)} * {_print_operand(product.rhs)}"
        self.line(f"    {operands} {_print_blocking(product)} {{")
        self.block(product.body)
        self.line("}")


def _print_marks(loop: Reduction) -> str:
    if not isinstance(loop, Prefix):
        return ""
    return " exclusive" * loop.exclusive + " ordered" * loop.ordered


def _print_results(atoms: tuple[Atom, ...], dtypes: list[DType]) -> str:
    expected = [*dtypes, *[None] * (len(atoms) - len(dtypes))]
    return ", ".join(map(_print_atom, atoms, expected))


def _print_operand(operand: StridedOperand) -> str:
    return f"{operand.buffer}[{print_index(operand.index)}] by ({operand.rows}, {operand.columns})"


def _print_blocking(product: Product) -> str:
    blocking = product.blocking
    text = (
        f"tile({', '.join(map(str, blocking.tile))}) block({', '.join(map(str, blocking.block))})"
        f" pack({', '.join(blocking.pack)}) along({blocking.along})"
    )
    if product.scratch is not None:
        text += f" scratch({blocking.scratch} in {product.scratch})"
    elif blocking.scratch:
        text += f" scratch({blocking.scratch})"
    share = product.parallel
    return text if share is None else f"{text} parallel({share.axis}, {share.tiles})"


# ------------------------------------------------------------------------------- canonical names


def canonical(kernel: Kernel) -> Kernel:
    """Alpha-rename: return the kernel with names replaced in the order in which they are bound.

    Kernels that do the same but for names have the same canonical text. Compare the text and not
    the kernels: 0.0 == -0.0, and nan differs from itself.
    """
    return _Renamer().kernel(kernel)


class _Renamer:
    """The new names; a name that is bound anew after its loop has ended gets another one."""

    def __init__(self) -> None:
        self._buffers: dict[str, str] = {}
        self._vars: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._bound_vars = 0
        self._bound_values = 0

    def kernel(self, kernel: Kernel) -> Kernel:
        self._buffers = {param.name: f"b{i}" for i, param in enumerate(kernel.params)}
        params = (Param(self._buffers[p.name], p.dtype, p.count, p.mode) for p in kernel.params)
        return Kernel("kernel", tuple(params), self._body(kernel.body))

    def _bind_var(self, name: str) -> str:
        renamed = self._vars[name] = f"i{self._bound_vars}"
        self._bound_vars += 1
        return renamed

    def _new_value(self) -> str:
        self._bound_values += 1
        return f"t{self._bound_values - 1}"

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
            case _:
                assert_never(expr)

    def _body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self._statement(statement) for statement in body)

    def _statement(self, statement: Stmt) -> Stmt:
        match statement:
            case Let():
                return self._let(statement)
            case Store(buffer, index, value):
                return Store(self._buffers[buffer], self._index(index), self._atom(value))
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
        return StridedOperand(buffer, index, operand.rows, operand.columns)

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
        )
