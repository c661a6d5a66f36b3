"""Subcommand `export`: writes a step as a library for C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from symgrad.commands.loading import CommandError, Loaded, refuse_os_errors

_DIGITS = 18  # of a size, which has 64 bits


def export_text(
    loaded: Loaded,
    path: Path,
    formats: Sequence[str],
    targets: Sequence[str] | None,
    sizes: Sequence[str],
) -> str:
    """Write a step as files of `formats`; say how large each is. `sizes` are texts "name=3"."""
    given = dict(_size(loaded.name, text) for text in sizes)
    with refuse_os_errors(str(path)):
        written = loaded.step.export(path, formats=formats, target=targets, sizes=given)
        return "".join(f"{file}: {file.stat().st_size:,} bytes\n" for file in written)


def _size(subject: str, text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal() or len(number) > _DIGITS:
        raise CommandError(subject, f"{text!r} gives no size", hint="write name=3")
    return name, int(number)
