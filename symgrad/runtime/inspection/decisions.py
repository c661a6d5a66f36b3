"""Optimization remarks: what passes have weighed, and why they decided as they did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import is_free_of, statements
from symgrad.codegen.program.language import Launch, buffers_of, launches_of, root
from symgrad.cost_model import BYTES_OF_PRODUCTS
from symgrad.display.panels import long_table, panel
from symgrad.graph.node import Node
from symgrad.passes.fusion.buffers import Buffer
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
    found = [*executable.decisions, *_fused_products(executable), *_triangles(executable)]
    return Decisions(dict.fromkeys(map(_record, found)))


def _fused_products(executable: Executable) -> Iterator[Decision]:
    """Yield a decision for each launch that came of products and of what reads their rows."""
    fused = list(_by_rows(executable))
    sums = _shared_sums(fused)
    for launch, node in fused:
        parts, own = set(buffers_of(launch.fused)), set(buffers_of([launch]))
        saved = sum(b.type.nbytes for b in parts - own)
        kept = sum(b.type.nbytes for b in own - parts - sums.keys())
        reason = (
            f"{len(launch.fused)} launches are one by blocks of rows: of {saved:,} bytes between "
            f"them {kept:,} are kept at a time, packed operands among them; a product makes "
            f"{BYTES_OF_PRODUCTS:,} at least"
        )
        yield Decision("fuse-products", node, reason)
    for buffer, adding in sums.items():
        reason = (
            f"{len(adding)} launches add to {buffer.type.nbytes:,} bytes of sums over rows, one "
            f"after another: none writes sums of its own, which one launch more would add up"
        )
        yield Decision("fuse-products", adding[0], reason)


def _by_rows(executable: Executable) -> Iterator[tuple[Launch, Node]]:
    """Yield the launches that came of products and of others, at any depth, with the first node."""
    pending = list(launches_of(executable.program.all_instrs))
    for launch in pending:
        pending += launch.fused
        products = [p for p in launch.fused if not is_free_of(p.kernel.body, Product)]
        nodes = executable.sources.nodes_of(products[0]) if products else ()
        if len(launch.fused) > 1 and nodes:
            yield launch, nodes[0]


def _shared_sums(fused: Sequence[tuple[Launch, Node]]) -> dict[Buffer, list[Node]]:
    """Return the buffers that fused launches add to and none of their parts has, and by whom."""
    found: dict[Buffer, list[Node]] = {}
    for launch, _ in fused:
        pairs = zip(launch.kernel.params, launch.arguments, strict=True)
        added = {root(argument) for param, argument in pairs if param.mode == "inout"}
        for buffer in added - set(buffers_of(launch.fused)):
            found.setdefault(buffer, [])
    for launch, node in fused:
        for buffer in found.keys() & set(buffers_of([launch])) - set(buffers_of(launch.fused)):
            found[buffer].append(node)
    return found


def _triangles(executable: Executable) -> Iterator[Decision]:
    """Yield a decision for each launch with products beside a diagonal that a mask leaves."""
    for launch in launches_of(executable.program.all_instrs):
        nodes = executable.sources.nodes_of(launch)
        products = [s for s in statements(launch.kernel.body) if isinstance(s, Product)]
        of_zeros = sum(border.is_diagonal for p in products for border in p.borders)
        unread = sum(p.read is not None for p in products)
        if nodes and of_zeros + unread:
            reason = (
                f"of {len(products)} products {of_zeros} leave out terms with zeros that a mask "
                f"leaves beside a diagonal, {unread} results that it leaves out themselves"
            )
            yield Decision("leave-out-zeros", nodes[0], reason)


def _record(decision: Decision) -> DecisionRecord:
    node, source = decision.node, source_of(decision.node)
    types = ", ".join(str(t.type) for t in node.outputs)
    line = "" if source is None else str(source)
    return DecisionRecord(decision.rule, node.op, types, line, decision.reason)
