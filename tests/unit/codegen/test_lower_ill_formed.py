"""Lowering says what is wrong with a partition that no kernel can compute."""

from __future__ import annotations

from dataclasses import replace

import pytest

import symgrad as sg
from symgrad.codegen.lower.groups import lower_group
from symgrad.graph.node import Tensor
from symgrad.passes.fusion.buffers import assign_buffers
from symgrad.passes.fusion.partition import FusionGroup, Partition
from tests.support.programs import partition_of, program_of


def _merged(result: Tensor, anchor: int) -> Partition:
    """Return `result` in one group with what it is computed from, whatever that is."""
    partition = partition_of(result)
    first, second = partition.groups
    nodes = (*first.nodes, *second.nodes)
    group = FusionGroup(
        nodes, nodes[anchor], second.outputs, first.inputs, second.outputs[0].type.static_shape
    )
    return replace(partition, groups=(group,))


def _build(partition: Partition) -> None:
    program_of(partition)


def test_an_epilogue_of_what_is_written_in_pieces_is_refused_by_name():
    partition = _merged(sg.exp(sg.pad(sg.placeholder((3,)), ((1, 1),))), anchor=0)
    with pytest.raises(AssertionError, match=r"pad.* is written to memory and is no result"):
        _build(partition)


def test_a_kernel_that_reads_what_no_kernel_leaves_in_memory_is_refused_by_name():
    x = sg.placeholder((3, 3))
    partition = partition_of(sg.exp(sg.flip(sg.matmul(x, x), axis=0)))
    *_, last = partition.groups
    alone = replace(partition, groups=(last,))
    with pytest.raises(AssertionError, match=r"einsum.* is read from memory and no kernel leaves"):
        _build(alone)
    with pytest.raises(AssertionError, match=r"einsum.* is read from memory and no kernel leaves"):
        lower_group(alone, assign_buffers(alone), last, "k")


def test_an_anchor_that_has_no_loops_of_its_own_is_refused():
    x = sg.placeholder((3,))
    partition = partition_of(sg.exp(x))
    (group,) = partition.groups
    anchored = replace(group, anchor=group.nodes[0])
    with pytest.raises(AssertionError, match=r"exp.* is no anchor"):
        lower_group(partition, assign_buffers(partition), anchored, "k")
