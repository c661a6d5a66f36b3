"""Targets that multiply bfloat16 in pairs of terms, whatever the CPU of the tests has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest

from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.plans import search
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.codegen.matrix_unit import may_use_tiles
from symgrad.codegen.target import Target, target_named

_V4 = target_named("x86-64-v4")
DOT = replace(_V4, name="dot", features=f"{_V4.features},+avx512bf16", bfloat16_unit="dot")
MATRIX = replace(
    _V4, name="matrix", features=f"{_V4.features},+amx-tile,+amx-bf16", bfloat16_unit="matrix"
)
# Those that can be run here.
UNITS = (
    pytest.param(DOT, id="dot", marks=pytest.mark.isa("avx512bf16")),
    pytest.param(MATRIX, id="matrix", marks=pytest.mark.isa("amx-bf16")),
)


def ask_for(unit: Target) -> None:
    """Ask Linux for the tile registers if `unit` has them, and skip the test if it refuses."""
    if unit.bfloat16_unit == "matrix" and not may_use_tiles():
        pytest.skip("the tile registers were not granted")


@contextmanager
def pairs_only() -> Iterator[None]:
    """Have products of bfloat16 multiplied in pairs of terms, also where that is not cheapest."""
    every_way = search._ways

    def ways(
        plan: ContractPlan, result: Operand, target: Target, borders: tuple[ZeroBorder, ...]
    ) -> list[tuple[float, ContractPlan]]:
        found = every_way(plan, result, target, borders)
        return [way for way in found if way[1].multiplies_pairs] or found

    with mock.patch.object(search, "_ways", ways):
        search.plan_contract.cache_clear()
        yield
    search.plan_contract.cache_clear()
