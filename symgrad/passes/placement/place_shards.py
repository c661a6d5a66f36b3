"""Sharding propagation: a program of wholes becomes one of the parts that a rank computes.

Before, where ranks have blocks of columns of `w` and blocks of rows of `v`:

    %0 = einsum %x, %w {...} : f32[8, 512]
    %1 = tanh %0 : f32[8, 512]
    %2 = einsum %1, %v {...} : f32[8, 4]
    return %2

After, on two ranks, whose parts of `w` and `v` have 256 columns and rows:

    %0 = einsum %x, %w {...} : f32[8, 256]
    %1 = tanh %0 : f32[8, 256]
    %2 = einsum %1, %v {...} : f32[8, 4]
    %3 = extern %2 {function = extern "MPI_Allreduce", ...} : f32[8, 4]
    return %3

It runs behind the gradient, which is more of the program, and so the sums that a gradient needs are
where the forward pass reads a whole tensor in parts. What an op needs whole and ranks have in parts
is gathered. Inputs are taken to be the same on all ranks of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from symgrad.errors import SymgradError
from symgrad.graph.build import (
    are_same,
    derived_from,
    inside,
    rebuild,
    substitute_sizes,
    with_attrs,
)
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import Variable, variable_node, variable_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add_op, negative_op, subtract_op
from symgrad.graph.ops.stand_in import stands_for
from symgrad.graph.ops.structure import sum_op
from symgrad.graph.sizes import Dim, divide, substitute, unknowns_of
from symgrad.graph.structures import KernelSpec, Map, View
from symgrad.graph.types import Sharding, TensorType
from symgrad.passes.placement.propagate import (
    TERM,
    WHOLE,
    Cut,
    Flow,
    Placement,
    Situation,
    Summand,
    Whole,
    attrs_of_part,
    mapped_axis,
    propagate,
)
from symgrad.records import dataclass

Explain = Callable[[str, Node, str], None]
_LINEAR = (add_op, subtract_op, negative_op, sum_op)
_REPEATED = -1  # an axis along which a view repeats its operand
# Stands for an unknown size where structures are asked: a multiple of whatever cuts an axis.
_PROBE = 2**8 * 3**3 * 5**2 * 7 * 11 * 13


def place_shards(graph: Graph, explain: Explain) -> Graph:
    """Return `graph` with the parts of variables that are cut along an axis, and collectives.

    `explain` is told of each tensor that is gathered.
    """
    for sharding in _shardings(graph).values():
        with inside(graph.region):
            graph = _Placing(graph, sharding, explain).program()
    return graph


def _shardings(graph: Graph) -> dict[tuple[str, ...], Sharding]:
    """Return the groups that variables of `graph` are cut over, each by the first of these."""
    found: dict[tuple[str, ...], Sharding] = {}
    for variable in graph.variables:
        sharding = _cut_of(variable)
        if sharding is not None:
            found.setdefault(sharding.group.lineage, sharding)
    return found


def _cut_of(variable: Variable) -> Sharding | None:
    """Return how a variable is cut along an axis; None for others, and for what is a part."""
    sharding, state = variable.state.sharding, variable.state
    is_cut = sharding is not None and sharding.axis is not None and state is not state.part
    return sharding if is_cut and state.type.shape != state.array.shape else None


@dataclass(frozen=True, slots=True, eq=False)
class _OnRanks:
    """What stands for a tensor: it, a block of it, or a term of it."""

    tensor: Tensor
    placement: Placement


@dataclass(slots=True, eq=False)
class _Placing:
    """Makes the program of one rank of the group that `sharding` is one of."""

    graph: Graph
    sharding: Sharding
    explain: Explain
    placed: dict[Tensor, _OnRanks] = field(default_factory=dict)
    wholes: dict[Tensor, Tensor] = field(default_factory=dict)
    cuts: dict[tuple[Tensor, int], Tensor] = field(default_factory=dict)
    rank: Tensor | None = None
    reader: Node | None = None

    @property
    def ranks(self) -> int:
        return self.sharding.group.size

    def program(self) -> Graph:
        graph = self.graph
        ends = self._ends_of_wholes()
        for node in graph.nodes:
            self.reader = node
            if node in ends:
                self._again(node)
            else:
                self._place(node)
        self.reader = None
        updates = []
        for update in graph.updates:
            sharding = self._own(update.variable)
            if sharding is None or sharding.axis is None:
                updates.append(Update(update.variable, self.whole(update.value)))
            else:
                part = self._part(update.variable)
                updates.append(Update(part, self.cut(update.value, sharding.axis)))
        outputs = [self.whole(t) for t in graph.outputs]
        return Graph(outputs, graph.inputs, updates, name=graph.name, region=graph.region)

    def _ends_of_wholes(self) -> set[Node]:
        """Return what is elementwise up to new values of variables that all ranks have.

        Computed whole it takes one gradient that is brought together; in parts it would take as
        many tensors as there are variables that move, such as those of a momentum.
        """
        updates = [u for u in self.graph.updates if self._own(u.variable) is None]
        pending = [(u.value.node, u.variable.type) for u in updates]
        found: set[Node] = set()
        while pending:
            node, type_ = pending.pop()
            if node in found or len(node.outputs) != 1 or node.output.shape != type_.shape:
                continue
            types = [_probe_type(t.type) for t in node.inputs]
            if isinstance(_probe_spec(node, types), Map):
                found.add(node)
                pending += [(t.node, type_) for t in node.inputs]
        return found

    def _own(self, variable: Variable) -> Sharding | None:
        """Return how a variable is cut over this group, None for others."""
        sharding = _cut_of(variable)
        is_own = sharding is not None and sharding.group.lineage == self.sharding.group.lineage
        return sharding if is_own else None

    def _part(self, variable: Variable) -> Variable:
        known = self.placed.get(variable)
        tensor = known.tensor if known else variable_node(variable.state.part, None)
        assert isinstance(tensor, Variable), "the part of a variable is one"
        return tensor

    # ------------------------------------------------------------------------------- nodes

    def _place(self, node: Node) -> None:
        """Add what stands for the results of `node`."""
        first = node.outputs[0]
        if isinstance(first, Variable) and node.definition is variable_op:
            sharding = self._own(first)
            if sharding is not None and sharding.axis is not None:
                part = variable_node(first.state.part, None)
                self.placed[first] = _OnRanks(part, Cut(sharding.axis))
                return
        instead = stands_for(node)
        if instead is not None:
            self.placed.update(zip(node.outputs, map(self._placed, instead), strict=True))
            return
        is_whole = all(isinstance(self._placed(t).placement, Whole) for t in node.inputs)
        if is_whole or not self._in_parts(node):
            self._again(node)

    def _placed(self, tensor: Tensor) -> _OnRanks:
        return self.placed.get(tensor) or _OnRanks(tensor, WHOLE)

    def _again(self, node: Node) -> None:
        """Build `node` on whole operands."""
        inputs = tuple(self.whole(t) for t in node.inputs)
        if not are_same(inputs, node.inputs):
            made = rebuild(node, inputs)
            placed = [_OnRanks(t, WHOLE) for t in made.outputs]
            self.placed.update(zip(node.outputs, placed, strict=True))

    def _in_parts(self, node: Node) -> bool:
        """Build `node` on parts, if it can be; return whether it could."""
        flow = self._flow(node)
        if flow is None:
            return False
        operands = tuple(
            self._as(tensor, wanted)
            for tensor, wanted in zip(node.inputs, flow.operands, strict=True)
        )
        made = self._rebuilt(node, operands, flow.result)
        if made is None:
            return False
        self.placed[node.output] = _OnRanks(made, flow.result)
        return True

    def _flow(self, node: Node) -> Flow | None:
        if len(node.outputs) != 1 or graphs_of(node):
            return None
        types = [_probe_type(t.type) for t in node.inputs]
        given = Situation(
            [self._placed(t).placement for t in node.inputs],
            [t.static_shape for t in types],
            _probe_type(node.output.type).static_shape,
            self.ranks,
            node.definition in _LINEAR,
        )
        flow = propagate(_probe_spec(node, types), given)
        if flow is not None and isinstance(flow.result, Summand) and node.output.dtype.is_bool:
            return None
        return flow

    def _rebuilt(
        self, node: Node, operands: tuple[Tensor, ...], result: Placement
    ) -> Tensor | None:
        """Return `node` on parts; None unless that gives a tensor of the type of a part."""
        wanted = node.output.type
        if isinstance(result, Cut):
            wanted = wanted.with_shape(_divided(wanted.shape, result.axis, self.ranks))
        attrs = attrs_of_part(node, [t.type for t in operands], wanted)
        return None if attrs is None else with_attrs(node, operands, attrs).output

    # ------------------------------------------------------------------------- conversions

    def _as(self, tensor: Tensor, wanted: Placement) -> Tensor:
        match wanted:
            case Whole():
                return self.whole(tensor)
            case Cut(axis):
                return self.cut(tensor, axis)
            case Summand():
                assert isinstance(self._placed(tensor).placement, Summand), "only a term is one"
                return self._placed(tensor).tensor

    def whole(self, tensor: Tensor) -> Tensor:
        """Return the whole of a tensor; it is brought together once."""
        placed = self._placed(tensor)
        if isinstance(placed.placement, Whole):
            return placed.tensor
        if tensor not in self.wholes:
            with derived_from(tensor.node):
                calls = self.sharding.calls
                match placed.placement:
                    case Cut(axis):
                        self._tell(tensor, axis)
                        self.wholes[tensor] = calls.gathered(placed.tensor, axis)
                    case Summand():
                        self.wholes[tensor] = calls.summed(placed.tensor)
        return self.wholes[tensor]

    def _tell(self, tensor: Tensor, axis: int) -> None:
        """Explain why the blocks of a tensor are gathered."""
        reader = "the end of the step" if self.reader is None else f"{self.reader!r}"
        reason = f"blocks along axis {axis} are gathered for {reader}, which reads it whole"
        self.explain("place-shards", tensor.node, reason)

    def cut(self, tensor: Tensor, axis: int) -> Tensor:
        """Return the block of this rank along `axis`."""
        placed = self._placed(tensor)
        if placed.placement == Cut(axis):
            return placed.tensor
        if (tensor, axis) not in self.cuts:
            with derived_from(tensor.node):
                if placed.placement == TERM and tensor not in self.wholes:
                    made = self.sharding.calls.summed_block(placed.tensor, axis)
                else:
                    made = self._block(self.whole(tensor), axis)
            self.cuts[tensor, axis] = made
        return self.cuts[tensor, axis]

    def _block(self, tensor: Tensor, axis: int) -> Tensor:
        """Return a block of a whole tensor: of a view the view of a block, as of a bias."""
        views: list[tuple[Node, int]] = []
        while True:
            source = _source_of(tensor.node, axis)
            if source is None:
                made = self._own_block(tensor, axis)
                break
            views.append((tensor.node, axis))
            if source == _REPEATED:
                made = tensor.node.inputs[0]
                break
            tensor, axis = tensor.node.inputs[0], source
        for node, along in reversed(views):
            part = self._rebuilt(node, (made,), Cut(along))
            if part is None:
                return self._own_block(views[0][0].output, views[0][1])
            made = part
        return made

    def _own_block(self, tensor: Tensor, axis: int) -> Tensor:
        if self.rank is None:
            self.rank = self.sharding.calls.rank()
        made: Tensor = self.sharding.calls.block(tensor, axis, self.rank)
        return made


def _source_of(node: Node, axis: int) -> int | None:
    """Return which axis of its operand a view reads along `axis`, `_REPEATED` for none of them.

    None for another op, and for a view that reads in another way.
    """
    if len(node.inputs) != 1 or len(node.outputs) != 1 or graphs_of(node):
        return None
    types = [_probe_type(node.inputs[0].type)]
    spec = _probe_spec(node, types)
    if not isinstance(spec, View):
        return None
    result = _probe_type(node.output.type).static_shape
    found = [a for a, m in enumerate(spec.index) if any(term == axis for term, _ in m.terms)]
    if not found:
        return _REPEATED
    size = types[0].static_shape[found[0]]
    is_same = len(found) == 1 and mapped_axis(spec.index[found[0]], size, result) == axis
    return found[0] if is_same else None


def _divided(shape: Sequence[Dim], axis: int, ranks: int) -> tuple[Dim, ...]:
    return tuple(divide(n, ranks) if a == axis else n for a, n in enumerate(shape))


def _probes(types: Sequence[TensorType]) -> dict[str, Dim]:
    names = {name for t in types for n in t.shape for name in unknowns_of(n)}
    return dict.fromkeys(names, _PROBE)


def _probe_type(type_: TensorType) -> TensorType:
    probes = _probes([type_])
    return type_.with_shape(tuple(substitute(n, probes) for n in type_.shape))


def _probe_spec(node: Node, types: Sequence[TensorType]) -> KernelSpec | None:
    """Return the structure of `node` for known sizes; None for an op that has none for them."""
    kernel = node.definition.kernel
    if kernel is None:
        return None
    probes = _probes([t.type for t in (*node.inputs, *node.outputs)])
    attrs = {key: substitute_sizes(value, probes) for key, value in node.attrs.items()}
    try:
        return kernel(*types, **attrs)
    except (SymgradError, AssertionError):
        return None
