"""Value numbering: how a value is computed, of indices and elements in memory, without names.

Two values with equal formulas are equal, in loops beside each other too, once a variable of one is
put in place of the other's.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Load,
    Op,
    Ref,
    Select,
)
from symgrad.codegen.loops.rewrite import arguments, mentions, substitute_variable
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass, replace

_MOST_LEVELS = 8  # a value that is used twice at each level is there 2**8 times


@dataclass(frozen=True, slots=True)
class ValueFormula:
    """An operation, the place in memory or the index that it reads, and what it is applied to."""

    name: str
    dtype: DType
    index: Index
    terms: tuple[ValueFormula | Const, ...]

    def substituted(self, variable: str, by: Index) -> ValueFormula:
        terms = [
            t.substituted(variable, by) if isinstance(t, ValueFormula) else t for t in self.terms
        ]
        return replace(
            self, index=substitute_variable(self.index, variable, by), terms=tuple(terms)
        )

    def mentions(self, variable: str) -> bool:
        """Return whether `variable` occurs in an index of it, or of what it is applied to."""
        formulas = (t for t in self.terms if isinstance(t, ValueFormula))
        return mentions(self.index, variable) or any(t.mentions(variable) for t in formulas)


def formula_of(
    atom: Atom, values: Mapping[str, Expr], constant: Set[str], levels: int = _MOST_LEVELS
) -> ValueFormula | None:
    """Return how `values` compute a value, None if it reads what is not in `constant` buffers."""
    value = values.get(atom.name) if isinstance(atom, Ref) else None
    heading = _heading(value, constant) if levels else None
    if value is None or heading is None:
        return None
    terms: list[ValueFormula | Const] = []
    for argument in arguments(value):
        if isinstance(argument, Const):
            terms.append(argument)
        elif (term := formula_of(argument, values, constant, levels - 1)) is not None:
            terms.append(term)
        else:
            return None
    return ValueFormula(*heading, tuple(terms))


def _heading(value: Expr | None, constant: Set[str]) -> tuple[str, DType, Index] | None:
    match value:
        case Op(name, _, dtype):
            return name, dtype, Index(0)
        case Select():
            return "select", value.dtype, Index(0)
        case Cast():
            return "cast", value.dtype, Index(0)
        case IndexValue():
            return "index", value.dtype, value.index
        case Load() if value.buffer in constant:
            return f"load {value.buffer}", value.dtype, value.index
        case Load() | BinarySearch() | Const() | Ref() | None:
            return None
