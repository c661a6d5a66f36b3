"""What a benchmark says: a table and bars to reach, as text for people and JSON for programs."""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tabulate import tabulate

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Bar:
    """What must be reached: `measured` at most or at least `limit`."""

    claim: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        if math.isnan(self.measured):
            return False
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def __str__(self) -> str:
        relation = ">=" if self.at_least else "<="
        verdict = "met" if self.is_met else "MISSED"
        return f"{verdict:>6}: {self.claim}: {self.measured:.4g} {relation} {self.limit:g}"


@dataclass(slots=True)
class Report:
    """The results of one benchmark, row by row."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        table = tabulate(
            self.rows, headers=self.columns, floatfmt=".4g", missingval="-", disable_numparse=False
        )
        parts = [self.name, "=" * len(self.name), *self.notes, "", table, "", *map(str, self.bars)]
        return "\n".join(parts) + "\n"

    def as_json(self) -> dict[str, object]:
        """Return what `--json` writes: a dict a row, and the bars with whether they are met."""
        return {
            "name": self.name,
            "machine": platform.machine(),
            "python": platform.python_version(),
            "notes": self.notes,
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "bars": [{**asdict(bar), "met": bar.is_met} for bar in self.bars],
        }


def write_json(path: Path, reports: Sequence[Report]) -> None:
    """Write reports as one JSON list."""
    path.write_text(json.dumps([report.as_json() for report in reports], indent=1) + "\n")


def options(description: str | None) -> argparse.ArgumentParser:
    """Return the command line that all benchmarks share."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    return parser


def run_as_program(description: str | None, measure: Callable[[bool], Report]) -> None:
    """Do what a benchmark does when it is run: measure, print, write."""
    chosen = options(description).parse_args()
    report = measure(chosen.quick)
    print(report)
    if chosen.json is not None:
        write_json(chosen.json, [report])
