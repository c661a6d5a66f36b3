"""Mutants of one token, drawn from the code of some files.

A mutant is a file in which one token is another one, or is gone:

- an operator: `+` and `-`, `*` and `/`, `//` and `%` as `*`, `<` and `<=`, `>` and `>=`, `==` and
  `!=`, `is` and `is not`, `in` and `not in`, `and` and `or`, `&` and `|`, `<<` and `>>`, `+=` and
  `-=`, `*=` and `//=`; a `not` or a sign that is gone, a `not` before a condition that had none;
- a number `n` as `n + 1`, `True` and `False`, a string with a letter more or as its sibling;
- a name in the arguments of a call or in a tuple as the next name there, a function, an attribute
  or a string as its sibling (`sin` and `cos`, `add` and `subtract`, `inputs` and `outputs`, ...);
- a `return` or a decorator that is gone, `break` and `continue`.

Left out are docstrings, comments, annotations, imports, f-strings, what is raised, the message of
an `assert`, and the `strict=` of a `zip`: what only says again what has been checked before can be
seen by no test. A token gives one mutant at most.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_OPERATORS = {
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"is": "is not", "is not": "is", "in": "not in", "not in": "in"},
    **{"and": "or", "or": "and", "&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<"},
    **{"+=": "-=", "-=": "+=", "*=": "//=", "//=": "*=", "|=": "&=", "&=": "|="},
}
_SIBLINGS = {
    one: other
    for pair in (
        *("add subtract", "multiply divide", "maximum minimum", "max min", "sin cos", "exp log"),
        *("less greater", "less_equal greater_equal", "equal not_equal", "any all", "floor ceil"),
        *("zeros ones", "zeros_like ones_like", "argmax argmin", "sum prod", "keys values"),
        *("inputs outputs", "inputs output", "logical_and logical_or", "left_shift right_shift"),
        *("isnan isinf", "lhs rhs", "start stop", "quotient modulus", "expm1 log1p"),
        *("lt gt", "le ge", "eq ne", "add sub", "mul div", "and or", "shl shr", "signed unsigned"),
    )
    for one, other in (pair.split(), pair.split()[::-1])
}
_SIBLINGS |= {"inputs": "outputs", "output": "inputs", "add": "subtract", "log": "exp"}
_OPERATOR = re.compile(rb"is\s+not\b|not\s+in\b|[^\s()\\]+")
_STRING = re.compile(r"""(?P<open>"|')(?P<text>[^"'\\\n]*)(?P=open)""")

Span = tuple[int, int]  # where a token begins and ends, in bytes of its file
Lines = tuple[int, int]  # the first and the last line


@dataclass(frozen=True, slots=True)
class Mutant:
    """One token of a file replaced, with the lines of the statements around it."""

    path: str
    span: Span
    before: str
    after: str
    line: int
    statement: Lines  # the innermost
    block: Lines  # the outermost: a function, a row of a table
    name: str  # of the block
    key: str  # the same as long as its line and the name of its block are

    def applied(self, source: bytes) -> bytes:
        """Return the source of the file with the token replaced."""
        return source[: self.span[0]] + self.after.encode() + source[self.span[1] :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before!r} -> {self.after!r} in {self.name}"


def draw(root: Path, paths: Sequence[str], seed: int, count: int) -> list[Mutant]:
    """Draw mutants from files: the same ones as long as the lines they lie in are the same."""

    def lot(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    found = [m for path in paths for m in mutants_of(path, (root / path).read_bytes())]
    drawn: list[Mutant] = []
    for mutant in sorted(found, key=lot):
        if _is_program(mutant.applied((root / mutant.path).read_bytes())):
            drawn.append(mutant)
        if len(drawn) == count:
            break
    return drawn


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a file, in the order of their tokens."""
    code = _Code(source)
    changes: dict[Span, tuple[str, Lines, ast.stmt, str]] = {}
    for name, block in _blocks(ast.parse(source)):
        for node, statement in _nodes(block):
            for span, after in _changes(node, code):
                changes.setdefault(span, (after, _lines(statement), block, name))
    seen: Counter[str] = Counter()
    mutants = []
    for span, (after, lines, block, name) in sorted(changes.items(), key=lambda item: item[0]):
        line = code.line(span[0])
        before = code.blank[slice(*span)].decode()
        key = f"{path} {name} {before} {after} {code.text(line)}"
        seen[key] += 1
        key = f"{key} {seen[key]}"
        mutants.append(Mutant(path, span, before, after, line, lines, _lines(block), name, key))
    return mutants


class _Code:
    """A source of which positions are bytes, and its text with blanks for comments."""

    def __init__(self, source: bytes) -> None:
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.blank = bytearray(source)
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if token.type == tokenize.COMMENT:
                column = len(token.line[: token.start[1]].encode())
                start = self._starts[token.start[0] - 1] + column
                size = len(token.string.encode())
                self.blank[start : start + size] = b" " * size

    def span(self, node: ast.expr | ast.stmt) -> Span:
        assert node.end_lineno is not None, "it was parsed from text"
        assert node.end_col_offset is not None, "it was parsed from text"
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def line(self, position: int) -> int:
        return sum(start <= position for start in self._starts[:-1])

    def text(self, line: int) -> str:
        return self._lines[line - 1].decode().strip()

    def between(self, one: ast.expr, other: ast.expr) -> Iterator[tuple[Span, str]]:
        """Yield the operator between two operands, if it has another."""
        gap = self.span(one)[1], self.span(other)[0]
        found = _OPERATOR.search(bytes(self.blank[slice(*gap)]))
        assert found is not None, "an operator lies between its operands"
        after = _OPERATORS.get(" ".join(found[0].decode().split()))
        if after is not None:
            yield (gap[0] + found.start(), gap[0] + found.end()), after

    def first(self, node: ast.expr | ast.stmt, token: str) -> Span:
        start = self.span(node)[0]
        return start, start + len(token)


# ----------------------------------------------------------------- the nodes that are code


def _nodes(block: ast.stmt) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """Yield what is code in a statement, each node with the innermost statement around it."""
    pending: list[tuple[ast.AST, ast.stmt]] = [(block, block)]
    while pending:
        node, statement = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr) or _is_docstring(node):
            continue
        if isinstance(node, ast.stmt):
            statement = node
        yield node, statement
        pending.extend((child, statement) for child in _children(node))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.AnnAssign(value=value):
            return iter([] if value is None else [value])
        case ast.Assert(test=test):
            return iter([test])
        case ast.Raise() | ast.keyword(arg="strict"):
            return iter([])
        case _:
            types = [id(getattr(node, field, None)) for field in ("annotation", "returns")]
            return (child for child in ast.iter_child_nodes(node) if id(child) not in types)


def _blocks(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield functions, methods and statements outside of them, with their names."""
    for block in module.body:
        if isinstance(block, ast.ClassDef):
            methods = (method for method in block.body if isinstance(method, ast.FunctionDef))
            yield from ((f"{block.name}.{method.name}", method) for method in methods)
        yield _name(block), block


def called_on_import(source: bytes) -> set[str]:
    """Return the names of functions that are called by what is in no function."""
    module = ast.parse(source)
    outside = [s for s in module.body if not isinstance(s, ast.FunctionDef | ast.ClassDef)]
    nodes = (node for statement in outside for node in ast.walk(statement))
    return {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def _name(block: ast.stmt) -> str:
    match block:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return "the module"


def _lines(statement: ast.stmt) -> Lines:
    assert statement.end_lineno is not None, "it was parsed from text"
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)]), statement.end_lineno


