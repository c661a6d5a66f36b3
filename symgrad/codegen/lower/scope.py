"""Three-address code with local value numbering: scalar expressions become statements.

`Scope` is the list of statements being written, with what has been computed in it. It implements
`Scalars`, so the bodies that ops declare write themselves into it.
"""

from __future__ import annotations

import itertools

from symgrad.codegen.loops.language import (
    Atom,
    Cast,
    Check,
    Const,
    Expr,
    Index,
    IndexValue,
    Let,
    Load,
    Number,
    Op,
    Ref,
    Select,
    Stmt,
)
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.graph.structures import Bound

ValueKey = tuple[Tensor, tuple[Index, ...]]


class Names:
    """The supply of names of one kernel."""

    def __init__(self) -> None:
        self._values = itertools.count()
        self._loops = itertools.count()

    def value(self) -> str:
        return f"t{next(self._values)}"

    def loop(self) -> str:
        return f"i{next(self._loops)}"


class Scope:
    """A block of statements in the making, with value numbers: what it has bound is bound once."""

    def __init__(self, names: Names, outer: Scope | None = None) -> None:
        self.names = names
        self.statements: list[Stmt] = []
        self._outer = outer
        self._known: dict[ValueKey, Atom] = {}
        self._expressions: dict[Expr, Ref] = {}
        self._checked: dict[tuple[Atom, int, Bound], Index] = {}

    def inner(self) -> Scope:
        """Return the scope of a loop's body."""
        return Scope(self.names, self)

    def find(self, key: ValueKey) -> Atom | None:
        """Return the value of a tensor's element, if this scope or one around has bound it."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._known.get(key)
            if found is not None:
                return found
            scope = scope._outer
        return None

    def remember(self, key: ValueKey, value: Atom) -> None:
        self._known[key] = value

    def let(self, value: Expr) -> Atom:
        """Bind `value` to a name, or to the one it has: a common subexpression is computed once."""
        if isinstance(value, Atom):
            return value
        scope: Scope | None = self
        while scope is not None:
            found = scope._expressions.get(value)
            if found is not None:
                return found
            scope = scope._outer
        name = Ref(self.names.value(), value.dtype)
        self.statements.append(Let(name.name, value))
        self._expressions[value] = name
        return name

    def load(self, buffer: str, index: Index, dtype: DType) -> Atom:
        return self.let(Load(buffer, index, dtype))

    def index_value(self, index: Index) -> Atom:
        """Return an index as an int64 value."""
        if not index.terms:
            return Const(index.const, dtypes.int64)
        return self.let(IndexValue(index, dtypes.int64))

    def check(self, value: Atom, extent: int, status: int, bound: Bound = "wrap") -> Index:
        """Bind an index that is data, after a check that it lies in an axis of `extent`.

        What was checked in this scope or one around is so once: where it fails, the first one does.
        """
        key = value, extent, bound
        scope: Scope | None = self
        while scope is not None:
            if key in scope._checked:
                return scope._checked[key]
            scope = scope._outer
        name = self.names.value()
        self.statements.append(Check(name, value, extent, status, bound))
        index = self._checked[key] = Index(0, ((name, 1),))
        return index

    # ------------------------------------------------------------------ the Scalars protocol

    def dtype_of(self, value: Atom) -> DType:
        return value.dtype

    def const(self, value: Number, dtype: DType) -> Atom:
        return constant(value, dtype)

    def cast(self, value: Atom, dtype: DType) -> Atom:
        if value.dtype == dtype:
            return value
        return self.let(Cast(value, dtype))

    def select(self, condition: Atom, chosen: Atom, otherwise: Atom) -> Atom:
        return self.let(Select(condition, chosen, otherwise, chosen.dtype))

    def call(self, name: str, *args: Atom) -> Atom:
        """Apply a scalar operation; a 16-bit float is computed in float32 and rounded."""
        row = SCALAR_OPS[name]
        assert len(args) == row.arity, f"{name} takes {row.arity} arguments, not {len(args)}"
        dtype = args[0].dtype
        if dtype.is_half:
            wide = self.call(name, *(self.cast(a, dtypes.float32) for a in args))
            return wide if row.gives == "bool" else self.cast(wide, dtype)
        result = dtypes.bool_ if row.gives == "bool" else dtype
        return self.let(Op(name, args, result))


def constant(value: Number, dtype: DType) -> Const:
    """Return the constant that `value` is when rounded to `dtype`."""
    if dtype.is_float:
        return Const(float(dtype.numpy.type(value)), dtype)
    return Const(bool(value) if dtype.is_bool else int(value), dtype)
