"""Copies that are left out: how often a kernel of very many is looked at."""

from __future__ import annotations

from unittest.mock import patch

from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.program.language import Launch, Program, root
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.place_results import place_results

LOOKS = "symgrad.codegen.program.place_results.buffers_used"
MAKER = """kernel @make(in a: f64[4], out b: f64[4]) {
  for i in 0..4 {
    x: f64 = a[i]
    y: f64 = exp(x)
    b[i] = y
  }
}
"""


def program_of(pieces: int) -> Program:
    """Return a program whose last kernel joins so many results of others."""
    params = "".join(f", in c{n}: f64[4]" for n in range(pieces))
    loops = "".join(
        f"  for i{n} in 0..4 {{\n    x{n}: f64 = c{n}[i{n}]\n    b[i{n} + {4 * n}] = x{n}\n  }}\n"
        for n in range(pieces)
    )
    join = f"kernel @join(out b: f64[{4 * pieces}]{params}) {{\n{loops}}}\n"
    places = "".join(f"  temporary{n}: f64[4]\n" for n in range(pieces))
    made = "".join(f"  launch @make(input0, temporary{n})\n" for n in range(pieces))
    read = "".join(f", temporary{n}" for n in range(pieces))
    head = f"program @step arena(0) {{\n  input0: f64[4]\n  output0: f64[{4 * pieces}]\n{places}"
    return parse_program(f"{MAKER}\n{join}\n{head}\n{made}  launch @join(output0{read})\n}}\n")


def test_a_kernel_of_many_copies_is_gone_through_a_few_times():
    program = program_of(24)
    with patch(LOOKS, wraps=buffers_used) as looked_at:
        placed = place_results(program)
    assert len(placed.instrs) == 24
    for instr in placed.instrs:
        assert isinstance(instr, Launch)
        assert root(instr.arguments[1]).place == "output"
    assert looked_at.call_count < 3 * 24
