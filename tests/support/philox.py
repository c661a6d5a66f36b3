"""Philox4x32-10 once more, in Python's integers and one counter at a time.

It follows figure 4 of Salmon and others (2011) and shares nothing with the op.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_WORD = 2**32


def philox_words(counter: tuple[int, int, int, int], key: tuple[int, int]) -> list[int]:
    """Return four words of 32 bits."""
    left0, right0, left1, right1 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product1 = 0xD2511F53 * left0, 0xCD9E8D57 * left1
        left0, right0, left1, right1 = (
            product1 // _WORD ^ right0 ^ k0,
            product1 % _WORD,
            product0 // _WORD ^ right1 ^ k1,
            product0 % _WORD,
        )
        k0, k1 = (k0 + 0x9E3779B9) % _WORD, (k1 + 0xBB67AE85) % _WORD
    return [left0, right0, left1, right1]


def philox_pair(low: int, high: int, key: int, pair: int) -> int:
    """Return 64 bits: two words of the four, the earlier one below."""
    counter = (low % _WORD, low // _WORD, high % _WORD, high // _WORD)
    words = philox_words(counter, (key % _WORD, key // _WORD))
    return words[2 * pair] + words[2 * pair + 1] * _WORD


def philox_pairs(low: Any, high: Any, key: Any, pair: int) -> Any:
    """Return `philox_pair` of each element of three uint64 arrays of one shape."""
    columns = (np.ravel(x).tolist() for x in (low, high, key))
    pairs = [philox_pair(a, b, k, pair) for a, b, k in zip(*columns, strict=True)]
    return np.array(pairs, np.uint64).reshape(np.shape(low))
