"""Sparse vector forward mode: tangents with the seeds that reach them, and no zeros for the others.

Before, with %theta of 26 elements and %t = slice %tangent {start = [6], size = [1]}:
    %a = multiply %t, %x          the tangent of something that is made of theta[6] alone

After `sparse_columns(...)`, %a has an axis of 1 seed, not of 26. Where tangents of different seeds
are joined by a concat, as the bones of a hand are, each keeps its range of seeds and its range of
the axis: a block of a matrix by seeds and places of which the rest is zeros. A product over that
axis then reads the places of a block, so that one over 22 bones is five over 4, and what comes out
is joined along the axis of seeds, which takes no zeros.

Only x of one axis that are read by slices alone have such tangents. A tangent is linear in the
seeds, so what no seed reaches is zero, also where it is multiplied by what is not finite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.frontend.matrices import eye
from symgrad.graph.batch_rules import Entry, Operands, rule_of
from symgrad.graph.build import derived_from
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add, add_op
from symgrad.graph.ops.contraction import einsum_op
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.slicing import concat, concat_op, place, slice_axes, slice_op
from symgrad.graph.ops.structure import permute_dims_op
from symgrad.graph.ops.views import narrow
from symgrad.graph.traverse import topological
from symgrad.passes.batching.vmap import build_again
from symgrad.records import dataclass

_MOST_SLICES = 256  # of x: a graph has a node for each anyway, but each may be a block of its own
_MOST_BLOCKS = 16  # of a tensor: each is a kernel of its own
_LARGE = 1 << 12  # elements of a tangent by one seed that are worth a kernel for each block


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Derivatives by the seeds from `first` on, which are the first axis of `tensor`.

    With an `axis` of what it is the tangent of, only places from `start` on of that, and zeros at
    the others. No two blocks of one tangent have a seed in common.
    """

    first: int
    tensor: Tensor
    axis: int | None = None
    start: int = 0

    @property
    def count(self) -> int:
        count = self.tensor.shape[0]
        assert isinstance(count, int), "seeds are counted"
        return count

    @property
    def last(self) -> int:
        return self.first + self.count


Blocks = list[_Block]


def sparse_columns(y: Tensor, tangent: Tensor) -> Tensor | None:
    """Return the tangents of `y` for all unit seeds, which come first; None if that has no sense.

    `y` is linear in `tangent`, which is of one axis.
    """
    order = _dependent(y, tangent)
    if order is None:
        return None
    found: dict[Tensor, Blocks] = {}
    multiplied = _multiplied(order)
    for node in order:
        given = [found.get(t, []) for t in node.inputs]
        with derived_from(node):
            if node.definition is concat_op:
                found[node.output] = _joined(node, given, node.output in multiplied)
            else:
                found[node.output] = _push(node, tangent, given)
    total = tangent.type.size
    assert isinstance(total, int), "seeds are counted"
    return _widened(_one(found[y], y), 0, total, y)


def _dependent(y: Tensor, tangent: Tensor) -> list[Node] | None:
    """Return the nodes on the way from `tangent`, None if they are none that blocks pass."""
    if tangent.ndim != 1 or y is tangent or not y.type.is_static:
        return None
    reached, order, slices = {tangent}, list[Node](), set[tuple[int, int]]()
    for node in topological([y], stop={tangent}):
        if not any(t in reached for t in node.inputs):
            continue
        if len(node.outputs) != 1 or rule_of(node) is None or not node.output.type.is_static:
            return None
        if any(t is tangent for t in node.inputs):
            if not _is_range(node):
                return None
            slices.add(_range_of(node))
        reached.add(node.output)
        order.append(node)
    is_worth = len(slices) <= _MOST_SLICES and _leave_seeds_out(slices, tangent)
    # A concat that no product follows is of all seeds in the end, and filled as it is computed.
    ops = {node.definition for node in order}
    is_worth = is_worth and (concat_op not in ops or einsum_op in ops)
    return order if y in reached and is_worth else None


def _leave_seeds_out(slices: set[tuple[int, int]], tangent: Tensor) -> bool:
    """Return whether ranges do not all overlap: then they are as good as all of the seeds."""
    end = 0
    for start, size in sorted(slices):
        if start >= end > 0 or start > end:
            return True
        end = max(end, start + size)
    return tangent.shape != (end,)


def _is_range(node: Node) -> bool:
    """Return whether a node takes elements of a vector that are side by side, and known."""
    if node.definition is not slice_op or _attrs(node)["step"] != (1,):
        return False
    start, size = _range_of(node)
    return isinstance(start, int) and isinstance(size, int) and size > 0


