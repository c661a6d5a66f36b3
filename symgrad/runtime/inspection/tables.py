"""Pretty-printing of tables: how records become text."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

_RIGHT = {
    "threads",
    "runs",
    "us",
    "share",
    "GFLOP/s",
    "GB/s",
    "of limit",
    "flops",
    "bytes",
    "offset",
}


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table, without the column of threads if it says nothing."""
    kept = [i for i, h in enumerate(headers) if h != "threads" or any(row[i] for row in rows)]
    headers, rows = [headers[i] for i in kept], [[row[i] for i in kept] for row in rows]
    align = ["right" if h in _RIGHT else "left" for h in headers]
    return str(
        tabulate(rows, headers=headers, colalign=align if rows else None, disable_numparse=True)
    )
