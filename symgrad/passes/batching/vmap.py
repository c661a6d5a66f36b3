"""vmap (batching): compute for many values of a tensor at once what is computed for one.

Before, with %g computed from %u:
    %1 = multiply %u, %x : f32[3]
    %g = sum %1 {axes = [0]} : f32[]

After `batch([g], {u: us}, 8)`, where %us is f32[8, 3]:
    %2 = reshape %x {shape = [1, 3]} : f32[1, 3]
    %3 = broadcast_to %2 {shape = [8, 3]} : f32[8, 3]
    %4 = multiply %us, %3 : f32[8, 3]
    %5 = sum %4 {axes = [1]} : f32[8]

Only what depends on %u is built again, and what does not is repeated where the two meet, which
costs nothing in a kernel. An op without a rule, and a branch or a loop whose way depends on the
case, is run for one slice after the other by a scan of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.errors import CompileError
from symgrad.graph.batch_rules import Entry, Operands, rule_of
from symgrad.graph.build import derived_from, enter, gradient_keys, rebuild_here
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.sizes import Dim
from symgrad.graph.traverse import topological
from symgrad.graph.types import is_unbounded
from symgrad.passes.batching.control import CONTROL_RULES


def batch(outputs: Sequence[Tensor], values: Mapping[Tensor, Tensor], size: Dim) -> list[Tensor]:
    """Vectorise (vmap): return `outputs` for all slices of `values`, along a first axis of `size`.

    Each tensor that is a key of `values` takes the slices of its value. Raises `CompileError` for
    a loop without a bound that runs more often for some slices, and records its iterations.
    """
    found = {t: Entry(value, True) for t, value in values.items()}
    for node in topological(outputs, stop=values):
        # What has no axis is built again too where an operand was, so that no key is left over.
        if any(t in found for t in node.inputs):
            entries = tuple(found.get(t, Entry(t, False)) for t in node.inputs)
            found.update(zip(node.outputs, build_again(Operands(node, entries, size)), strict=True))
    ends = Operands(outputs[0].node, tuple(found.get(t, Entry(t, False)) for t in outputs), size)
    return ends.lifted()


def build_again(operands: Operands) -> Sequence[Entry]:
    """Build a node again, on operands of which some have the axis, or none; return its outputs."""
    node = operands.node
    if not any(entry.is_batched for entry in operands.entries):
        return [Entry(t, False) for t in rebuild_here(node, tuple(operands.tensors)).outputs]
    keys = {} if node.gradient_key is None else {node.op: node.gradient_key}
    with derived_from(node), gradient_keys(keys):
        rule = rule_of(node)
        if rule is not None:
            result = rule(operands, **node.attrs)
            if isinstance(result, list):
                return [Entry(t, True) for t in result]
            return [Entry(result, True) if isinstance(result, Tensor) else Entry(*result)]
        control = CONTROL_RULES.get(node.definition)
        found = None
        if control is not None:
            found = control(operands, lambda g, entries: build_batched(g, entries, operands.size))
        return _one_by_one(operands) if found is None else found


def build_batched(graph: Graph, arguments: Sequence[Entry], size: Dim) -> list[Entry]:
    """Build the nodes of `graph` again where we are, on `arguments`; see `inline`."""
    entered = (Entry(enter(e.tensor), e.is_batched) for e in arguments)
    found = dict(zip(graph.inputs, entered, strict=True))
    for node in graph.nodes:
        if node.definition is placeholder_op:
            continue
        operands = Operands(node, tuple(found[t] for t in node.inputs), size)
        found.update(zip(node.outputs, build_again(operands), strict=True))
    return [found[t] for t in graph.outputs]


def _one_by_one(operands: Operands) -> list[Entry]:
    """Run the node for one slice after the other."""
    node, size = operands.node, operands.size
    if any(is_unbounded(t.type) for t in (*node.inputs, *node.outputs)):
        raise CompileError(
            node.op,
            "a loop without a bound runs more often for some cases of vmap, or elements of a "
            "Jacobian, than for others, and its iterations are recorded",
            hint="give maximum_iterations",
            source=node.source,
        )
    stacks = [entry.tensor for entry in operands.entries if entry.is_batched]

    def step(*slices: Tensor) -> Sequence[Tensor]:
        given = iter(slices)
        inputs = (next(given) if e.is_batched else enter(e.tensor) for e in operands.entries)
        return rebuild_here(node, tuple(inputs)).outputs

    body = Traced(node.op, [t.type.with_shape(t.shape[1:]) for t in stacks])
    body.run(step)
    results = scan_loop(size_of(size), (), stacks, body, size).outputs
    return [Entry(t, True) for t in results]
