"""Hostile texts: printed programs with a few words taken out, doubled, exchanged or made strange.

For parsers, which may refuse such a text in one way only, in time linear in its length. Time is
counted in calls of functions, which are the same on every machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import strategies as st

_WORDS = re.compile(r'\s+|"[^"\n]*"|[%@?]?\w+(?:\.\w+)*|\.\.|//|.', re.DOTALL)
_NUMBERS = ("0", "1", "2", "7", "-1", "65536", "1099511627776", "9223372036854775807", "9" * 5000)
# What no printed program has where it is put; words of both languages, and of neither.
_STRANGE = (
    *_NUMBERS, "1.5", "1e999", "true", "none", "nan", "-inf", "float", "string", "int", "word",
    "\ud800", '"\\ud800"', '"x"', "\x00", "é", "²", "٣", "[", "]", "{", "}", "(", ")", "[]",
    "[" * 200, "(" * 20_000, "for i in 0..2 {" * 500, "?0", "?99", "%0", "%x", "@x", "n", "n*n",
    "(a+b)*(c+d)", "max(n, 2)", "floordiv(n, 0)", "*", "+", "-", ":", "=", ",", "->", "//", "..",
    "<function f>", "f32", "f8", "bool", "literal f32[2] [1, 2]", 'bytes"AAAA"', 'dim"a b"',
    "// x.py:1\n", "update", "gradient", "return", "sum", "concat", "variable", "constant", "for",
    "fold", "product", "yield", "index",
)  # fmt: skip


def mutant(text: str, rng: np.random.Generator) -> str:
    """Return `text` with one to three of its words changed."""
    words = _WORDS.findall(text)
    for _ in range(rng.integers(1, 4)):
        at, other = (int(rng.integers(len(words))) for _ in range(2))
        match rng.integers(6):
            case 0:
                words[at] = ""
            case 1:
                words[at] *= 2
            case 2:
                words[at], words[other] = words[other], words[at]
            case 3:
                words[at] = str(rng.choice(_STRANGE))
            case 4:
                words[at] += str(rng.choice(_STRANGE))
            case _:
                numbers = [i for i, word in enumerate(words) if word.isdecimal()] or [at]
                words[int(rng.choice(numbers))] = str(rng.choice(_NUMBERS))
    return "".join(words)


def mutants_of(texts: Sequence[str]) -> st.SearchStrategy[str]:
    """Return a strategy for mutants of one of `texts`."""
    seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
    return st.builds(mutant, st.sampled_from(texts), seeds)


def count_calls(function: Callable[[], Any]) -> int:
    """Return how many functions, of Python or of C, are called while `function` runs."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls
