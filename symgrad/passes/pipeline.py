"""Pass manager: which passes run, in which order, and why.

The rows `as built` run once for a program, before its sizes are known. Those that run `once` see
graphs as these left them, before passes have changed what is nested in them; the `repeated` ones
run in turns until each has had its turn since anything was changed. Those of `settled` run then:
what they change goes through the repeated ones once more, and what they have nested in it through
all. The last row goes on to groups of nodes, for codegen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Literal

from symgrad.graph.build import inside, rebuild
from symgrad.graph.compare import graphs_of, has_nested_graphs
from symgrad.graph.graph import Graph, specialize, transform
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import Attr
from symgrad.graph.verify import verify as verify_graph
from symgrad.passes.calls.check_numerics import check_numerics
from symgrad.passes.calls.expand import expand
from symgrad.passes.calls.inline_calls import inline_calls
from symgrad.passes.calls.legalise import legalise
from symgrad.passes.calls.share_calls import share_calls
from symgrad.passes.calls.split_complex import split_complex
from symgrad.passes.calls.thread_effects import thread_effects
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.fusion.verify import verify_partition
from symgrad.passes.loops.carry_sums import carry_sums
from symgrad.passes.loops.hoist_scanned import hoist_scanned
from symgrad.passes.loops.join_loops import join_loops
from symgrad.passes.loops.licm import licm
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.passes.loops.prepack import prepack
from symgrad.passes.loops.prune_loops import prune_loops
from symgrad.passes.loops.rematerialise import rematerialise
from symgrad.passes.loops.sink_sums import sink_sums
from symgrad.passes.placement.fuse_parts import fuse_parts
from symgrad.passes.placement.place_shards import place_shards
from symgrad.passes.rewrites.cse import cse
from symgrad.passes.rewrites.dce import dce
from symgrad.passes.rewrites.fold_constants import fold_constants
from symgrad.passes.rewrites.gathered_layouts import lay_out_gathers
from symgrad.passes.rewrites.invert_scatters import invert_scatters
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.passes.rewrites.row_updates import row_updates
from symgrad.passes.rewrites.simplify import simplify
from symgrad.passes.table import ALL_PASSES, AnyPass, Options, Pass, PassRunner, check_order
from symgrad.records import dataclass

Phase = Literal["as built", "once", "repeated", "settled"]


@dataclass(frozen=True, slots=True)
class GraphPass(Pass[Graph, Rewrites, Graph]):
    """From a graph to a better one."""

    _: KW_ONLY
    print: Callable[[Graph], str] = str
    verify: Callable[[Graph], None] = verify_graph
    counts_itself: bool = True
    phase: Phase = "repeated"


def _as_built(
    name: str, run: Callable[[Graph], Graph], after: dict[str, str], *, is_required: bool = False
) -> GraphPass:
    """Return the row of a pass that runs on a program as it was built."""
    return GraphPass(
        name, lambda graph, _: run(graph), after=after, is_required=is_required,
        counts_itself=False, phase="as built",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Nesting:
    """What is told beside a graph that is fused, of the program it is nested in: see `fuse`."""

    first_status: int = 1
    carried: Sequence[tuple[int, int]] = ()
    frees_early: bool = False


SPECIALIZE: Pass[Graph, Mapping[str, int], Graph] = Pass(
    "specialize",
    specialize,
    print=str,
    verify=verify_graph,
    after={
        "merge-loops": "bodies are compared by identity, and those with other sizes are built anew",
        "legalise": "what runs as a program was built need not run for each of its sizes",
    },
    is_required=True,
)

FUSE: Pass[Graph, Nesting, Partition] = Pass(
    "fuse",
    lambda graph, nesting: fuse(
        graph, nesting.first_status, nesting.carried, frees_early=nesting.frees_early
    ),
    print=str,
    verify=verify_partition,
    after={
        "row-updates": "a dense gradient would be a buffer",
        "sink-sums": "what is behind the loop takes the work of its users as an epilogue",
        "cse": "kernels hide equal subexpressions",
        "dce": "an update that changes nothing would be a kernel that copies",
        "legalise": "there is no kernel for what stands for its operands",
    },
    is_required=True,
)

GRAPH_PASSES: tuple[AnyPass, ...] = (
    GraphPass(
        "inline-calls",
        lambda graph, rewrites: inline_calls(graph, rewrites.explain),
        counts_itself=False,
        phase="as built",
    ),
    GraphPass(
        "place-shards",
        lambda graph, rewrites: place_shards(graph, rewrites.explain),
        after={"inline-calls": "what is cut does not go into what remains a call"},
        is_required=True,
        counts_itself=False,
        phase="as built",
    ),
    _as_built(
        "merge-loops",
        merge_loops,
        {"inline-calls": "a loop in a function meets its recording copy where both are inlined"},
    ),
    _as_built(
        "thread-effects",
        thread_effects,
        {
            "inline-calls": "a token is handed through what remains a call",
            "place-shards": "what brings parts together are ordered calls",
            "merge-loops": "bodies are compared by identity, and those with a token are built anew",
        },
        is_required=True,
    ),
    GraphPass(
        "check-numerics",
        lambda graph, rewrites: check_numerics(graph) if rewrites.checks_numerics else graph,
        after={
            "place-shards": "what is checked is what a rank has",
            "thread-effects": "the token of calls is no number",
        },
        is_required=True,
        counts_itself=False,
        phase="as built",
    ),
    _as_built(
        "prune-loops",
        prune_loops,
        {
            "merge-loops": "bodies are compared by identity, and pruning builds them anew",
            "thread-effects": "a loop that only makes calls would be left out",
        },
    ),
    _as_built(
        "share-calls",
        share_calls,
        {
            "inline-calls": "a function that is inlined wherever it is called need not be shared",
            "prune-loops": "a result that only a pruned loop reads need not be computed",
        },
    ),
    _as_built(
        "legalise",
        legalise,
        {
            "inline-calls": "it inlines calls of tapes as well, and builds equal nodes once",
            "prune-loops": "it replaces what stands for operands on its way",
            "share-calls": "it does that within functions",
        },
        is_required=True,
    ),
    SPECIALIZE,
    GraphPass(
        "split-complex",
        lambda graph, _: split_complex(graph),
        after={
            "legalise": "what stands for its operands has no rule for pairs",
            "specialize": "the inputs and outputs of a program are those of the graph before",
        },
        is_required=True,
        counts_itself=False,
        phase="once",
    ),
    GraphPass(
        "rematerialise",
        rematerialise,
        after={
            "split-complex": "prices and rules are those of real numbers",
            "merge-loops": "it keeps values of the loop that is left",
            "specialize": "what to keep is weighed by sizes",
        },
        phase="once",
    ),
    GraphPass(
        "expand",
        lambda graph, _: expand(graph),
        after={
            "specialize": "the algorithm depends on the sizes",
            "rematerialise": "what is weighed is the op as a whole",
        },
        is_required=True,
        counts_itself=False,
        phase="once",
    ),
    GraphPass(
        "simplify", simplify, after={"rematerialise": "bodies are compared as they were built"}
    ),
    GraphPass(
        "fold-constants",
        fold_constants,
        after={"simplify": "rules move ops from repeated constants to the constants"},
    ),
    GraphPass(
        "cse", cse, after={"fold-constants": "equal constants may be computed in different ways"}
    ),
    GraphPass(
        "row-updates",
        row_updates,
        after={"cse": "a gradient that was built twice has one use only then"},
    ),
    GraphPass(
        "invert-scatters",
        invert_scatters,
        after={
            "cse": "what is scattered twice stays in memory",
            "fold-constants": "places are known where indices are constants",
            "row-updates": "a scatter that is written in place is no gradient any more",
        },
    ),
    GraphPass(
        "lay-out-gathers",
        lay_out_gathers,
        after={"cse": "what is gathered twice is read elsewhere, too"},
    ),
    GraphPass("dce", dce, after={"cse": "a new value may be seen to be the old one only then"}),
    GraphPass("licm", licm, after={"cse": "what is computed twice would leave a loop twice"}),
    GraphPass(
        "hoist-scanned",
        hoist_scanned,
        after={"licm": "what changes in no iteration is no slice"},
    ),
    GraphPass(
        "sink-sums",
        sink_sums,
        after={"hoist-scanned": "a factor that is a stack before the loop needs no new one"},
    ),
    GraphPass(
        "carry-sums",
        carry_sums,
        after={
            "hoist-scanned": "a stack that is computed before the loop is none that it makes",
            "sink-sums": "what is added up of a stack may be a product that has left the loop",
        },
    ),
    GraphPass(
        "prepack",
        prepack,
        after={
            "hoist-scanned": "a product that leaves the loop reads its factor once",
            "sink-sums": "a product that leaves the loop reads its factor once",
        },
    ),
    GraphPass(
        "fuse-parts",
        fuse_parts,
        after={
            "expand": "the loops over parts are those of algorithms",
            "simplify": "what is between loops is as cheap as it gets",
            "cse": "what two loops read is one tensor",
            "prepack": "what leaves a loop is not read by parts",
        },
        phase="settled",
    ),
    GraphPass(
        "join-loops",
        join_loops,
        after={
            "simplify": "bodies of equal loops have become equal",
            "cse": "what loops begin with is one tensor",
            "fuse-parts": "loops over parts are joined there, with what is between them",
        },
        phase="settled",
    ),
    FUSE,
)
check_order(GRAPH_PASSES)

# What one pass changes may give the others new work. Each is linear, so there is an end to that.
MAX_ROUNDS = 4


def optimize(graph: Graph, *, options: Options = ALL_PASSES) -> Graph:
    """Run the passes over graphs of known sizes, nested ones first, until none has work left."""
    return run_graph_passes(graph, PassRunner(options, GRAPH_PASSES))


def prepare_graph(graph: Graph, runner: PassRunner) -> Graph:
    """Run the passes over a graph as it was built, whose sizes need not be known."""
    for row in runner.chosen(rows_of("as built")):
        graph = runner.apply(row, graph, runner.rewrites)
    return graph


def run_graph_passes(graph: Graph, runner: PassRunner) -> Graph:
    """Do what `optimize` does."""
    return _Optimizing(runner).run(graph, is_shown=True)


def rows_of(phase: Phase) -> list[GraphPass]:
    """Return the passes from graphs to graphs that run in a phase."""
    return [row for row in GRAPH_PASSES if isinstance(row, GraphPass) and row.phase == phase]


class _Optimizing:
    """Runs the passes on a program; a nested graph that several nodes have is optimized once."""

    def __init__(self, runner: PassRunner) -> None:
        self._runner = runner
        self._once = runner.chosen(rows_of("once"))
        self._repeated = runner.chosen(rows_of("repeated"))
        self._settled = runner.chosen(rows_of("settled"))
        self._made: dict[Graph, Graph] = {}

    def run(self, graph: Graph, *, is_shown: bool) -> Graph:
        for row in self._once:
            graph = self._apply(row, graph, is_shown=is_shown)
            if self._runner.stops_after(row):
                return graph
        graph, is_stopped = self._settled_down(
            self._with_nested_optimized(graph), is_shown=is_shown
        )
        for row in () if is_stopped else self._settled:
            before = graph
            graph = self._apply(row, graph, is_shown=is_shown)
            if self._runner.stops_after(row):
                break
            if graph is not before:
                graph, _ = self._settled_down(self._with_nested_optimized(graph), is_shown=is_shown)
        return graph

    def _settled_down(self, graph: Graph, *, is_shown: bool) -> tuple[Graph, bool]:
        """Run the repeated passes; return also whether one was the last that is to run."""
        rewrites = self._runner.rewrites
        idle = 0  # turns since something was changed, that one included: no pass has two in a row
        for row in self._repeated * MAX_ROUNDS:
            before = rewrites.count
            graph = self._apply(row, graph, is_shown=is_shown)
            idle = idle + 1 if rewrites.count == before else 1
            if self._runner.stops_after(row):
                return graph, True
            if idle >= len(self._repeated):
                break
        return graph, False

    def _apply(self, row: GraphPass, graph: Graph, *, is_shown: bool) -> Graph:
        # What a pass builds belongs where the graph does: a nested graph has a region of its own.
        with inside(graph.region):
            return self._runner.apply(row, graph, self._runner.rewrites, is_shown=is_shown)

    def _with_nested_optimized(self, graph: Graph) -> Graph:
        """Return `graph` with its branches and bodies optimized."""

        def renamed(node: Node, inputs: tuple[Tensor, ...]) -> Node | None:
            nested = graphs_of(node)
            is_other = any(self._nested(inner) is not inner for _, inner in nested)
            return rebuild(node, inputs, self._nested) if is_other else None

        return transform(graph, renamed) if has_nested_graphs(graph) else graph

    def _nested(self, attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(self._nested, attr))
        if not isinstance(attr, Graph):
            return attr
        if attr not in self._made:
            self._made[attr] = self.run(attr, is_shown=False)
        return self._made[attr]
