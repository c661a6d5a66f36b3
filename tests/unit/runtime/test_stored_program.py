"""Programs found by their graph: no pass runs, all else is as if it had been compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import compiler_version as version_module
from symgrad.codegen.native import known_kernels
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.native.object_store import ObjectStore, object_store
from symgrad.compiler import lower_graph
from symgrad.config import override
from symgrad.errors import IndexOutOfRangeError
from symgrad.passes.table import ALL_PASSES, Options
from symgrad.runtime import executable as executable_module
from symgrad.runtime import stored_program
from symgrad.runtime.choices import STAGES
from symgrad.runtime.step import Step
from symgrad.runtime.stored_program import program_key

X = np.linspace(0.1, 1, 24, dtype=np.float32).reshape(3, 8)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Make a cache of this test alone, of a compiler whose files are known."""
    for name in ("_loaded", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    for module in (stored_program, known_kernels):
        monkeypatch.setattr(module, "compiler_version", lambda: "this compiler")
    with override(cache=True, cache_dir=str(tmp_path), verify=False):
        found = object_store()
        assert found is not None
        yield found


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note the graphs that passes are run on."""
    graphs: list[object] = []

    def note(graph: Any, *arguments: Any, **options: Any) -> Any:
        graphs.append(graph)
        return lower_graph(graph, *arguments, **options)

    monkeypatch.setattr(executable_module, "lower_graph", note)
    return graphs


def again(build: Callable[[], Step]) -> Step:
    """Compile once more, as a new process would."""
    code_module._loaded.clear()
    code_module._closed.clear()
    return build()


def trained(**options: Any) -> tuple[Step, sg.Variable]:
    x = sg.placeholder((3, 8), name="x")
    w = sg.variable(np.full((8, 8), 0.1, np.float32), name="w")
    # A constant of elements, in a dtype that NumPy knows by a library only.
    h = sg.tanh(x @ w) * np.arange(8, dtype=np.float32) + sg.constant([1.5], "bfloat16").astype(
        "f4"
    )
    loss = h.sum()
    updates = sg.optim.Adam(0.1).minimize(loss)
    return sg.compile([x], [loss, h], updates, **options), w


def test_no_pass_runs_for_an_equal_graph(store, lowered):
    first, w = trained()
    wanted = [first(X) for _ in range(3)]
    assert len(lowered) == 1
    code_module._loaded.clear()
    code_module._closed.clear()
    second, v = trained()
    found = [second(X) for _ in range(3)]
    assert len(lowered) == 1
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])
    np.testing.assert_array_equal(w.value, v.value)
    assert not np.shares_memory(w.state.array, v.state.array)


def test_it_can_be_inspected_as_one_that_was_compiled(store, lowered):
    first, _ = trained()
    code_module._loaded.clear()
    code_module._closed.clear()
    second, _ = trained()
    for stage in STAGES:
        if stage != "graph":
            assert first.ir(stage) == second.ir(stage), stage
    assert len(lowered) == 2
    assert str(first.memory) == str(second.memory)
    assert str(first.decisions) == str(second.decisions)
    assert len(first.kernels) == len(second.kernels)
    before = second(X)
    assert second.profile(X, repeat=2)
    assert np.all(before[0] != second(X)[0])


def test_a_failure_names_the_line_of_now(store, lowered):
    def build() -> Step:
        x, i = sg.placeholder((4,)), sg.placeholder((2,), "int64")
        return sg.compile([x, i], sg.take(x, i, axis=0))

    def build_elsewhere() -> Step:
        x, i = sg.placeholder((4,)), sg.placeholder((2,), "int64")
        return sg.compile([x, i], sg.take(x, i, axis=0))

    build()
    step = again(build_elsewhere)
    assert len(lowered) == 1
    arrays = np.arange(4, dtype=np.float32), np.array([1, 7])
    with pytest.raises(IndexOutOfRangeError, match="index 7 is out of range for axis 0") as error:
        step(*arrays)
    line = build_elsewhere.__code__.co_firstlineno + 2
    assert error.value.source is not None
    assert error.value.source.line == line
    with pytest.raises(IndexOutOfRangeError, match="index -9 is out of range"):
        step(arrays[0], np.array([-9, 0]))


def test_loops_tapes_and_generators_are_found(store, lowered):
    def build() -> Step:
        x = sg.placeholder(())
        noise = sg.random.Generator(7).uniform(())
        y, _ = sg.while_loop(lambda h, _: h < 50.0, lambda h, n: (h * h + 1.1, n + 1), (x, 0))
        (g,) = sg.gradients(y, [x])
        return sg.compile([x], [y, g, noise])

    first = build()
    second = again(build)
    assert len(lowered) == 1
    for _ in range(3):
        for a, b in zip(first(np.float32(0.5)), second(np.float32(0.5)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_each_size_is_found(store, lowered):
    def build() -> Step:
        x = sg.placeholder((None, 8))
        return sg.compile([x], sg.tanh(x).sum(axis=0))

    first, second = build(), again(build)
    for rows in (1, 3, 5):
        given = np.full((rows, 8), 0.5, np.float32)
        wanted = first(given)
        code_module._loaded.clear()
        code_module._closed.clear()
        np.testing.assert_array_equal(second(given), wanted)
    assert len(lowered) == 3


def test_options_and_compilers_are_of_the_key(store, monkeypatch):
    step, _ = trained()
    options, graph = step.executable.options, step.executable.graph
    keys = [
        program_key(graph, trained(**given)[0].executable.options, ALL_PASSES)
        for given in (
            {},
            {"fast_math": True},
            {"opt_level": 1},
            {"threads": 2},
            {"target": "x86-64-v2"},
        )
    ]
    monkeypatch.setattr(stored_program, "compiler_version", lambda: "another compiler")
    keys.append(program_key(graph, options, ALL_PASSES))
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_what_is_checked_or_watched_or_off_is_not_looked_for(store, monkeypatch):
    step, _ = trained()
    graph, options = step.executable.graph, step.executable.options
    usual = ALL_PASSES
    assert program_key(graph, options, usual) is not None
    assert program_key(graph, options, Options(skip=("cse",))) is None
    with override(verify=True):
        assert program_key(graph, options, usual) is None
    with override(cache=False):
        assert program_key(graph, options, usual) is None
    assert program_key(graph, trained(cache=False)[0].executable.options, usual) is None
    monkeypatch.setattr(stored_program, "compiler_version", lambda: None)
    assert program_key(graph, options, usual) is None


def test_a_compiler_of_files_just_changed_is_not_known(monkeypatch):
    version_module.compiler_version.cache_clear()
    monkeypatch.setattr(version_module, "_IMPORTED", 0.0)
    assert version_module.compiler_version() is None
    version_module.compiler_version.cache_clear()
    monkeypatch.setattr(version_module, "_IMPORTED", 1e12)
    assert version_module.compiler_version() is not None
    version_module.compiler_version.cache_clear()


@pytest.mark.parametrize("is_archive", [False, True])
def test_a_compiler_without_sources_is_not_known(monkeypatch, tmp_path, is_archive):
    """Else all versions of an archive, or of compiled modules alone, would be one."""
    package = tmp_path / "symgrad"
    if is_archive:
        package.write_bytes(b"")
    else:
        (package / "graph").mkdir(parents=True)
        (package / "graph" / "node.pyc").write_bytes(b"")
    monkeypatch.setattr(version_module, "_PACKAGE", package)
    for version in (version_module.compiler_version, version_module.caller_version):
        version.cache_clear()
        assert version() is None
        version.cache_clear()
    version_module.compiler_version.cache_clear()


def test_damaged_or_missing_entries_are_made_anew(store, lowered):
    def check() -> None:
        code_module._loaded.clear()
        code_module._closed.clear()
        step, _ = trained()
        np.testing.assert_array_equal(step(X)[0], wanted)

    wanted = trained()[0](X)[0]
    for kind in (".step", ".program", ".object", ".kernel"):
        for path in [p for p, _ in store.entries() if p.suffix == kind]:
            path.write_bytes(path.read_bytes()[:-1] + b"?")
            check()
            path.unlink(missing_ok=True)
            check()
    count = len(lowered)
    check()
    assert len(lowered) == count


def test_equal_graphs_that_became_different_programs_both_run(store, lowered, monkeypatch):
    """What is inspected or profiled is then compiled here, on memory of its own."""
    trained()
    code_module._loaded.clear()
    code_module._closed.clear()
    step, _ = trained()
    wanted, arena = trained()[0](X), step.executable.table.copy()
    monkeypatch.setattr(executable_module, "code_name", lambda *_: "another program")
    assert step.kernels
    assert list(step.executable.table) != list(arena)
    np.testing.assert_array_equal(step(X)[0], wanted[0])
    assert step.profile(X, repeat=2)
