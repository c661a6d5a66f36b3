"""Walks through memory: which buffers a loop goes through element after element.

    for i in 0..1048576 vector(16) asks { ... m[i] ... x[3*i] ... v[i + 5] ... s[0] ... }

walks through `m[i]` and `v[i + 5]`. Which loop asks for what comes next on these, and where it
pays, is decided in `schedule/ask_ahead.py`; how, in `llvm/asking.py`.
"""

from __future__ import annotations

from symgrad.codegen.loops.language import For, Index
from symgrad.codegen.loops.rewrite import accesses, index_extents


def walks(loop: For) -> list[tuple[str, Index]]:
    """Return the places in buffers that each iteration reads or writes an element further."""
    bound = index_extents(loop.body).keys()  # by a check, or in a loop inside
    return [
        (buffer, index)
        for buffer, index in dict.fromkeys(accesses(loop.body))
        if index.coefficient(loop.var) == 1
        and all(isinstance(atom, str) and atom not in bound for atom, _ in index.terms)
    ]
