"""Term rewriting: what a rule is, where it holds, and the driver that applies tables of them.

An equation becomes a rule in `rewrites/equations.py`; the rules are rows of `rewrites/algebra.py`
and functions of `rewrites/structure.py`. What needs the whole graph is a pass of its own and not a
rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from itertools import chain

from symgrad.graph.build import derived_from
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Node, OpDef, Tensor, make_node
from symgrad.graph.ops.elementwise import uniform_literal
from symgrad.graph.ops.structure import broadcast_to_op
from symgrad.graph.types import ArrayLiteral
from symgrad.passes.rewrites.rewrite import Rewrites, with_inputs
from symgrad.records import dataclass

ONE_CONSTANT = "equal constants -> one constant"
MAX_REWRITES = 100  # for each node, on average: more means that rules undo each other


class Holds(Enum):
    """Where the two sides of a rule are equal; this decides when the rule may run.

    A nan counts as equal to every nan. Without `fast_math` a rule runs if it holds for the dtypes
    at hand, and on floats it may change no more than the last bits.
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


# An op, whether an operand is a float, and the ops of the operands.
_Operation = tuple[OpDef, bool, tuple[OpDef, ...]]
Examples = Callable[[DType], Sequence[Tensor]]
Uniform = tuple[ArrayLiteral | None, ...]  # of each operand, the one element if it is a constant


@dataclass(frozen=True, slots=True, eq=False)
class RewriteRule:
    """A rewrite rule: a tensor that may stand for another one.

    `roots` are the ops the rule is tried on, every op for None. `rewrite` returns the tensor that
    stands for the output of a node, None where the rule does not apply. `examples` gives tensors
    of a dtype to which it does apply, for the tests. With `needs_sole_use` the operand `sole`, the
    first one, must have no other use, since it would be computed twice. `may_match` tells from the
    ops of the operands alone whether the rule may apply; `takes_numbers` tells it, for a rule about
    constants, from what all elements of each operand are.
    """

    equation: str
    roots: tuple[OpDef, ...] | None
    holds: Holds
    rewrite: Callable[[Node], Tensor | None]
    examples: Examples
    needs_sole_use: bool = False
    may_match: Callable[[tuple[OpDef, ...]], bool] = lambda _ops: True
    sole: int = 0
    takes_numbers: Callable[[Uniform], bool] | None = None

    def __str__(self) -> str:
        return f"{self.equation}  [{self.holds.value}]"


class RuleTable:
    """Rules by the op they are tried on, in the order in which they are tried.

    With `one_constant`, the first of equal constants stands for all, and so does the first of equal
    broadcasts of one: a program names the same few numbers again and again, and no rule need meet
    each of them.
    """

    def __init__(self, rules: Iterable[RewriteRule], *, one_constant: bool = False) -> None:
        self.rules = tuple(rules)
        self.one_constant = one_constant
        named = {op for rule in self.rules for op in rule.roots or ()}
        self._for_any = [rule for rule in self.rules if rule.roots is None]
        self._by_op = {
            op: [rule for rule in self.rules if rule.roots is None or op in rule.roots]
            for op in named
        }
        # By operations and whether there is fast_math: graphs are made of the same few.
        self._permitted: dict[tuple[_Operation, bool], Sequence[RewriteRule]] = {}

    def for_op(self, op: OpDef) -> list[RewriteRule]:
        return self._by_op.get(op, self._for_any)

    def permitted(self, operation: _Operation, fast_math: bool) -> Sequence[RewriteRule]:
        """Return the rules that may run on an operation, whatever its operands hold."""
        key = operation, fast_math
        if key not in self._permitted:
            definition, is_float, operands = operation
            self._permitted[key] = [
                rule
                for rule in self.for_op(definition)
                if rule.holds.permits(is_float, fast_math) and rule.may_match(operands)
            ]
        return self._permitted[key]

    def rewritten(self, node: Node) -> Tensor | None:
        """Return what the first rule makes of `node`, None if none applies, without `fast_math`.

        Rules that ask how often an operand is used are left out.
        """
        is_float = any([t.type.dtype.is_float for t in node.inputs])
        operands = tuple([t.node.definition for t in node.inputs])
        for rule in self.permitted((node.definition, is_float, operands), False):
            found = None if rule.needs_sole_use else rule.rewrite(node)
            if found is not None and found.type == node.output.type:
                return found
        return None


