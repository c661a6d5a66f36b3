"""Attention by blocks of rows: queries that come first are not compared with keys behind them.

Causal attention of 256 queries to 256 keys, in four blocks of 64 queries:

    scores    keys ->
    queries   a . . .        block 0 reads the keys up to 64
       |      b b . .        block 1 those up to 128
       v      c c c .        and so on: what is above the blocks is neither computed nor kept
              d d d d

A block is masked only for what is above the diagonal within it. There are as many blocks as leave
products large: four compute 5/8 of all scores, eight 9/16.

Scores of more than `MOST_SCORES_BYTES` are never all in memory, which then grows with the length
and not with its square: a loop runs over parts of a block, and the gradient computes their scores
again.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

from symgrad.cost_model import (
    CAUSAL_BLOCK_ROWS,
    CAUSAL_BLOCKS,
    MOST_SCORES_BYTES,
    SCORES_OF_PART_BYTES,
)
from symgrad.frontend.iteration import scan
from symgrad.frontend.recompute import recompute_grad
from symgrad.graph.node import Tensor
from symgrad.graph.operands import broadcast_shapes, cast, constant
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.comparison import equal, greater_equal, where
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.greatest_numbers import greatest_number
from symgrad.graph.ops.padding import pad
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.subscript import getitem
from symgrad.graph.ops.transcendental import exp
from symgrad.graph.ops.views import moveaxis, swapaxes
from symgrad.graph.sizes import Dim
from symgrad.graph.types import TensorType, static
from symgrad.nn.dropouts import dropout as drop
from symgrad.random.draws import Draws

_LINE = 16  # rows: blocks begin where vectors and tiles do


def attention_by_rows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
    rate: tuple[float, Draws] | None,
    scale: float = 1.0,
) -> Tensor:
    """Return attention, of scores times a positive `scale`; `mask` broadcasts to the scores.

    With dropout there is one block: its draws are those of all weights.
    """
    queries, keys = q.shape[-2], k.shape[-2]
    rows = queries if rate is not None else _rows_of_part(q, k)
    if rows != queries:
        q, scale = multiply(q, scale), 1.0
    cuts = causal_cuts(queries, keys) if causal and rate is None else []
    if len(cuts) < 3 or not isinstance(keys, int):
        if rows == queries:
            first = 0 if causal else None
            return attend_at_once(q, k, v, mask, first=first, rate=rate, scale=scale)
        return _in_parts(q, k, v, mask, rows, first=0 if causal else None)
    # Blocks of keys that are joined again are one slice, and of such blocks each gradient is a sum
    # of its own: slices would have theirs padded.
    spans = [*pairwise(cuts)]
    k_parts, v_parts = ([_rows(t, a, min(b, keys)) for a, b in spans if a < keys] for t in (k, v))
    found = []
    for number, (first, end) in enumerate(spans):
        seen = _masked_part(mask, first, end, min(end, keys), queries, keys)
        k_seen, v_seen = (_joined(parts[: number + 1]) for parts in (k_parts, v_parts))
        part = _rows(q, first, end)
        found.append(_in_parts(part, k_seen, v_seen, seen, rows, first=first, scale=scale))
    return concat(found, axis=-2)


def causal_cuts(queries: Dim, keys: Dim) -> list[int]:
    """Return where blocks of queries begin and the last one ends, [] if sizes are not known.

    >>> from symgrad.nn.attention_rows import causal_cuts
    >>> causal_cuts(256, 256)
    [0, 64, 128, 192, 256]
    """
    if not (isinstance(queries, int) and isinstance(keys, int)):
        return []
    compared = min(queries, keys)
    blocks = min(compared // CAUSAL_BLOCK_ROWS, CAUSAL_BLOCKS)
    if blocks < 2:
        return [0, queries]
    rows = -(-compared // (blocks * _LINE)) * _LINE
    # Queries behind the last key read all of them.
    return [*range(0, compared, rows), queries]


def _rows_of_part(q: Tensor, k: Tensor) -> Dim:
    """Return of how many queries scores are in memory at a time: of all, if that is not much."""
    queries = q.shape[-2]
    batch = broadcast_shapes("attention", q=_batch_of(q), k=_batch_of(k))
    sizes = [*batch, k.shape[-2], q.dtype.itemsize]
    if not all(isinstance(n, int) for n in (queries, *sizes)):
        return queries
    row_bytes = math.prod(map(static, sizes))
    if row_bytes * static(queries) <= MOST_SCORES_BYTES:
        return queries
    return max(_LINE, SCORES_OF_PART_BYTES // row_bytes // _LINE * _LINE)


def _batch_of(x: Tensor) -> TensorType:
    return x.type.with_shape(x.shape[:-2])


def _in_parts(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    rows: Dim,
    *,
    first: int | None,
    scale: float = 1.0,
) -> Tensor:
    """Return attention of queries, `rows` at a time: behind the last part there is padding."""
    queries = static(q.shape[-2])
    if queries <= static(rows):
        return attend_at_once(q, k, v, mask, first=first, rate=None, scale=scale)
    count = -(-queries // static(rows))
    split = [q]
    if mask is not None and mask.ndim > 1 and mask.shape[-2] == queries:
        split.append(mask)
    moved = [_parts(t, count, static(rows)) for t in split]
    starts = add(multiply(iota((count,), 0), rows), first or 0)

    @partial(recompute_grad, keep_results=True)
    def of_part(start: Tensor, part: Tensor, *masks: Tensor) -> Tensor:
        seen = masks[0] if masks else mask
        return _attend(part, k, v, seen, first=None if first is None else start)

    def step(none: Tensor, xs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        return none, of_part(*xs)

    _, found = scan(step, constant(0.0, q.dtype), (starts, *moved))
    together = moveaxis(found, 0, -3)
    together = reshape(together, (*together.shape[:-3], -1, together.shape[-1]))
    return _rows(together, 0, queries)


def _parts(x: Tensor, count: int, rows: int) -> Tensor:
    """Return `x` (..., queries, n) as (count, ..., rows, n), with zeros behind the last query."""
    missing = count * rows - static(x.shape[-2])
    if missing:
        x = pad(x, [*[(0, 0)] * (x.ndim - 2), (0, missing), (0, 0)])
    apart = reshape(x, (*x.shape[:-2], count, rows, x.shape[-1]))
    return moveaxis(apart, -3, 0)


def _rows(x: Tensor, first: int, end: int) -> Tensor:
    return getitem(x, (..., slice(first, end), slice(None)))


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else concat(parts, axis=-2)


def _masked_part(
    mask: Tensor | None, first: int, end: int, seen: int, queries: Dim, keys: Dim
) -> Tensor | None:
    """Return what of a mask is for queries from `first` to `end` and the keys before `seen`."""
    if mask is None:
        return None
    shape = (1, 1, *mask.shape)[-2:]
    if shape[-2] == queries and queries != 1:
        mask = _rows(mask, first, end)
    return mask[..., :seen] if shape[-1] == keys and mask.ndim and keys != 1 else mask


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    first: Tensor | None,
) -> Tensor:
    """Return attention of a part of the queries, whose first is number `first` if it is causal.

    Scores are a row for each key. So those of a key lie beside each other, as few as queries are,
    which the products of both gradients with keys and values read along.
    """
    scores = matmul(k, q, transpose_b=True)
    if mask is not None:
        mask = swapaxes(mask, -1, -2) if mask.ndim > 1 else mask[..., None] if mask.ndim else mask
    if first is not None:
        number = add(iota(scores.shape[-2:], 1), first)
        is_seen = greater_equal(number, iota(scores.shape[-2:], 0))
        scores = where(is_seen, masked_scores(scores, mask), -math.inf)
    else:
        scores = masked_scores(scores, mask)
    weights, total = softmax_weights(scores, -2)
    return divide(matmul(weights, v, transpose_a=True), swapaxes(total, -1, -2))


def attend_at_once(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    first: int | None,
    rate: tuple[float, Draws] | None,
    scale: float = 1.0,
) -> Tensor:
    """Return attention of a block of queries, whose first is number `first` if it is causal.

    Scores are a row for each query, so that all that is done with them may be one kernel. They are
    scaled where the exponential of each is taken: queries would be read and written once more.
    """
    scores = masked_scores(matmul(q, k, transpose_b=True), mask)
    is_seen = None
    if first is not None:
        shape = scores.shape[-2:]
        number = add(iota(shape, 0), first) if first else iota(shape, 0)
        is_seen = greater_equal(number, iota(shape, 1))
    if v.shape[-2] == 0:
        return matmul(scores, v)
    weights, total = softmax_weights(scores, -1, is_seen, scale)
    if rate is not None:
        weights = drop(weights, *rate)
    # No less than 1, so its reciprocal is no more: a row is divided once.
    return multiply(matmul(weights, v), divide(1.0, total))


def masked_scores(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the scores of the keys that a mask leaves, -inf for the others, or the sum with it."""
    if mask is None:
        return scores
    if mask.dtype.is_bool:
        return where(mask, scores, -math.inf)
    return add(scores, cast(mask, scores.dtype))


def softmax_weights(
    scores: Tensor, axis: int, is_seen: Tensor | None = None, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return what the softmax of scores along an axis divides, and by what: 1 if all are -inf.

    It is that of `scores` times a positive `scale`.

    The weights are divided by their sum behind the product: there are fewer values than weights.
    So is the gradient, whose other part, the sum over keys of weight and gradient, is then one
    over the values instead. Those of keys that are not `is_seen` are 0, beside nan as well.
    """
    seen = scores if is_seen is None else where(is_seen, scores, -math.inf)
    greatest = greatest_number(seen, (axis % seen.ndim,))
    apart = subtract(scores, where(equal(greatest, -math.inf), 0, greatest))
    if scale != 1:
        apart = multiply(apart, scale)
    weights = exp(apart if is_seen is None else where(is_seen, apart, -math.inf))
    total = sum_over(weights, axis, keepdims=True)
    # The greatest weight is 1: no sum is 0 but that of a query that attends to nothing.
    return weights, where(equal(total, 0), 1, total)
