"""Entries are closures: steps of many sizes have few of them, and give what they give without."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.llvm.entry_closure import EntryClosure, entry_closure
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.native import objects
from symgrad.codegen.native.jit import emit_calls
from symgrad.codegen.target import Target, target_named
from symgrad.config import override

KERNEL, LEAF = f"k.{'1' * 32}", f"leaf.{'2' * 32}"
SYMBOLS = {"k0": KERNEL, "tile": LEAF}
F32, I32, I64, PTR = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.PointerType()
SIZES = [24, 36, 48, 60, 24, 72]
W = np.sin(np.arange(24 * 40, dtype=np.float32)).reshape(24, 40)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a cache of this test alone, and nothing in memory."""
    for name in ("_loaded", "_leaves", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    with override(cache=True, cache_dir=str(tmp_path)):
        yield


def forget() -> None:
    """Be as a process that has compiled nothing yet."""
    for name in ("_loaded", "_leaves", "_closed"):
        getattr(code_module, name).clear()


def trained() -> tuple[sg.Step, list[bytes]]:
    """Train for batches of several sizes; returns the step, and the bits of what it gave."""
    x, w = sg.placeholder((None, 24)), sg.variable(W)
    loss = (sg.tanh(x @ w) ** 2).mean()
    (gradient,) = sg.gradients(loss, [w])
    step = sg.compile([x], loss, [(w, w - 0.3 * gradient)], opt_level=1)
    given = (np.cos(np.arange(n * 24, dtype=np.float32)).reshape(n, 24) for n in SIZES)
    losses = [np.asarray(step(batch)).tobytes() for batch in given]
    return step, [*losses, np.asarray(w.value).tobytes()]


class Entry:
    """An entry that is being built, of one call up to the return."""

    def __init__(self, number: ir.Constant, takes: int = 3) -> None:
        module = ir.Module()
        module.triple = "x86_64-unknown-linux-gnu"
        void = ir.VoidType()
        taken = [PTR, PTR, I64, F32, ir.IntType(1)]
        self.kernel = ir.LLVMFunction(module, ir.FunctionType(void, taken), "k0")
        self.leaf = ir.LLVMFunction(module, ir.FunctionType(void, [PTR]), "tile")
        self.step = ir.LLVMFunction(module, ir.FunctionType(I32, [PTR] * takes), "step")
        self.step.attributes |= {"noinline", "optnone"}
        self.builder = builder = ir.IRBuilder(self.step.append_basic_block("entry"))
        place = builder.gep(self.step.args[2], [I64(1)], source_etype=PTR, inbounds=True)
        arena = builder.load(place, typ=PTR, align=8)
        given = [builder.byte_offset(arena, I64(1536)), self.leaf, number]
        _, self.call = builder.call_of(self.kernel, [*given, F32(1 / 30), ir.IntType(1)(1)])

    def closure(self) -> EntryClosure | None:
        self.builder.ret(I32(0))
        return entry_closure(self.step, SYMBOLS)


def test_what_is_passed_is_loaded_from_in_front_of_the_table():
    found = Entry(I64(-3)).closure()
    assert found is not None
    bits = int(np.float32(1 / 30).view(np.int32))
    assert found.passed == (1536, KERNEL, LEAF, -3, bits)
    assert "@" not in found.text.replace('@"step"', "")
    lines = found.text.splitlines()
    assert "  %at4 = getelementptr inbounds i8, ptr %.2, i64 -40" in lines
    assert "  %passed4 = load float, ptr %at4, align 8" in lines
    call = r"call void %passed1\(ptr %\.\d+, ptr %passed2, i64 %passed3, float %passed4, i1 true\)"
    assert re.search(call, found.text)
    assert "  %.3 = getelementptr inbounds ptr, ptr %.2, i64 1" in lines
    assert emit_calls(found.text, target_named("native"))


def test_what_a_call_passes_to_a_merged_kernel_is_loaded_too():
    entry = Entry(I64(-3))
    taken = [*entry.kernel.function_type.takes, I64]
    kind = ir.FunctionType(ir.VoidType(), taken)
    merged = ir.LLVMFunction(entry.step.module, kind, "similar")
    entry.call.redirect(merged, [I64(7)])
    found = entry_closure(entry.step, {**SYMBOLS, "similar": "k.of.both"})
    assert found is not None
    assert found.passed[1:4] == ("k.of.both", LEAF, -3)
    assert found.passed[-1] == 7


@pytest.mark.parametrize("number", [I64(2**64 - 3), ir.Literal(I64, str(2**64 - 3))])
def test_numbers_without_a_sign_are_passed_in_their_64_bits(number: ir.Constant) -> None:
    found = Entry(number).closure()
    assert found is not None
    assert found.passed[3] == -3


def test_what_does_more_than_call_kernels_is_no_closure():
    optimized, other, routine, hidden = (
        Entry(I64(1)),
        Entry(I64(1)),
        Entry(I64(1), 4),
        Entry(I64(1)),
    )
    optimized.step.attributes.remove("optnone")
    kind = ir.FunctionType(ir.VoidType(), [PTR])
    other.builder.call_of(ir.LLVMFunction(other.step.module, kind, "memcpy"), other.step.args[:1])
    hidden.builder.call(hidden.leaf, hidden.step.args[:1])
    assert [each.closure() for each in (optimized, other, routine, hidden)] == [None] * 4


def test_steps_of_many_sizes_give_the_bits_that_they_give_without_a_cache():
    with override(cache=False):
        _, wanted = trained()
    forget()
    step, found = trained()
    assert found == wanted
    codes = [executable.code for executable, _ in step._compiled.values()]
    assert len([code for code in codes if code.passed]) >= 3
    forget()
    again, found = trained()  # as a process after this one
    assert found == wanted
    assert all(e.code.passed for e, _ in [*again._compiled.values()][1:])


def test_few_entries_are_compiled_for_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def noted(text: str, target: Target) -> bytes:
        texts.append(text)
        return emit_calls(text, target)

    monkeypatch.setattr(objects, "emit_calls", noted)
    step, _ = trained()
    assert len(step._compiled) == len(set(SIZES))
    assert len(texts) == len(set(texts)) < len(set(SIZES)) - 1


def test_kernels_are_in_memory_as_long_as_a_step_calls_them():
    kept = trained()
    assert code_module._closed
    code_module._loaded.clear()
    gc.collect()
    assert code_module._closed
    assert kept[1] == trained()[1]
    del kept
    code_module._loaded.clear()
    gc.collect()
    assert not code_module._closed


def test_where_an_object_is_damaged_a_program_is_compiled_again(tmp_path: Path) -> None:
    _, wanted = trained()
    for path in (tmp_path / "objects").glob("*.object"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    forget()
    assert trained()[1] == wanted


def test_names_of_what_is_passed_are_no_names_of_blocks() -> None:
    entry = Entry(I64(-3))
    for _ in range(5):
        block = entry.builder.append_basic_block("passed")
        entry.builder.branch(block)
        entry.builder.position_at_end(block)
    found = entry.closure()
    assert found is not None
    assert emit_calls(found.text, target_named("native"))


def test_a_failure_in_a_kernel_of_another_program_is_returned():
    x, at, y = sg.placeholder((50,)), sg.placeholder((3,), "int64"), sg.placeholder((70,))
    for scan in (sg.cumsum, sg.cumprod):
        step = sg.compile([x, at, y], [x[at] * 3.0, scan(y)], opt_level=1)
        given = np.arange(50, dtype=np.float32), np.ones(70, np.float32)
        found, _ = step(given[0], np.array([1, 2, 49]), given[1])
        np.testing.assert_array_equal(found, np.array([3.0, 6.0, 147.0], np.float32))
        with pytest.raises(IndexError, match="index 50 is out of range"):
            step(given[0], np.array([1, 50, 2]), given[1])
    assert step.executable.code.passed
