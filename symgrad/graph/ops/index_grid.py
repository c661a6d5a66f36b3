"""Index grids: the index tensors of a scatter that writes what a key of arrays and slices takes.

What a key is made of is in `subscript`, and what is done there in `writing`.
"""

from __future__ import annotations

from typing import Any

from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.elementwise import broadcast_together
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.indexing import index_tensor
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.subscript import AxisPart, is_array
from symgrad.graph.ops.views import moveaxis


class IndexGrid:
    """The axes of `x` from the first to the last that a key does not take as a whole.

    Each has an index tensor: that of an array, or the positions that a slice or an int takes. What
    they have in common as a shape is that of the arrays, with an axis for each slice.
    """

    def __init__(self, x: Tensor, items: list[Any], cuts: list[AxisPart]) -> None:
        self._x = x
        self._cuts = cuts
        self._items = [item for item in items if item is not None and item is not Ellipsis]
        partial = [a for a in range(x.ndim) if not self._is_whole(a)]
        self.first, self._last = min(partial), max(partial)
        self._arrays = self._index_arrays()
        block = next(iter(self._arrays.values())).shape if self._arrays else ()
        self._block = block
        self.can_meet = any(n != 1 for n in block)
        # NumPy: among arrays an int counts as one, and what stands between them puts theirs first.
        others = (slice, type(None), type(Ellipsis))
        places = [p for p, item in enumerate(items) if not isinstance(item, others)]
        self._is_apart = bool(self._arrays) and places != list(range(places[0], places[-1] + 1))
        self._before = 0  # the axes of slices before those of the arrays
        if self._arrays and not self._is_apart:
            before = self._items[self.first : min(self._arrays)]
            self._before = sum(isinstance(item, slice) for item in before)

    def _is_whole(self, axis: int) -> bool:
        cut, item = self._cuts[axis], self._items[axis]
        is_slice = isinstance(item, slice)
        return is_slice and cut.start == 0 and cut.size == self._x.shape[axis] and cut.step == 1

    def _index_arrays(self) -> dict[int, Tensor]:
        """Return the index arrays by their axes, as int64 tensors of one shape."""
        found = {
            axis: index_tensor("getitem", item, self._x.shape[axis], axis)
            for axis, item in enumerate(self._items)
            if is_array(item)
        }
        names = {f"index {axis}": index for axis, index in found.items()}
        together = broadcast_together("getitem", **names) if names else []
        return dict(zip(found, together, strict=True))

    def indices(self) -> list[Tensor]:
        """Return the index tensor of each axis, all of one shape."""
        axes = range(self.first, self._last + 1)
        sizes = [self._cuts[a].size for a in axes if isinstance(self._items[a], slice)]
        before = self._before
        shape = (*sizes[:before], *self._block, *sizes[before:])
        indices, slices = [], 0
        for axis in axes:
            cut = self._cuts[axis]
            if axis in self._arrays:
                behind = len(sizes) - before
                index = reshape(self._arrays[axis], (*self._block, *(1,) * behind))
            elif isinstance(self._items[axis], slice):
                place = slices if slices < before else slices + len(self._block)
                taken = slice_axes(
                    iota((self._x.shape[axis],), 0), [cut.start], [cut.size], [cut.step]
                )
                index = reshape(taken, (cut.size, *(1,) * (len(shape) - place - 1)))
                slices += 1
            else:
                index = as_tensor(cut.start, dtypes.int64)
            indices.append(broadcast_to(index, shape))
        return indices

    def in_order(self, chosen: Tensor) -> Tensor:
        """Return what is of the shape of `x[key]` with its axes in the order of the scatter.

        Those of `x` before the block come first; an axis of size 1 for None goes.
        """
        is_slice = [isinstance(item, slice) for item in self._items]
        sizes = [cut.size for cut, kept in zip(self._cuts, is_slice, strict=True) if kept]
        lead = sum(is_slice[: self.first])
        front = 0 if self._is_apart else lead + self._before
        plain = reshape(chosen, (*sizes[:front], *self._block, *sizes[front:]))
        if not self._is_apart or not lead or not self._block:
            return plain
        rank = len(self._block)
        return moveaxis(plain, tuple(range(rank)), tuple(range(lead, lead + rank)))
