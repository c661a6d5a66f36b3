"""What a package brings along: found by a first program, or as good as none, the same anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import target as target_module
from symgrad.codegen.contract.kernels import leaf_functions
from symgrad.codegen.native import known_leaves, objects, packed_store
from symgrad.codegen.native.compiler_version import _SOURCES_OF_LEAVES, sources_of_leaves
from symgrad.codegen.native.object_store import (
    EntryKey,
    ObjectStore,
    digest_of,
)
from symgrad.codegen.native.packed_store import _HEAD, _ROW, PackedStore, write_pack
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, emit_linkable, lower_graph
from symgrad.config import override
from symgrad.graph.graph import Graph
from symgrad.runtime import entry
from symgrad.runtime.precompile import Sample, pack, precompile
from tests.support.imported_sources import PACKAGE, imported_sources
from tests.support.precompiled import SAMPLE, compiled, forget, layer, store, wide_samples

__all__ = ["compiled", "store"]  # fixtures


@pytest.fixture
def packed(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make what a package brings along, for the level of this machine; return the file."""
    level = target_named("native").shared_level
    if level is None:
        pytest.skip("this machine has no level that packages are built for")
    folder = tmp_path / "package"
    pack(folder, [level.name], wide_samples())
    forget()
    monkeypatch.setattr(packed_store, "_PACKS", folder)
    packed_store._pack.cache_clear()
    yield folder / f"{level.name}.pack"
    packed_store._pack.cache_clear()


def test_a_package_brings_along_what_a_first_program_needs(packed, store, compiled, monkeypatch):
    monkeypatch.setattr(known_leaves, "leaf_version", sources_of_leaves)
    leaf_functions._emitted.cache_clear()
    entry._entry_code.cache_clear()
    made: list[object] = []
    for module, name in (
        (leaf_functions, "_emit"),
        (objects, "compile_leaves"),
        (objects, "emit_as_is"),
    ):
        monkeypatch.setattr(module, name, lambda *given: made.append(given))
    found = layer()
    assert made == []
    monkeypatch.undo()
    assert list(store.entries()) == []
    forget()
    with override(precompiled=False, cache=False):
        assert np.array_equal(layer(), found)


def test_a_package_has_what_other_kinds_of_cpu_choose(packed, store):
    level = target_named("native").shared_level
    assert level is not None
    for target in (level, *target_module.measured_at(level)):
        known = known_leaves.KnownLeaves(target, 3, sources_of_leaves())
        options = CompileOptions(target, 3, fast_math=False, cache=False)
        for sample in wide_samples():
            program = lower_graph(sample.graph(), options).program
            leaves = emit_linkable(program, target).names_of_leaves()
            assert leaves
            assert all(known.find(leaf) is not None for leaf in leaves)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "no pack", "gone", "too many"])
def test_a_damaged_package_is_as_good_as_none(packed, compiled, damage):
    content = packed.read_bytes()
    start = _HEAD + int.from_bytes(content[16:24], "little") * _ROW.size  # where entries begin
    if damage == "gone":
        packed.unlink()
    elif damage == "flipped":
        for_all = bytearray(content)
        for_all[start:] = bytes(byte ^ 1 for byte in content[start:])
        packed.write_bytes(for_all)
    elif damage == "too many":
        packed.write_bytes(content[:16] + b"\xff" * 8 + content[24:])
    else:
        parts = {"cut": content[: start + 1], "empty": b"", "no pack": b"x" * 999}
        packed.write_bytes(parts[damage])
    layer()
    assert len(compiled) == 1


def test_the_setting_and_the_cache_turn_off_what_a_package_brings_along(packed, compiled):
    with override(precompiled=False):
        layer()
    forget()
    with override(cache=False):
        layer()
    assert len(compiled) == 2


def test_a_pack_has_what_was_written_and_nothing_else(tmp_path):
    keys = [EntryKey("kind", "made for", digest_of(str(number))) for number in range(99)]
    entries = {key: bytes([number]) * number for number, key in enumerate(keys)}
    path = tmp_path / "deep" / "some.pack"
    assert write_pack(path, list(entries.items())[:-1]) == 98
    there = PackedStore(path)
    assert len(there) == 98
    assert [there.read(key) for key in keys] == [*list(entries.values())[:-1], None]
    assert there.read(EntryKey("other", keys[5].made_for, keys[5].digest)) is None
    assert len(PackedStore(tmp_path / "none")) == 0


def test_a_store_tells_its_entries(store):
    key = EntryKey("kind", "made for", "digest")
    store.write(key, b"pay\nload\n")
    (store.folder / "other.kind").write_bytes(b"none of its entries")
    assert list(store.contents()) == [(key, b"pay\nload\n")]


def test_the_version_of_leaf_functions_is_of_all_that_they_are_made_by():
    imported = imported_sources("symgrad.codegen.contract.kernels.leaf_functions")
    assert len(imported) > 40
    counted = {path for pattern in _SOURCES_OF_LEAVES for path in PACKAGE.glob(pattern)}
    assert imported <= counted


@pytest.mark.parametrize(
    ("name", "cpu"),
    [
        ("x86-64-v3", "haswell"),
        ("x86-64-v3", "znver3"),
        ("x86-64-v4", "skylake-avx512"),
        ("x86-64-v4", "znver5"),
    ],
)
def test_code_for_a_level_is_the_same_on_a_cpu_that_has_it(name, cpu):
    level = target_named(name)
    has = ",".join(f"+{n}" for n in target_module._X86_64_V3)
    features = f"{has},{level.features}" if level.features else has
    native = replace(level, name="native", cpu=cpu, features=features)
    assert native.shared_level == level
    for_each = []
    for target in (native, level):
        options = CompileOptions(target, 3, fast_math=False, cache=False)
        program = lower_graph(SAMPLE.graph(), options).program
        module = emit_linkable(program, target)
        text = module.text_of_leaves(module.leaves)
        for_each.append((text, objects.compile_leaves(text, target, 3)))
    assert for_each[0] == for_each[1]


def test_functions_of_half_floats_are_for_a_cpu_and_are_not_precompiled(store, monkeypatch):
    a, b = sg.placeholder((32, 64), "bfloat16"), sg.placeholder((64, 48), "bfloat16")
    graph = Graph([a @ b], [a, b])
    monkeypatch.setattr(Sample, "graph", lambda self: graph)
    assert precompile([SAMPLE], target_named("x86-64-v4")).compiled == 0


@pytest.mark.parametrize("missing", ["bmi2", "movbe", "avx2"])
def test_a_machine_that_lacks_an_instruction_of_a_level_has_none(missing):
    features = ",".join(f"+{n}" for n in target_module._X86_64_V3 if n != missing)
    whole = replace(target_named("x86-64-v3"), name="native", cpu="haswell")
    assert replace(whole, features=f"{features},-{missing}").shared_level is None
    level = replace(whole, features=f"{features},+{missing}").shared_level
    assert level == target_named("x86-64-v3")
