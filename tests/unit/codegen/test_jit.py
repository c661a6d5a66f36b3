"""Optimizing, emitting and linking: `symgrad.codegen.native.jit`."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from symgrad.codegen.native.jit import LoadedCode, emit_assembly, emit_object, load_object, optimize
from symgrad.codegen.target import target_named

ROOT = Path(__file__).parents[3]
NATIVE = target_named("native")

COUNTER = """
@count = internal global i32 START
define i32 @next() {
  %before = load i32, ptr @count
  %after = add i32 %before, 1
  store i32 %after, ptr @count
  ret i32 %after
}
"""

CALLER = """
declare i32 @getpid()
define i32 @negated() {
  %id = call i32 @getpid()
  %minus = sub i32 0, %id
  ret i32 %minus
}
"""

LOOP = """
define void @square(ptr %p) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %place = getelementptr float, ptr %p, i64 %i
  %x = load float, ptr %place
  %y = fmul float %x, %x
  store float %y, ptr %place
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, 8
  br i1 %more, label %body, label %done
done:
  ret void
}
"""


def load(text: str, symbol: str, *, opt_level: int = 2, **imports: int) -> LoadedCode:
    image = emit_object(optimize(text, NATIVE, opt_level), NATIVE, opt_level)
    return load_object(image, [symbol], imports)


def next_of(code: LoadedCode) -> int:
    result: int = ctypes.CFUNCTYPE(ctypes.c_int)(code.address("next"))()
    return result


def negated(code: LoadedCode) -> int:
    result: int = ctypes.CFUNCTYPE(ctypes.c_int)(code.address("negated"))()
    return result


def executable_ranges() -> list[tuple[int, int]]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    fields = [line.split() for line in lines]
    starts_and_ends = [place.split("-") for place, mode, *_ in fields if "x" in mode]
    return [(int(start, 16), int(end, 16)) for start, end in starts_and_ends]


def is_executable(address: int) -> bool:
    return any(start <= address < end for start, end in executable_ranges())


def test_a_module_that_does_not_parse_is_refused_with_the_message_of_llvm():
    with pytest.raises(AssertionError, match="expected top-level entity"):
        optimize("nonsense", NATIVE, 2)


def test_a_module_that_does_not_verify_is_refused_with_the_message_of_llvm():
    text = """
    define i32 @f() {
      %a = add i32 %b, 1
      %b = add i32 %a, 1
      ret i32 %b
    }
    """
    with pytest.raises(AssertionError, match="does not dominate all uses"):
        optimize(text, NATIVE, 2)


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_code_of_every_opt_level_runs(opt_level):
    code = load(COUNTER.replace("START", "4"), "next", opt_level=opt_level)
    assert [next_of(code), next_of(code)] == [5, 6]


@pytest.mark.parametrize("opt_level", [1, 2, 3])
def test_a_loop_is_neither_unrolled_nor_vectorized(opt_level):
    text = str(optimize(LOOP, NATIVE, opt_level))
    assert text.count("fmul float") == 1
    assert "x float>" not in text


def test_the_object_and_the_assembly_are_of_the_target_asked_for():
    for name, machine in (("x86-64-v3", 62), ("aarch64", 183)):
        target = target_named(name)
        module = optimize(CALLER, target, 2)
        image = emit_object(module, target, 2)
        assert image[:4] == b"\x7fELF"
        assert int.from_bytes(image[18:20], "little") == machine
        assert "negated:" in emit_assembly(module, target, 2)
        assert target.triple in str(module)


def test_the_address_of_a_symbol_not_asked_for_is_a_broken_invariant():
    code = load(CALLER, "negated")
    with pytest.raises(AssertionError, match="count was not asked for"):
        code.address("count")


def test_undefined_symbols_come_from_the_imports_then_from_the_process():
    seven = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 7)
    address = ctypes.cast(seven, ctypes.c_void_p).value
    assert address is not None
    assert negated(load(CALLER, "negated")) == -os.getpid()
    assert negated(load(CALLER, "negated", getpid=address)) == -7


def test_an_undefined_symbol_that_nothing_defines_is_refused(capfd):
    with pytest.raises(AssertionError, match="linking negated: Failed to materialize"):
        load(CALLER.replace("@getpid", "@no_such_function"), "negated")
    with pytest.raises(AssertionError, match="Symbols not found"):
        load(CALLER, "thrice")
    assert capfd.readouterr() == ("", "")


def test_what_is_no_object_file_is_refused():
    with pytest.raises(AssertionError, match="valid object file"):
        load_object(b"not an object", ["f"])


def test_one_image_loaded_twice_has_two_states():
    image = emit_object(optimize(COUNTER.replace("START", "0"), NATIVE, 2), NATIVE, 2)
    first, second = load_object(image, ["next"]), load_object(image, ["next"])
    assert [next_of(first), next_of(first), next_of(second)] == [1, 2, 1]


def test_code_leaves_memory_when_nothing_refers_to_it():
    code = load(CALLER, "negated")
    address = code.address("negated")
    assert is_executable(address)
    del code
    gc.collect()
    assert not is_executable(address)


def test_hundreds_of_libraries_neither_collide_nor_stay():
    images = [
        emit_object(optimize(COUNTER.replace("START", str(start)), NATIVE, 0), NATIVE, 0)
        for start in (10, 20)
    ]
    before = len(executable_ranges())
    loaded = [load_object(images[index % 2], ["next"]) for index in range(300)]
    assert [next_of(code) for code in loaded] == [11, 21] * 150
    assert len(executable_ranges()) > before
    del loaded
    gc.collect()
    assert abs(len(executable_ranges()) - before) <= 2


def test_a_module_may_be_garbage_in_a_cycle_with_its_context():
    # Finalized in any order: a crash would end the process, so it is one of its own.
    program = f"""
import gc
from symgrad.codegen.target import target_named
from symgrad.codegen.native.jit import optimize
gc.disable()
native = target_named("native")
for _ in range(20):
    module = optimize('''{CALLER}''', native, 1)
    cycle = [module._context, module]
    cycle.append(cycle)
    del module, cycle
print(gc.collect() > 20)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"True\n", b"")


def test_threads_may_compile_and_load_at_once():
    def work(start: int) -> list[int]:
        text = COUNTER.replace("START", str(start))
        return [next_of(load(text, "next")) for _ in range(10)]

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(work, range(6), timeout=60))
    assert results == [[start + 1] * 10 for start in range(6)]


def test_a_process_ends_quietly_while_code_is_loaded():
    program = f"""
import ctypes
from symgrad.codegen.target import target_named
from symgrad.codegen.native.jit import emit_object, load_object, optimize
native = target_named("native")
code = load_object(emit_object(optimize('''{CALLER}''', native, 1), native, 1), ["negated"])
negated = ctypes.CFUNCTYPE(ctypes.c_int)(code.address("negated"))
raise SystemExit(0 if negated() < 0 else 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
