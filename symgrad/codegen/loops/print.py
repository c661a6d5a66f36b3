"""Printer of the loop IR.

The text is what the docstrings of the loop language show, and `parse.py` reads it back. Nothing
is checked here: a kernel that is not well formed prints too, so that it can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from symgrad.codegen.loops.language import (
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
    Op,
    Prefix,
    Product,
    Quotient,
    Reduction,
    Ref,
    Select,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.strided import NO_SHIFT, Digit, ZeroBorder
from symgrad.graph.dtypes import DType, bool_, int64
from symgrad.graph.scalars import SCALAR_OPS


def print_kernel(kernel: Kernel) -> str:
    """Return the text of a kernel; it ends with a line break."""
    printer = _Printer({param.name: param.dtype for param in kernel.params})
    printer.line(print_head(kernel, kernel.name, [param.name for param in kernel.params]))
    printer.block(kernel.body)
    printer.line("}")
    return "\n".join(printer.lines) + "\n"


def print_head(kernel: Kernel, name: str, buffers: Iterable[str]) -> str:
    """Return the first line of a kernel that has another name, and its parameters have others."""
    named = zip(buffers, kernel.params, strict=True)
    params = ", ".join([f"{p.mode} {buffer}: {p.dtype}[{p.count}]" for buffer, p in named])
    return f"kernel @{name}({params}) {{"


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
        case BinarySearch():
            return _print_search(expr)
        case _:
            assert_never(expr)


def _print_search(search: BinarySearch) -> str:
    name = "count_less_equal" if search.or_equal else "count_less"
    stride = f" by {search.stride}" if search.stride != 1 else ""
    place = f"{search.buffer}[{print_index(search.index)}]{stride}"
    return f"{name}({_print_atom(search.value, None)}, {place}, {search.length})"


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
            case Store(buffer, index, value, is_streamed):
                text = _print_atom(value, self.buffers.get(buffer)) + " streamed" * is_streamed
                self.line(f"{buffer}[{print_index(index)}] = {text}")
            case Check(name, value, extent, status, bound):
                text = f"{name} = {_print_atom(value, int64)} in"
                least = "0.." if bound == "strict" else ""
                checked = f"check {text} {least}{extent} else {status}"
                self.line(checked if statement.can_fail else f"{bound} {text} {extent}")
            case For():
                self._print_for(statement)
            case Fold() | Prefix():
                self._print_reduction(statement)
            case Product():
                self._print_product(statement)
            case SortRows():
                self.line(_print_sort(statement))
            case _:
                assert_never(statement)

    def _print_for(self, loop: For) -> None:
        vector = f" vector({loop.vector})" if loop.vector != 1 else ""
        if loop.interleave != 1:
            vector += f" interleave({loop.interleave})"
        if loop.prefetches:
            vector += " prefetches"
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
        known = "".join(map(_print_border, product.borders))
        if product.read is not None:
            known += f" read({product.read[0]}, {product.read[1]})"
        if product.shift != NO_SHIFT:
            known += f" shift[{print_index(product.shift)}]"
        self.line(
            f"    {operands}{known} {_print_blocking(product)}{_print_prefetched(product)} {{"
        )
        self.block(product.body)
        self.line("}")


def _print_prefetched(product: Product) -> str:
    prefetched = product.prefetches
    return (
        ""
        if prefetched is None
        else f" prefetches({prefetched.first}, {prefetched.lines}, {prefetched.steps})"
    )


def _print_marks(loop: Reduction) -> str:
    if isinstance(loop, Fold):
        return " prefetches" * loop.prefetches
    return " exclusive" * loop.exclusive + " ordered" * loop.ordered


def _print_results(atoms: tuple[Atom, ...], dtypes: list[DType]) -> str:
    expected = [*dtypes, *[None] * (len(atoms) - len(dtypes))]
    return ", ".join(map(_print_atom, atoms, expected))


def _print_operand(operand: StridedOperand) -> str:
    rows = _print_stride(operand.rows, operand.row_digits)
    columns = _print_stride(operand.columns, operand.column_digits)
    return f"{operand.buffer}[{print_index(operand.index)}] by ({rows}, {columns})"


def _print_stride(stride: int, digits: tuple[Digit, ...]) -> str:
    return " ".join([str(stride), *(f"{place}:{by}" for place, by in digits)])


def _print_border(border: ZeroBorder) -> str:
    rows = f"({border.row_place}, {border.row_count}, {border.row_step})"
    terms = f"({border.term_place}, {border.term_count}, {border.term_step})"
    what = "absent" if border.absent else "border"
    return f" {what}{rows}{terms}({border.first}, {border.stop})"


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
    if share is None:
        return text
    by = "" if share.by is None else f" by {share.by}"
    return f"{text} parallel({share.axis}, {share.tiles} of {share.of}{by})"


def _print_sort(sort: SortRows) -> str:
    operands = f"{_print_operand(sort.result)} = {_print_operand(sort.source)}"
    text = f"sort {sort.gives} {operands} for {sort.rows} rows of {sort.length} keep {sort.count}"
    text += " descending" if sort.descending else ""
    if sort.scratch is not None:
        text += f" scratch({sort.scratch_bytes} in {sort.scratch})"
    elif sort.scratch_bytes:
        text += f" scratch({sort.scratch_bytes})"
    return text if sort.parallel is None else f"{text} parallel({sort.parallel})"
