"""Broken programs as text: what the verifier says of each, and where."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from symgrad.codegen.program.language import Launch
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.registers import schedule_registers
from symgrad.codegen.program.verify import verify_instrs, verify_program
from symgrad.codegen.target import target_named
from tests.support.program_texts import ROWS, WHOLE

ROW = "[iteration of loop 0]"


@pytest.mark.parametrize("text", [WHOLE, ROWS])
def test_what_is_broken_below_is_well_formed(text):
    verify_program(parse_program(text))


# What is replaced in a program, by what, and what the verifier says then.
MEMORY = [
    ("arena(192)", "arena(64)", "temporary2 is at 64..72, outside 0..64"),
    ("at 128 alive 3 to 3", "at 64 alive 3 to 3", "temporary3 and temporary2 overlap"),
    ("at 128 alive 3 to 3", "alive 3 to 3", "temporary3 has no place in the arena"),
    ("at 64 alive 1 to 5", "at 65 alive 1 to 5", "temporary2 of i64[] is at 65"),
    ("at 64 alive 1 to 5", "at 64 alive 1 to 4", "temporary2 is alive 1 to 5, not 1 to 4"),
    ("at 64 alive 1 to 5", "at 64", "temporary2 is alive 1 to 5, not at no time"),
    (
        "  temporary0:",
        "  temporary7: i64[] at 0 alive 0 to 0\n  temporary0:",
        "temporary7 is alive",
    ),
    ("temporary0: u8[64]", "temporary0: f32[16]", "the scratch memory of @f.0 is temporary0"),
    ("temporary0: u8[64]", "temporary0: u8[8]", "temporary1 is at 0..16, outside 0..8"),
    ("temporary1: f32[4] at 0", "temporary1: f32[4] at 60", "is at 60..76, outside 0..64"),
    ("temporary1: f32[4] at 0", "temporary1: f32[4]", "temporary1 has no place in the arena"),
    ("scratch(temporary0)", "scratch(temporary2)", "memory of @f.0 is temporary2: i64[]"),
]
ROUTINES = [
    ("call @f.0(input0)", "call @f.0(input0, input0)", "(2, 1) inputs and outputs for (1, 1)"),
    ("call @f.0(input0)", "call @f.0(temporary2)", "input 0 of @f.0 is i64[]"),
    ("-> (output0)", "-> (input0)", "input0 is written"),
    ("call @f.0(input0)", "call @f.0(output0)", "output 0 of @f.0 overlaps another operand"),
    ("(input0, temporary1)", "(input0, variable0[1])", "b1 is 1..5 of 4 elements"),
    ("(input0, temporary1)", "(output0, input0)", "input0 is written"),
]
KERNELS = [
    ("launch @k3(temporary2)", "launch @k3()", "0 arguments for 1 parameters"),
    ("launch @k3(temporary2)", "launch @k3(constant0)", "b0 is i64, but its memory holds f32"),
    ("(temporary1, output0)", "(temporary1, constant0)", "b1 is 0..4 of 2 elements"),
    ("(temporary1, output0)", "(output0, output0)", "b0 and b1 overlap"),
]
LOOPS = [
    ("arena(192)", "arena(192) polls(7: 20)", "loop 7 polls and does not exist"),
    ("arena(192)", "arena(192) polls(0: 0)", "an iteration of loop 0 counts 0 cycles"),
    ("} temporary3 {", "} temporary2 {", "what says how to go on is i64[], but its memory"),
    ("-> temporary2 {", "-> temporary3 {", "what says how to go on is bool[], but its memory"),
    ("-> temporary2 {", "-> input1 {", "input1 is written"),
    ("inout temporary2", "in temporary2", "temporary2 is written and not written back"),
    ("inout temporary2", "inout input0", "input0 is in a register and not in the loop"),
    ("inout temporary2", "local temporary2", "temporary2 is in a register only, and named outside"),
    ("local temporary3", "inout temporary2", "two registers are called temporary2"),
    (
        "    launch @k1(temporary2, input1, temporary3)  // less\n",
        "    launch @k1(temporary2, input1, temporary3)  // less\n"
        "    scan loop 1 input1 at most 1 registers(in input1) {\n    }\n",
        "a loop within one that has registers has some of its own",
    ),
]
OF_ROWS = [
    ("loop 0 input1", "loop 0 input2", "what says how to go on is f32[40]"),
    ("at most 3", "at most 4", "4 slices of 4 elements do not fill 12"),
    (
        f"input0{ROW}, output0",
        "input0[iteration of loop 1], output0",
        "loop 1, which is not around",
    ),
    (f"output0{ROW}", "output0[iteration of loop 0: f32[3]]", "3 slices of 3 elements do not fill"),
    (f"output0{ROW}", "output0[iteration of loop 0: i32[4]]", "a slice is i32"),
    (f", tape0{ROW}", ", tape0[iteration of loop 0: f32[2]]", "a slice of 2 elements on a tape"),
    (f"tapes(tape0{ROW})", f"tapes(output0{ROW})", "output0 grows and is no tape"),
    (f"tapes(tape0{ROW})", "registers(in input0)", "input0 is in a register and needs an address"),
    ("  scan", "  scan loop 0 input1 at most 1 {\n  }\n  scan", "two loops are called 0"),
    (" else (3)", "", "0 statuses for the 1 of @k1"),
    ("else (3)", "else (0)", "a status of a failure is not positive"),
    (f"output0{ROW})", f"output0{ROW}) else (1)", "1 statuses for the 0 of @k0"),
    ("in 40 else 1", "in 41 else 1", "0..40"),
]


BROKEN = [(WHOLE, *row) for row in (*MEMORY, *ROUTINES, *KERNELS, *LOOPS)]
BROKEN += [(ROWS, *row) for row in OF_ROWS]


@pytest.mark.parametrize(("text", "old", "new", "message"), BROKEN, ids=[b[3] for b in BROKEN])
def test_a_broken_program_is_refused(text, old, new, message):
    assert old in text
    program = parse_program(text.replace(old, new, 1))
    with pytest.raises(AssertionError, match=re.escape(message)):
        verify_program(program)


def test_the_instruction_is_named():
    program = parse_program(ROWS.replace("at most 3", "at most 4"))
    with pytest.raises(AssertionError) as error:
        verify_program(program)
    assert error.value.__notes__ == ["in: launch @k0  // add", "in: scan loop 0"]


def test_a_number_is_that_of_one_temporary():
    program = parse_program(WHOLE.replace("temporary1", "temporary3"))
    with pytest.raises(AssertionError, match=r"temporary3 is f32\[4\] and bool\[\]"):
        verify_program(program)


def test_a_temporary_of_a_routine_is_of_no_use_outside():
    text = WHOLE.replace("  temporary2:", "  temporary1: f32[4] at 0\n  temporary2:")
    text = text.replace("  call", "  launch @k0(input0, temporary1)\n  call")
    with pytest.raises(AssertionError, match=r"temporary1 is of @f\.0 and of the program"):
        verify_program(parse_program(text))


def test_a_label_is_one_line():
    program = parse_program(WHOLE)
    instrs = tuple(
        replace(i, label="two\nlines") if isinstance(i, Launch) else i for i in program.instrs
    )
    with pytest.raises(AssertionError, match="a label is one line"):
        verify_program(replace(program, instrs=instrs))


def test_instructions_are_verified_before_memory_is_laid_out():
    text = re.sub(r" at \d+( alive \d+ to \d+)?\n", "\n", WHOLE).replace("arena(192)", "arena(0)")
    program = parse_program(text)
    verify_instrs(program)
    verify_instrs(schedule_registers(program, target_named("x86-64-v3")))
    with pytest.raises(AssertionError, match="has no place in the arena"):
        verify_program(program)
