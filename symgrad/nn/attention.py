"""Scaled dot-product attention, and multi-head attention with its four projections.

Both are compositions of ops, causal ones by blocks of queries (`attention_rows.py`). Caches of keys
and values are the caller's: what was not written yet is masked.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.cost_model import KEYS_SCALED
from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, broadcast_shapes, cast, promote_operands
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.transcendental import rsqrt
from symgrad.graph.ops.views import swapaxes
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.graph.types import TensorType, static
from symgrad.nn.attention_rows import attention_by_rows
from symgrad.random.draws import Draws
from symgrad.random.keyed import draws_of

_LEAST_SCALE = 2.0**-64


@public(known_as=["dot_product_attention", "Attention"])
def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    causal: bool = False,
    scale: Any = None,
    dropout: float = 0.0,
    generator: Any = None,
) -> Tensor:
    """Scaled dot-product attention: average the values of keys by how well they match each query.

        softmax(q @ k.mT * scale + mask) @ v

    `q` is (..., heads, queries, width), `k` (..., key heads, keys, width), `v` (..., key heads,
    keys, value width); the result is (..., heads, queries, value width), in the float dtype that
    the three promote to. Batch axes broadcast. Heads are grouped: head i of `q` uses head
    i // (heads / key heads) of `k` and `v`. A query, a key and a value without heads may be
    matrices.

    `mask` broadcasts to (..., heads, queries, keys): a bool one says which keys a query attends to,
    a float one is added to the scores, where -inf hides a key. If `causal`, query i attends to the
    keys up to i only; both apply. A query that attends to nothing gives 0, and nothing gets a
    gradient through it. `scale`, by default 1 / sqrt(width), is a number or a scalar tensor.
    `dropout` is the rate at which weights are dropped, as in `sg.nn.dropout`, by `generator`, a
    generator or a key.

    The gradient reaches `q`, `k`, `v`, a float `mask` and `scale`. Nothing overflows but
    `q @ k.mT`, however large the scores; those of 16-bit floats, and all that is made of them, are
    float32 until the result is rounded.

        >>> q, k = sg.constant([[1.0, 0.0]]), sg.constant([[1.0, 0.0], [0.0, 1.0]])
        >>> v = sg.constant([[1.0], [3.0]])
        >>> sg.run(sg.nn.scaled_dot_product_attention(q, k, v, mask=[[False, True]]))
        array([[3.]], dtype=float32)

    Raises `ShapeError` for sizes that do not fit, heads of `q` that those of `k` do not divide and
    a mask that does not broadcast; `DTypeError` for a mask of integers; `GraphError` for a rate of
    dropout that is not in [0, 1) or has no generator.

    A. Vaswani and others, "Attention is all you need", 2017; J. Ainslie and others, "GQA", 2023,
    for grouped heads; M. N. Rabe and C. Staats, "Self-attention does not need O(n²) memory", 2021,
    for dividing by the sum of the weights behind the product with the values.
    """
    op = "scaled_dot_product_attention"
    queries, keys, values = map(float_operand, promote_operands(op, q, k, v))
    _check_operands(op, queries, keys, values)
    rate = _rate(op, dropout, generator)
    return _attend(op, queries, keys, values, mask, causal, scale, rate)


@public(known_as=["MultiheadAttention"])
def multi_head_attention(
    q: Any,
    k: Any,
    v: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    bias: Any = None,
    mask: Any = None,
    causal: bool = False,
) -> Tensor:
    """Multi-head attention: project to heads, attend in each, and project what they give together.

    `q` is (..., queries, features), `k` and `v` (..., keys, features). The weights are (inputs,
    outputs): `wq` has `heads` * width columns, head by head, `wk` a multiple of that width, which
    is how many heads keys and values have, `wv` so many times the width of values, and `wo` has
    `heads` times that many rows. `bias` is None or a tuple of four, (bq, bk, bv, bo), of which any
    may be None. `mask` and `causal` are those of `scaled_dot_product_attention`, and so is the
    gradient. The result is (..., queries, columns of `wo`).

        >>> x, w = sg.ones((3, 4)), sg.eye(4)
        >>> sg.run(sg.nn.multi_head_attention(x, x, x, w, w, w, w, heads=2, causal=True)).shape
        (3, 4)

    Raises `ShapeError` for weights that are no matrices, do not fit or do not divide into heads,
    `GraphError` for `heads` that is no positive int and a `bias` that is no tuple of four.

    A. Vaswani and others, "Attention is all you need", 2017.
    """
    op = "multi_head_attention"
    heads = _count(op, heads)
    if bias is not None and not (isinstance(bias, list | tuple) and len(bias) == 4):
        raise GraphError(
            op, f"bias is no tuple of four, (bq, bk, bv, bo): {bias!r}", source=user_source()
        )
    biases = (None,) * 4 if bias is None else tuple(bias)
    given = [("q", q), ("k", k), ("v", v), ("wq", wq), ("wk", wk), ("wv", wv), ("wo", wo)]
    promoted = promote_operands(op, *(t for _, t in given), *(b for b in biases if b is not None))
    made = iter(map(float_operand, promoted))
    named = {name: next(made) for name, _ in given}
    bq, bk, bv, bo = (None if b is None else next(made) for b in biases)
    width = _columns(op, named, "wq", "heads", heads)
    key_heads = _heads_of(op, named, "wk", width)
    value_width = _columns(op, named, "wv", "heads of k", key_heads)
    queries = _split(_project(op, named, "q", "wq", bq), heads, width)
    keys = _split(_project(op, named, "k", "wk", bk), key_heads, width)
    values = _split(_project(op, named, "v", "wv", bv), key_heads, value_width)
    _check_operands(op, queries, keys, values)
    together = swapaxes(_attend(op, queries, keys, values, mask, causal, None, None), -3, -2)
    named["heads"] = reshape(together, (*together.shape[:-2], heads * value_width))
    return _project(op, named, "heads", "wo", bo)


# ---------------------------------------------------------------------------------- attention


def _attend(
    op: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any,
    causal: bool,
    scale: Any,
    rate: tuple[float, Draws] | None,
) -> Tensor:
    """Return attention of operands that fit, 16-bit ones computed in float32."""
    dtype = q.dtype
    if dtype.is_half:
        q, k, v = (cast(t, dtypes.float32) for t in (q, k, v))
    group = _group(op, q, k)
    if group > 1:
        # Heads that share keys are an axis of their own, along which keys are repeated.
        q = reshape(q, (*q.shape[:-3], q.shape[-3] // group, group, *q.shape[-2:]))
        k, v = (reshape(t, (*t.shape[:-2], 1, *t.shape[-2:])) for t in (k, v))
    factor = _scale(op, scale, q)
    is_late = causal or _are_few(k.shape[-2], q.shape[-1])
    if not (is_late and _scales_exponents(factor, mask)):
        q, factor = multiply(q, factor), 1.0
    if mask is not None:
        batch = broadcast_shapes(op, q=_batch_of(q), k=_batch_of(k))
        scores = q.type.with_shape((*batch, q.shape[-2], k.shape[-2]))
        mask = _mask_for(op, mask, scores, group)
    found = attention_by_rows(q, k, v, mask, causal=causal, rate=rate, scale=factor)
    if group > 1:
        heads = found.shape[-4] * found.shape[-3]
        found = reshape(found, (*found.shape[:-4], heads, *found.shape[-2:]))
    return cast(found, dtype)


def _rate(op: str, dropout: float, generator: Any) -> tuple[float, Draws] | None:
    """Return the rate of dropout and what draws for it; None without dropout."""
    if not 0 <= dropout < 1:
        raise GraphError(op, f"dropout {dropout} is not in [0, 1)", source=user_source())
    if not dropout:
        return None
    if generator is None:
        raise GraphError(op, f"dropout {dropout} needs a generator", source=user_source())
    return dropout, draws_of(op, generator)


def _scale(op: str, scale: Any, q: Tensor) -> Any:
    if scale is None:
        width = q.shape[-1]
        return rsqrt(size_of(width, q.dtype)) if not isinstance(width, int) else _inverse(width)
    if isinstance(scale, int | float):
        return scale
    given = as_tensor(scale)
    if given.ndim or not given.dtype.is_float:
        raise ShapeError(op, f"scale: {given.type} is no float scalar", source=user_source())
    return cast(given, q.dtype)


def _scales_exponents(scale: Any, mask: Any) -> bool:
    """Return whether scores are scaled behind their maximum: by a positive number, and no mask.

    In float32 it is neither 0 nor infinite: products of it and of -inf are -inf.
    """
    is_positive = isinstance(scale, int | float) and _LEAST_SCALE < scale < 1 / _LEAST_SCALE
    return is_positive and (mask is None or as_tensor(mask).dtype.is_bool)


def _are_few(keys: Dim, width: Dim) -> bool:
    """Return whether to scale the scores of a query is less than to write it and read it again."""
    is_known = isinstance(keys, int) and isinstance(width, int)
    return is_known and static(keys) <= KEYS_SCALED * static(width)


def _inverse(width: int) -> float:
    return 1 / math.sqrt(width) if width else 1.0


def _batch_of(x: Tensor) -> TensorType:
    return x.type.with_shape(x.shape[:-2])


def _mask_for(op: str, mask: Any, scores: TensorType, group: int) -> Tensor:
    """Return `mask` with the axes of `scores`, whose heads that share keys are an axis apart."""
    given = as_tensor(mask)
    heads = scores.shape[:-2]
    if group > 1:
        heads = (*scores.shape[:-4], scores.shape[-4] * group)
    _check_mask(op, given.type, scores.with_shape((*heads, *scores.shape[-2:])))
    if group > 1 and given.ndim > 2:
        *batch, own, rows, columns = given.shape
        split = (1, 1) if own == 1 else (scores.shape[-4], group)
        given = reshape(given, (*batch, *split, rows, columns))
    return given


def _check_mask(op: str, mask: TensorType, scores: TensorType) -> None:
    if not (mask.dtype.is_bool or mask.dtype.is_float):
        raise DTypeError(
            op, f"mask: {mask} is neither bool, True to attend, nor a float to add",
            hint="use astype", source=user_source(),
        )  # fmt: skip
    lead = scores.ndim - mask.ndim
    fits = lead >= 0 and all(
        n in (1, size) or not (isinstance(n, int) and isinstance(size, int))
        for n, size in zip(mask.shape, scores.shape[lead:], strict=True)
    )
    if not fits:
        raise ShapeError(
            op, f"mask: {mask} does not broadcast to {list(scores.shape)}, "
            "(..., heads, queries, keys)", source=user_source(),
        )  # fmt: skip


def _group(op: str, q: Tensor, k: Tensor) -> int:
    """Return how many heads of `q` share one of `k`; 1 also where there is one head of `k`."""
    if q.ndim < 3 or k.ndim < 3 or k.shape[-3] in (1, q.shape[-3]):
        return 1
    heads, key_heads = q.shape[-3], k.shape[-3]
    if not (isinstance(heads, int) and isinstance(key_heads, int)):
        return 1  # two unknown numbers that must be equal, as products check
    if not key_heads or heads % key_heads:
        raise ShapeError(
            op, f"{heads} heads of q: {q.type} are no multiple of {key_heads} of k: {k.type}",
            source=user_source(),
        )  # fmt: skip
    return heads // key_heads


def _check_operands(op: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim < 2:
            raise ShapeError(
                op, f"{name}: {tensor.type} is not (..., heads, length, width)",
                source=user_source(),
            )  # fmt: skip
    _check_equal(op, "widths", ("q", q, -1), ("k", k, -1))
    _check_equal(op, "lengths", ("k", k, -2), ("v", v, -2))
    if k.ndim > 2 or v.ndim > 2:
        if k.ndim < 3 or v.ndim < 3 or q.ndim < 3:
            raise ShapeError(
                op, f"only some have heads: q: {q.type}, k: {k.type}, v: {v.type}",
                source=user_source(),
            )  # fmt: skip
        _check_equal(op, "numbers of heads", ("k", k, -3), ("v", v, -3))
    try:
        batches = {
            n: t.type.with_shape(t.shape[:-3]) for n, t in zip("qkv", (q, k, v), strict=True)
        }
        broadcast_shapes(op, **batches)
    except ShapeError as error:
        error.source = user_source()
        raise


def _check_equal(
    op: str, what: str, left: tuple[str, Tensor, int], right: tuple[str, Tensor, int]
) -> None:
    (a_name, a, a_axis), (b_name, b, b_axis) = left, right
    m, n = a.shape[a_axis], b.shape[b_axis]
    if m != n and isinstance(m, int) and isinstance(n, int):
        raise ShapeError(
            op, f"{what} differ: {m} in {a_name}: {a.type}, {n} in {b_name}: {b.type}",
            source=user_source(),
        )  # fmt: skip


# -------------------------------------------------------------------------------- projections


def _count(op: str, heads: object) -> int:
    count = as_int(heads)
    if count is None or count < 1:
        raise GraphError(op, f"heads {heads!r} is no positive int", source=user_source())
    return count


def _project(op: str, named: dict[str, Tensor], x: str, w: str, bias: Tensor | None) -> Tensor:
    """Return `x @ w + bias`."""
    matrix = named[w]
    if matrix.ndim != 2:
        raise ShapeError(op, f"{w}: {matrix.type} is no matrix", source=user_source())
    if named[x].ndim < 2:
        raise ShapeError(
            op, f"{x}: {named[x].type} is not (..., length, features)", source=user_source()
        )
    _check_equal(op, "features", (x, named[x], -1), (w, matrix, -2))
    product = matmul(named[x], matrix)
    if bias is None:
        return product
    if bias.ndim != 1 or bias.shape[0] != matrix.shape[1]:
        raise ShapeError(
            op, f"bias: {bias.type} is not one for each column of {w}: {matrix.type}",
            source=user_source(),
        )  # fmt: skip
    return add(product, bias)


def _columns(op: str, named: dict[str, Tensor], w: str, what: str, count: int) -> int:
    """Return how many columns of `w` each of `count` heads has."""
    columns = _known_columns(op, named, w)
    if columns % count:
        raise ShapeError(
            op, f"{columns} columns of {w}: {named[w].type} do not divide into {count} {what}",
            source=user_source(),
        )  # fmt: skip
    return columns // count


def _heads_of(op: str, named: dict[str, Tensor], w: str, width: int) -> int:
    """Return how many heads of `width` columns `w` has."""
    columns = _known_columns(op, named, w)
    if not width or not columns or columns % width:
        raise ShapeError(
            op, f"{columns} columns of {w}: {named[w].type} are no heads of width {width}",
            source=user_source(),
        )  # fmt: skip
    return columns // width


def _known_columns(op: str, named: dict[str, Tensor], w: str) -> int:
    matrix = named[w]
    columns = matrix.shape[1] if matrix.ndim == 2 else None
    if not isinstance(columns, int):
        raise ShapeError(
            op, f"{w}: {matrix.type} is no matrix whose columns are known", source=user_source()
        )
    return columns


def _split(x: Tensor, heads: int, width: int) -> Tensor:
    """Return (..., length, heads * width) as (..., heads, length, width)."""
    return swapaxes(reshape(x, (*x.shape[:-1], heads, width)), -3, -2)
