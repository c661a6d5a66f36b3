"""The compiler: the whole way from a graph to native code, from top to bottom.

    Graph --as built--> Graph --sizes--> Graph --passes--> Graph --fuse--> Partition
          --lower, schedule kernels--> Program --passes--> Program
          --emit--> LLVM module --optimize, link--> a native function

Between two levels there is one function; within a level, passes are rows of a table:
`GRAPH_PASSES`, `KERNEL_PASSES` and `PROGRAM_PASSES`. What runs code, and owns the memory that it
runs on, is in `symgrad/runtime/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from symgrad.codegen.contract.panel_width import panel_bytes
from symgrad.codegen.llvm.known_kernel import NONE_KNOWN, FindLeaf, KnownKernel, no_leaf
from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.native.jit import LoadedCode
from symgrad.codegen.native.known_groups import KnownGroups, known_groups
from symgrad.codegen.native.known_kernels import KnownKernels
from symgrad.codegen.native.known_leaves import KnownLeaves
from symgrad.codegen.native.machine_code import CodeName, code_name, machine_code
from symgrad.codegen.program.build import build_program
from symgrad.codegen.program.kept_groups import Printed
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.limit_memory import limit_memory
from symgrad.codegen.program.passes import (
    PROGRAM_PASSES,
    Scheduled,
    run_program_passes,
)
from symgrad.codegen.program.source_map import BuiltProgram, SourceMap
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.passes import KERNEL_PASSES, Machine
from symgrad.codegen.target import Target
from symgrad.cost_model import LEAST_KEPT
from symgrad.graph.graph import Graph
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.fusion.verify import verify_partition
from symgrad.passes.pipeline import (
    FUSE,
    GRAPH_PASSES,
    SPECIALIZE,
    Nesting,
    prepare_graph,
    run_graph_passes,
)
from symgrad.passes.rewrites.rewrite import Decision
from symgrad.passes.table import ALL_PASSES, Options, Pass, PassRunner, check_order
from symgrad.records import dataclass, replace

PASSES = (*GRAPH_PASSES, *KERNEL_PASSES, *PROGRAM_PASSES)
check_order(PASSES)

NO_SIZES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile: what `compile` was told."""

    target: Target
    opt_level: int
    fast_math: bool
    cache: bool
    threads: Threads = ONE_THREAD
    checks_numerics: bool = False
    memory_limit: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A graph behind the passes that run on it as it was built: once for all its sizes.

    `decisions` are what those passes have weighed.
    """

    graph: Graph
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A graph of known sizes: as it was, as passes leave it, and as kernels with their sources.

    Of kernels that were `printed` the digests of their texts are known, by their names.
    """

    graph: Graph
    optimized: Graph
    program: Program
    sources: SourceMap
    printed: Mapping[str, Printed]


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A program as LLVM IR, and as native code in this process; `name` is that of the code.

    Unless it `is_whole`, the IR lacks kernels whose code was found by their loops.
    """

    llvm: str
    is_whole: bool
    code: LoadedCode
    name: CodeName


def prepare(graph: Graph, *, passes: Options = ALL_PASSES) -> Prepared:
    """Run the passes over a graph as it was built; its sizes need not be known."""
    decisions: list[Decision] = []
    noting = replace(passes, on_decision=decisions.append)
    prepared = prepare_graph(graph, PassRunner(noting, PASSES))
    return Prepared(prepared, tuple(decisions))


def lower_graph(
    graph: Graph | Prepared,
    options: CompileOptions,
    sizes: Mapping[str, int] = NO_SIZES,
    *,
    passes: Options = ALL_PASSES,
    sized: Graph | None = None,
) -> Lowered:
    """Take a graph, whose unknown sizes are `sizes`, to a program of kernels for a target.

    With these sizes it is `sized`, where that was found out before.
    """
    told = replace(
        passes, fast_math=options.fast_math, checks_numerics=options.checks_numerics,
        panel_bytes=panel_bytes(options.target),
    )  # fmt: skip
    runner = PassRunner(told, PASSES)
    machine = Machine(options.target, options.threads)
    prepared = graph.graph if isinstance(graph, Prepared) else prepare_graph(graph, runner)
    if sized is None:
        sized = runner.apply(SPECIALIZE, prepared, sizes, is_shown=bool(sizes))
    else:
        sized = runner.apply(SIZED, prepared, sized, is_shown=bool(sizes))
    optimized = run_graph_passes(sized, runner)
    partition = runner.apply(FUSE, optimized, Nesting())
    kept = None
    # Of a program that is compiled for size after size, it takes longer to keep the groups of each
    # than any later program has of them; so it does where all of them are lowered in no time.
    if options.cache and runner.is_usual and not sizes and len(partition.groups) >= LEAST_KEPT:
        kept = known_groups(options.target, options.opt_level, options.threads)
    found = _kernels(partition, machine, runner, kept)
    limit = options.memory_limit
    if limit is None or found.program.arena_bytes <= limit:
        return Lowered(sized, optimized, found.program, found.sources, found.printed)
    arena, silent = found.program.arena_bytes, runner.silent()
    freeing = silent.apply(FUSE, optimized, Nesting(frees_early=True))
    limited = limit_memory(arena, freeing, limit, lambda p: _kernels(p, machine, silent, kept))
    runner.tell(limited.decisions)
    partition = runner.apply(LIMITED, limited.partition, None)
    found = _kernels(partition, machine, runner, kept)
    return Lowered(sized, partition.graph, found.program, found.sources, found.printed)


# What a graph is with its sizes, where that is known: verified and shown as what they make of it.
SIZED: Pass[Graph, Graph, Graph] = Pass(
    SPECIALIZE.name, lambda _, sized: sized, print=str, verify=SPECIALIZE.verify, is_required=True
)

# What has been found to fit a limit of memory, which is verified and shown as what fusion makes.
LIMITED: Pass[Partition, None, Partition] = Pass(
    "limit-memory", lambda partition, _: partition, print=str, verify=verify_partition
)


def _kernels(
    partition: Partition, machine: Machine, runner: PassRunner, kept: KnownGroups | None
) -> BuiltProgram:
    """Take a partition to a program of scheduled kernels with a plan of memory."""
    built = build_program(partition, machine, runner, kept)
    if kept is not None:
        kept.write()
    program = run_program_passes(built.program, Scheduled(machine, dict(built.alone)), runner)
    return replace(built, program=program)


def compile_program(lowered: Lowered, options: CompileOptions) -> Compiled:
    """Take a program to a native function in this process."""
    program, target, opt_level = lowered.program, options.target, options.opt_level
    there = program.kernels if options.cache else ()
    kernels = KnownKernels(there, target, opt_level, lowered.printed)
    leaves = KnownLeaves(target, opt_level) if options.cache else None
    find = no_leaf if leaves is None else leaves.find
    emitted = emit_linkable(program, target, kernels.found(), find)
    name = code_name(emitted, target, opt_level)
    code = machine_code(
        emitted,
        target,
        opt_level,
        is_shared=options.cache,
        emit=lambda: emit_linkable(program, target),
    )
    if leaves is not None:
        kernels.keep(emitted)
        leaves.note(emitted)
    return Compiled(emitted.emitted, emitted.is_whole, code, name)


def emit_linkable(
    program: Program,
    target: Target,
    known: Mapping[str, KnownKernel] = NONE_KNOWN,
    find: FindLeaf = no_leaf,
) -> LinkableModule:
    """Emit the module of a program, with the names that its kernels are linked by.

    Kernels that are `known` are declared only, and so are leaf functions that `find` knows.
    """
    names = [kernel.name for kernel in program.kernels]
    return LinkableModule(emit_module(program, target, known=known, find=find), STEP, names, known)
