"""Structures: what each declares of itself goes together."""

from __future__ import annotations

from typing import get_args

import pytest

from symgrad.graph.structures import Extern, KernelSpec, Nested, Scatter, Traits, traits_of

STRUCTURES = get_args(KernelSpec)
every_structure = pytest.mark.parametrize("structure", STRUCTURES, ids=lambda cls: cls.__name__)


@every_structure
def test_a_structure_declares_its_traits(structure):
    assert isinstance(structure.traits, Traits)
    assert structure.traits.home != "memory"


@every_structure
def test_what_runs_graphs_or_functions_between_kernels_is_an_instruction(structure):
    traits = structure.traits
    assert traits.is_instruction == (structure is Extern or structure in get_args(Nested))
    assert traits.is_instruction == (traits.operands == "whole")
    assert traits.writes_rows == (structure is Scatter)


@every_structure
def test_what_is_computed_where_it_is_used_is_finished_at_once(structure):
    traits = structure.traits
    if not traits.is_anchor:
        assert not traits.writes_piecewise
    if traits.is_reshape:
        assert traits.only_moves


def test_a_leaf_is_in_memory_and_costs_nothing():
    traits = traits_of(None)
    assert traits.home == "memory"
    assert traits.is_free
    assert not any((traits.is_inline, traits.is_anchor, traits.only_moves))
