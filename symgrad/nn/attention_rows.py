"""Attention by blocks of rows: queries that come first are not compared with keys behind them.

Causal attention of 256 queries to 256 keys, in four blocks of 64 queries:

    scores    keys ->
    queries   a . . .        block 0 reads the keys up to 64
       |      b b . .        block 1 those up to 128
       v      c c c .        and so on: what is above the blocks is neither computed nor kept
              d d d d

A block is masked only for what is above the diagonal within it. There are as many blocks as leave
products large: four compute 5/8 of all scores, eight 9/16.
"""

from __future__ import annotations

import math
from itertools import pairwise

from symgrad.cost_model import CAUSAL_BLOCK_ROWS, CAUSAL_BLOCKS
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add, divide, subtract
from symgrad.graph.ops.comparison import equal, greater_equal, where
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.reduction import max as max_over
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.subscript import getitem
from symgrad.graph.ops.transcendental import exp
from symgrad.graph.sizes import Dim
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
) -> Tensor:
    """Return attention of queries that are scaled already; `mask` broadcasts to the scores.

    With dropout there is one block: its draws are those of all weights.
    """
    queries, keys = q.shape[-2], k.shape[-2]
    cuts = causal_cuts(queries, keys) if causal and rate is None else []
    if len(cuts) < 3 or not isinstance(keys, int):
        return _attend(q, k, v, mask, first=0 if causal else None, rate=rate)
    # Blocks of keys that are joined again are one slice, and of such blocks each gradient is a sum
    # of its own: slices would have theirs padded.
    spans = [*pairwise(cuts)]
    k_parts, v_parts = ([_rows(t, a, min(b, keys)) for a, b in spans if a < keys] for t in (k, v))
    found = []
    for number, (first, end) in enumerate(spans):
        seen = _masked_part(mask, first, end, min(end, keys), queries, keys)
        k_seen, v_seen = (_joined(parts[: number + 1]) for parts in (k_parts, v_parts))
        found.append(_attend(_rows(q, first, end), k_seen, v_seen, seen, first=first, rate=None))
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
    first: int | None,
    rate: tuple[float, Draws] | None,
) -> Tensor:
    """Return attention of queries, of which the first is number `first` if it is causal."""
    scores = matmul(q, k, transpose_b=True)
    if mask is not None and mask.dtype.is_bool:
        scores = where(mask, scores, -math.inf)
    elif mask is not None:
        scores = add(scores, mask.astype(scores.dtype))
    if first is not None:
        shape = scores.shape[-2:]
        is_seen = greater_equal(
            add(iota(shape, 0), first) if first else iota(shape, 0), iota(shape, 1)
        )
        scores = where(is_seen, scores, -math.inf)
    return _weighted(scores, v, rate)


def _weighted(scores: Tensor, v: Tensor, rate: tuple[float, Draws] | None) -> Tensor:
    """Return the average of `v` by the softmax of `scores`, 0 where all of these are -inf.

    The weights are divided by their sum behind the product: there are fewer values than weights.
    So is the gradient, whose other part, the sum over keys of weight and gradient, is then one
    over the values instead.
    """
    if v.shape[-2] == 0:
        return matmul(scores, v)
    greatest = stop_gradient(max_over(scores, -1, keepdims=True))
    weights = exp(subtract(scores, where(equal(greatest, -math.inf), 0, greatest)))
    total = sum_over(weights, -1, keepdims=True)
    if rate is not None:
        weights = drop(weights, *rate)
    # The greatest weight is 1: no sum is 0 but that of a query that attends to nothing.
    return divide(matmul(weights, v), where(equal(total, 0), 1, total))
