"""A step that fails leaves its state as it was: no pass over programs moves an update forward.

Random programs run on input that is good, and so do not see it: it is looked for in the order of
the instructions.
"""

from __future__ import annotations

import pytest

from symgrad.codegen.program.language import Launch, Program
from symgrad.codegen.program.registers import written_by
from symgrad.passes.fusion.buffers import Buffer
from tests.support.floors import program_for
from tests.support.fuzz_families import FAMILIES
from tests.support.schedules import sweeps_fused


def written_before_it_may_end(program: Program) -> set[Buffer]:
    """Return the variables that are written before something that the step may end with."""
    found: set[Buffer] = set()
    written: set[Buffer] = set()
    for instr in program.instrs:
        if not isinstance(instr, Launch) or instr.kernel.can_fail:
            found |= written
        written |= {b for b in written_by([instr]) if b.place == "variable"}
    return found


# The last ones of a family have sweeps that could be one but for a check between them.
@pytest.mark.parametrize(
    ("family", "seed"),
    [
        *(("training", seed) for seed in (*range(8), 21, 38, 46, 52)),
        *((family, seed) for family in ("ops", "control", "complex") for seed in range(4)),
    ],
)
def test_fused_launches_write_no_variable_earlier(family: str, seed: int) -> None:
    graph = FAMILIES[family].program(seed)[0]
    apart = written_before_it_may_end(program_for(graph))
    with sweeps_fused():
        assert written_before_it_may_end(program_for(graph)) <= apart
