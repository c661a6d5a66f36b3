"""Loop interface rewriting: give a loop more stacks, more to scan, more variables, more invariants.

They take the place of nodes of its body.

This is how every pass that moves work across the edge of a loop rebuilds it; what is moved, and
whether that pays, is for the pass to say. What a loop then no longer needs is left in it, for
`prune_loops` to take out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from symgrad.cost_model import STACK_BYTES, STACK_RATIO
from symgrad.graph.build import with_attrs
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.loop_view import LOOPS, LoopView
from symgrad.graph.node import Node, Region, Tensor, make_node
from symgrad.graph.traverse import topological
from symgrad.graph.types import ArrayLiteral, Attr, TensorType
from symgrad.passes.costs import bytes_of
from symgrad.passes.loops.prune_loops import prune_loops
from symgrad.passes.rewrites.rewrite import with_inputs
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack that `loop` makes of a tensor of its body, or will when it is extended."""

    loop: Node
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class LoopVariable:
    """A loop variable that a `scan` gets: what it starts with, and in the body is and becomes."""

    start: Tensor
    inside: Tensor
    following: Tensor


@dataclass(slots=True)
class Extension:
    """The changes to the interface of a loop: what it gets.

    `stacks` are tensors of its body that become stacks behind those it has. `slices` maps tensors
    of the body to the stacks around the loop whose slices take their place, `invariants` to the
    tensors around it that do, and `tests` does that for the condition of a `while_loop`.
    `variables` come behind the loop variables it has. `results` is handed the extended loop and
    makes what stands for some of its results from then on, or for results of nodes that use these.
    """

    stacks: dict[Tensor, None] = field(default_factory=dict)
    slices: dict[Tensor, Tensor | Stack] = field(default_factory=dict)
    invariants: dict[Tensor, Tensor] = field(default_factory=dict)
    tests: dict[Tensor, Tensor] = field(default_factory=dict)
    variables: list[LoopVariable] = field(default_factory=list)
    results: Callable[[Node], Mapping[Tensor, Tensor]] | None = None

    def record(self, loop: Node, tensor: Tensor) -> Stack:
        """Have `loop`, which is extended by this, stack a tensor of its body, once."""
        if tensor not in LoopView(loop).places_of_stacks:
            self.stacks[tensor] = None
        return Stack(loop, tensor)

    def place(self, stack: Stack) -> int:
        """Return where a stack is among the results of the loop extended by this."""
        places = LoopView(stack.loop).places_of_stacks
        first = len(stack.loop.outputs)
        places |= {t: first + i for i, t in enumerate(self.stacks)}
        return places[stack.tensor] + len(self.variables)


def extend_loop(loop: Node, inputs: tuple[Tensor, ...], extension: Extension) -> Node:
    """Rewrite the interface of `loop`, on `inputs`: results are as before, then new stacks.

    New loop variables come behind those it has.
    """
    view, variables = LoopView(loop), extension.variables
    assert not (variables and view.is_while), f"{loop!r}: its condition reads all loop variables"
    body, carried, scanned, width = view.body, view.carried, view.scanned, view.changing
    region = region_of_body(body)
    stacks = list(dict.fromkeys(t for t in extension.slices.values() if isinstance(t, Tensor)))
    fixed = list(dict.fromkeys([*extension.invariants.values(), *extension.tests.values()]))
    slices = [placeholder_inside(region, t, t.type.with_shape(t.shape[1:])) for t in stacks]
    invariants = [placeholder_inside(region, t, t.type) for t in fixed]
    slice_of = dict(zip(stacks, slices, strict=True))
    invariant_of = dict(zip(fixed, invariants, strict=True))
    replaced = {t: slice_of[s] for t, s in extension.slices.items() if isinstance(s, Tensor)}
    replaced |= {t: invariant_of[outer] for t, outer in extension.invariants.items()}
    attrs: dict[str, Attr] = dict(loop.attrs)
    attrs["body"] = substituted(
        body,
        replaced,
        inputs=[
            *body.inputs[:carried],
            *(v.inside for v in variables),
            *body.inputs[carried:width],
            *slices,
            *body.inputs[width:],
            *invariants,
        ],
        outputs=[
            *body.outputs[:carried],
            *(v.following for v in variables),
            *body.outputs[carried:],
            *extension.stacks,
        ],
    )
    attrs["carried"] = carried + len(variables)
    if view.is_while:
        attrs["condition"] = _condition(loop, fixed, extension)
    else:
        attrs["scanned"] = scanned + len(stacks)
    place = len(loop.inputs) - len(body.inputs)
    before, own = inputs[: place + carried], inputs[place + carried : place + width]
    starts = (v.start for v in variables)
    operands = (*before, *starts, *own, *stacks, *inputs[place + width :], *fixed)
    return with_attrs(loop, operands, attrs)


def _condition(loop: Node, fixed: Sequence[Tensor], extension: Extension) -> Graph:
    condition = LoopView(loop).condition
    assert condition is not None, f"{loop!r} has no condition"
    region = region_of_body(condition)
    inside = {t: placeholder_inside(region, t, t.type) for t in fixed}
    return substituted(
        condition,
        {t: inside[outer] for t, outer in extension.tests.items()},
        inputs=[*condition.inputs, *inside.values()],
        outputs=condition.outputs,
    )


def placeholder_inside(region: Region | None, outer: Tensor, type_: TensorType) -> Tensor:
    """Make what stands inside for a tensor from around, or for a slice of it."""
    node = outer.node
    attrs: dict[str, Attr] = {"dtype": type_.dtype, "shape": type_.shape}
    inside = make_node(
        placeholder_op, (), attrs, (type_,), source=node.source, origin=node, region=region
    )
    return inside.output


