"""Sums in shared memory, as machine code: what orders memory between processes."""

from __future__ import annotations

import re

import pytest

from symgrad.codegen.native.jit import emit_assembly, optimize
from symgrad.codegen.target import target_named
from symgrad.distributed.node_sums import emit_node_sums


def assembly_for(name: str) -> str:
    target = target_named(name)
    return emit_assembly(optimize(str(emit_node_sums(target)), target, 2), target, 2)


def test_words_of_other_ranks_are_acquired_and_own_ones_released_on_aarch64() -> None:
    text = assembly_for("aarch64")
    assert re.search(r"\bldapr\b|\bldar\b", text)
    # That a sum has been started, and that a part has been added.
    assert len(re.findall(r"\bstlr\b", text)) >= 2


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_sums_are_added_by_vectors_on_every_target(name: str) -> None:
    text = assembly_for(name)
    added = {
        "x86-64-v3": r"vaddps.*%ymm",
        "x86-64-v4": r"vaddps.*%[yz]mm",
        "aarch64": r"fadd\s+v\d+\.4s",
    }
    assert re.search(added[name], text)
