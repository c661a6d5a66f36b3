"""What calls steps, as a later process finds it: without text, whatever is gone, of one version."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from symgrad.codegen.native import compiler_version as version_module
from symgrad.codegen.native.compiler_version import _SOURCES, kept_text
from symgrad.codegen.native.object_store import object_store
from symgrad.config import override
from symgrad.runtime import entry
from tests.support.imported_sources import PACKAGE, imported_sources
from tests.support.precompiled import store

__all__ = ["store"]  # a fixture


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the entries of which text is made."""
    noted: list[str] = []
    modules = entry._modules

    def note(symbol: str) -> list[tuple[str, int]]:
        noted.append(symbol)
        return modules(symbol)

    monkeypatch.setattr(entry, "_modules", note)
    monkeypatch.setattr(entry, "caller_version", lambda: "this compiler")
    return noted


def images(symbol: str = "call") -> list[bytes]:
    return entry._images(symbol, lambda: entry._modules(symbol))


def test_no_text_is_made_of_what_a_process_before_has_compiled(store, made):
    first = images()
    assert len(made) == 1
    assert images() == first
    assert images("into") != first
    assert made == ["call", "into"]


@pytest.mark.parametrize("suffix", ["final", "derived"])
def test_what_is_gone_or_damaged_is_made_anew(store, made, suffix):
    first = images()
    kept = object_store()
    assert kept is not None
    paths = list(kept.folder.glob(f"*.{suffix}"))
    assert paths
    for damage in (Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])):
        for path in paths:
            damage(path)
        assert images() == first
        count = len(made)
        assert images() == first
        assert len(made) == count


def test_another_version_or_none_has_text_made(store, made, monkeypatch):
    first = images()
    for version in ("another compiler", None, None):
        monkeypatch.setattr(entry, "caller_version", lambda version=version: version)
        assert images() == first
    with override(cache=False):
        assert images() == first
    assert len(made) == 5


def test_a_text_is_kept_by_its_version(store):
    assert kept_text("what", "one", lambda: "first") == "first"
    assert kept_text("what", "one", lambda: "second") == "first"
    assert kept_text("what", "two", lambda: "second") == "second"
    assert kept_text("other", "one", lambda: "third") == "third"


@pytest.mark.parametrize("name", ["compiler_version", "caller_version"])
def test_a_version_of_files_just_changed_is_not_known(monkeypatch, name):
    version = getattr(version_module, name)
    for imported, is_known in ((0.0, False), (1e12, True)):
        version_module.compiler_version.cache_clear()
        version_module.caller_version.cache_clear()
        monkeypatch.setattr(version_module, "_IMPORTED", imported)
        assert (version() is not None) == is_known
    version_module.compiler_version.cache_clear()
    version_module.caller_version.cache_clear()


@pytest.mark.parametrize("changed", ["passes/fold.py", "runtime/stored_program.py"])
@pytest.mark.parametrize("modified", [None, 1.0], ids=["usual", "all at one time"])
def test_a_version_is_told_from_one_with_files_of_the_same_sizes(
    tmp_path, monkeypatch, changed, modified
):
    """Builds that are to be the same bit for bit give all files of all versions one time."""
    monkeypatch.setattr(version_module, "_PACKAGE", tmp_path)
    monkeypatch.setattr(version_module, "_IMPORTED", 1e12)

    def version(content: str) -> str | None:
        for name in ("passes/fold.py", "runtime/stored_program.py", "compiler.py"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            if name == changed or not path.exists():
                path.write_text(content)
            if modified is not None:
                os.utime(path, (modified, modified))
        version_module.compiler_version.cache_clear()
        return version_module.compiler_version()

    first = version("a = 1")
    version_module.compiler_version.cache_clear()
    again = version_module.compiler_version()
    time.sleep(0.02)  # a clock of files has ticks
    other = version("a = 2")
    version_module.compiler_version.cache_clear()
    assert first is not None
    assert again == first
    assert other is not None
    assert other != first


def test_the_version_of_what_calls_steps_is_of_all_that_emits_it():
    imported = imported_sources("symgrad.runtime.entry")
    counted = {path for name in _SOURCES for path in (PACKAGE / name).rglob("*.py")}
    counted |= {PACKAGE / name for name in _SOURCES} | {*(PACKAGE / "runtime").glob("*.py")}
    assert len(imported) > 40
    # Settings, locks, late imports, errors of calls and names that were meant: these emit nothing.
    others = {"collector.py", "config.py", "forks.py", "late_modules.py", "suggestions.py"}
    others |= {"argument_types.py", "call_errors.py"}
    assert {path.name for path in imported - counted} <= others
