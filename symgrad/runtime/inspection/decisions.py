"""Optimization remarks: what passes have weighed, and why they decided as they did."""

from __future__ import annotations

from symgrad.display.panels import long_table, panel
from symgrad.passes.rewrites.rewrite import Decision
from symgrad.records import dataclass
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.tables import table
from symgrad.runtime.provenance import source_of


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision about an op: `rule` is the pass, `line` the user's line, empty if it has none."""

    rule: str
    op: str
    type: str
    line: str
    reason: str


class Decisions(tuple[DecisionRecord, ...]):
    """The decisions about a program, in the order in which they were made, each once."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        rows = [(r.rule, r.op, r.type, r.reason, r.line) for r in self]
        head = ("pass", "op", "type", "decision", "line")
        return panel(f"{len(self)} decisions", long_table(head, rows))

    def __str__(self) -> str:
        rows = [(r.rule, r.op, r.type, r.reason, r.line) for r in self]
        return table(("pass", "op", "type", "decision", "line"), rows)


def describe_decisions(executable: Executable) -> Decisions:
    """Return a record for each decision of passes that weigh costs."""
    return Decisions(dict.fromkeys(map(_record, executable.decisions)))


def _record(decision: Decision) -> DecisionRecord:
    node, source = decision.node, source_of(decision.node)
    types = ", ".join(str(t.type) for t in node.outputs)
    line = "" if source is None else str(source)
    return DecisionRecord(decision.rule, node.op, types, line, decision.reason)
