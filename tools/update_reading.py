"""Keep the excerpts of `docs/reading.md` true: compare them with what the steps really give.

An excerpt is a fenced block under a comment that says what gives the text,

    <!-- step.ir("loops", "k14") -->

and a line `...` in it stands for lines that are left out. `python tools/update_reading.py` (some
seconds) writes every excerpt anew: each run of lines becomes the run of as many lines that is most
like it. Read the difference before you commit it: the prose around an excerpt is not touched, and
a kernel that has another number now is for you to name. With `--check` nothing is written; excerpts
that differ are listed, and with them the kernels that would give them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script is given the folder it lies in

if TYPE_CHECKING:
    import symgrad as sg

PAGE = ROOT / "docs" / "reading.md"
LEFT_OUT = "..."

_EXCERPT = re.compile(r"^<!-- (?P<expression>.+) -->\n```\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE)
_KERNEL = re.compile(r'(?P<before>^\w+\.ir\("[\w-]+", )"(?P<kernel>\w+)"\)$')

Run = tuple[str, ...]  # lines that follow one another
Steps = Mapping[str, Any]  # compiled steps, by the names that the page gives them


class StaleExcerptError(Exception):
    """An excerpt that its text no longer has, and cannot be given."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A fenced block of the page: where its lines begin, what gives its text, and its lines."""

    line: int
    expression: str
    lines: Run

    @property
    def runs(self) -> tuple[Run, ...]:
        """The lines between those that are left out."""
        runs: list[list[str]] = [[]]
        for line in self.lines:
            if line.strip() == LEFT_OUT:
                runs.append([])
            else:
                runs[-1].append(line)
        return tuple(tuple(run) for run in runs if run)


def reading_steps() -> dict[str, sg.Step]:
    """Compile the steps that the page reads."""
    from examples import digits_step  # once the folder above is on the path

    return {
        "step": digits_step.training()[0],
        "clipped": digits_step.clipped()[0],
        "recurrent": digits_step.recurrent()[0],
    }


def excerpts_of(page: str) -> list[Excerpt]:
    """Return the excerpts of a page, in order."""
    return [
        Excerpt(
            page.count("\n", 0, found.start("text")) + 1,
            found["expression"],
            tuple(found["text"].splitlines()),
        )
        for found in _EXCERPT.finditer(page)
    ]


def given_text(expression: str, steps: Steps) -> Run:
    """Return the lines that `expression` gives, an expression of Python over the names of steps."""
    given = eval(expression, {"__builtins__": {}}, dict(steps))
    lines = given if isinstance(given, list) else str(given).splitlines()
    return tuple(str(line).rstrip() for line in lines)


def difference(excerpt: Excerpt, lines: Run) -> str | None:
    """Return the first run of an excerpt that `lines` do not have where it should be; None if none.

    Runs stand in order, and at least one line is left out where the excerpt says so.
    """
    start = 0
    for run in excerpt.runs:
        at = next((i for i in range(start, len(lines)) if lines[i : i + len(run)] == run), None)
        if at is None:
            return "\n".join(run)
        start = at + len(run) + 1
    return None


def stale(page: str, steps: Steps) -> Iterator[str]:
    """Yield a message for each excerpt that differs from its text."""
    for excerpt in excerpts_of(page):
        try:
            missing = difference(excerpt, given_text(excerpt.expression, steps))
        except Exception as error:  # what a step says of a kernel or a stage it does not have
            missing = f"{type(error).__name__}: {error}"
        if missing is not None:
            hint = "".join(f"\nit is in {name}" for name in _elsewhere(excerpt, steps))
            place = f"{PAGE.name}:{excerpt.line}: {excerpt.expression}"
            yield f"{place} does not give, here,\n{missing}{hint}"


def _elsewhere(excerpt: Excerpt, steps: Steps) -> Iterator[str]:
    """Yield the same expression of other kernels that do give the excerpt."""
    of_kernel = _KERNEL.match(excerpt.expression)
    if of_kernel is None:
        return
    for number in range(len(steps[excerpt.expression.partition(".")[0]].kernels)):
        expression = f'{of_kernel["before"]}"k{number}")'
        if difference(excerpt, given_text(expression, steps)) is None:
            yield expression


def renewed(page: str, steps: Steps) -> str:
    """Return the page with every excerpt as its text is now.

    Raises `StaleExcerptError` where a text has too few lines to give one.
    """

    def renew(found: re.Match[str]) -> str:
        excerpt = Excerpt(0, found["expression"], tuple(found["text"].splitlines()))
        lines = given_text(excerpt.expression, steps)
        if difference(excerpt, lines) is not None:
            excerpt = Excerpt(0, excerpt.expression, _most_alike(excerpt, lines))
        text = "".join(f"{line}\n" for line in excerpt.lines)
        return f"<!-- {excerpt.expression} -->\n```\n{text}```"

    return _EXCERPT.sub(renew, page)


def _most_alike(excerpt: Excerpt, lines: Run) -> Run:
    """Return the excerpt with each run replaced by the lines that are most like it, in order."""
    new: list[str] = []
    runs = iter(excerpt.runs)
    start = 0
    is_within = False
    for line in excerpt.lines:
        is_left_out = line.strip() == LEFT_OUT
        if is_left_out:
            new.append(line)
        elif not is_within:
            run = next(runs)
            at = _best_start(run, lines, start, excerpt.expression)
            new += lines[at : at + len(run)]
            start = at + len(run) + 1
        is_within = not is_left_out
    return tuple(new)


def _best_start(run: Run, lines: Run, start: int, expression: str) -> int:
    """Return where the lines begin that are most like `run`, the first of equals."""
    places = range(start, len(lines) - len(run) + 1)
    if not places:
        raise StaleExcerptError(f"{expression} is too short: no {len(run)} lines after {start}")

    def likeness(at: int) -> float:
        there = lines[at : at + len(run)]
        pairs = zip(run, there, strict=True)
        return sum(SequenceMatcher(None, old, new, autojunk=False).ratio() for old, new in pairs)

    return max(places, key=likeness)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page anew, or only check it; return the exit code, 1 for a page that is stale."""
    parser = argparse.ArgumentParser(description="Keep the excerpts of docs/reading.md true.")
    parser.add_argument("--check", action="store_true", help="write nothing, list what differs")
    chosen = parser.parse_args(arguments)
    page, steps = PAGE.read_text(encoding="utf-8"), reading_steps()
    messages = list(stale(page, steps))
    if not chosen.check:
        PAGE.write_text(renewed(page, steps), encoding="utf-8")
    sys.stdout.writelines(f"{message}\n\n" for message in messages)
    return int(chosen.check and bool(messages))


if __name__ == "__main__":
    sys.exit(main())
