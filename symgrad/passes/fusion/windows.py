"""Convolutions: which of them are matrix products, and which read a pad that is in no memory.

What is no product, such as a depthwise convolution, has the places in a small window written out,
so what is outside of a padded operand is known where a place is written: a pad is computed by the
convolutions that read it. The gradient to the kernel adds up rows of windows in memory, so that it
walks through its operands once. A product leaves out the terms that read padding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from symgrad.cost_model import (
    BYTES_IN_REGISTERS,
    LEAST_MULTIPLIED_BYTES,
    LEAST_ROWS,
    LEAST_SUMS_IN_MEMORY,
    LONGEST_ROW,
    MAX_TAPS,
    MAX_TAPS_OF_PIECES,
    MIN_PRODUCTS,
    MOST_MULTIPLIED_BYTES,
)
from symgrad.cost_model.products import (
    FEW_READS,
    LEAST_BITS_IN_PLACE,
    LEAST_CHANNELS_BESIDE,
    LEAST_CHANNELS_IN_PLACE,
    LEAST_ROWS_BESIDE,
    LEAST_TERMS,
    MOST_STRIDES,
)
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import AxisMap, Contract, KernelSpec, Place, View
from symgrad.records import replace

# What is inside of a padded tensor along each label of its windows: [start, stop), one after
# another, such that a place in the window is within the operand for all of a piece or for none.
Pieces = dict[str, list[tuple[int, int]]]


def multiplies_matrices(anchor: Node, spec: Contract) -> bool:
    """Return whether a contraction has enough of rows and columns to be a matrix product.

    One that sums nothing is a multiplication, whose loops write its elements as they lie, unless
    the matrices are so large that tiles, which write several rows at a time, are faster, or so
    small, as those of systems of 3 rows. Neither is one of few columns and terms, as a rotation of
    coordinates is, whose tiles would mostly be empty.
    """
    if few_beside(anchor, spec) is not None:
        return False
    sizes = sizes_of(anchor, spec)
    rows = math.prod(n for k, n in sizes.items() if k not in spec.rhs)
    columns = math.prod(n for k, n in sizes.items() if k not in spec.lhs)
    nbytes = rows * columns * anchor.output.dtype.itemsize
    is_between = LEAST_MULTIPLIED_BYTES <= nbytes <= MOST_MULTIPLIED_BYTES
    if is_between and all(label in spec.out for label in sizes):
        return False
    return rows >= 2 and columns >= 2 and math.prod(sizes.values()) >= MIN_PRODUCTS


def few_beside(anchor: Node, spec: Contract) -> str | None:
    """Return the only label of one side of a long product, if that and what it sums are few.

    These are written out: what an iteration reads of the other side is a few values in registers.
    """
    if spec.windows is not None:
        return None
    sizes = sizes_of(anchor, spec)
    terms = math.prod(n for label, n in sizes.items() if label not in spec.out)
    for these, others in ((spec.lhs, spec.rhs), (spec.rhs, spec.lhs)):
        own = [k for k in these if k not in others and sizes[k] != 1]
        across = math.prod(n for label, n in sizes.items() if label not in these)
        if len(own) == 1 and 2 <= sizes[own[0]] <= LONGEST_ROW and across >= LEAST_ROWS:
            return own[0] if 2 <= terms <= LONGEST_ROW else None
    return None


def sizes_of(anchor: Node, spec: Contract) -> dict[str, int]:
    """Return the size of each label of a contraction."""
    lhs, rhs = (t.type.static_shape for t in anchor.inputs)
    return spec.sizes(lhs, rhs)


def written_out(anchor: Node, spec: Contract) -> list[str]:
    """Return the labels within windows, if their places are few enough to be written out."""
    assert spec.windows is not None, "the left operand has windows"
    sizes = sizes_of(anchor, spec)
    pairs = [m.terms for m in spec.windows.index if len(m.terms) == 2]
    inner = [spec.lhs[second[0]] for _, second in pairs]
    return inner if 0 < math.prod(sizes[k] for k in inner) <= MAX_TAPS else []


def pieces_of(
    anchor: Node, spec: Contract, taps: Sequence[str], pad: Place | None, inside: Sequence[int]
) -> Pieces:
    """Return the pieces of each label but `taps`, for a left operand of shape `inside` in a `pad`.

    Without a pad each label is one piece.
    """
    assert spec.windows is not None, "the left operand has windows"
    sizes = sizes_of(anchor, spec)
    cuts = {label: {0, n} for label, n in sizes.items() if label not in taps}
    for axis, index in enumerate(spec.windows.index if pad is not None else ()):
        assert pad is not None, "there are borders of a pad only"
        low = pad.operands[0][axis].offset
        for label, begin, end in _insides(spec, sizes, taps, index, low, inside[axis]):
            cuts[label] |= {min(max(at, 0), sizes[label]) for at in (begin, end)}
    ends = {label: sorted(at) for label, at in cuts.items()}
    # A label without elements is one piece, too.
    return {label: list(itertools.pairwise(at)) or [(0, 0)] for label, at in ends.items()}


def _insides(
    spec: Contract, sizes: Mapping[str, int], taps: Sequence[str], index: AxisMap, low: int, n: int
) -> list[tuple[str, int, int]]:
    """Return, for each place in a window, where along its other label it is in [low, low + n)."""
    moving = [(spec.lhs[axis], step) for axis, step in index.terms]
    walked = [(label, step) for label, step in moving if label not in taps]
    if len(walked) != 1:
        return []
    ((label, step),) = walked
    places = [0]
    for inner, apart in moving:
        if inner in taps:
            places = [place + apart * i for place in places for i in range(sizes[inner])]
    starts = [low - index.offset - place for place in places]
    return [(label, -(-start // step), -(-(start + n) // step)) for start in starts]


def is_read_through(pad: Node, place: KernelSpec | None, users: Mapping[Node, Contract]) -> bool:
    """Return whether the contractions `users`, with their structures, compute `pad` themselves.

    So they do if all of them write out the windows they read it in, have channels side by side,
    and no border makes more of their code than it saves.
    """
    if not isinstance(place, Place) or place.adds or place.fill is None or not users:
        return False
    if not fills_around(place):
        return False
    return all(_writes_out_border(pad, place, user, spec) for user, spec in users.items())


def is_left_out(
    pad: Node, users: Mapping[Node, Contract], specs: Mapping[Node, KernelSpec | None]
) -> bool:
    """Return whether the contractions `users` are products that need nothing of a `pad`'s zeros.

    They may read slices of it, as the structures of all nodes, `specs`, say.
    """
    place = specs[pad]
    if not isinstance(place, Place) or place.adds or place.fill != 0 or not users:
        return False
    if not fills_around(place):
        return False
    read = {user: _through_slices(user, spec, specs) for user, spec in users.items()}
    return all(
        lhs is pad.output and _leaves_out(pad, place, user, spec)
        for user, (lhs, spec) in read.items()
    )


def _through_slices(
    user: Node, spec: Contract, specs: Mapping[Node, KernelSpec | None]
) -> tuple[Tensor, Contract]:
    """Return what the left operand of `user` is a slice of, if it is, and its windows in that."""
    lhs, _ = user.inputs
    windows = spec.windows
    while windows is not None and isinstance(view := specs[lhs.node], View):
        if not _is_dense(view.index):
            break
        moved = zip(windows.index, view.index, strict=True)
        index = tuple(AxisMap(m.offset + at.offset, m.terms) for m, at in moved)
        windows = replace(windows, index=index)
        (lhs,) = lhs.node.inputs
    return lhs, replace(spec, windows=windows)


def _leaves_out(pad: Node, place: Place, user: Node, spec: Contract) -> bool:
    """Return whether `user` is a product that needs no zeros around the operand of `pad`.

    `spec` has its windows in `pad`. Each axis along which these reach padding is walked through by
    one label of its rows and one of the terms of its sums, and there are enough rows and terms at
    each place for tiles and pieces of their own.
    """
    lhs, rhs = user.inputs
    if rhs is pad.output or spec.windows is None:
        return False
    if lhs.dtype.bits < LEAST_BITS_IN_PLACE or not multiplies_matrices(user, spec):
        return False
    inside, sizes = pad.inputs[0].type.static_shape, sizes_of(user, spec)
    sides = zip(spec.windows.index, place.operands[0], inside, strict=True)
    padded = [index for index, at, n in sides if _is_read(spec, sizes, index, at.offset, n)]
    if not all(_crosses(index, spec, sizes) for index in padded) or 0 in inside:
        return False
    walking = [spec.lhs[axis] for index in padded for axis, _ in index.terms]
    others = [m for m in spec.windows.index if m not in padded]
    moved = {spec.lhs[axis] for index in others for axis, _ in index.terms}
    if len(set(walking)) < len(walking) or not moved.isdisjoint(walking):
        return False
    if _packs_pixels(user, spec, padded):
        return True
    images = math.prod(sizes[k] for k in spec.lhs if k not in spec.rhs and k not in walking)
    (channel, _), *more = spec.windows.index[-1].terms
    beside, filters = spec.lhs[channel], spec.out[-1]
    are_beside = not more and beside in spec.rhs and beside not in spec.out
    are_wide = are_beside and sizes[beside] >= LEAST_CHANNELS_BESIDE
    return (
        images >= LEAST_ROWS_BESIDE
        and are_wide
        and filters not in spec.lhs
        and sizes[filters] >= LEAST_CHANNELS_BESIDE
    )


def _packs_pixels(user: Node, spec: Contract, padded: Sequence[AxisMap]) -> bool:
    """Return whether `user` is the gradient to a kernel, which packs pixels, and zeros around them.

    Its rows are places in a window and channels, which lie side by side; the terms of its sums are
    pixels. Padding is read along all axes between the batch and the channels, and there are several
    lines of pixels.
    """
    assert spec.windows is not None, "the left operand has windows"
    maps, sizes = spec.windows.index, sizes_of(user, spec)
    axes = [axis for axis, m in enumerate(maps) if m in padded]
    if not axes or axes != list(range(axes[0], len(maps) - 1)):
        return False
    others = (*maps[: axes[0]], maps[-1])
    if any(len(m.terms) != 1 or m.offset for m in others) or maps[-1].terms[0][1] != 1:
        return False
    *images, channel = (spec.lhs[m.terms[0][0]] for m in others)
    rows = [k for k in spec.out if k in spec.lhs]
    terms = [k for k in spec.lhs if k not in spec.out]
    is_gradient = rows[-1:] == [channel] and spec.rhs[-1:] == spec.out[-1:]
    if not is_gradient or set(rows) & set(spec.rhs) or not {*images} <= {*terms}:
        return False
    strides = math.prod(step for m in padded for axis, step in m.terms if spec.lhs[axis] in terms)
    return (
        min(sizes[channel], sizes[spec.out[-1]]) >= LEAST_CHANNELS_IN_PLACE
        and math.prod(sizes[k] for k in rows[:-1]) >= FEW_READS
        and math.prod(sizes[k] for k in terms) >= LEAST_TERMS
        and sum(sizes[k] > 1 for k in terms) > 1
        and strides <= MOST_STRIDES
    )


def _is_read(
    spec: Contract, sizes: Mapping[str, int], index: AxisMap, low: int, inside: int
) -> bool:
    """Return whether windows reach what is padded of an axis: before `low`, or behind `inside`."""
    last = index.offset + sum(step * (sizes[spec.lhs[axis]] - 1) for axis, step in index.terms)
    return index.offset < low or last >= low + inside


def _crosses(index: AxisMap, spec: Contract, sizes: Mapping[str, int]) -> bool:
    """Return whether a row of a product and a term of its sums meet in each line of an axis."""
    labels = [spec.lhs[axis] for axis, step in index.terms if step > 0]
    if len(index.terms) != 2 or len(labels) != 2 or min(sizes[k] for k in labels) < 2:
        return False
    rows = [k for k in labels if k in spec.out and k not in spec.rhs]
    terms = [k for k in labels if k in spec.rhs and k not in spec.out]
    return len(rows) == len(terms) == 1


def _is_dense(maps: Sequence[AxisMap]) -> bool:
    """Return whether `maps` move elements and nothing else, as those of a pad or a slice do."""
    return all(m.terms == ((axis, 1),) for axis, m in enumerate(maps))


def fills_around(spec: Place) -> bool:
    """Return whether what a Place fills are boxes around its one operand, none of it within."""
    return len(spec.operands) == 1 and _is_dense(spec.operands[0])


def _writes_out_border(pad: Node, place: Place, user: Node, spec: Contract) -> bool:
    lhs, rhs = user.inputs
    if lhs is not pad.output or rhs is pad.output or spec.windows is None:
        return False
    if not writes_windows_out(user, spec) or any(
        step < 1 for m in spec.windows.index for _, step in m.terms
    ):
        return False
    taps = written_out(user, spec)
    inside = pad.inputs[0].type.static_shape
    pieces = pieces_of(user, spec, taps, place, inside)
    sizes = sizes_of(user, spec)
    code = math.prod(map(len, pieces.values())) * math.prod(sizes[k] for k in taps)
    # Neither the batch nor the channels, which lie side by side, are padded.
    walked = {spec.lhs[m.terms[0][0]] for m in spec.windows.index if len(m.terms) == 2}
    is_across = all(len(pieces[k]) == 1 for k in pieces if k not in walked or k == spec.out[-1])
    return bool(taps) and is_across and code <= MAX_TAPS_OF_PIECES and 0 not in inside


def writes_windows_out(anchor: Node, spec: KernelSpec | None) -> bool:
    """Return whether `anchor` is a convolution whose windows are written out."""
    if not isinstance(spec, Contract) or spec.windows is None:
        return False
    return not multiplies_matrices(anchor, spec) and bool(written_out(anchor, spec))


def summed_in_memory(anchor: Node, spec: Contract) -> list[str]:
    """Return the labels over which `anchor` adds up in memory, the outermost first.

    There are some for the gradient to a kernel of many channels: with all sums of one channel in
    registers, its operands would be walked through once for each vector of channels, most of each
    line unread. Over the labels left, few enough, sums are in registers.
    """
    taps, sizes = written_out(anchor, spec), sizes_of(anchor, spec)
    outside = [k for k in spec.out if k not in taps]
    summed = [k for k in sizes if k not in spec.out and k not in taps]
    if len(summed) < 2 or not outside or not any(k in spec.out for k in taps):
        return []
    channels = sizes[outside[-1]]
    is_beside = all(labels[-1] == outside[-1] for labels in (spec.lhs, spec.rhs, spec.out))
    if not is_beside or channels < LEAST_SUMS_IN_MEMORY:
        return []
    count = len(summed) - 1
    walked = sum(t.dtype.itemsize for t in anchor.inputs) * channels * sizes[summed[count]]
    while count > 1 and walked * sizes[summed[count - 1]] <= BYTES_IN_REGISTERS:
        count -= 1
        walked *= sizes[summed[count]]
    return summed[:count]
