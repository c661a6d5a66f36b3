"""Memoised lowering: the kernels of groups, of which those that are alike are lowered once.

Groups with equal keys and sizes have one kernel. Of groups whose keys are equal and whose sizes are
not, as the updates of parameters have, one is lowered and scheduled with symbolic sizes
(`codegen/concolic.py`), and the others get its kernel with their numbers, where these are on the
same path: a loop that is shorter than a vector is on another one than one that is longer. What
comes out is what lowering each of them gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from symgrad.codegen.concolic import (
    Maker,
    Path,
    TakenPath,
    Templates,
    TextWithNumbers,
)
from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.lower.groups import LoweredKernel, lower_group
from symgrad.codegen.program.group_key import GroupKey, group_key
from symgrad.codegen.program.kept_groups import (
    KeptGroup,
    KeptGroups,
    KeptKind,
    NoTextError,
    Printed,
    has_own_ops,
    stated_key,
    text_digest,
)
from symgrad.codegen.schedule.kernel_pool import KernelPool
from symgrad.codegen.schedule.relocate import Relocated
from symgrad.graph.node import Node, OpDef, Tensor, make_node
from symgrad.graph.structures import AtIndices
from symgrad.graph.types import TensorType
from symgrad.passes.costs import kernel_spec
from symgrad.passes.fusion.buffers import Buffer, Buffers
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.passes.table import PassRunner
from symgrad.records import dataclass, replace

MIN_ALIKE = 3  # groups that differ in sizes: of the third one on a path is taken
MAX_PATHS = 64  # of groups that are alike: where each size has its own, none is worth it


@dataclass(frozen=True, slots=True, eq=False)
class _SizedKernel:
    """A kernel of symbolic sizes: for those that are on the `path`.

    `text` is the canonical one before scheduling; `order` says which of the buffers of a group are
    the arguments.
    """

    path: TakenPath
    text: TextWithNumbers
    starts: Maker
    kernel: Maker
    alone: Maker
    order: list[int]


class LoweredGroups:
    """The kernels of groups of one program, in a pool.

    Of those that are `printed` the digests of their texts are known, by their names.
    """

    def __init__(
        self, pool: KernelPool, runner: PassRunner, kept: KeptGroups | None = None
    ) -> None:
        self._pool = pool
        self._beside, self._silent = pool.empty(), pool.silent()
        self._runner = runner
        self._kept = kept if runner.is_usual else None
        # Keys are numbered, since to hash one takes as long as to make a good part of it.
        self._numbers: dict[Hashable, int] = {}
        self._kinds: dict[int, KeptKind | None] = {}
        # By the key and the sizes of a group, its kernel and which of its buffers are arguments.
        self._known: dict[tuple[int, tuple[int, ...]], tuple[Relocated, list[int]]] = {}
        self._own_ops: dict[OpDef, bool] = {}
        self._counts: Counter[int] = Counter()
        self._alike: dict[int, Templates[_SizedKernel]] = {}
        self.printed: dict[str, Printed] = {}

    def lowered(
        self, partition: Partition, buffers: Buffers, group: FusionGroup
    ) -> tuple[Relocated, Sequence[Buffer]]:
        """Return the kernel of a group and the buffers it is called with."""
        key = group_key(partition, buffers, group)
        if key is None:
            lowered = lower_group(partition, buffers, group, "kernel")
            return self._pool.add(lowered.kernel), lowered.arguments
        number = self._numbers.setdefault(key.key, len(self._numbers))
        sized = number, key.sizes
        if sized not in self._known:
            self._known[sized] = self._made(partition, buffers, group, key, number)
        shared, order = self._known[sized]
        return shared, [key.buffers[i] for i in order]

    def _made(
        self,
        partition: Partition,
        buffers: Buffers,
        group: FusionGroup,
        key: GroupKey,
        number: int,
    ) -> tuple[Relocated, list[int]]:
        is_alone = self._runner.sees_each or any(t in partition.placed for t in _tensors_of(group))
        kind = None if is_alone else self._kind(group, key, number)
        kept = None if kind is None else kind.found(key.sizes)
        if kept is not None:
            return self._added(kept)
        template = None
        if key.sizes and not is_alone:
            template = self._template(partition, buffers, group, key, number)
        if template is not None:
            made = self._instance(template, key.sizes)
            if self._runner.verifies:
                self._verify(made, lower_group(partition, buffers, group, "kernel").kernel)
            return made, template.order
        lowered = lower_group(partition, buffers, group, "kernel")
        if kind is None:
            order = key.order_of(lowered.arguments)
            return self._pool.add(lowered.kernel), order
        kept = self._scheduled(lowered, key)
        kind.keep(key.sizes, kept)
        return self._added(kept)

    def _added(self, kept: KeptGroup) -> tuple[Relocated, list[int]]:
        kernel = self._pool.add_scheduled(kept.text, lambda: (kept.kernel, kept.alone))
        self.printed.setdefault(kernel.name, Printed(kernel, kept.printed))
        return Relocated(kernel, kept.starts, ()), [*kept.order]

    def _kind(self, group: FusionGroup, key: GroupKey, number: int) -> KeptKind | None:
        """Return what programs before have kept of groups with this key, None without."""
        if self._kept is None or not has_own_ops(group, self._own_ops):
            return None
        if number not in self._kinds:
            try:
                self._kinds[number] = self._kept.of_kind(stated_key(key.key))
            except NoTextError:
                self._kinds[number] = None
        return self._kinds[number]

    def _scheduled(self, lowered: LoweredKernel, key: GroupKey) -> KeptGroup:
        """Schedule the kernel of a group as the pool does."""
        moved = self._silent.relocated(lowered.kernel)
        assert not moved.statuses, "what is checked has no key"
        text = print_kernel(canonical(moved.kernel))
        kernel, alone = self._silent.scheduled(moved)
        order = tuple(key.order_of(lowered.arguments))
        printed = text_digest(print_kernel(replace(kernel, name="kernel")))
        return KeptGroup(text, kernel, alone, moved.starts, order, printed)

    def _verify(self, made: Relocated, plain: Kernel) -> None:
        """Raise AssertionError unless `made` is what lowering has given, when it is scheduled."""
        wanted = self._beside.add(plain)
        text = print_kernel(replace(made.kernel, name=wanted.kernel.name))
        assert text == print_kernel(wanted.kernel), f"a template has given\n{text}"
        assert made.starts == wanted.starts, "and it begins elsewhere"

    def _template(
        self,
        partition: Partition,
        buffers: Buffers,
        group: FusionGroup,
        key: GroupKey,
        number: int,
    ) -> _SizedKernel | None:
        """Return the template that has a kernel of the sizes of `key`, None if there is none."""
        self._counts[number] += 1
        if self._counts[number] < MIN_ALIKE:
            return None
        templates = self._alike.setdefault(number, Templates(MAX_PATHS))
        return templates.found(key.sizes, lambda: self._traced(partition, buffers, group, key))

    def _traced(
        self, partition: Partition, buffers: Buffers, group: FusionGroup, key: GroupKey
    ) -> _SizedKernel:
        """Lower and schedule a group with symbolic sizes."""
        path = Path()
        sizes = dict(zip(key.sizes, path.sizes(key.sizes), strict=True))
        symbolic = _SymbolicGroup(partition, buffers, group, sizes)
        lowered = lower_group(symbolic.partition, symbolic.buffers, symbolic.group, "kernel")
        moved = self._silent.relocated(lowered.kernel)
        kernel, alone = self._silent.scheduled(moved)
        assert not moved.statuses, "what is checked has no key"
        text = path.text(lambda: print_kernel(canonical(moved.kernel)))
        starts, make, make_alone = map(path.maker, (moved.starts, kernel, alone))
        order = key.order_of([symbolic.given[b] for b in lowered.arguments])
        return _SizedKernel(path.taken(), text, starts, make, make_alone, order)

    def _instance(self, template: _SizedKernel, sizes: tuple[int, ...]) -> Relocated:
        """Return the kernel of a template for `sizes`."""
        numbers = template.path.numbers(sizes)
        kernel = self._pool.add_scheduled(
            template.text.of(numbers),
            lambda: (template.kernel(numbers), template.alone(numbers)),
        )
        return Relocated(kernel, template.starts(numbers), ())


class _SymbolicGroup:
    """A group whose sizes are symbolic, with as much around it as lowering reads.

    `given` says which of the buffers of the group one here stands for.
    """

    def __init__(
        self,
        partition: Partition,
        buffers: Buffers,
        group: FusionGroup,
        sizes: Mapping[int, Any],
    ) -> None:
        self._sizes = sizes
        self._given = buffers
        self._whole = partition
        self._tensors: dict[Tensor, Tensor] = {}
        self._nodes: dict[Node, Node] = {}
        self._buffers: dict[Buffer, Buffer] = {}
        self._source: dict[Tensor, Buffer] = {}
        own = set(group.nodes)
        for node in group.nodes:
            for tensor in node.inputs:
                if tensor.node not in own:
                    self._read(tensor)
            self._make(node)
        for tensor in group.outputs:
            if tensor.node not in own:  # a leaf that is copied
                self._read(tensor)
        self.group = FusionGroup(
            tuple(self._nodes[node] for node in group.nodes),
            None if group.anchor is None else self._nodes[group.anchor],
            tuple(self._tensors[tensor] for tensor in group.outputs),
            (),
            self._with_sizes(group.domain),
        )
        written = {
            self._tensors[t]: tuple(map(self._buffer, buffers.written(t))) for t in group.outputs
        }
        self.buffers = replace(buffers, source=self._source, destinations=written)
        if any(isinstance(partition.specs[node], AtIndices) for node in group.nodes):
            raise TypeError("which places are known to be within their axes depends on sizes")
        made = [*(tensor.node for tensor in self._source), *self._nodes.values()]
        specs = {node: kernel_spec(node) for node in made}
        self.partition = replace(partition, specs=specs, storage={}, placed={})
        self.given = {own: buffer for buffer, own in self._buffers.items()}

    def _with_sizes(self, value: Any) -> Any:
        """Return a shape or an attribute with symbolic sizes in the place of numbers."""
        if type(value) is tuple:
            return tuple([self._with_sizes(part) for part in value])
        return self._sizes.get(value, value) if type(value) is int else value

    def _type(self, type_: TensorType) -> TensorType:
        return TensorType(type_.dtype, self._with_sizes(type_.shape))

    def _buffer(self, buffer: Buffer) -> Buffer:
        if buffer not in self._buffers:
            self._buffers[buffer] = replace(buffer, type=self._type(buffer.type))
        return self._buffers[buffer]

    def _read(self, tensor: Tensor) -> None:
        """Stand in for a tensor that is read from memory."""
        if tensor in self._tensors:
            return
        stored = self._whole.stored(tensor)
        assert stored not in self._whole.placed, "what is placed has no symbolic sizes"
        leaf = make_node(tensor.node.definition, (), {}, (self._type(tensor.type),))
        self._tensors[tensor] = leaf.output
        self._source[leaf.output] = self._buffer(self._given.read(stored))

    def _make(self, node: Node) -> None:
        attrs = {name: self._with_sizes(attr) for name, attr in node.attrs.items()}
        inputs = tuple(self._tensors[tensor] for tensor in node.inputs)
        made = make_node(
            node.definition, inputs, attrs, tuple(self._type(t.type) for t in node.outputs)
        )
        self._nodes[node] = made
        self._tensors |= zip(node.outputs, made.outputs, strict=True)


def _tensors_of(group: FusionGroup) -> list[Tensor]:
    return [*group.inputs, *group.outputs]
