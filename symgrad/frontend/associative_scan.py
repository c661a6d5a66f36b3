"""Parallel prefix by a function of the user's: `associative_scan`.

It is a recursion by halves (Blelloch, "Prefix sums and their applications", 1990) of slices and
concatenations: neighbours are combined, the scan of the half as many pairs gives every second
result, and one more combination each gives those between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.control import require_callables
from symgrad.frontend.iteration import scan
from symgrad.frontend.nests import Nest, describe, flatten, unflatten
from symgrad.frontend.segments import read_checkpoint
from symgrad.frontend.user_functions import AnyFunction
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis
from symgrad.graph.ops.padding import pad
from symgrad.graph.ops.slicing import concat, flip, slice_axes, stack
from symgrad.graph.ops.structure import broadcast_to, expand_dims, reshape
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.types import static

OP = "associative_scan"
Leaves = list[Tensor]
Combine = Callable[[Leaves, Leaves], Leaves]


def associative_scan(
    f: AnyFunction, xs: Any, *, axis: int = 0, reverse: bool = False, checkpoint: Any = None
) -> Any:
    """Parallel prefix scan by an associative function: xs[0], f(xs[0], xs[1]), ... along `axis`.

    `f(a, b)` takes and returns nests like `xs`, a tensor or a nest of tensors of one size along
    `axis`. It must be associative, and must treat every index along `axis` alike: it is called on
    slices of `xs` with any number of elements there, about twice for each halving of that number.
    With `reverse` the scan begins at the end. The result is a nest like `xs`, of the same types,
    and differentiable to any order if `f` is. An axis of a size that is not known yet is walked
    through one element after another.

    With `checkpoint`, an int n or "sqrt" as of `scan`, the axis is scanned in segments of n, each
    joined to what comes before it: a gradient computes a segment again when it needs it, and keeps
    one at a time. `f` is then called on other slices, which rounds otherwise.

    Raises `DTypeError` if `f` is no function, `ShapeError` if sizes along `axis` differ or a leaf
    has no such axis, and `GraphError` if `f` does not give back the nest and the types.

    >>> x = sg.constant([1.0, 2.0, 3.0, 4.0])
    >>> sg.run(sg.associative_scan(sg.multiply, x))
    array([ 1.,  2.,  6., 24.], dtype=float32)
    """
    require_callables(OP, f=f)
    found, nest = flatten(xs)
    leaves = [as_tensor(leaf) for leaf in found]
    if not leaves:
        return xs
    along = _checked_axis(leaves, axis)
    combine = _combining(f, nest, along)
    given = [flip(leaf, axis=along) for leaf in leaves] if reverse else leaves
    is_known = all(isinstance(leaf.shape[along], int) for leaf in given)
    size = static(given[0].shape[along]) if is_known else 0
    length = read_checkpoint(OP, checkpoint, size)
    if not is_known:
        scanned = _scan_one_by_one(combine, given, along, checkpoint)
    elif length and length < size:
        scanned = _scan_in_segments(combine, given, along, length)
    else:
        scanned = _scan(combine, given, along)
    return unflatten(nest, [flip(leaf, axis=along) for leaf in scanned] if reverse else scanned)


def _checked_axis(leaves: Leaves, axis: int) -> int:
    """Return `axis` counted from 0; raises unless all leaves have it, of one size."""
    found = {normalize_axis(OP, axis, leaf.ndim) for leaf in leaves}
    if len(found) > 1:
        raise ShapeError(
            OP, f"axis {axis} of xs of several ranks is no single one", source=user_source()
        )
    (along,) = found
    sizes = {leaf.shape[along] for leaf in leaves}
    if len({n for n in sizes if isinstance(n, int)}) > 1:
        types = ", ".join(str(leaf.type) for leaf in leaves)
        raise ShapeError(OP, f"xs differ in size along axis {axis}: {types}", source=user_source())
    return along


def _combining(f: AnyFunction, nest: Nest, axis: int) -> Combine:
    """Return `f` on leaves; it raises unless nest and types come back."""

    def combine(a: Leaves, b: Leaves) -> Leaves:
        results, given_back = flatten(f(unflatten(nest, a), unflatten(nest, b)))
        if given_back != nest:
            problem = f"f gives {describe(given_back)}, and xs are {describe(nest)}"
            raise GraphError(OP, problem, source=user_source())
        tensors = [as_tensor(result) for result in results]
        for number, (taken, made) in enumerate(zip(a, tensors, strict=True)):
            if made.dtype != taken.dtype:
                raise DTypeError(
                    OP, f"f makes {made.type} of leaf {number}, {taken.type}", source=user_source()
                )
            if made.shape != taken.shape:
                raise ShapeError(
                    OP, f"f makes {made.type} of leaf {number}, {taken.type}", source=user_source()
                )
        return tensors

    return combine


def _part(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """Return the slice start:stop:step of one axis."""
    starts, sizes, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], sizes[axis], steps[axis] = start, -(-(stop - start) // step), step
    return slice_axes(x, starts, sizes, steps)


def _scan(combine: Combine, xs: Leaves, axis: int) -> Leaves:
    """Return the scan of an axis of known size."""
    levels = [xs]
    while (count := static(levels[-1][0].shape[axis])) > 1:
        pairs = count // 2 * 2
        first = [_part(x, axis, 0, pairs, 2) for x in levels[-1]]
        second = [_part(x, axis, 1, pairs, 2) for x in levels[-1]]
        levels.append(combine(first, second))
    scanned = levels.pop()
    while levels:
        scanned = _refined(combine, levels.pop(), scanned, axis)
    return scanned


def _refined(combine: Combine, xs: Leaves, odd: Leaves, axis: int) -> Leaves:
    """Return the scan of `xs`, of which every second element is in `odd`, from that at 1 on."""
    count = static(xs[0].shape[axis])
    between = (count - 1) // 2
    heads = [_part(x, axis, 0, 1) for x in xs]
    if not between:
        return [concat(pair, axis=axis) for pair in zip(heads, odd, strict=True)]
    before = [_part(x, axis, 0, between) for x in odd]
    tails = combine(before, [_part(x, axis, 2, count, 2) for x in xs])
    even = [concat(pair, axis=axis) for pair in zip(heads, tails, strict=True)]
    return [_interleaved(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """Return elements of the two in turns; `even` may have one more."""
    pairs = static(odd.shape[axis])
    whole = stack([_part(even, axis, 0, pairs), odd], axis=axis + 1)
    shape = (*even.shape[:axis], 2 * pairs, *even.shape[axis + 1 :])
    result = reshape(whole, shape)
    if even.shape[axis] == pairs:
        return result
    return concat([result, _part(even, axis, pairs, pairs + 1)], axis=axis)


def _scan_in_segments(combine: Combine, xs: Leaves, axis: int, length: int) -> Leaves:
    """Return the scan of an axis of known size by a loop over segments, all but first and last."""
    count = static(xs[0].shape[axis])
    whole = count // length * length

    def joined(before: Leaves, part: Leaves) -> tuple[Leaves, Leaves]:
        """Return the last element and all elements of the scan of `part` behind `before`."""
        spread = [broadcast_to(b, p.shape) for b, p in zip(before, part, strict=True)]
        elements = combine(spread, _scan(combine, part, axis))
        size = static(part[0].shape[axis])
        return [_part(e, axis, size - 1, size) for e in elements], elements

    first = _scan(combine, [_part(x, axis, 0, length) for x in xs], axis)
    last = [_part(e, axis, length - 1, length) for e in first]
    parts = [first]
    if whole > length:
        segments = [_cut(_part(x, axis, length, whole), axis, length) for x in xs]
        last, stacks = scan(lambda before, part: joined(before, part), last, segments)
        moved = [moveaxis(t, 0, axis) for t in stacks]
        parts.append(
            [reshape(t, (*t.shape[:axis], whole - length, *t.shape[axis + 2 :])) for t in moved]
        )
    if whole < count:
        parts.append(joined(last, [_part(x, axis, whole, count) for x in xs])[1])
    return [concat(columns, axis=axis) for columns in zip(*parts, strict=True)]


def _cut(x: Tensor, axis: int, length: int) -> Tensor:
    """Return segments of an axis, stacked along a new first one."""
    shape = (*x.shape[:axis], static(x.shape[axis]) // length, length, *x.shape[axis + 1 :])
    return moveaxis(reshape(x, shape), axis, 0)


def _scan_one_by_one(combine: Combine, xs: Leaves, axis: int, checkpoint: Any) -> Leaves:
    """Return the scan of an axis whose size is not known yet, by a loop."""
    moved = [moveaxis(x, axis, 0) for x in xs]
    heads = [x[:1] for x in moved]

    def back(x: Tensor) -> Tensor:
        return moveaxis(x, 0, axis)

    def step(carry: Sequence[Tensor], x: Sequence[Tensor]) -> tuple[Leaves, Leaves]:
        elements = [back(expand_dims(element, axis=0)) for element in x]
        following = combine([back(c) for c in carry], elements)
        result = [moveaxis(t, axis, 0) for t in following]
        return result, [reshape(t, t.shape[1:]) for t in result]

    # The loop carries one element, also where there is none and no iteration that would read it.
    first = [_part(pad(x, [(0, 1), *[(0, 0)] * (x.ndim - 1)]), 0, 0, 1) for x in heads]
    _, stacked = scan(step, first, [x[1:] for x in moved], checkpoint=checkpoint)
    pairs = zip(heads, stacked, strict=True)
    return [back(concat(pair, axis=0)) for pair in pairs]
