"""Gradient checkpointing of loops: an outer loop over segments, each an inner loop.

The gradient of the outer loop computes its body again, so the inner loop records no more than one
segment at a time: nothing else is needed for checkpoints. A loop that is run here is traced
already; how `while_loop`, whose length its own condition decides, is cut is with it in
`symgrad/frontend/iteration.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from symgrad.cost_model import SEGMENT_TRIPS
from symgrad.errors import GraphError, user_source
from symgrad.frontend.creation import zeros
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import as_int
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, floor_divide, multiply, subtract
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.gathering import gather, iota, set_rows
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.sizes import Dim
from symgrad.graph.types import UNBOUNDED, TensorType


def read_checkpoint(subject: str, checkpoint: Any, capacity: int) -> int:
    """Return how many iterations lie between two checkpoints, 0 for none.

    `capacity` bounds the iterations, and is 0 where no bound is known.
    """
    if checkpoint is None:
        return 0
    if isinstance(checkpoint, str) and checkpoint == "sqrt":
        return math.isqrt(max(capacity - 1, 0)) + 1 if capacity else SEGMENT_TRIPS
    count = as_int(checkpoint)
    if count is None or count < 1:
        raise GraphError(
            subject,
            f"checkpoint is {checkpoint!r}, none of None, 'sqrt' and a positive int",
            source=user_source(),
        )
    return count


def scan_in_segments(
    body: Traced,
    initial: Sequence[Tensor],
    scanned: Sequence[Tensor],
    trips: Dim,
    length: int,
    *,
    reverse: bool,
) -> list[Tensor]:
    """Run `body` over the slices of `scanned`; return the loop variables, then the stacks.

    It is one loop if `length` is 0, or no less than the number of iterations.
    """
    if length and not isinstance(trips, int):
        return _scan_by_slabs(body, initial, scanned, trips, length, reverse=reverse)
    if not length or not isinstance(trips, int) or trips <= length:
        node = scan_loop(size_of(trips), initial, scanned, body, trips, reverse=reverse)
        return list(node.outputs)
    width, (segments, rest) = len(initial), divmod(trips, length)
    whole = segments * length
    heads = [reshape(narrow(t, 0, 0, whole), (segments, length, *t.shape[1:])) for t in scanned]
    tails = [narrow(t, 0, whole, rest) for t in scanned]

    def segment(*params: Tensor) -> Sequence[Tensor]:
        given = params[:width], params[width:]
        return scan_loop(size_of(length), *given, body, length, reverse=reverse).outputs

    traced = Traced("segment", [*(t.type for t in initial), *(_slice_type(t) for t in heads)])
    traced.run(segment)
    parts = [(segments, heads, traced), (rest, tails, body)][: 2 if rest else 1]
    values, stacks = list(initial), list[Sequence[Tensor]]()
    for count, slices, each in parts[::-1] if reverse else parts:
        outputs = scan_loop(size_of(count), values, slices, each, count, reverse=reverse).outputs
        values = list(outputs[:width])
        stacks.append(outputs[width:])
    of_segments, *of_rest = stacks[::-1] if reverse else stacks
    ys = [reshape(y, (whole, *y.shape[2:])) for y in of_segments]
    if of_rest:
        ys = [concat(pair, axis=0) for pair in zip(ys, *of_rest, strict=True)]
    return [*values, *ys]


def _slice_type(stack: Tensor) -> TensorType:
    return stack.type.with_shape(stack.shape[1:])


def run_in_segments(
    count: Tensor, initial: Sequence[Tensor], body: Traced, length: int
) -> list[Tensor]:
    """Run `body` as often as `count`, a tensor, says; return the loop variables."""
    step = constant(length, dtypes.int64)

    def segment(*params: Tensor) -> list[Tensor]:
        *values, done = params
        trips = minimum(subtract(count, done), step)
        return [*scan_loop(trips, values, (), body, length).outputs, add(done, trips)]

    start = [*initial, constant(0, dtypes.int64)]
    traced = Traced("segment", [t.type for t in start])
    traced.run(segment)
    segments = _rounded_up(count, step)
    return list(scan_loop(segments, start, (), traced, UNBOUNDED).outputs[:-1])


def _scan_by_slabs(
    body: Traced,
    initial: Sequence[Tensor],
    scanned: Sequence[Tensor],
    trips: Dim,
    length: int,
    *,
    reverse: bool,
) -> list[Tensor]:
    """Do the same where the number of iterations is not known, and stacks cannot be cut.

    Each segment gathers a slab of the stacks, and writes one of the results into a loop variable.
    These have room for a whole segment behind the last row.
    """
    width, count, step = len(initial), size_of(trips), constant(length, dtypes.int64)
    one = constant(1, dtypes.int64)
    segments = _rounded_up(count, step)
    rows = [zeros((trips + length, *t.shape), t.dtype) for t in body.outputs[width:]]

    def segment(*params: Tensor) -> list[Tensor]:
        values, stacks, i = params[:width], params[width:-1], params[-1]
        at = multiply(subtract(subtract(segments, one), i) if reverse else i, step)
        places = add(at, iota((length,), 0))
        within = minimum(places, subtract(count, one))
        slabs = [gather(t, [within], 0) for t in scanned]
        node = scan_loop(
            minimum(subtract(count, at), step), values, slabs, body, length, reverse=reverse
        )
        pairs = zip(stacks, node.outputs[width:], strict=True)
        written = (set_rows(stack, slab, [places], 0) for stack, slab in pairs)
        return [*node.outputs[:width], *written, add(i, one)]

    start = [*initial, *rows, constant(0, dtypes.int64)]
    traced = Traced("segment", [t.type for t in start])
    traced.run(segment)
    *results, _ = scan_loop(segments, start, (), traced, UNBOUNDED).outputs
    return [*results[:width], *(narrow(t, 0, 0, trips) for t in results[width:])]


def _rounded_up(count: Tensor, step: Tensor) -> Tensor:
    """Return how many steps have room for `count`; 0 for 0."""
    one = constant(1, dtypes.int64)
    return add(floor_divide(subtract(count, one), step), one)
