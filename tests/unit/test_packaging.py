"""What the package says of itself: its version, its long description, what its sources hold."""

from __future__ import annotations

import configparser
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import symgrad as sg

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_the_version_is_one_and_has_its_section_in_the_changelog():
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    assert settings["metadata"]["version"] == "attr: symgrad.__version__"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"(?m)^## \[([\d.]+)\] - (?:\d{4}-\d\d-\d\d|Unreleased)$", changelog)
    assert versions[0] == sg.__version__
    assert len(versions) == len(re.findall(r"(?m)^## ", changelog))


def test_the_metadata_names_no_address_that_there_is_not():
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    # The project has no public address: `docs/releasing.md` says so, and where links lead instead.
    assert not {"url", "project_urls", "download_url"} & set(settings["metadata"])
    assert "no project URLs" in (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")


def test_dir_lists_public_names_only():
    for module in (sg, sg.nn, sg.optim, sg.linalg, sg.special, sg.random, sg.testing):
        names = dir(module)
        assert names
        assert {n for n in module.__all__ if not n.startswith("_")} == set(names)
    assert not {"graph", "frontend", "protocols", "np"} & set(dir(sg))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what `setup.py` gives to a setuptools that copies nothing."""
    found: dict[str, Any] = {}
    setuptools, command, build_py = (ModuleType(n) for n in ("setuptools", "command", "build_py"))
    vars(setuptools)["setup"] = found.update
    vars(build_py)["build_py"] = type("build_py", (), {"run": lambda self: None})
    monkeypatch.setitem(sys.modules, "setuptools", setuptools)
    monkeypatch.setitem(sys.modules, "setuptools.command", command)
    monkeypatch.setitem(sys.modules, "setuptools.command.build_py", build_py)
    runpy.run_path(str(ROOT / "setup.py"), run_name="__main__")
    return found


def test_the_long_description_has_no_link_that_only_a_repository_has(given):
    text = given["long_description"]
    assert text.startswith("# symgrad\n")
    assert "`docs/gradients.md`" in text
    assert not [link for link in _LINK.findall(text) if not link.startswith(("http", "#"))]


@pytest.mark.parametrize("editable", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_a_package_brings_code_along_where_an_interpreter_is_named(
    given, named, editable, monkeypatch, tmp_path
):
    runs: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(subprocess, "run", lambda call, env, **_: runs.append((call, env)))
    monkeypatch.delenv("SYMGRAD_BUILD_PYTHON", raising=False)
    if named:
        monkeypatch.setenv("SYMGRAD_BUILD_PYTHON", sys.executable)
    build = given["cmdclass"]["build_py"]()
    build.editable_mode, build.build_lib = editable, str(tmp_path)
    build.run()
    assert len(runs) == (named and not editable)
    for call, environment in runs:
        assert call[0] == sys.executable
        assert environment["PYTHONPATH"] == str(tmp_path.resolve())


def test_make_without_a_target_lists_the_targets():
    # A make that runs the tests would have this one say which folder it is in.
    call = ["make", "--no-print-directory"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines()[1:]}
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"(?m)^\.PHONY: (.*)$", text)
    assert listed == set(phony.split())


def test_pictures_of_examples_are_ignored_by_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    for name in ("digits.png", "examples/digits.png"):
        command = ["git", "-C", str(tmp_path), "check-ignore", "-q", name]
        assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("name", ["README.md", "docs/ops.md", "tests/conftest.py", "examples"])
def test_the_sources_that_are_distributed_are_the_repository(name):
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    assert re.search(rf"(?m)^(graft|include .*)\b ?{re.escape(name.partition('/')[0])}\b", manifest)
