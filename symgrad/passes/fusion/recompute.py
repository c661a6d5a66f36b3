"""Recomputation in fusion: what several kernels use and each may as well compute for itself.

A tensor that costs a few flops and is made of one other of its size, which is in memory anyway, and
of smaller ones, as `x - mean` is, is cheaper to compute again than to write once: whoever uses it
reads as much. So is one that is made of indices, as the mask of a triangle is, or of smaller ones
alone: hardly anything is read. The first draft of a partition says what is in memory; these tensors
are then left out of it in the second, if they are a share of it that may be noticed: to draft a
chain of 5,000 ops anew takes a tenth of its first step. Not so what is made of an old value that is
written over: whatever read it later would keep the update from being in place.
"""

from __future__ import annotations

from symgrad.cost_model import CHEAP_FLOPS, FEW_OF_MANY, FEW_OF_MEMORY
from symgrad.graph.node import Tensor
from symgrad.graph.structures import Iota, Map, Reduce, View
from symgrad.passes.fusion.draft import Drafts
from symgrad.records import dataclass

_MOST_SOURCES = 2
_MOST = 16  # tensors between the two: a bound on how far is looked


def cheap_again(drafts: Drafts) -> frozenset[Tensor]:
    """Return what is in memory only for several kernels, and what these had better compute."""
    read = set(drafts.roots).union(
        *(drafts.read_from_memory(d) for d in drafts.all if d.merged_into is None)
    )
    kept = {drafts.stored(t) for t in read}
    held = set(kept)
    written = {update.variable.state for update in drafts.graph.updates}
    overwritten = {t for t in held if t.node.attrs.get("state") in written}
    overwritten |= {drafts.graph.inputs[input_] for _, input_ in drafts.carried}
    again: set[Tensor] = set()
    for tensor in sorted(drafts.shared & held, key=lambda t: drafts.position[t.node]):
        made_of = _sources_of(drafts, tensor, held)
        if made_of is not None and made_of.sources.isdisjoint(overwritten):
            again |= made_of.between
            held -= made_of.between
    return frozenset(again) if again and _may_be_noticed(kept - held, kept) else frozenset()


def _may_be_noticed(spared: set[Tensor], kept: set[Tensor]) -> bool:
    """Return whether what is not written to memory is more than a few of what was.

    Bytes take longer to count than tensors, which are nearly always more than a few.
    """
    if len(spared) * FEW_OF_MEMORY >= len(kept):
        return True
    return _bytes_of(spared) * FEW_OF_MEMORY >= _bytes_of(kept)


def _bytes_of(tensors: set[Tensor]) -> int:
    return sum([tensor.type.nbytes for tensor in tensors])


@dataclass(frozen=True, slots=True)
class _MadeOf:
    """The tensors in memory that another is made of, and what is computed on the way."""

    sources: set[Tensor]
    between: set[Tensor]


def _sources_of(drafts: Drafts, tensor: Tensor, held: set[Tensor]) -> _MadeOf | None:
    """Return of which few tensors of `held` as large as `tensor` it is cheaply made, else None."""
    sources: set[Tensor] = set()
    flops, pending, seen, count = 0, [tensor], {tensor}, tensor.type.count
    while pending:
        made = pending.pop()
        flops += drafts.flops(made.node)
        if flops > CHEAP_FLOPS or len(seen) > _MOST or not _is_in_place_order(drafts, made):
            return None
        for operand in made.node.inputs:
            # Most are as large, and to count takes longer than to see that.
            is_as_large = operand.type is tensor.type and count > 0
            if not is_as_large and operand.type.count * FEW_OF_MANY <= count:
                continue
            stored = drafts.stored(operand)
            if stored in held:
                sources.add(stored)
            elif operand not in seen:
                seen.add(operand)
                pending.append(operand)
        if len(sources) > _MOST_SOURCES:
            return None
    most = _MOST_SOURCES if _only_two_sums_read(drafts, tensor) else 1
    if len(sources) > most or tensor in drafts.repeated:
        return None
    is_alike = all(source.type.count == count for source in sources)
    is_small = all(_size(source) <= _size(tensor) for source in sources)
    return _MadeOf(sources, seen) if is_alike and is_small else None


def _only_two_sums_read(drafts: Drafts, tensor: Tensor) -> bool:
    """Return whether only two reductions along the same axes read `tensor`."""
    readers = {id(d.final()): d.final() for d in drafts.wanted[tensor].values()}
    specs = [drafts.anchor_spec(draft) for draft in readers.values()]
    axes = [spec.axes for spec in specs if isinstance(spec, Reduce)]
    return len(specs) == len(axes) == 2 and axes[0] == axes[1]


def _size(tensor: Tensor) -> int:
    return tensor.dtype.numpy.itemsize


def _is_in_place_order(drafts: Drafts, tensor: Tensor) -> bool:
    """Return whether elements are computed of those at the same position, or of repeated ones."""
    spec = drafts.specs[tensor.node]
    if isinstance(spec, Iota):
        return True
    if isinstance(spec, Map):
        return bool(tensor.node.inputs)
    (operand, *_) = tensor.node.inputs or (tensor,)
    return isinstance(spec, View) and operand.type.count < tensor.type.count
