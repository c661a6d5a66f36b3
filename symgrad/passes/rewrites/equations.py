"""Pattern matching: equations as rules, whose sides are built by ordinary ops over variables.

    rule(lambda x: (subtract(x, 0), x), BITWISE)

A parameter that begins with p or q stands for bools, c or d for a constant of equal elements, any
other for numbers. A constant of the equation matches one in the graph that has the same value in
its dtype, also seen through a broadcast. Rules about attributes are no equations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache

from symgrad.errors import DTypeError
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.leaf import constant_op, placeholder
from symgrad.graph.node import Node, OpDef, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.elementwise import number_of, uniform_value
from symgrad.graph.ops.structure import broadcast_to, broadcast_to_op
from symgrad.graph.structures import Number
from symgrad.graph.traverse import topological
from symgrad.graph.types import ArrayLiteral
from symgrad.passes.rewrites.rules import Holds, RewriteRule, Uniform
from symgrad.records import dataclass

Equation = Callable[..., tuple[Tensor, Tensor]]
Admits = Callable[[Number], bool]

_SIZE = 7  # of the tensors an equation is about: any but 1, which an op would broadcast
_SAMPLES: tuple[Number, ...] = (2, 3, -2, 0.5, 0.1)  # for the constants c and d in examples


def rule(
    equation: Equation, holds: Holds, *, constants: Admits = lambda _value: True
) -> RewriteRule:
    """Make a rule of `equation`, which returns both sides.

    `constants` says which numbers the parameters c and d stand for.
    """
    pattern = _Pattern(equation, constants)
    return RewriteRule(
        str(pattern),
        (pattern.left.node.definition,),
        holds,
        pattern.rewrite,
        pattern.examples,
        may_match=pattern.may_match,
        takes_numbers=pattern.takes_numbers if pattern.is_about_constants else None,
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """What an operand must be for the rest to be worth matching.

    A result of `op`, None for any; with `is_constant` a constant, perhaps seen through views;
    `number` in each element, None for any.
    """

    op: OpDef | None = None
    is_constant: bool = False
    number: Number | None = None

    def admits_op(self, op: OpDef) -> bool:
        if self.is_constant:
            return op is constant_op or op.is_view
        return self.op is None or op is self.op

    def admits_number(self, literal: ArrayLiteral | None) -> bool:
        if not self.is_constant:
            return True
        if literal is None:
            return False
        return self.number is None or _is_same_number(self.number, number_of(literal))


class _Pattern:
    """The left side of an equation over variables, and how to find it in a graph."""

    def __init__(self, equation: Equation, admits: Admits) -> None:
        self._equation = equation
        self._admits = admits
        taken = equation.__code__.co_varnames[: equation.__code__.co_argcount]
        self._names = {_variable(name): name for name in taken}
        self.left, self._right = equation(*self._names)
        self._gathers_constants = sum(map(_is_constant, taken)) > 1
        self._values = {
            node.output: uniform_value(node.output)
            for node in topological([self.left])
            if node.definition in (constant_op, broadcast_to_op)
        }
        assert None not in self._values.values(), "an equation broadcasts scalars only"
        self._orders = [(nodes, self._heads(nodes)) for nodes in _orders_of_operands(self.left)]

    def _heads(self, exchanged: frozenset[Node]) -> list[_Head]:
        """Return what is known of each operand of the left side."""
        root = self.left.node
        heads = [self._head(t) for t in root.inputs]
        return heads[::-1] if root in exchanged else heads

    def _head(self, operand: Tensor) -> _Head:
        if operand in self._values:
            return _Head(is_constant=True, number=self._values[operand])
        if operand in self._names:
            return _Head(is_constant=_is_constant(self._names[operand]))
        return _Head(operand.node.definition)

    def rewrite(self, node: Node) -> Tensor | None:
        """Return the right side for what the variables stand for in `node`."""
        operands = [t.node.definition for t in node.inputs]
        for exchanged, heads in self._orders:
            if _admit(heads, operands):
                bound = self._match(node, exchanged)
                if bound is not None:
                    return self._right_side(bound)
        return None

    def _right_side(self, bound: dict[Tensor, Tensor]) -> Tensor:
        # The equation would build both sides, and a variable need not be built.
        if self._right in self._names:
            return bound[self._right]
        return self._equation(*(bound[variable] for variable in self._names))[1]

    def may_match(self, operands: tuple[OpDef, ...]) -> bool:
        """Return whether the left side may be a node whose operands are results of these ops.

        Most nodes differ from most equations here, and are spared the matching.
        """
        return any(_admit(heads, operands) for _, heads in self._orders)

    @property
    def is_about_constants(self) -> bool:
        """Whether an operand of the left side is a constant."""
        return any(head.is_constant for head in self._orders[0][1])

    def takes_numbers(self, numbers: Uniform) -> bool:
        """Return whether operands of which these are constants may be those of the left side."""
        return any(
            all(head.admits_number(n) for n, head in zip(numbers, heads, strict=True))
            for _, heads in self._orders
        )

    def _match(self, node: Node, exchanged: frozenset[Node]) -> dict[Tensor, Tensor] | None:
        """Return what the variables stand for, if `node` has the form of the left side.

        The operands of `exchanged` are taken in the other order.
        """
        bound: dict[Tensor, Tensor] = {}
        pending = [(self.left, node.output)]
        while pending:
            wanted, found = pending.pop()
            if wanted in bound:
                if bound[wanted] is not found:
                    return None
                continue
            bound[wanted] = found
            if wanted in self._names or wanted in self._values:
                if not self._admits_leaf(wanted, found):
                    return None
                continue
            if not _is_same_op(wanted.node, found.node):
                return None
            step = -1 if wanted.node in exchanged else 1
            pending.extend(zip(wanted.node.inputs, found.node.inputs[::step], strict=True))
        return bound

    def _admits_leaf(self, wanted: Tensor, found: Tensor) -> bool:
        """Return whether a variable or constant of the equation may stand for `found`."""
        if wanted in self._values:
            return _is_same_number(self._values[wanted], uniform_value(found))
        name = self._names[wanted]
        if not _is_constant(name):
            # Of three constants none comes last: they would change places for ever.
            return not self._gathers_constants or uniform_value(found) is None
        value = uniform_value(found)
        return value is not None and self._admits(value)

    def examples(self, dtype: DType) -> list[Tensor]:
        """Return the left side over placeholders of `dtype`, once for each sample constant."""
        names = self._names.values()
        samples = [v for v in _SAMPLES if self._admits(v)] if any(map(_is_constant, names)) else [0]
        found = (self._example(dtype, sample) for sample in samples)
        return [left for left in found if left is not None]

    def _example(self, dtype: DType, sample: Number) -> Tensor | None:
        """Return None if the equation is not about `dtype`, or `sample` is no number of it."""
        if dtype.is_integer and not isinstance(sample, int):
            return None
        try:
            operands = [
                broadcast_to(constant(sample, dtype), (_SIZE,))
                if _is_constant(name)
                else _variable(name, dtype)
                for name in self._names.values()
            ]
            left, _right = self._equation(*operands)
        except DTypeError:
            return None
        # Not where the public functions make another tensor of it, by a conversion for example.
        return left if _ops_below(left) == _ops_below(self.left) else None

    def __str__(self) -> str:
        sides = (self.left, self._right)
        return " -> ".join(_print(side, self._names) for side in sides)


@cache  # equations have names in common
def _variable(name: str, dtype: DType = dtypes.float32) -> Tensor:
    return placeholder((_SIZE,), dtypes.bool_ if name[0] in "pq" else dtype, name)


def _ops_below(tensor: Tensor) -> list[OpDef]:
    nodes = topological([tensor])
    ops = (n.definition for n in nodes if not n.definition.is_leaf)
    return [op for op in ops if op is not broadcast_to_op]


def _admit(heads: Sequence[_Head], operands: Sequence[OpDef]) -> bool:
    return all([head.admits_op(op) for op, head in zip(operands, heads, strict=True)])


def _is_constant(name: str) -> bool:
    return name[0] in "cd"


def _is_same_op(wanted: Node, found: Node) -> bool:
    return wanted.definition is found.definition and wanted.attrs == found.attrs


def _is_same_number(wanted: Number | None, found: Number | None) -> bool:
    """Return whether two numbers are equal, a zero of a float with its sign."""
    if wanted is None or found is None or wanted != found:
        return False
    return not isinstance(found, float) or math.copysign(1, wanted) == math.copysign(1, found)


def _orders_of_operands(left: Tensor) -> list[frozenset[Node]]:
    """Return the sets of nodes whose operands may be exchanged, the empty one first.

    The order may decide which of two zeros of unlike sign is taken: no rule depends on that.
    """
    free = [
        node
        for node in topological([left])
        if node.definition.commutes != "no" and node.inputs[0] is not node.inputs[1]
    ]
    subsets = (itertools.combinations(free, count) for count in range(len(free) + 1))
    return [frozenset(subset) for subset in itertools.chain.from_iterable(subsets)]


def _print(side: Tensor, names: dict[Tensor, str]) -> str:
    """Return the text of one side. Recursion is bounded by what someone wrote on one line."""
    if side in names:
        return names[side]
    value = uniform_value(side)
    if value is not None:
        return f"{value:g}" if isinstance(value, float) else str(value).lower()
    attrs = [f"{key}={value}" for key, value in side.node.attrs.items()]
    operands = [_print(operand, names) for operand in side.node.inputs]
    return f"{side.node.op}({', '.join(operands + attrs)})"
