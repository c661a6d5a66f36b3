"""Products of scaled matrices: elements in blocks, each of which has one scale.

So quantized numbers are kept: integers, or floats of few bits, beside a scale for all of a matrix,
for each row, or for each block. There are no 8-bit floats here; int8 and 16-bit floats are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.errors import ShapeError, user_source
from symgrad.graph.dtypes import DTypeLike, as_dtype, float32
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.elementwise import real_operand
from symgrad.graph.ops.structure import broadcast_to, expand_dims, reshape
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.public_ops import public
from symgrad.graph.types import static


@public(known_as=["scaled_dot_general"])
def scaled_matmul(
    a: Any, b: Any, a_scales: Any, b_scales: Any, *, dtype: DTypeLike | None = None
) -> Tensor:
    """Multiply batches of scaled matrices, `a @ b.mT`: (batch, m, k) with (batch, n, k).

    `a_scales` is (batch, m, blocks) and `b_scales` (batch, n, blocks), with a scale for each block
    of k / blocks neighbours along the last axis, which multiplies them; numbers of blocks may
    differ. The result, (batch, m, n), is float32 unless `dtype` says otherwise, and float64 where
    an operand is; it is rounded to 16 bits once. The gradient to an operand is that of the scaled
    one times its scales, and to a scale the sum over its block.

    It is JAX's `scaled_matmul`, for the dtypes that are here: integers and floats, and no 8-bit
    floats. Raises `ShapeError` where sizes do not fit or blocks do not divide k, `DTypeError` for
    complex numbers.

    >>> a, b = sg.constant([[[1, 2, 3]]], dtype="int8"), sg.constant([[[4, 5, 6]]], dtype="int8")
    >>> sg.run(sg.nn.scaled_matmul(a, b, [[[0.5]]], [[[0.5]]]))
    array([[[8.]]], dtype=float32)
    """
    op = "scaled_matmul"
    sides = [
        _scaled(op, name, side, scales, (1, 1, None))
        for name, side, scales in (("a", a, a_scales), ("b", b, b_scales))
    ]
    return _product(sides[0], moveaxis(sides[1], 2, 1), None, dtype)


@public()
def scaled_mm(
    a: Any,
    b: Any,
    a_scales: Any,
    b_scales: Any,
    bias: Any = None,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Multiply scaled matrices: `(a * a_scales) @ (b * b_scales) + bias`: (m, k) with (k, n).

    Scales are one number, or a matrix with a scale for each block: of an axis of size n that has s
    scales, n / s neighbours have the same one. So (1, 1) is a scale for the whole, (m, 1) and
    (1, n) for each row of `a` and column of `b`, (m, k / 128) for rows by 128. `bias`, which
    broadcasts, is not scaled. The result is float32 unless `dtype` says otherwise, and float64
    where an operand is; it is rounded to 16 bits once. The gradient to an operand is that of the
    scaled one times its scales, and to a scale the sum over its block.

    It is PyTorch's `scaled_mm` without enumerations, which shapes say, for the dtypes that are
    here: integers and floats, and no 8-bit floats. Raises `ShapeError` where sizes do not fit or
    blocks do not divide them, `DTypeError` for complex numbers.

    >>> a, b = sg.constant([[1, 2]], dtype="int8"), sg.constant([[3], [4]], dtype="int8")
    >>> sg.run(sg.nn.scaled_mm(a, b, 0.5, [[1.0], [10.0]]))
    array([[41.5]], dtype=float32)
    """
    left = _scaled("scaled_mm", "a", a, a_scales, (None, None))
    return _product(left, _scaled("scaled_mm", "b", b, b_scales, (None, None)), bias, dtype)


def _product(left: Tensor, right: Tensor, bias: Any, dtype: DTypeLike | None) -> Tensor:
    product = matmul(left, right)
    if bias is not None:
        product = add(product, cast(as_tensor(bias), product.dtype))
    return product if dtype is None else cast(product, as_dtype(dtype))


def _scaled(op: str, name: str, given: Any, scales: Any, fixed: Sequence[int | None]) -> Tensor:
    """Return an operand times its scales, float32 or more. Blocks of an axis have size 1 if fixed.

    The axes of blocks are split in two, so that scales broadcast over the inner one.
    """
    x, factors = real_operand(op, given), real_operand(op, scales)
    wide = max(x.dtype, factors.dtype, float32, key=lambda dtype: dtype.bits)
    x, factors = cast(x, wide), cast(factors, wide)
    if factors.ndim == 0 and None in fixed[:1]:
        return multiply(x, factors)
    if x.ndim != len(fixed) or factors.ndim != len(fixed):
        problem = f"{name}: {x.type} and {name}_scales: {factors.type} need {len(fixed)} axes"
        raise ShapeError(op, problem, source=user_source())
    shape: list[Any] = []
    for axis, (n, count, block) in enumerate(zip(x.shape, factors.shape, fixed, strict=True)):
        if not _divides(n, count) or (block == 1 and n != count):
            problem = f"{name}_scales: {factors.type} do not divide axis {axis} of {name}: {x.type}"
            raise ShapeError(op, problem, source=user_source())
        shape += [n, 1] if n == count else [1, n] if count == 1 else [count, static(n) // count]
    inner = factors
    for axis in reversed(range(x.ndim)):
        inner = expand_dims(inner, axis=axis + 1)
    split = reshape(x, shape)
    return reshape(multiply(split, broadcast_to(inner, split.shape)), x.shape)


def _divides(n: Any, count: Any) -> bool:
    return bool(n == count or count == 1) or (
        isinstance(n, int) and isinstance(count, int) and count > 0 and n % count == 0
    )
