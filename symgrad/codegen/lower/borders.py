"""Borders of a padded tensor: what is left to fill around the operand that is put into it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from symgrad.graph.node import Node
from symgrad.graph.structures import Place
from symgrad.passes.fusion.windows import fills_around

# Where a box of a tensor begins along each axis, and its sizes.
Border = tuple[Sequence[int], Sequence[int]]


def around(spec: Place, anchor: Node, *, is_placed: bool) -> list[Border]:
    """Return boxes that cover what `spec` fills, all of the result where operands are scattered.

    Around one operand that is most of the result, only its borders are filled, which writes each
    element once. So it is around one that `is_placed`, which is there already.
    """
    shape = anchor.output.type.static_shape
    whole: Border = ([0] * len(shape), shape)
    if not fills_around(spec):
        assert not is_placed, f"{anchor.output!r} would be filled over its operand"
        return [whole]
    (maps,), (operand,) = spec.operands, anchor.inputs
    sizes = operand.type.static_shape
    if not is_placed and 2 * math.prod(sizes) < math.prod(shape):
        return [whole]
    return list(_borders([m.offset for m in maps], sizes, shape))


def _borders(low: Sequence[int], sizes: Sequence[int], shape: Sequence[int]) -> Iterator[Border]:
    """Yield what comes before and after the operand along each axis, within it along those left."""
    for axis, total in enumerate(shape):
        end = low[axis] + sizes[axis]
        for begin, stop in ((0, low[axis]), (end, total)):
            if begin < stop:
                start = [*low[:axis], begin, *[0] * (len(shape) - axis - 1)]
                yield start, [*sizes[:axis], stop - begin, *shape[axis + 1 :]]