def _range_of(node: Node) -> tuple[Any, Any]:
    (start,), (size,) = _attrs(node)["start"], _attrs(node)["size"]
    return start, size


def _attrs(node: Node) -> Mapping[str, Any]:
    return node.attrs


def _push(node: Node, tangent: Tensor, given: Sequence[Blocks]) -> Blocks:
    """Return the tangent of a node, from those of its inputs."""
    if node.inputs[0] is tangent:
        start, size = _range_of(node)
        return [_Block(start, eye(size, dtype=tangent.dtype))]
    if node.definition is add_op:
        return _sum(node, *given)
    reached = [i for i, blocks in enumerate(given) if blocks]
    if len(reached) == 1 and _goes_by_blocks(node, reached[0], given[reached[0]]):
        return [_through(node, reached[0], block) for block in given[reached[0]]]
    return [_through_whole(node, given)]


def _goes_by_blocks(node: Node, place_of: int, blocks: Blocks) -> bool:
    """Return whether a node of one operand with a tangent is built for each block of that."""
    if len(blocks) == 1 and blocks[0].axis is None:
        return False
    has_places = all(block.axis is not None for block in blocks)
    if node.definition is einsum_op:
        given, made = node.inputs[place_of].type.count, node.output.type.count
        return has_places or given >= max(made, _LARGE)
    if not has_places:
        return False
    if node.definition is slice_op:
        return all(_is_whole_along(node, block.axis) for block in blocks)
    return node.definition is permute_dims_op or node.definition.is_elementwise


def _is_whole_along(node: Node, axis: int | None) -> bool:
    assert axis is not None, "a block of places has an axis"
    size, step = _attrs(node)["size"], _attrs(node)["step"]
    return bool(step[axis] == 1 and size[axis] == node.inputs[0].shape[axis])


def _through(node: Node, place_of: int, block: _Block) -> _Block:
    """Return the tangent of a node for one block of an operand's."""
    if block.axis is None:
        return _Block(block.first, _rebuilt(node, place_of, block, {}))
    size = block.tensor.type.static_shape[block.axis + 1]
    if node.definition is slice_op:
        return _Block(block.first, _sliced(node, block, size), block.axis, block.start)
    axis, others = _axes_along(node, place_of, block.axis)
    narrowed = {i: narrow(node.inputs[i], own, block.start, size) for i, own in others.items()}
    found = _rebuilt(node, place_of, block, narrowed)
    return _Block(block.first, found, axis, 0 if axis is None else block.start)


def _sliced(node: Node, block: _Block, size: int) -> Tensor:
    """Return what a slice, of all places along the axis of a block, takes of the block."""
    assert block.axis is not None, "other slices are made of wholes"
    sizes = [block.count, *_attrs(node)["size"]]
    sizes[block.axis + 1] = size
    start, step = (0, *_attrs(node)["start"]), (1, *_attrs(node)["step"])
    return slice_axes(block.tensor, start, sizes, step)


def _rebuilt(node: Node, place_of: int, block: _Block, others: Mapping[int, Tensor]) -> Tensor:
    entries = [Entry(others.get(i, t), False) for i, t in enumerate(node.inputs)]
    entries[place_of] = Entry(block.tensor, True)
    return _again(node, entries, block.count)


def _axes_along(node: Node, place_of: int, axis: int) -> tuple[int | None, dict[int, int]]:
    """Return which axis of the result, None if none, and of other operands an operand's axis is."""
    others = [i for i in range(len(node.inputs)) if i != place_of]
    if node.definition is permute_dims_op:
        return _attrs(node)["axes"].index(axis), {}
    if node.definition is not einsum_op:
        return axis, dict.fromkeys(others, axis)
    operands, _, out = _attrs(node)["spec"].partition("->")
    labels = operands.split(",")
    label = labels[place_of][axis]
    met = {i: labels[i].index(label) for i in others if label in labels[i]}
    return (out.index(label) if label in out else None), met


def _through_whole(node: Node, given: Sequence[Blocks]) -> _Block:
    """Return the tangent of a node for all seeds that reach any of its operands."""
    reached = [block for blocks in given for block in blocks]
    first, last = min(b.first for b in reached), max(b.last for b in reached)
    entries = [
        Entry(_widened(_one(blocks, t), first, last, t), True) if blocks else Entry(t, False)
        for t, blocks in zip(node.inputs, given, strict=True)
    ]
    return _Block(first, _again(node, entries, last - first))


