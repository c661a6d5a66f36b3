"""Rewrite rules: what one is, how an equation becomes one, and the driver that applies tables.

The rules themselves are rows of `rules_algebra.py` and `rules_structure.py`. What needs the whole
graph is a pass of its own and not a rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from symgrad.errors import DTypeError
from symgrad.graph import dtypes
from symgrad.graph.build import derived_from
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.leaf import placeholder


class Holds(Enum):
    """Where the two sides of a rule are equal; this decides when it may run.

    A nan is equal to every nan. A rule runs by itself if it holds for the dtypes at hand, and on
    floats it may change no more than the last bits; the others wait for `fast_math`.
    """

    BITWISE = "bit for bit"
    CLOSE = "but for the last bits of a float"
    EXCEPT_NEG_ZERO = "but for the sign of a zero"
    INTEGERS = "for integers and bools; for floats over the reals"
    REAL = "over the reals"

    def permits(self, is_float: bool, fast_math: bool) -> bool:
        """Return whether a rule may run where an operand is a float, or none is."""
        if fast_math or self in (Holds.BITWISE, Holds.CLOSE):
            return True
        return self is not Holds.REAL and not is_float


BITWISE, CLOSE = Holds.BITWISE, Holds.CLOSE
EXCEPT_NEG_ZERO, INTEGERS, REAL = Holds.EXCEPT_NEG_ZERO, Holds.INTEGERS, Holds.REAL

Examples = Callable[[DType], Sequence[Tensor]]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A tensor that may stand for another one.

    `roots` are the ops the rule is tried on, every op for None. `rewrite` returns the tensor for
    the output of a node, None where it does not apply. `examples` gives tensors of a dtype to
    which it applies, for the tests. With `needs_sole_use` the first operand must have no other
    use: it would be computed twice.
    """

    equation: str
    roots: tuple[str, ...] | None
    holds: Holds
    rewrite: Callable[[Node], Tensor | None]
    examples: Examples
    needs_sole_use: bool = False

    def __str__(self) -> str:
        return f"{self.equation}  [{self.holds.value}]"


# ----------------------------------------------------------------------------------- equations

# Operands of these may be exchanged without changing a bit, but for which of two zeros of unlike
# sign an order takes: that concerns `merge_common` and no rule.
ORDERS = frozenset({"maximum", "minimum"})
COMMUTATIVE = frozenset(
    {"add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"}
)

Equation = Callable[..., tuple[Any, Any]]
Admits = Callable[[float], bool]
_SIZE = 7  # of the one axis of the tensors a pattern is built of: any but 1, which is broadcast
_SAMPLES = (2.0, 3.0, -2.0, 0.5)


def rule(equation: Equation, holds: Holds, *, constants: Admits = lambda _value: True) -> Rule:
    """Make a rule of an equation: a function that returns both sides, built by ordinary ops.

    A parameter that begins with p or q stands for bools, c or d for a constant of equal elements
    that `constants` admits, any other for numbers. Where an operand is a constant, so may be a
    constant seen through a broadcast.
    """
    pattern = _Pattern(equation, constants)
    return Rule(str(pattern), (pattern.left.node.op,), holds, pattern.rewrite, pattern.examples)


class _Pattern:
    """The left side of an equation over variables of float32, and how to find it in a graph."""

    def __init__(self, equation: Equation, admits: Admits) -> None:
        self._equation = equation
        self._admits = admits
        self._names = tuple(inspect.signature(equation).parameters)
        self._variables = [_variable(name, dtypes.float32) for name in self._names]
        left, right = equation(*self._variables)
        assert isinstance(left, Tensor), "the left side of a rule is an op"
        self.left = left
        self._right = right
        self._orders = _orders_of_operands(left, self._variables)

    def rewrite(self, node: Node) -> Tensor | None:
        for swapped in self._orders:
            bound = self._match(node, swapped)
            if bound is not None:
                with derived_from(node):
                    right = self._equation(*bound)[1]
                return right if isinstance(right, Tensor) else None
        return None

    def _match(self, node: Node, swapped: frozenset[Node]) -> list[Tensor] | None:
        """Return what the variables stand for, with the operands of `swapped` exchanged."""
        bound: dict[Tensor, Tensor] = {}
        pending = [(self.left, node.output)]
        while pending:
            wanted, found = pending.pop()
            if wanted in bound:
                if bound[wanted] is not found:
                    return None
                continue
            bound[wanted] = found
            operands = self._operands(wanted, found, swapped)
            if operands is None:
                return None
            pending.extend(operands)
        return [bound[variable] for variable in self._variables]

    def _operands(
        self, wanted: Tensor, found: Tensor, swapped: frozenset[Node]
    ) -> list[tuple[Tensor, Tensor]] | None:
        """Return the operands that must still agree; None if `found` is not what is `wanted`."""
        op = wanted.node.op
        if op == "placeholder":
            name = self._names[self._variables.index(wanted)] if _is_constant(wanted) else ""
            value = uniform_value(found) if name else None
            return [] if not name or (value is not None and self._admits(float(value))) else None
        if op == "constant":
            return [] if _is_same_constant(wanted, found) else None
        if op == "broadcast_to":  # of a scalar that the equation states
            return [(wanted.node.inputs[0], found)]
        node = found.node
        if node.definition is not wanted.node.definition or node.attrs != wanted.node.attrs:
            return None
        inputs = node.inputs[::-1] if wanted.node in swapped else node.inputs
        return list(zip(wanted.node.inputs, inputs, strict=True))

    def examples(self, dtype: DType) -> list[Tensor]:
        """Return the left side over placeholders of `dtype`, once for each sample constant."""
        found = []
        samples = [v for v in _SAMPLES if self._admits(v)] if _has_constant(self._names) else [0.0]
        for sample in samples:
            operands = [_example(name, dtype, sample) for name in self._names]
            try:
                left, _right = self._equation(*operands)
            except DTypeError:
                return []  # the equation is not about this dtype
            if isinstance(left, Tensor) and left.node.op == self.left.node.op:
                found.append(left)
        return found

    def __str__(self) -> str:
        labels = dict(zip(self._variables, self._names, strict=True))
        right = _print(self._right, labels) if isinstance(self._right, Tensor) else self._right
        return f"{_print(self.left, labels)} -> {right}"


def _is_proposition(name: str) -> bool:
    return name[0] in "pq"


def _has_constant(names: Sequence[str]) -> bool:
    return any(name[0] in "cd" for name in names)


def _is_constant(variable: Tensor) -> bool:
    return variable.name is not None and variable.name[0] in "cd"


def _variable(name: str, dtype: DType) -> Tensor:
    return placeholder((_SIZE,), dtypes.bool_ if _is_proposition(name) else dtype, name)