def apply_rules(graph: Graph, table: RuleTable, rewrites: Rewrites) -> Graph:
    """Rewrite `graph` to a fixed point: from the operands up, until no rule applies any more."""
    driver = _Driver(graph, table, rewrites)
    settled, at_rest = driver.settled, driver.at_rest
    for node in graph.nodes:
        if node in at_rest and all([settled[t] is t for t in node.inputs]):
            settled.update(zip(node.outputs, node.outputs, strict=True))
        else:
            driver.settle(node)
    return graph if driver.is_same else graph.with_roots(settled)


_CONSTANTS = frozenset({constant_op, broadcast_to_op})


class _Permitted:
    """The rules that may run on some operation; those about constants for some numbers only."""

    def __init__(self, rules: Sequence[RewriteRule]) -> None:
        self.rules = rules
        self.by_numbers = any(rule.takes_numbers is not None for rule in rules)
        self._among: dict[Uniform, Sequence[RewriteRule]] = {}

    def among(self, numbers: Uniform) -> Sequence[RewriteRule]:
        """Return the rules that may run on operands of which these are constants."""
        found = self._among.get(numbers)
        if found is None:
            found = self._among[numbers] = [
                rule
                for rule in self.rules
                if rule.takes_numbers is None or rule.takes_numbers(numbers)
            ]
        return found