def substituted(
    graph: Graph,
    replaced: Mapping[Tensor, Tensor],
    *,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> Graph:
    """Substitute tensors: return `graph` with others in the place of some, over other inputs."""
    mapping = dict(replaced)
    for node in topological(outputs, stop=replaced):
        new = with_inputs(node, tuple(mapping.get(t, t) for t in node.inputs))
        for old, tensor in zip(node.outputs, new.outputs, strict=True):
            mapping.setdefault(old, tensor)
    found = [mapping.get(t, t) for t in outputs]
    return Graph(found, inputs, name=graph.name, region=region_of_body(graph))


def with_extensions(graph: Graph, extensions: Mapping[Node, Extension]) -> Graph:
    """Return `graph` with its loops extended, and what they no longer need taken out.

    The tensors around a loop that an extension names are those of `graph`, or built on them.
    """
    return prune_loops(_Extending(graph, extensions).run()) if extensions else graph


def extend_counted(graph: Graph, extension_of: Callable[[Node], Extension | None]) -> Graph:
    """Return `graph` with what `extension_of` gives, for loops of known sizes and trips.

    Loops that run once or not at all, and those for which it gives None, stay as they are.
    """
    extensions = {}
    for loop in graph.nodes:
        if loop.definition in LOOPS and is_static(loop) and (trips_of(loop) or 0) > 1:
            extension = extension_of(loop)
            if extension is not None:
                extensions[loop] = extension
    return with_extensions(graph, extensions)


class _Extending:
    """The rebuilding of a graph: what stands for each tensor and for each loop so far."""

    def __init__(self, graph: Graph, extensions: Mapping[Node, Extension]) -> None:
        self._graph = graph
        self._extensions = extensions
        self._tensors: dict[Tensor, Tensor] = {}
        self._loops: dict[Node, Node] = {}
        self._replaced: set[Tensor] = set()

    def run(self) -> Graph:
        for node in self._graph.nodes:
            if self._replaced.issuperset(node.outputs):
                continue
            inputs = tuple(map(self._known, node.inputs))
            extension = self._extensions.get(node)
            if extension is None:
                outputs = with_inputs(node, inputs).outputs
                self._tensors.update(zip(node.outputs, outputs, strict=True))
            else:
                self._extend(node, inputs, extension)
        return self._graph.with_roots(self._tensors)

    def _extend(self, loop: Node, inputs: tuple[Tensor, ...], extension: Extension) -> None:
        new = self._loops[loop] = extend_loop(loop, inputs, self._resolved(extension))
        added, first = len(extension.variables), LoopView(loop).first_stack
        outputs = (*new.outputs[:first], *new.outputs[first + added :])
        self._tensors.update(zip(loop.outputs, outputs, strict=False))
        if extension.results is not None:
            results = extension.results(new)
            self._tensors.update(results)
            self._replaced.update(results)

    def _resolved(self, extension: Extension) -> Extension:
        return Extension(
            extension.stacks,
            {t: self._known(self._stack(s)) for t, s in extension.slices.items()},
            {t: self._known(outer) for t, outer in extension.invariants.items()},
            {t: self._known(outer) for t, outer in extension.tests.items()},
            [replace(v, start=self._known(v.start)) for v in extension.variables],
        )

    def _stack(self, stack: Tensor | Stack) -> Tensor:
        if isinstance(stack, Tensor):
            return stack
        made = self._loops[stack.loop].outputs[self._extensions[stack.loop].place(stack)]
        return self._tensors.setdefault(made, made)

    def _known(self, tensor: Tensor) -> Tensor:
        """Return what stands for `tensor`, which may be built on what others stand for now."""
        for node in topological([tensor], stop=self._tensors):
            new = with_inputs(node, tuple(self._tensors.get(t, t) for t in node.inputs))
            self._tensors.update(zip(node.outputs, new.outputs, strict=True))
        return self._tensors[tensor]


# ------------------------------------------------------------------------------ parts of a loop


def region_of_body(graph: Graph) -> Region | None:
    """Return the region of a nested graph, which may have no results."""
    ends = (*graph.inputs, *graph.outputs)
    return ends[0].node.region if ends else None


def is_static(loop: Node) -> bool:
    """Return whether all sizes around and in the body and condition of a loop are known."""
    graphs = [graph for _, graph in graphs_of(loop)]
    inner = (t for graph in graphs for node in graph.nodes for t in node.outputs)
    return all(t.type.is_static for t in (*inner, *loop.inputs, *loop.outputs))


def allowed_bytes(loop: Node) -> int:
    """Return the memory budget: the bytes that new stacks of a loop, or for it, take an iteration.

    That grows with what the loop scans, which for a gradient is what was recorded for it. So
    recording stays in proportion: with checkpoints, to one segment.
    """
    view = LoopView(loop)
    capacity = view.capacity
    assert isinstance(capacity, int), f"{loop!r}: its sizes are known by now"
    scanned = view.body.inputs[view.carried : view.changing]
    return max(STACK_BYTES // max(capacity, 1), STACK_RATIO * sum(map(bytes_of, scanned)))


def trips_of(loop: Node) -> int | None:
    """Return the trip count of a loop, if it is known now and fills the stacks."""
    capacity = LoopView(loop).capacity
    if LoopView(loop).is_while or not isinstance(capacity, int):
        return None
    value = loop.inputs[0].node.attrs.get("value")
    count = int(value.array) if isinstance(value, ArrayLiteral) else value
    return capacity if count == capacity else None
