"""Calls of functions of C on disk: what is kept has no addresses, and exports have symbols."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import machine_code as code_module
from symgrad.config import override
from symgrad.runtime import executable as executable_module
from symgrad.runtime import stored_program
from symgrad.runtime.aot_manifest import print_manifest
from tests.support.c_programs import needs
from tests.support.foreign_library import address_of, library_path

pytestmark = needs("cc")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a cache of this test alone, of a compiler whose files are known."""
    for name in ("_loaded", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    monkeypatch.setattr(stored_program, "compiler_version", lambda: "this compiler")
    with override(cache=True, cache_dir=str(tmp_path), verify=False):
        yield tmp_path


def compiled(address: int, *, pure: bool = True) -> sg.Step:
    k = sg.placeholder((), "int64")
    (y,) = sg.extern("plus", [k], [((), "int64")], pointer=address, pure=pure)
    return sg.compile([k], y)


def test_a_program_that_is_found_calls_the_function_that_it_is_given(folder, monkeypatch):
    assert compiled(address_of("plus_ten"))(1) == 11
    assert compiled(address_of("plus_twenty"))(1) == 21
    code_module._loaded.clear()
    code_module._closed.clear()
    monkeypatch.setattr(executable_module, "lower_graph", None)  # no pass is run
    assert compiled(address_of("plus_twenty"))(1) == 21
    assert compiled(address_of("plus_ten"))(1) == 11


def test_an_impure_program_is_found_whatever_was_built_before(folder, monkeypatch):
    assert compiled(address_of("plus_ten"), pure=False)(1) == 11
    code_module._loaded.clear()
    code_module._closed.clear()
    monkeypatch.setattr(executable_module, "lower_graph", None)
    assert compiled(address_of("plus_twenty"), pure=False)(1) == 21


def test_what_is_kept_has_no_address(folder):
    address = address_of("plus_ten")
    compiled(address)
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert files
    for number in (address.to_bytes(8, "little"), str(address).encode(), f"{address:x}".encode()):
        assert not any(number in content for content in files)


def exported(folder: Path) -> Path:
    x = sg.placeholder((4,), "float64", name="x")
    w = sg.variable(np.ones(4), name="w")
    (y,) = sg.extern("twice4", [x], [((4,), "float64")], pointer=address_of("twice4"), pure=False)
    sg.compile([x], y, [(w, w + y)], opt_level=1).export(folder / "net")
    return folder / "net"


def test_an_export_names_what_it_calls_and_runs_where_that_is(tmp_path):
    path = exported(tmp_path)
    header = path.with_suffix(".h").read_text()
    assert "     twice4\n" in header
    assert "extern twice4: the function returned a status other than 0" in header
    manifest = json.loads(path.with_suffix(".json").read_text())["manifest"]
    assert manifest["functions"] == [{"name": "twice4", "library": None}]
    assert [v["name"] for v in manifest["variables"]] == ["w"]
    program = f"""
        import ctypes, numpy as np, symgrad as sg
        ctypes.CDLL({str(library_path())!r}, ctypes.RTLD_GLOBAL)
        net = sg.load({str(path)!r})
        assert net(np.arange(4.0)).tolist() == [0, 2, 4, 6]
        try:
            net(np.full(4, 101.0))
        except sg.ForeignCallError as error:
            print(error)
        assert net.variables["w"].tolist() == [1, 3, 5, 7]
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "extern twice4: the function returned status 7" in done.stdout
    assert "test_extern_kept.py" in done.stdout


def test_a_manifest_that_names_no_functions_is_refused(tmp_path):
    path = exported(tmp_path)
    manifest_path = path.with_suffix(".json")
    manifest = json.loads(manifest_path.read_text())["manifest"]
    wrong: list[list[Any]] = [[1], [{"name": "a b"}], [{}]]
    for functions in wrong:
        manifest_path.write_text(print_manifest({**manifest, "functions": functions}))
        with pytest.raises(sg.SymgradError, match="the manifest names functions that are none"):
            sg.load(path)
