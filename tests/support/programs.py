"""From tensors to groups, plain kernels and programs, without the passes that rewrite graphs.

What a test states is then what is fused, lowered and scheduled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.lower.groups import LoweredKernel, lower_group
from symgrad.codegen.program.build import build_program
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.passes import Scheduled, run_program_passes
from symgrad.codegen.program.source_map import BuiltProgram
from symgrad.codegen.schedule.kernel_pool import KernelPool
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.schedule.vectorize import coalesce, simplify_loops, vectorize
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import PASSES
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.passes.calls.expand import expand
from symgrad.passes.fusion.buffers import assign_buffers
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.passes.table import Options, PassRunner


def partition_of(*outputs: Tensor, updates: Sequence[Update] = ()) -> Partition:
    """Return the groups of the program with `outputs`, over the placeholders they reach."""
    return fuse(expand(Graph(outputs, updates=updates)))


def lowered_from(*outputs: Tensor, updates: Sequence[Update] = ()) -> list[LoweredKernel]:
    """Return the plain kernels of the groups, in order."""
    partition = partition_of(*outputs, updates=updates)
    buffers = assign_buffers(partition)
    groups = [group for group in partition.groups if not partition.is_left_out(group)]
    return [lower_group(partition, buffers, group, "k") for group in groups]


def kernel_from(*outputs: Tensor, updates: Sequence[Update] = ()) -> Kernel:
    """Return the plain kernel of a program of one group."""
    (lowered,) = lowered_from(*outputs, updates=updates)
    return lowered.kernel


def lines_of(kernel: Kernel) -> list[str]:
    """Return the text of a kernel line by line, without indentation."""
    return [line.strip() for line in print_kernel(kernel).splitlines() if line.strip()]


def program_from(
    *outputs: Tensor, updates: Sequence[Update] = (), target: str = "x86-64-v4"
) -> Program:
    """Return the program of scheduled kernels for `target`."""
    return program_of(partition_of(*outputs, updates=updates), target)


def built_from(
    *outputs: Tensor, updates: Sequence[Update] = (), target: str = "x86-64-v4"
) -> BuiltProgram:
    """Return the program of scheduled kernels for `target`, and where it comes from."""
    return built_of(partition_of(*outputs, updates=updates), target)


def program_of(partition: Partition, target: str = "native") -> Program:
    """Return the program of scheduled kernels for a partition."""
    return built_of(partition, target).program


def built_of(partition: Partition, target: str = "native") -> BuiltProgram:
    """Return the program of scheduled kernels for a partition, and where it comes from."""
    runner, machine = PassRunner(Options(), PASSES), Machine(target_named(target), ONE_THREAD)
    built = build_program(partition, machine, runner)
    given = Scheduled(machine, dict(built.alone))
    return replace(built, program=run_program_passes(built.program, given, runner))


def pool_for(target: Target, threads: Threads) -> KernelPool:
    """Return a pool that schedules kernels by all passes."""
    return KernelPool(Machine(target, threads), PassRunner(Options(), PASSES))


def schedule_kernel(kernel: Kernel, vector_bytes: int) -> Kernel:
    """Return `kernel` with its loops simplified, merged, ordered and marked for vectors."""
    target = target_named({16: "x86-64", 32: "x86-64-v3", 64: "x86-64-v4"}[vector_bytes])
    return vectorize(coalesce(simplify_loops(kernel)), target)


def ops_of(group: FusionGroup) -> list[str]:
    """Return the ops a group computes, in order, without those that only move elements."""
    moves = ("broadcast_to", "reshape", "permute_dims", "slice")
    return [node.op for node in group.nodes if node.op not in moves]


def grouped_ops(partition: Partition) -> list[list[str]]:
    """Return `ops_of` each group."""
    return [ops_of(group) for group in partition.groups]