def _again(node: Node, entries: Sequence[Entry], count: int) -> Tensor:
    operands = Operands(node, tuple(entries), count)
    (found,) = build_again(operands)
    return operands.lift(found)


def _sum(node: Node, lhs: Blocks, rhs: Blocks) -> Blocks:
    """Return the tangent of a sum: blocks whose seeds reach one operand alone are as they were."""
    found = []
    for members in _components([*lhs, *rhs]):
        if len(members) == 1:
            found += members
            continue
        first, last = members[0].first, max(b.last for b in members)
        sides = [
            _widened(_one([b for b in members if b in side], t), first, last, t)
            for side, t in zip((lhs, rhs), node.inputs, strict=True)
            if any(b in side for b in members)
        ]
        found.append(_Block(first, sides[0] if len(sides) == 1 else add(*sides)))
    return found


def _multiplied(order: Sequence[Node]) -> set[Tensor]:
    """Return tangents that products read, as they are or moved or scaled: their zeros cost work."""
    found: set[Tensor] = set()
    for node in reversed(order):
        keeps_places = node.definition in (slice_op, permute_dims_op, add_op)
        is_passed = keeps_places or node.definition.is_elementwise
        if node.definition is einsum_op or (is_passed and node.output in found):
            found.update(node.inputs)
    return found


def _joined(node: Node, given: Sequence[Blocks], is_multiplied: bool) -> Blocks:
    """Return the tangent of a concat: blocks at their places for a product, else one of all.

    Operands whose seeds meet are one block.
    """
    axis = _attrs(node)["axis"]
    ones = [
        _one(blocks, t) if blocks else None for t, blocks in zip(node.inputs, given, strict=True)
    ]
    groups = _components([block for block in ones if block is not None])
    if len(groups) > _MOST_BLOCKS or not is_multiplied:
        groups = [[block for group in groups for block in group]]
    return [_placed(node, axis, ones, group, len(groups) > 1) for group in groups]


def _placed(
    node: Node, axis: int, ones: Sequence[_Block | None], group: Blocks, is_apart: bool
) -> _Block:
    """Return a block of a concat: of some operands, and of zeros between or at all other places."""
    first, last = min(b.first for b in group), max(b.last for b in group)
    places = [i for i, block in enumerate(ones) if block in group]
    low, high = (places[0], places[-1] + 1) if is_apart else (0, len(ones))
    parts = []
    for block, t in zip(ones[low:high], node.inputs[low:high], strict=True):
        if block is None or block not in group:
            parts.append(filled((last - first, *t.shape), 0, t.dtype))
        else:
            parts.append(_widened(block, first, last, t))
    whole = concat(parts, axis=axis + 1) if len(parts) > 1 else parts[0]
    if not is_apart:
        return _Block(first, whole)
    return _Block(first, whole, axis, sum(t.type.static_shape[axis] for t in node.inputs[:low]))


def _components(blocks: Blocks) -> list[Blocks]:
    """Return blocks by seeds, together where ranges of seeds meet."""
    found: list[Blocks] = []
    end = 0
    for block in sorted(blocks, key=lambda b: b.first):
        if found and block.first < end:
            found[-1].append(block)
        else:
            found.append([block])
        end = max(end, block.last)
    return found


def _one(blocks: Blocks, like: Tensor) -> _Block:
    """Return one block of all places in place of all, with zeros for seeds between them."""
    if len(blocks) == 1:
        return blocks[0]
    parts: list[Tensor] = []
    end = min(b.first for b in blocks)
    for block in sorted(blocks, key=lambda b: b.first):
        if end < block.first:
            parts.append(filled((block.first - end, *like.shape), 0, like.dtype))
        parts.append(_at_all_places(block, like))
        end = block.last
    return _Block(min(b.first for b in blocks), concat(parts, axis=0))


def _at_all_places(block: _Block, like: Tensor) -> Tensor:
    if block.axis is None:
        return block.tensor
    low = [0] * block.tensor.ndim
    low[block.axis + 1] = block.start
    return place(block.tensor, (block.count, *like.shape), tuple(low), (1,) * block.tensor.ndim)


def _widened(block: _Block, first: int, last: int, like: Tensor) -> Tensor:
    """Return a block at all places, for the seeds from `first` to before `last`."""
    tensor = _at_all_places(block, like)
    low = (block.first - first, *(0 for _ in like.shape))
    return place(tensor, (last - first, *like.shape), low, (1,) * tensor.ndim)
