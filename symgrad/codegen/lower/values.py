"""Demand-driven code generation: how one element of a tensor becomes statements of a kernel.

`Values.value` writes what computes an element of a tensor at an index, through whatever nodes the
group computes, down to loads from buffers. It is a loop over a stack and not a recursion, so a
group may be as deep as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from symgrad.codegen.loops.index_arithmetic import bounds, modulus, quotient, scaled_sum
from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Const,
    Index,
    Mode,
    Param,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.lower.scope import Names, Scope, ValueKey, constant
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import (
    CHECKED,
    AtIndices,
    AxisMap,
    Call,
    ColumnMap,
    Contract,
    Extern,
    Gather,
    Iota,
    KernelSpec,
    Map,
    Place,
    PrefixScan,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Search,
    Sort,
    Switch,
    View,
    While,
    traits_of,
)
from symgrad.passes.fusion.buffers import Buffer, Buffers
from symgrad.passes.fusion.draft import only_adds_ones
from symgrad.passes.fusion.partition import FusionGroup, Partition


class GroupValues:
    """The elements of a group's tensors, and the parameters of the kernel they come from."""

    def __init__(
        self, partition: Partition, buffers: Buffers, group: FusionGroup, names: Names
    ) -> None:
        self._partition = partition
        self._buffers = buffers
        self._group = group
        self._computed = set(group.nodes)
        self._names = names
        self._parameter: dict[Buffer, str] = {}
        self._scratch: list[Param] = []
        self.extents: dict[str, int] = {}

    # ------------------------------------------------------------------- loops and indices

    def loop(self, extent: int) -> str:
        """Return a new loop variable that takes 0 to `extent - 1`."""
        name = self._names.loop()
        self.extents[name] = extent
        return name

    def linear(self, index: Sequence[Index], shape: Sequence[int]) -> Index:
        """Return the position of `index` in a row-major array of `shape`."""
        stride = 1
        parts = []
        for part, size in zip(reversed(index), reversed(shape), strict=True):
            parts.append((part, stride))
            stride *= size
        return scaled_sum(parts)

    def mapped(self, maps: Sequence[AxisMap], index: Sequence[Index]) -> tuple[Index, ...]:
        """Return what affine `maps` make of `index`."""
        return tuple(scaled_sum([(index[a], c) for a, c in m.terms], m.offset) for m in maps)

    def windowed(self, spec: Contract, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """Return where the left operand is read, for labels of it at `index`."""
        return index if spec.windows is None else self.mapped(spec.windows.index, index)

    def within(self, spec: Place, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """Return where in its one operand a pad is at `index`."""
        (maps,) = spec.operands
        return tuple(scaled_sum([(i, 1)], -m.offset) for i, m in zip(index, maps, strict=True))

    def reshaped(
        self, index: Sequence[Index], shape: Sequence[int], old: Sequence[int]
    ) -> tuple[Index, ...]:
        """Return where the element at `index` of an array of `shape` is in the shape `old`."""
        position = self.linear(index, shape)
        result: list[Index] = []
        for axis in range(len(old) - 1, -1, -1):
            size = max(old[axis], 1)
            last = axis == 0
            result.append(position if last else modulus(position, size, self.extents))
            position = position if last else quotient(position, size, self.extents)
        return tuple(reversed(result))

    # -------------------------------------------------------------------------- parameters

    def is_placed(self, tensor: Tensor) -> bool:
        """Return whether `tensor` has been written where the Place that reads it would put it."""
        return tensor in self._partition.placed

    def destinations(self, tensor: Tensor) -> list[str]:
        """Return the parameters a result of the group is written to."""
        return [self._name(buffer) for buffer in self._buffers.written(tensor)]

    def store(self, scope: Scope, tensor: Tensor, index: Sequence[Index], value: Atom) -> None:
        """Store an element of a result to every buffer that takes it."""
        placed = self._partition.placed.get(tensor)
        whole = tensor if placed is None else placed.node.output
        if placed is not None:
            index = self.mapped(placed.spec.operands[placed.number], index)
        for name in self.destinations(tensor):
            offset = self.linear(index, whole.type.static_shape)
            scope.statements.append(Store(name, offset, value))

    def source(self, tensor: Tensor) -> str:
        """Return the parameter a tensor in memory is read from."""
        return self._name(self._buffers.read(self._partition.stored(tensor)))

    def is_in_memory(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is read from memory and not computed by this group."""
        return self._partition.stored(tensor) in self._buffers.source and not self._spec(tensor)

    def is_left_out(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is a pad in no memory, which a product of this group reads."""
        return isinstance(self._spec(tensor), Place)

    def _name(self, buffer: Buffer) -> str:
        return self._parameter.setdefault(buffer, f"b{len(self._parameter)}")

    def scratch(self, dtype: DType, count: int) -> str:
        """Return a new parameter for memory that only this kernel uses."""
        self._scratch.append(Param(f"s{len(self._scratch)}", dtype, count, "scratch"))
        return self._scratch[-1].name

    def params(self, body: tuple[Stmt, ...]) -> tuple[tuple[Param, ...], tuple[Buffer, ...]]:
        """Return the parameters that `body` uses, and the buffers all but the scratch stand for."""
        loaded, stored = buffers_used(body)
        params, arguments = [], []
        for buffer, name in self._parameter.items():
            if name not in loaded and name not in stored:
                continue
            mode: Mode = "in" if name not in stored else "inout" if name in loaded else "out"
            params.append(Param(name, buffer.type.dtype, buffer.type.count, mode))
            arguments.append(buffer)
        return (*params, *self._scratch), tuple(arguments)

    # ------------------------------------------------------------------------------ values

    def value(self, scope: Scope, tensor: Tensor, index: tuple[Index, ...]) -> Atom:
        """Write what computes the element of `tensor` at `index` into `scope`."""
        # What an element is computed from is found out once, and looked for again behind it.
        pending: list[tuple[ValueKey, list[ValueKey] | None]] = [((tensor, index), None)]
        while pending:
            key, needed = pending[-1]
            if scope.find(key) is not None:
                pending.pop()
                continue
            if needed is None:
                needed = self._needed(key)
                pending[-1] = key, needed
            operands = [found for k in needed if (found := scope.find(k)) is not None]
            if len(operands) < len(needed):
                pending.extend((k, None) for k in reversed(needed) if scope.find(k) is None)
                continue
            scope.remember(key, self._compute(scope, key, operands))
            pending.pop()
        result = scope.find((tensor, index))
        assert result is not None, "the loop ends when the value is known"
        return result

    def _spec(self, tensor: Tensor) -> KernelSpec | None:
        """Return the structure that computes `tensor` here, None if it is read from memory."""
        node = tensor.node
        return self._partition.specs[node] if node in self._computed else None

    def _needed(self, key: ValueKey) -> list[ValueKey]:
        """Return the elements that the element `key` is computed from."""
        tensor, index = key
        node = tensor.node
        spec = self._spec(tensor)
        match spec:
            case Map():
                return [(operand, index) for operand in node.inputs]
            case View(maps):
                return [(node.inputs[0], self.mapped(maps, index))]
            case Reshape():
                old = node.inputs[0].type.static_shape
                return [(node.inputs[0], self.reshaped(index, tensor.type.static_shape, old))]
            case Gather(axis, _):
                indices = node.inputs[1:]
                rows = index[axis : axis + indices[0].ndim]
                return [(t, rows) for t in indices if self._affine(t, rows) is None]
            case Search():
                return [(node.inputs[1], index)]
            case Place():
                return self._placed(node, spec, index)
            case None | Iota() | Reduce() | PrefixScan() | Contract() | Scatter():
                return []
            case Sort() | ColumnMap() | Extern() | Switch() | While() | Scan() | Call():
                return []
            case _:
                assert_never(spec)

    def _compute(self, scope: Scope, key: ValueKey, operands: list[Atom]) -> Atom:
        tensor, index = key
        spec = self._spec(tensor)
        match spec:
            case Map(body):
                result: Atom = body(scope, *operands)
                return result
            case View() | Reshape():
                return operands[0]
            case Iota(axis):
                return scope.cast(scope.index_value(index[axis]), tensor.dtype)
            case Gather():
                return self._gather(scope, tensor.node, spec, index)
            case Search():
                return self._search(scope, tensor.node, spec, operands[0], index)
            case None:
                return self._element(scope, tensor, index)
            case Reduce() | PrefixScan() | Contract():
                raise AssertionError(f"{tensor!r}: the loops of its group remember its value")
            case Place(fill=fill):
                assert fill is not None, "a pad that a convolution reads through has a fill"
                return operands[0] if operands else constant(fill, tensor.dtype)
            case ColumnMap() | Scatter() | Sort() | Extern() | Switch() | While() | Scan() | Call():
                raise AssertionError(f"{tensor!r} is read while its group still makes it")
            case _:
                assert_never(spec)

    def _placed(self, node: Node, spec: Place, index: tuple[Index, ...]) -> list[ValueKey]:
        """Return the element of the operand of a pad that is at `index`, none on its border."""
        (operand,) = node.inputs
        sizes = operand.type.static_shape
        moved = self.within(spec, index)
        ranges = [bounds(i, self.extents) for i in moved]
        if all(low >= 0 and high < n for (low, high), n in zip(ranges, sizes, strict=True)):
            return [(operand, moved)]
        is_outside = any(high < 0 or low >= n for (low, high), n in zip(ranges, sizes, strict=True))
        assert is_outside, f"{node!r} is read within its operand and on its border at once"
        return []

    def _element(self, scope: Scope, tensor: Tensor, index: Sequence[Index]) -> Atom:
        """Load from memory; a constant of one element is written out."""
        buffer = self._buffers.read(self._partition.stored(tensor))
        if buffer.place == "constant" and buffer.type.count == 1:
            array = self._buffers.constants[buffer.number].array
            return constant(array.reshape(-1)[0].item(), tensor.dtype)
        offset = self.linear(index, tensor.type.static_shape)
        return scope.load(self._name(buffer), offset, tensor.dtype)

    # --------------------------------------------------------------- indices that are data

    def _gather(self, scope: Scope, node: Node, spec: Gather, index: tuple[Index, ...]) -> Atom:
        operand, *indices = node.inputs
        place = self.indexed(scope, node, spec, operand, indices, index)
        tensor, place = self.through_views(operand, place)
        return self._element(scope, tensor, place)

    def indexed(
        self,
        scope: Scope,
        node: Node,
        spec: AtIndices,
        operand: Tensor,
        indices: Sequence[Tensor],
        index: tuple[Index, ...],
    ) -> tuple[Index, ...]:
        """Return where in `operand` the element at `index` is that `indices` choose.

        Those that are data are checked. In a window it is as far behind where that begins as the
        axes behind those of the indices say.
        """
        axis, behind = spec.axis, spec.axis + indices[0].ndim
        found = self._checked(scope, node, spec, operand, indices, index[axis:behind])
        if spec.window is not None:
            inside = index[behind : behind + spec.count]
            pairs = zip(found, inside, strict=True)
            found = tuple(scaled_sum([(begin, 1), (offset, 1)]) for begin, offset in pairs)
            behind += spec.count
        return (*index[:axis], *found, *index[behind:])

    def _search(
        self, scope: Scope, node: Node, spec: Search, value: Atom, index: tuple[Index, ...]
    ) -> Atom:
        rows = node.inputs[0]
        length = rows.type.static_shape[-1]
        if length == 0:
            return constant(0, node.output.dtype)
        tensor, first = self.through_views(rows, (*index[:-1], Index()))
        _, second = self.through_views(rows, (*index[:-1], Index(1)))
        shape = tensor.type.static_shape
        start, following = self.linear(first, shape), self.linear(second, shape)
        stride = following.const - start.const
        buffer, or_equal = self.source(tensor), spec.side == "right"
        return scope.let(
            BinarySearch(value, buffer, start, stride, length, or_equal, node.output.dtype)
        )

    def through_views(
        self, tensor: Tensor, index: tuple[Index, ...]
    ) -> tuple[Tensor, tuple[Index, ...]]:
        """Follow affine views that this group computes down to a tensor in memory."""
        while isinstance(view := self._spec(tensor), View) or self._only_adds_ones(tensor):
            (operand,) = tensor.node.inputs
            if isinstance(view, View):
                index = self.mapped(view.index, index)
            else:
                pairs = zip(index, tensor.type.static_shape, strict=True)
                moving = iter([i for i, n in pairs if n != 1])
                sizes = operand.type.static_shape
                index = tuple(Index() if n == 1 else next(moving) for n in sizes)
            tensor = operand
        return tensor, index

    def _only_adds_ones(self, tensor: Tensor) -> bool:
        if not isinstance(self._spec(tensor), Reshape):
            return False
        (operand,) = tensor.node.inputs
        return only_adds_ones(operand.type.static_shape, tensor.type.static_shape)

    def _checked(
        self,
        scope: Scope,
        node: Node,
        spec: AtIndices,
        operand: Tensor,
        indices: Sequence[Tensor],
        rows: tuple[Index, ...],
    ) -> tuple[Index, ...]:
        """Return the indices that the elements of `indices` at `rows` are, checked for their axes.

        An index that is only a position, like those of take_along_axis, needs no check.
        """
        found = []
        for i, tensor in enumerate(indices):
            taken = 1 if spec.window is None else spec.window[i]
            extent = operand.type.static_shape[spec.axis + i] - taken + 1
            position = self._affine(tensor, rows)
            if position is None or not self._is_within(position, extent):
                value = self.value(scope, tensor, rows)
                if isinstance(value, Const) and 0 <= value.value < extent:
                    found.append(Index(int(value.value)))
                    continue
                status = self.status(node) if spec.bound in CHECKED else 0
                position = scope.check(value, extent, status, spec.bound)
                ((name, _),) = position.terms
                assert isinstance(name, str), "a check binds a name"
                self.extents[name] = extent
            found.append(position)
        return tuple(found)

    def _is_within(self, position: Index, extent: int) -> bool:
        low, high = bounds(position, self.extents)
        return low >= 0 and high < extent

    def status(self, node: Node) -> int:
        """Return the status a kernel returns when an index of `node` is out of range."""
        return self._partition.status[node]

    def _affine(self, tensor: Tensor, index: tuple[Index, ...]) -> Index | None:
        """Return the value of `tensor` at `index` if it is just a position in bounds."""
        while traits_of(spec := self._spec(tensor)).only_moves:
            ((tensor, index),) = self._needed((tensor, index))
        return index[spec.axis] if isinstance(spec, Iota) else None
