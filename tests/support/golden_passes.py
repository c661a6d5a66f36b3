"""The passes that golden files name, over graphs and over programs; the text says which it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from symgrad.codegen.program.arena import lay_out
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.print import print_program
from symgrad.codegen.program.registers import schedule_registers
from symgrad.codegen.program.verify import verify_instrs
from symgrad.codegen.target import target_named
from symgrad.graph.text.parse import parse_graph
from symgrad.passes.pipeline import run_passes

# Registers of 8 float32, 16 of them: 512 bytes.
_TARGET = target_named("x86-64-v3")

PROGRAM_PASSES: dict[str, Callable[[Program], Program]] = {
    "registers": lambda program: schedule_registers(program, _TARGET),
    "arena": lay_out,
}


def run_case(text: str, names: Sequence[str]) -> str:
    """Return the text of what the passes `names` make of a graph, or of a program."""
    if re.search(r"^program @", text, re.MULTILINE) is None:
        return str(run_passes(parse_graph(text), names))
    program = parse_program(text)
    for name in names:
        verify_instrs(program)
        program = PROGRAM_PASSES[name](program)
    verify_instrs(program)
    return print_program(program)