def _is_program(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


# ------------------------------------------------------------------------- what is changed


def _changes(node: ast.AST, code: _Code) -> Iterator[tuple[Span, str]]:
    """Yield the tokens of a node that have a mutant, without those of its operands."""
    match node:
        case ast.Constant():
            yield from _changed_constant(node, code)
        case ast.Name(id=name, ctx=ast.Load()) if name in _SIBLINGS:
            yield code.span(node), _SIBLINGS[name]
        case ast.Attribute(attr=name) if name in _SIBLINGS:
            end = code.span(node)[1]
            yield (end - len(name), end), _SIBLINGS[name]
        case ast.Call(func=ast.Name(id="isinstance" | "cast")):
            return  # a name there is one of a type
        case ast.Call(args=operands) | ast.Tuple(elts=operands, ctx=ast.Load()):
            yield from _swapped(operands, code)
        case ast.If() | ast.While() | ast.IfExp() | ast.comprehension():
            yield from _negated(node, code)
        case ast.stmt():
            yield from _changed_flow(node, code)
        case ast.expr():
            yield from _changed_operator(node, code)
        case _:
            return


def _changed_operator(node: ast.expr, code: _Code) -> Iterator[tuple[Span, str]]:
    match node:
        case ast.BinOp(left=left, right=right):
            yield from code.between(left, right)
        case ast.Compare(left=left, comparators=others):
            for one, other in pairwise((left, *others)):
                yield from code.between(one, other)
        case ast.BoolOp(values=values):
            for one, other in pairwise(values):
                yield from code.between(one, other)
        case ast.UnaryOp(op=ast.Not()):
            yield code.first(node, "not"), ""
        case ast.UnaryOp(op=ast.USub()):
            yield code.first(node, "-"), ""
        case _:
            return


def _changed_constant(node: ast.Constant, code: _Code) -> Iterator[tuple[Span, str]]:
    span = code.span(node)
    match node.value:
        case bool():
            yield span, str(not node.value)
        case int() | float():
            yield span, repr(node.value + 1)
        case str():
            found = _STRING.fullmatch(code.blank[slice(*span)].decode())
            if found is not None:  # and not several, or one of several lines
                quote, text = found["open"], found["text"]
                yield span, f"{quote}{_SIBLINGS.get(text, f'{text}_')}{quote}"
        case _:
            return


def _swapped(operands: Sequence[ast.expr], code: _Code) -> Iterator[tuple[Span, str]]:
    names = [n for n in operands if isinstance(n, ast.Name)]
    for i, name in enumerate(names):
        others = [n.id for n in (*names[i + 1 :], *names[:i][::-1]) if n.id != name.id]
        if others:
            yield code.span(name), others[0]


def _changed_flow(node: ast.stmt, code: _Code) -> Iterator[tuple[Span, str]]:
    match node:
        case ast.Return(value=value):
            yield code.first(node, "return"), "pass" if value is None else ""
        case ast.Break():
            yield code.span(node), "continue"
        case ast.Continue():
            yield code.span(node), "break"
        case ast.AugAssign(target=target, value=value):
            yield from code.between(target, value)
        case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
            for decorator in decorators:
                start, end = code.span(decorator)
                yield (code.blank.rindex(b"@", 0, start), end), ""
        case _:
            return


def _negated(node: ast.AST, code: _Code) -> Iterator[tuple[Span, str]]:
    conditions: list[object] = getattr(node, "ifs", None) or [getattr(node, "test", None)]
    for condition in conditions:
        if isinstance(condition, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            start = code.span(condition)[0]
            yield (start, start), "not "
