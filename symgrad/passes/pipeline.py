"""Pass manager: which passes run, in which order, and why.

The passes over graphs are run here; the later stages are listed, since they are part of the order,
and are called by whoever goes on from a graph to code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from symgrad.config import settings
from symgrad.errors import GraphError
from symgrad.graph.build import inside, rebuild
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph, transform
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import Attr
from symgrad.graph.verify import verify
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.loops.hoist_scanned import hoist_scanned
from symgrad.passes.loops.licm import licm
from symgrad.passes.loops.rematerialise import rematerialise
from symgrad.passes.loops.sink_sums import sink_sums
from symgrad.passes.plan_memory import Request, plan_memory
from symgrad.passes.rewrites.cse import cse
from symgrad.passes.rewrites.dce import dce
from symgrad.passes.rewrites.fold_constants import fold_constants
from symgrad.passes.rewrites.rewrite import Decision, Rewrite, Rewrites
from symgrad.passes.rewrites.row_updates import row_updates
from symgrad.passes.rewrites.simplify import simplify


@dataclass(frozen=True, slots=True)
class GraphPass:
    """From a graph to a better one; none is needed for a program to be right.

    One that `needs_original` runs once, before others have changed the graphs nested in this one.
    """

    name: str
    run: Callable[[Graph, Rewrites], Graph]
    needs_original: bool = False


@dataclass(frozen=True, slots=True)
class PartitionPass:
    """From a graph to groups of nodes; required."""

    name: str
    run: Callable[[Graph], Partition]


@dataclass(frozen=True, slots=True)
class MemoryPass:
    """From what kernels request to offsets in one arena, and its size; required."""

    name: str
    run: Callable[[Sequence[Request]], tuple[list[int], int]]


Pass = GraphPass | PartitionPass | MemoryPass

PIPELINE: tuple[Pass, ...] = (
    GraphPass("rematerialise", rematerialise, needs_original=True),
    GraphPass("simplify", simplify),
    GraphPass("fold-constants", fold_constants),
    GraphPass("cse", cse),
    GraphPass("row-updates", row_updates),
    GraphPass("dce", dce),
    GraphPass("licm", licm),
    GraphPass("hoist-scanned", hoist_scanned),
    GraphPass("sink-sums", sink_sums),
    PartitionPass("fuse", fuse),
    MemoryPass("plan-memory", plan_memory),
)

ORDER = (
    ("rematerialise", "simplify"),  # bodies are compared as they were built
    ("simplify", "fold-constants"),  # rules move ops from repeated constants to the constants
    ("fold-constants", "cse"),  # equal constants may be computed in different ways
    ("cse", "row-updates"),  # a gradient that was built twice has one use only then
    ("row-updates", "fuse"),  # a dense gradient would be a buffer
    ("cse", "dce"),  # a new value may be seen to be the old one only then
    ("cse", "licm"),  # what is computed twice would leave a loop twice
    ("licm", "hoist-scanned"),  # what changes in no iteration is no slice
    ("hoist-scanned", "sink-sums"),  # a factor that is a stack before the loop needs no new one
    ("sink-sums", "fuse"),  # what is behind the loop takes the work of its users as an epilogue
    ("cse", "fuse"),  # kernels hide equal subexpressions
    ("dce", "fuse"),  # an update that changes nothing would be a kernel that copies
    ("fuse", "plan-memory"),  # values inside a kernel need no memory
)

# What one pass changes may give the others new work. Each is linear, so there is an end to that.
MAX_ROUNDS = 4

Sink = Callable[[str, str], None]


def check_order(pipeline: Sequence[Pass], order: Iterable[tuple[str, str]]) -> None:
    """Raise AssertionError unless pass names are unique and in the order that pairs ask for."""
    names = [p.name for p in pipeline]
    assert len(set(names)) == len(names), f"a pass is listed twice: {names}"
    for before, after in order:
        assert {before, after} <= set(names), f"({before}, {after}) names an unknown pass"
        assert names.index(before) < names.index(after), f"{before} must run before {after}"


check_order(PIPELINE, ORDER)
GRAPH_PASSES = tuple(p for p in PIPELINE if isinstance(p, GraphPass))


@dataclass(frozen=True, slots=True)
class Options:
    """How the passes over graphs are run.

    `skip` names passes to leave out, `stop_after` the last one to run. `print_after` is called
    with the name of a pass and the text of its result, after each pass. `bisect` is the number of
    rewrites that are made, the first ones; `on_rewrite` is told of each, and `on_decision` of what
    was weighed. `fast_math` allows rules that hold only over the reals. `verify` checks the graph
    after each pass; for None it is as the setting says.
    """

    skip: Collection[str] = ()
    stop_after: str | None = None
    print_after: Sink | None = None
    bisect: int | None = None
    on_rewrite: Callable[[Rewrite], None] | None = None
    on_decision: Callable[[Decision], None] | None = None
    fast_math: bool = False
    verify: bool | None = None

    def __post_init__(self) -> None:
        known = [p.name for p in GRAPH_PASSES]
        stop = () if self.stop_after is None else (self.stop_after,)
        for name in (*self.skip, *stop):
            if name not in known:
                raise GraphError("passes", f"{name!r} is none of {', '.join(known)}")

    def rewrites(self) -> Rewrites:
        """Return a new count of rewrites under these options."""
        return Rewrites(
            fast_math=self.fast_math,
            limit=self.bisect,
            sink=self.on_rewrite,
            on_decision=self.on_decision,
        )


def optimize(graph: Graph, *, options: Options = Options()) -> Graph:
    """Run the passes over graphs, nested ones first, until none has anything left to do."""
    return _optimize(graph, options.rewrites(), options, {})


def _optimize(
    graph: Graph, rewrites: Rewrites, options: Options, made: dict[Graph, Graph]
) -> Graph:
    """Optimize `graph`; `made` holds what nested graphs have become: the callee of many is one."""
    chosen = [p for p in GRAPH_PASSES if p.name not in options.skip]
    for graph_pass in (p for p in chosen if p.needs_original):
        graph = _run(graph_pass, graph, rewrites, options)
        if graph_pass.name == options.stop_after:
            return graph
    graph = _with_nested_optimized(graph, rewrites, options, made)
    repeated = [p for p in chosen if not p.needs_original]
    idle = 0  # passes in a row that found nothing to do; one that did something leaves nothing
    for graph_pass in repeated * MAX_ROUNDS:
        before = rewrites.count
        graph = _run(graph_pass, graph, rewrites, options)
        idle = idle + 1 if rewrites.count == before else 1
        if graph_pass.name == options.stop_after or idle >= len(repeated):
            break
    return graph


def _with_nested_optimized(
    graph: Graph, rewrites: Rewrites, options: Options, made: dict[Graph, Graph]
) -> Graph:
    """Return `graph` with its branches and bodies optimized; one that several nodes have, once."""
    quiet = replace(options, print_after=None)

    def rename(attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(rename, attr))
        if not isinstance(attr, Graph):
            return attr
        if attr not in made:
            made[attr] = _optimize(attr, rewrites, quiet, made)
        return made[attr]

    def renamed(node: Node, inputs: tuple[Tensor, ...]) -> Node | None:
        nested = graphs_of(node)
        is_other = any(rename(inner) is not inner for _, inner in nested)
        return rebuild(node, inputs, rename) if is_other else None

    return transform(graph, renamed) if any(map(graphs_of, graph.nodes)) else graph


def _run(graph_pass: GraphPass, graph: Graph, rewrites: Rewrites, options: Options) -> Graph:
    # What a pass builds belongs where the graph does: a nested graph has a region of its own.
    with _named_in_errors(graph_pass), inside(graph.region):
        result = graph_pass.run(graph, rewrites)
        if settings().verify if options.verify is None else options.verify:
            verify(result)
    if options.print_after is not None:
        options.print_after(graph_pass.name, str(result))
    return result


@contextmanager
def _named_in_errors(running: Pass) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"in pass {running.name}")
        raise


def run_passes(
    graph: Graph,
    names: Iterable[str],
    *,
    options: Options = Options(),
) -> Graph | Partition:
    """Run the passes `names`, once each, in the order given.

    Raises `GraphError` for a name that is unknown or has nothing to run on: after `fuse` there is
    no graph any more, and memory is planned for kernels.
    """
    rewrites = options.rewrites()
    result: Graph | Partition = graph
    for name in names:
        chosen = _pass_named(name)
        if isinstance(chosen, MemoryPass) or isinstance(result, Partition):
            raise GraphError("passes", f"{name} does not run on {type(result).__name__.lower()}s")
        if isinstance(chosen, GraphPass):
            result = _run(chosen, result, rewrites, options)
        else:
            with _named_in_errors(chosen):
                result = chosen.run(result)
    return result


def _pass_named(name: str) -> Pass:
    for known in PIPELINE:
        if known.name == name:
            return known
    raise GraphError("passes", f"{name!r} is none of {', '.join(p.name for p in PIPELINE)}")
