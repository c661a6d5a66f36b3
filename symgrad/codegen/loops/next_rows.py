"""Reuse across iterations: which elements a loop over rows reads in its next iteration.

    for i in 0..256 ordered {
      fold ... x[1024*i + j] ...
      for k in 0..1024 vector(16) asks { ... x[1024*i + k] ... }
    }

reads `x[1024*i + k + 1024]` then; of shorter rows it is one of those behind it that is far enough
away. Of windows it reads all rows but one again:

    for i in 0..54 ordered {
      for c in 0..128 vector(32) {
        fold ... for k in 0..54 asks { ... x[7168*i + 128*k + c] ... x[7168*i + 128*k + c + 14336] }
      }
    }

Which loop asks, and where it pays, is decided in `schedule/ask_for_rows.py` and in
`schedule/ask_for_windows.py`; how, in `llvm/asking.py`.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.codegen.loops.language import Fold, For, Index, Reduction
from symgrad.codegen.loops.rewrite import (
    accesses,
    buffers_used,
    index_extents,
    substitute_variable,
)
from symgrad.codegen.loops.strided import IndexAtom
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


def next_of_windows(around: For, along: str, fold: Fold) -> list[tuple[str, Index]]:
    """Return what `fold` reads in the next iteration of `around`, and in this one does not.

    It goes along rows by steps, at each of which it reads elements side by side `along` a vector,
    of several rows of a buffer; what else it reads goes from row to row as well, and nothing in
    `around` writes to that. Of any other fold nothing is returned.
    """
    _, stored = buffers_used((around,))
    read: dict[tuple[str, tuple[tuple[IndexAtom, int], ...]], list[Index]] = {}
    for buffer, index in accesses(fold.body):
        steps = index.coefficient(around.var), index.coefficient(fold.var)
        if buffer not in stored and min(steps) > 0 and index.coefficient(along) == 1:
            read.setdefault((buffer, index.terms), []).append(index)
    last = {key: max(places, key=lambda index: index.const) for key, places in read.items()}
    row = {key: index.coefficient(around.var) for key, index in last.items()}
    is_window = any(
        last[key].const - min(index.const for index in places) >= row[key]
        for key, places in read.items()
    )
    following = [(key[0], replace(i, const=i.const + row[key])) for key, i in last.items()]
    return following if is_window else []


def rows_ahead(nbytes: int) -> int:
    """Return which of the rows that follow one of so many bytes is asked for: 1 is the next."""
    return max(1, -(-BYTES_ASKED_AHEAD // nbytes))


def _is_row(index: Index, around: For, sweep: For | Reduction) -> bool:
    """Return whether `sweep` reads a row of `around`, at a place that no other loop in it knows."""
    is_even = index.coefficient(sweep.var) == 1 and index.coefficient(around.var) == sweep.extent
    bound = index_extents(around.body).keys() - {sweep.var}
    return is_even and all(isinstance(a, str) and a not in bound for a, _ in index.terms)
