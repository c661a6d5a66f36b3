"""What a step tells of itself: the text of its stages, its kernels, memory and times."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.cost_model import PER_BYTE_READ, PER_BYTE_WRITTEN
from symgrad.runtime.choices import STAGES

F32 = np.float32


def make() -> tuple[sg.Tensor, sg.Tensor]:
    return sg.placeholder((2, 3), name="x"), sg.placeholder((3,), name="y")


def test_every_stage_has_its_text():
    x, y = make()
    step = sg.compile([x, y], sg.sum(sg.tanh(x + y), axis=1), name="inspected")
    texts = {stage: step.ir(stage) for stage in STAGES}
    assert tuple(texts) == ("graph", "optimized", "loops", "llvm", "llvm-opt", "asm")
    assert texts["graph"].startswith("graph @inspected(%x: f32[2, 3], %y: f32[3]) -> f32[2] {")
    assert "partition @inspected(%x: f32[2, 3], %y: f32[3]) {" in texts["optimized"]
    assert "kernel @k0(in b0: f32[6], in b1: f32[3], out b2: f32[2]) {" in texts["loops"]
    assert "program @inspected arena(0) {" in texts["loops"]
    assert 'define i32 @"step"(' in texts["llvm"]
    assert re.search(r"define .*i32 @step\(", texts["llvm-opt"])
    assert "step:" in texts["asm"]


def test_a_kernel_has_its_own_text_at_every_stage():
    x = sg.placeholder((64, 64), name="x")
    inner = sg.tanh(x @ x)
    step = sg.compile([x], inner @ x)
    assert [k.name for k in step.kernels] == ["k0", "k1"]
    for stage, start, other in (
        ("graph", "%2 = einsum %1, %x", "tanh"),
        ("optimized", "group 1 (%1, %x) {", "tanh"),
        ("loops", "kernel @k1(", "@k0"),
        ("llvm", 'define internal void @"k1"(', '@"k0"'),
        ("llvm-opt", "define internal ", "@k0("),
        ("asm", "k1:", "k0:"),
    ):
        whole, text = step.ir(stage), step.ir(stage, kernel="k1")
        assert start in text
        assert other not in text
        assert all(line in whole for line in text.splitlines())


def test_a_kernel_says_what_it_computes_and_where_that_comes_from():
    x = sg.placeholder((64, 64), name="x")
    step = sg.compile([x], sg.tanh(x @ x), target="x86-64-v3")
    line = user_line(step)
    for stage, mark in (("loops", "//"), ("llvm", ";"), ("llvm-opt", ";"), ("asm", "#")):
        assert f"{mark} computes einsum, tanh\n{mark} from {line}\n" in step.ir(stage, kernel="k0")


def user_line(step: sg.Step) -> str:
    (record,) = step.kernels
    (line,) = record.lines
    return line


def test_what_a_kernel_calls_is_part_of_it_and_what_calls_it_is_not():
    x = sg.placeholder((64, 64), name="x")
    step = sg.compile([x], sg.tanh(x @ x) @ x)
    for stage in ("llvm", "llvm-opt", "asm"):
        text = step.ir(stage, kernel="k1")
        assert "contract.tile" in text
        assert "k0" not in text
        assert not re.search(r"@\"?step\b|^step:", text, re.MULTILINE)


def test_a_kernel_that_is_written_out_in_a_loop_has_the_code_of_the_loop():
    x = sg.placeholder((8,), name="x")
    step = sg.compile([x], sg.fori_loop(0, 5, lambda _i, v: v * 2, x) + 1)
    names = {record.label: record.name for record in step.kernels}
    for stage, loop in (("llvm", '@"step.loop.0"('), ("asm", "step.loop.0:")):
        text = step.ir(stage, kernel=names["multiply"])
        assert loop in text
        assert ", multiply\n" in text
        assert "step.loop" not in step.ir(stage, kernel=names["add"])


def test_a_kernel_has_a_record_of_what_it_computes():
    x, y = make()
    step = sg.compile([x, y], sg.exp(sg.sum(x * y, axis=1)))
    (record,) = step.kernels
    assert [op for op in record.ops if op != "broadcast_to"] == ["multiply", "sum", "exp"]
    assert record.lines
    assert all("test_stages.py:" in line for line in record.lines)
    assert record.bytes == 4 * (6 + 3 + 2)
    assert record.flops == 6 + 6 + 2 * 12
    assert record.label in str(step.kernels)


def test_memory_is_told_in_bytes():
    x = sg.placeholder((16, 16), name="x")
    w = sg.variable(np.zeros((16, 16), F32))
    step = sg.compile([x], sg.tanh(x @ w) @ w)
    memory = step.memory
    assert memory.arena_bytes == 16 * 16 * 4
    assert memory.state_bytes == 16 * 16 * 4
    assert memory.peak_bytes == memory.arena_bytes + memory.state_bytes + memory.constant_bytes
    assert [(b.offset, b.bytes, b.first, b.last) for b in memory.buffers] == [(0, 1024, 0, 1)]


def test_a_profile_has_a_row_a_kernel_and_changes_no_state():
    w = sg.variable(np.ones((32, 32), F32))
    x = sg.placeholder((32, 32))
    step = sg.compile([x], sg.sum(x @ w), [(w, w * 0.5)])
    found = step.profile(np.ones((32, 32), F32), repeat=3)
    assert len(found.rows) == len(step.kernels)
    assert sum(row.share for row in found.rows) == pytest.approx(1.0)
    assert all(row.seconds > 0 for row in found.rows)
    np.testing.assert_array_equal(w.value, np.ones((32, 32)))


def test_a_step_says_what_it_takes_and_gives():
    x, y = make()
    assert repr(sg.compile([x, y], x + y, name="f")) == "<Step f(f32[2, 3], f32[3]) -> (f32[2, 3])>"


def test_a_kernel_says_why_its_results_are_in_memory():
    x = sg.placeholder((16, 16), name="x")
    hidden = sg.tanh(x @ x)
    step = sg.compile([x], hidden @ hidden)
    first, second = step.kernels
    assert first.boundary == ("a product reads it many times",)
    assert second.boundary == ("it is a result of the program",)
    assert "a product reads it many times" in str(step.kernels)


def test_a_kernel_that_was_two_says_what_both_would_have_read_and_written():
    x, y = sg.placeholder((8192, 256)), sg.placeholder((8192,))
    w = sg.variable(np.zeros(256, F32))
    loss = sg.nn.binary_cross_entropy_with_logits(x @ w, y)
    step = sg.compile([x, y], loss, sg.optim.SGD(0.1).minimize(loss))
    (swept,) = (k for k in step.kernels if k.bytes > 8192 * 256 * 4)
    found = re.fullmatch(
        r"one of 2 kernels, which read and write ([\d,]+) bytes: ([\d,]+) as one", swept.reasons[0]
    )
    assert found is not None
    apart, as_one = (int(text.replace(",", "")) for text in found.groups())
    assert as_one == swept.bytes
    assert apart >= 2 * 8192 * 256 * 4 > as_one  # x is read once
    (alone,) = sg.compile([x], x @ w).kernels
    assert not any(reason.startswith("one of ") for reason in alone.reasons)


def test_the_body_of_a_loop_is_shown_with_its_groups_and_reasons():
    x, n = sg.placeholder((64, 64), name="x"), sg.placeholder((), "int64", name="n")
    last = sg.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, sg.tanh(y @ x)), (0, x))[1]
    step = sg.compile([x, n], last)
    name = next(k.name for k in step.kernels if "einsum" in k.ops)
    whole, text = step.ir("optimized"), step.ir("optimized", kernel=name)
    assert whole.startswith("partition @step(")
    assert whole.count("\npartition @") == 2  # the condition and the body
    assert " = einsum " in text
    assert " = while " not in text
    record = next(k for k in step.kernels if k.name == name)
    assert record.boundary


def test_decisions_are_told_with_their_reasons():
    h, w = sg.placeholder((8, 30), name="h"), sg.placeholder((30, 30), name="w")
    last = sg.fori_loop(0, 6, lambda i, v: sg.tanh(v @ w), h)
    step = sg.compile([h, w], sg.gradients(sg.sum(last), [h, w]))
    (kept,) = {d for d in step.decisions if d.rule == "rematerialise" and d.op == "tanh"}
    assert re.fullmatch(
        r"kept: 960 bytes an iteration, and \d+ ps to compute it again, "
        rf"{(PER_BYTE_READ + PER_BYTE_WRITTEN) * 960 + 1} ps to keep it",
        kept.reason,
    )
    assert "test_stages.py" in kept.line
    assert kept.reason in str(step.decisions)


def test_a_step_without_loops_has_decided_nothing():
    x, y = make()
    assert sg.compile([x, y], x + y).decisions == ()


def test_what_is_fused_away_is_counted():
    x = sg.placeholder((16, 8), name="x")
    w = sg.variable(np.zeros((8, 4), F32))
    step = sg.compile([x], sg.sum(sg.tanh(x @ w) * 2.0, axis=0))
    memory = step.memory
    # The product is in the memory of no one, if its epilogue computes the rest; the sum ends it.
    fused = {(f.op, f.type): (f.count, f.bytes) for f in memory.fused}
    in_memory = {t for group in step.executable.sources.groups.values() for t in group.outputs}
    written = {(t.node.op, str(t.type)) for t in in_memory}
    assert ("sum", "f32[4]") in written
    assert fused.keys().isdisjoint(written)
    assert fused.keys() | written == {
        ("einsum", "f32[16, 4]"), ("tanh", "f32[16, 4]"), ("multiply", "f32[16, 4]"),
        ("sum", "f32[4]"),
    }  # fmt: skip
    assert all(found == (1, 16 * 4 * 4) for found in fused.values())
    assert memory.fused_bytes == 256 * len(fused) > 0
    assert f"fused away: {len(fused)} results, {memory.fused_bytes} bytes" in str(memory)
