"""Source annotation: the user's lines around those that built the program, with what each costs.

Of files that cannot be read, as of text that was typed in, only the numbers of lines are shown.
"""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from symgrad.errors import file_label
from symgrad.records import dataclass, replace
from symgrad.runtime.inspection.kernels import Kernels
from symgrad.runtime.inspection.profile import Profile

_AROUND = 2  # lines shown before and after one that counts
_JOINED = 5  # lines between two that are shown rather than left out


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file: its text, its calls, and seconds and share of the step, if measured."""

    number: int
    text: str
    calls: tuple[int, ...]
    seconds: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The parts of a file that are shown, each of lines in a row; the dearest file comes first."""

    name: str
    path: str
    blocks: tuple[tuple[SourceLine, ...], ...]
    share: float


def source_files(kernels: Kernels, measured: Profile | None) -> tuple[SourceFile, ...]:
    """Return the files that built the program, with the lines of the calls in `kernels`."""
    calls: dict[tuple[str, int], dict[int, None]] = {}
    for number, record in enumerate(kernels):
        for source, _ in record.origins:
            if source is not None:
                calls.setdefault((source.file, source.line), {})[number] = None
    seconds = _seconds(measured)
    total = measured.seconds if measured else 1.0
    files: dict[str, dict[int, SourceLine]] = {}
    for (file, line), found in calls.items():
        spent = seconds.get((file, line), 0.0)
        made = SourceLine(line, "", tuple(found), spent, spent / total)
        files.setdefault(file, {})[line] = made
    shown = (_shown(file, lines) for file, lines in files.items())
    return tuple(sorted(shown, key=lambda file: -file.share))


def _seconds(measured: Profile | None) -> Mapping[tuple[str, int], float]:
    found: dict[tuple[str, int], float] = {}
    for row in measured.rows if measured else ():
        for source, share in row.kernel.origins:
            if source is not None:
                place = source.file, source.line
                found[place] = found.get(place, 0.0) + share * row.seconds
    return found


def _shown(file: str, lines: Mapping[int, SourceLine]) -> SourceFile:
    texts = linecache.getlines(file)
    blocks = []
    for first, last in _spans(sorted(lines), len(texts)):
        block = []
        for number in range(first, last + 1):
            text = texts[number - 1].rstrip("\n") if number <= len(texts) else ""
            at = lines.get(number, SourceLine(number, "", ()))
            block.append(SourceLine(number, text, at.calls, at.seconds, at.share))
        blocks.append(_dedented(_trimmed(block)))
    share = sum(line.share for line in lines.values())
    return SourceFile(file_label(file), file, tuple(blocks), share)


def _trimmed(block: Sequence[SourceLine]) -> Sequence[SourceLine]:
    """Return a block without the empty lines around it."""
    filled = [at for at, line in enumerate(block) if line.text.strip() or line.calls]
    return block[filled[0] : filled[-1] + 1]


def _dedented(block: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
    text = textwrap.dedent("\n".join(line.text for line in block))
    return tuple(replace(a, text=b) for a, b in zip(block, text.split("\n"), strict=True))


def _spans(numbers: Sequence[int], length: int) -> Iterable[tuple[int, int]]:
    """Yield the first and the last line of each part that is shown."""
    around = _AROUND if length else 0
    begin = end = numbers[0]
    for number in numbers[1:]:
        if number - end > _JOINED + 2 * around:
            yield max(1, begin - around), _least(end + around, length)
            begin = number
        end = number
    yield max(1, begin - around), _least(end + around, length)


def _least(line: int, length: int) -> int:
    return min(line, length) if length else line
