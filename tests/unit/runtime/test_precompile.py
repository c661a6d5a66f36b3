"""Leaf functions that were compiled before any program: found, right or made anew, never needed."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.__main__ import main
from symgrad.codegen import ir
from symgrad.codegen.contract.kernels import leaf_functions
from symgrad.codegen.native import known_leaves, object_store, objects
from symgrad.codegen.native.known_leaves import KnownLeaves
from symgrad.codegen.native.object_store import EntryKey, ObjectStore
from symgrad.codegen.target import target_named
from symgrad.commands import caching
from symgrad.compiler import emit_linkable
from symgrad.config import override
from symgrad.runtime.precompile import Precompilation, precompile, samples
from tests.support.precompiled import SAMPLE, clear, compiled, forget, layer, store, wide_samples

ROOT = Path(__file__).parents[3]
__all__ = ["compiled", "store"]  # fixtures


def test_a_layer_of_another_width_finds_what_was_precompiled(store, compiled):
    alone = layer()
    assert len(compiled) == 1
    forget()
    clear()
    assert precompile(wide_samples()).compiled > 0
    compiled.clear()
    assert np.array_equal(layer(), alone)
    assert compiled == []
    forget()
    clear()
    with override(precompiled=False):
        assert np.array_equal(layer(), alone)
    assert len(compiled) == 1


@pytest.fixture
def emitted(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> list[leaf_functions.Leaf]:
    """Note the leaf functions of which text is made, when some were precompiled."""
    monkeypatch.setattr(known_leaves, "leaf_version", lambda: "this compiler")
    precompile(wide_samples())
    forget()
    made: list[leaf_functions.Leaf] = []
    emit = leaf_functions._emit

    def note(module: ir.Module, leaf: leaf_functions.Leaf) -> ir.LLVMFunction:
        made.append(leaf)
        return emit(module, leaf)

    leaf_functions._emitted.cache_clear()
    monkeypatch.setattr(leaf_functions, "_emit", note)
    return made


def test_no_text_is_made_of_what_was_precompiled(emitted, compiled):
    with override(precompiled=False):
        alone = layer()
    assert emitted
    forget()
    clear()
    leaf_functions._emitted.cache_clear()
    emitted.clear()
    compiled.clear()
    assert np.array_equal(layer(), alone)
    assert (emitted, compiled) == ([], [])


def test_no_version_is_asked_for_by_a_program_without_products(emitted, monkeypatch):
    asked = []
    monkeypatch.setattr(known_leaves, "leaf_version", lambda: asked.append(1))
    x = sg.placeholder((40,))
    sg.compile([x], sg.cumsum(x))
    assert not asked
    layer()
    assert asked


def test_kernels_have_the_same_names_and_code_whether_tiles_are_known_or_not(emitted):
    a, b = sg.placeholder((32, 192)), sg.placeholder((192, 48))
    step = sg.compile([a, b], sg.tanh(a @ b + 1.0))
    program, target = step.executable.program, step.executable.options.target
    known = emit_linkable(program, target, find=KnownLeaves(target, 3).find)
    whole = emit_linkable(program, target)
    assert (known.is_whole, whole.is_whole) == (False, True)
    assert known.entry == whole.entry
    assert known.kernels == whole.kernels
    texts = (module.text(module.kernels) for module in (known, whole))
    assert len({objects.compile_object(text, target, 3) for text in texts}) == 1


def test_stages_and_exports_of_a_step_with_known_tiles_are_whole(emitted, tmp_path):
    a, b = sg.placeholder((32, 192)), sg.placeholder((192, 48))
    step = sg.compile([a, b], sg.tanh(a @ b + 1.0))
    assert 'define internal void @"contract.tile"' in step.ir("llvm")
    assert "contract.tile" in step.ir("asm")
    x, w = np.ones((32, 192), np.float32), np.ones((192, 48), np.float32)
    step.export(tmp_path / "layer")
    assert np.array_equal(sg.load(tmp_path / "layer")(x, w), step(x, w))


def test_a_known_tile_whose_object_is_gone_is_made_anew(emitted, store, compiled):
    for path in store.folder.glob("*.precompiled"):
        path.unlink()
    layer()
    assert emitted
    assert len(compiled) == 1


def test_programs_read_the_entry_of_a_known_tile_once(emitted, monkeypatch):
    layer()
    forget()
    clear()
    monkeypatch.setattr(KnownLeaves, "_read", lambda *_: pytest.fail("read again"))
    layer()
    assert not emitted


def test_what_is_there_is_not_compiled_again(store, compiled):
    first = precompile([SAMPLE])
    assert first == Precompilation(len(compiled), len(compiled), is_whole=True)
    assert precompile([SAMPLE]) == Precompilation(0, 0, is_whole=True)
    assert len(compiled) == first.compiled > 0


def test_precompiled_code_is_that_of_the_program(store, monkeypatch):
    made: list[bytes] = []

    def note(_store: ObjectStore, _key: EntryKey, image: bytes) -> bool:
        made.append(image)
        return True

    monkeypatch.setattr(ObjectStore, "write", note)
    precompile([SAMPLE])
    again = made.copy()
    made.clear()
    precompile([SAMPLE])
    assert made == again


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "readable by others"])
def test_damaged_entries_are_as_good_as_none(store, compiled, damage):
    alone = layer()
    forget()
    clear()
    precompile(wide_samples())
    for path, _ in store.entries():
        content = path.read_bytes()
        if damage == "readable by others":
            path.chmod(0o644)
        elif damage == "flipped":
            path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        else:
            path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    compiled.clear()
    assert np.array_equal(layer(), alone)
    assert len(compiled) == 1


def test_functions_for_another_cpu_are_not_found(store, compiled):
    precompile(wide_samples(), target_named("x86-64-v2"))
    compiled.clear()
    layer()
    assert len(compiled) == 1


def test_programs_do_not_push_out_what_was_precompiled(store):
    precompile([SAMPLE])
    there = sorted(path for path, _ in store.entries())
    with override(cache_megabytes=0):
        layer()
        layer(200)
    assert sorted(path for path, _ in store.entries()) == there


def test_samples_are_of_all_forms_and_few_enough():
    every = list(samples())
    assert {sample.is_transposed for sample in every} == {
        (False,) * 2,
        (True, False),
        (False, True),
    }
    assert {sample.follows for sample in every} == {"nothing", "activation", "update"}
    assert len(every) < 15_000


def test_the_command_precompiles_and_clears(store, capsys, monkeypatch):
    monkeypatch.setattr(caching, "precompile", lambda: precompile([SAMPLE]))
    assert main(["cache", "precompile"]) == 0
    assert "functions of products" in capsys.readouterr().out
    assert main(["cache"]) == 0
    assert "precompiled entries" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert list(store.entries()) == []
    with override(precompiled=False):
        assert main(["cache", "precompile"]) == 0
    assert "nothing is precompiled" in capsys.readouterr().out


def _refuse_writes(monkeypatch: pytest.MonkeyPatch, which: Callable[[EntryKey], bool]) -> None:
    """Have writes of some entries fail, as on a disk without room."""
    write = ObjectStore.write

    def refuse(self: ObjectStore, key: EntryKey, payload: bytes) -> bool:
        return not which(key) and write(self, key, payload)

    monkeypatch.setattr(ObjectStore, "write", refuse)


def test_the_command_says_how_much_could_not_be_kept(store, capsys, monkeypatch):
    monkeypatch.setattr(caching, "precompile", lambda: precompile([SAMPLE]))
    with monkeypatch.context() as full:
        full.setattr(object_store, "_new_file", _no_room)
        assert main(["cache", "precompile"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(r"of [1-9]\d* functions .* 0 are kept: the folder has no room", said.err)
    assert list(store.entries()) == []
    assert main(["cache", "precompile"]) == 0
    assert f"functions of products into {store.folder}" in capsys.readouterr().out


def _no_room(_: str) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("kind", ["precompiled", "declared", "final"])
def test_what_was_made_is_not_whole_if_entries_of_a_kind_could_not_be_kept(
    store, monkeypatch, kind
):
    with monkeypatch.context() as full:
        _refuse_writes(full, lambda key: key.kind == kind)
        made = precompile([SAMPLE])
    assert not made.is_whole
    assert made.kept == (made.compiled if kind == "final" else 0)
    declared = list(store.folder.glob("*.declared"))
    assert bool(declared) == (kind == "final")  # none whose function is not there
    assert precompile([SAMPLE]).is_whole


_PROCESS = """
from symgrad.runtime.precompile import Sample, precompile
follows = ("nothing", "activation", "update")
sizes = (32, 48, 64, 80)
made = precompile(Sample((32, 64, n), (False, False), f) for n in sizes for f in follows)
print(made.compiled, made.kept, made.is_whole)
"""


def test_processes_that_precompile_at_once_and_a_killed_one_leave_all_whole(store, tmp_path):
    environment = os.environ | {"SYMGRAD_CACHE": "1", "SYMGRAD_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _PROCESS]

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT)

    killed = begin()
    killed_store = ObjectStore(store.folder, store.limit)
    while not list(killed_store.entries()) and killed.poll() is None:
        pass
    killed.kill()
    killed.communicate()
    running = [begin() for _ in range(2)]
    for process in running:
        process.communicate()
        assert process.returncode == 0
    last = begin()
    assert last.communicate()[0].split() == [b"0", b"0", b"True"]
