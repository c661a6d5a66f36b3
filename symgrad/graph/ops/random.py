"""Counter-based RNG, Philox4x32-10: random bits as a function of a counter and a key.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011. There is no state here, and so no order: each element is computed by itself, and has the
same bits on any machine and for any number of threads. What is counted is for `symgrad/random`.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType, uint64
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import require_dtype, require_equal_types
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import Map, ScalarExpr
from symgrad.graph.types import Array, TensorType

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)  # by which the halves of the key grow from round to round
_LOW = 0xFFFFFFFF


def philox(low: Tensor, high: Tensor, key: Tensor, pair: int) -> Tensor:
    """Return 64 random bits for each element of three uint64 tensors of one shape.

    The counter is `low + high * 2**64`. A counter has four words of 32 bits, of which `pair` 0 is
    the first two and `pair` 1 the last two; the earlier word is the low half of an element.
    """
    return apply(philox_op, low, high, key, pair=pair)


def _is_uint64(dtype: DType) -> bool:
    return dtype == uint64


def _philox_infer(low: TensorType, high: TensorType, key: TensorType, *, pair: int) -> TensorType:
    for name, operand in (("low", low), ("high", high), ("key", key)):
        require_dtype("philox", name, operand, _is_uint64)
    return require_equal_types("philox", low=low, high=high, key=key)


def _philox_reference(low: Array, high: Array, key: Array, *, pair: int) -> Array:
    words = [half for x in (low, high) for half in _halves(x)]
    keys = _halves(key)
    for number in range(_ROUNDS):
        if number:
            keys = [(k + np.uint32(w)).astype(np.uint32) for k, w in zip(keys, _WEYL, strict=True)]
        (low0, high0), (low1, high1) = (
            _halves(word.astype(np.uint64) * np.uint64(m))
            for word, m in zip(words[::2], _MULTIPLIERS, strict=True)
        )
        words = [high1 ^ words[1] ^ keys[0], low1, high0 ^ words[3] ^ keys[1], low0]
    first, second = (word.astype(np.uint64) for word in words[2 * pair : 2 * pair + 2])
    return np.asarray(first | second << np.uint64(32))


def _halves(x: Array) -> list[Array]:
    """Return the low and the high 32 bits of 64."""
    return [x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)]


def _philox_kernel(_low: TensorType, _high: TensorType, _key: TensorType, *, pair: int) -> Map:
    return Map(lambda s, low, high, key: _emit_philox(s, low, high, key, pair))


def _emit_philox(
    s: Scalars[ScalarExpr], low: ScalarExpr, high: ScalarExpr, key: ScalarExpr, pair: int
) -> ScalarExpr:
    # A word of 32 bits is a uint64 throughout: a machine that sees that the upper halves are 0
    # multiplies two of them in one instruction, and nothing is ever converted.
    width = s.const(32, uint64)

    def low_half(x: ScalarExpr) -> ScalarExpr:
        return s.call("and", x, s.const(_LOW, uint64))

    def high_half(x: ScalarExpr) -> ScalarExpr:
        return s.call("shr", x, width)

    words = [half(x) for x in (low, high) for half in (low_half, high_half)]
    keys = [low_half(key), high_half(key)]
    for number in range(_ROUNDS):
        grown = [
            s.call("add", k, s.const(w * number, uint64)) for k, w in zip(keys, _WEYL, strict=True)
        ]
        first, second = (
            s.call("mul", word, s.const(m, uint64))
            for word, m in zip(words[::2], _MULTIPLIERS, strict=True)
        )
        words = [
            s.call("xor", high_half(second), s.call("xor", words[1], low_half(grown[0]))),
            low_half(second),
            s.call("xor", high_half(first), s.call("xor", words[3], low_half(grown[1]))),
            low_half(first),
        ]
    earlier, later = words[2 * pair : 2 * pair + 2]
    return s.call("or", earlier, s.call("shl", later, width))


# A few integer operations a round, in registers: a gradient draws the same bits again rather than
# keep eight bytes for each element.
philox_op = define(
    "philox",
    infer=_philox_infer,
    reference=_philox_reference,
    grad="none",
    kernel=_philox_kernel,
    is_always_recomputed=True,
)
