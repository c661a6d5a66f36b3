"""Pretty-printing of tables: how records become text."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

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

_GAP = 2  # blanks between columns
_LEAST = 8  # characters that are left of a column that is cut


def terminal_width() -> int:
    """Return how many characters a line of the terminal holds, 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def fitted(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, cut: str, width: int
) -> str:
    """Return a table of at most `width` characters a line, for which the column `cut` is cut.

    It is as wide as the other columns need where `width` is less than that.
    """
    place = list(headers).index(cut)
    others = [
        max(len(header) + _GAP, *(len(str(row[i])) for row in rows), 0)
        for i, header in enumerate(headers)
        if i != place and (header != "threads" or any(row[i] for row in rows))
    ]
    room = max(_LEAST, width - sum(others) - _GAP * len(others))
    return table(
        headers,
        [
            [clipped(str(cell), room) if i == place else cell for i, cell in enumerate(row)]
            for row in rows
        ],
    )


def clipped(text: str, room: int) -> str:
    """Return `text` in at most `room` characters."""
    return text if len(text) <= room else f"{text[: room - 1]}\u2026"


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table, without the column of threads if it says nothing."""
    kept = [i for i, h in enumerate(headers) if h != "threads" or any(row[i] for row in rows)]
    headers, rows = [headers[i] for i in kept], [[row[i] for i in kept] for row in rows]
    return plain_table(headers, rows, ["right" if h in _RIGHT else "left" for h in headers])


def plain_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], align: Sequence[str]
) -> str:
    """Return a table with its columns at the sides that `align` says."""
    from tabulate import tabulate  # a twentieth of what importing symgrad would take

    sides = align if rows else None
    return str(tabulate(rows, headers=headers, colalign=sides, disable_numparse=True))
