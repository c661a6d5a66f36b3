"""Reuse across iterations: which elements a loop over rows reads in its next iteration.

    for i in 0..256 ordered {
      fold ... x[1024*i + j] ...
      for k in 0..1024 vector(16) asks { ... x[1024*i + k] ... }
    }

reads `x[1024*i + k + 1024]` then; of shorter rows it is one of those behind it that is far enough
away. Which loop asks for them, and where it pays, is decided in `schedule/ask_for_rows.py`; how, in
`llvm/asking.py`.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.codegen.loops.language import For, Index, Reduction
from symgrad.codegen.loops.rewrite import (
    accesses,
    buffers_used,
    index_extents,
    substitute_variable,
)
from symgrad.cost_model import BYTES_ASKED_AHEAD


def sweeps(around: For, extent: int) -> list[For | Reduction]:
    """Return the loops over so many elements that each iteration of `around` runs."""
    return [s for s in around.body if isinstance(s, For | Reduction) and s.extent == extent]


def next_rows(around: For, loop: For) -> list[tuple[str, Index]]:
    """Return what the next iteration of `around` reads where `loop` is in this one.

    Rows lie side by side, are as long as `loop`, and nothing in `around` writes to them.
    """
    _, stored = buffers_used((around,))
    found: dict[tuple[str, Index], None] = {}
    for sweep in sweeps(around, loop.extent):
        for buffer, index in accesses(sweep.body):
            if buffer not in stored and _is_row(index, around, sweep):
                here = substitute_variable(index, sweep.var, Index(0, ((loop.var, 1),)))
                found[buffer, replace(here, const=here.const + loop.extent)] = None
    return list(found)


def rows_ahead(nbytes: int) -> int:
    """Return which of the rows that follow one of so many bytes is asked for: 1 is the next."""
    return max(1, -(-BYTES_ASKED_AHEAD // nbytes))


def _is_row(index: Index, around: For, sweep: For | Reduction) -> bool:
    """Return whether `sweep` reads a row of `around`, at a place that no other loop in it knows."""
    is_even = index.coefficient(sweep.var) == 1 and index.coefficient(around.var) == sweep.extent
    bound = index_extents(around.body).keys() - {sweep.var}
    return is_even and all(isinstance(a, str) and a not in bound for a, _ in index.terms)