class _Driver:
    """What stands for each tensor so far.

    A node is settled when no rule applies to it and its operands are settled; a settled tensor
    stands for itself. A node that was rewritten waits for its replacement to be settled. So each
    node meets each rule of its op once, and nothing is recursive.
    """

    def __init__(self, graph: Graph, table: RuleTable, rewrites: Rewrites) -> None:
        self.settled: dict[Tensor, Tensor] = {}
        self.at_rest = rewrites.at_rest.setdefault(table, set())
        self.is_same = True  # so far each tensor of the graph that is used stands for itself
        self._table = table
        self._rewrites = rewrites
        self._replaced: dict[Node, Tensor] = {}
        self._limit = rewrites.count + MAX_REWRITES * len(graph.nodes)
        self._given = Counter(chain.from_iterable([node.inputs for node in graph.nodes]))
        self._given.update(graph.roots)
        self._originals = set(graph.nodes)
        self._constants: dict[Hashable, Node] = {}
        self._permitted: dict[_Operation, _Permitted] = {}
        self._is_refused = False  # a rule for the node at hand, for its uses or as one too many
        # How often a settled tensor is used by what was not there, or for what it stands for.
        self._more_uses: dict[Tensor, int] = {}

    def settle(self, root: Node) -> None:
        """Find what stands for the outputs of `root`, a node of the graph: those before it are."""
        self._advance(root)
        settled = self.settled
        if root.outputs[0] in settled:
            return
        pending = [root]
        while pending:
            node = pending[-1]
            if node.outputs[0] not in settled:
                replacement = self._replaced.get(node)
                needed = node.inputs if replacement is None else (replacement,)
                waiting = [t.node for t in needed if t not in settled]
                if waiting:
                    pending.extend(reversed(waiting))
                    continue
                self._advance(node)
            if node.outputs[0] in settled:
                pending.pop()

    def _advance(self, node: Node) -> None:
        """Settle `node`, whose operands are settled, or find its replacement."""
        if node in self._replaced:
            self._settle_as(node, (self.settled[self._replaced[node]],))
            return
        current = self._on_settled(node)
        is_asked = current.definition in _CONSTANTS and self._table.one_constant
        key = self._constant_key(current) if is_asked else None
        first = None if key is None else self._constants.get(key)
        if first is not None and self._rewrites.allow(ONE_CONSTANT, node):
            self._settle_as(node, first.outputs)
            return
        replacement = self._replacement(current)
        if replacement is not None:
            self._replaced[node] = replacement
            return
        for output in current.outputs:
            self.settled[output] = output
        if current is not node:
            self._settle_as(node, current.outputs)
        if key is not None:
            self._constants[key] = current
        elif not self._is_refused:
            self.at_rest.add(current)
        if node not in self._originals:
            for operand in current.inputs:
                self._use(operand, 1)

    def _on_settled(self, node: Node) -> Node:
        """Return `node` applied to what stands for its operands."""
        settled = self.settled
        for operand in node.inputs:  # mostly each stands for itself
            if settled[operand] is not operand:
                return with_inputs(node, tuple([settled[t] for t in node.inputs]))
        return node

    def _constant_key(self, node: Node) -> Hashable | None:
        """Return what equal constants share, or equal broadcasts of one; None for others."""
        if node.definition is constant_op:
            return node.attrs["value"]
        (source,) = node.inputs
        is_constant = source.node.definition is constant_op
        return (source.node.attrs["value"], node.output.type) if is_constant else None

    def _settle_as(self, node: Node, outputs: tuple[Tensor, ...]) -> None:
        settled, given = self.settled, self._given
        for old, new in zip(node.outputs, outputs, strict=True):
            settled[old] = new
            times = given.get(old) if old is not new else None
            if times is not None:
                self.is_same = False
                self._use(new, times)

    def _use(self, settled: Tensor, times: int) -> None:
        self._more_uses[settled] = self._more_uses.get(settled, 0) + times

    def _replacement(self, node: Node) -> Tensor | None:
        self._is_refused = False
        rules = self._rules_for(node)
        if not rules or len(node.outputs) != 1:
            return None
        with derived_from(node):
            for rule in rules:
                found = self._try(rule, node)
                if found is not None:
                    allowed = self._rewrites.allow(rule.equation, node)
                    assert self._rewrites.count <= self._limit, f"rules go in circles: {rule}"
                    self._is_refused = not allowed
                    return self._named_as(node, found) if allowed else None
        return None

    def _rules_for(self, node: Node) -> Sequence[RewriteRule]:
        """Return the rules that may run on `node`, for the dtypes and the operands it has."""
        inputs = node.inputs
        is_float = any([t.type.dtype.kind == "float" for t in inputs])  # `is_float` without a call
        operation = node.definition, is_float, tuple([t.node.definition for t in inputs])
        permitted = self._permitted.get(operation)
        if permitted is None:
            rules = self._table.permitted(operation, self._rewrites.fast_math)
            permitted = self._permitted[operation] = _Permitted(rules)
        if not permitted.by_numbers:
            return permitted.rules
        return permitted.among(tuple([uniform_literal(t) for t in inputs]))

    def _try(self, rule: RewriteRule, node: Node) -> Tensor | None:
        if rule.needs_sole_use and self._uses(node.inputs[rule.sole]) > 1:
            self._is_refused = True
            return None
        found = rule.rewrite(node)
        # Where sizes are unknown the sides may have other shapes: the check that they are equal
        # would be lost.
        return found if found is not None and found.type == node.output.type else None

    def _uses(self, settled: Tensor) -> int:
        """Return how often a settled tensor is used, at most: uses that have died are counted."""
        return self._given.get(settled, 0) + self._more_uses.get(settled, 0)

    def _named_as(self, node: Node, found: Tensor) -> Tensor:
        """Return `found` under the user's name of `node`, if it is new and has none."""
        new = found.node
        if node.name is None or new.name is not None or found in self.settled:
            return found
        types = tuple(t.type for t in new.outputs)
        named = make_node(
            new.definition,
            new.inputs,
            new.attrs,
            types,
            name=node.name,
            source=new.source,
            origin=new.origin,
            region=new.region,
        )
        return named.outputs[found.index]
