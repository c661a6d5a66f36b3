"""Manifests with a right checksum that say what is not so: `LoadError`, and nothing has run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime.aot_manifest import print_manifest

Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = sg.placeholder((3, 4), name="x")
    w = sg.variable(np.ones((4, 2), np.float32), name="w")
    index = sg.placeholder((), sg.int64, name="index")
    y = x @ w
    step = sg.compile([x, index], {"y": y, "row": y[index]}, name="step")
    path = tmp_path_factory.mktemp("forged") / "net"
    step.export(path)
    return path


def _places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the way to every part of a manifest."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        yield (*path, key)
        if isinstance(part, dict | list):
            yield from _places(part, (*path, key))


def _forged(manifest: Any, path: Place, value: Any) -> Any:
    """Return a copy with another value at a place; `...` takes it out."""
    copy = json.loads(json.dumps(manifest))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return copy


_VALUES: tuple[Any, ...] = (
    ...,
    None,
    0,
    1,
    -1,
    2**40,
    2**70,
    "",
    "x",
    "float64",
    "\ud800",
    "a\0b",
    [],
    [7],
    {},
    1.5,
)


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_no_forged_manifest_is_taken_for_that_of_the_library(stride, exported, tmp_path):
    path = tmp_path / "net"
    shutil.copy(exported.with_suffix(".so"), path.with_suffix(".so"))
    manifest = json.loads(exported.with_suffix(".json").read_text())["manifest"]
    count = 0
    for number, place in enumerate(_places(manifest)):
        for value in _VALUES[number % stride :: stride]:
            forged = _forged(manifest, place, value)
            if forged == manifest and json.dumps(forged) == json.dumps(manifest):
                continue
            path.with_suffix(".json").write_text(print_manifest(forged))
            with pytest.raises(sg.LoadError):
                sg.load(path)
            count += 1
    assert count > 500 // stride
    path.with_suffix(".json").write_text(print_manifest(manifest))
    assert sg.load(path).variables["w"].shape == (4, 2)


@pytest.mark.parametrize("manifest", [None, [], 3, "x", {}, {"format": 2, "abi": 1, "state": 1}])
def test_a_manifest_that_says_too_little_is_refused(manifest, exported, tmp_path):
    path = tmp_path / "net"
    shutil.copy(exported.with_suffix(".so"), path.with_suffix(".so"))
    path.with_suffix(".json").write_text(print_manifest(manifest))
    with pytest.raises(sg.LoadError, match=r"load net\.json: the manifest says too little"):
        sg.load(path)


def test_the_manifest_of_another_library_is_refused(exported, tmp_path):
    x = sg.placeholder((3, 5), name="x")
    sg.compile([x], x + 1, name="step").export(tmp_path / "net")
    image = (tmp_path / "net.so").read_bytes()
    own = json.loads((tmp_path / "net.json").read_text())["manifest"]
    other = json.loads(exported.with_suffix(".json").read_text())["manifest"]
    (tmp_path / "net.json").write_text(print_manifest({**other, "library": own["library"]}))
    assert image == (tmp_path / "net.so").read_bytes()
    with pytest.raises(sg.LoadError, match="not the one that the library was written with"):
        sg.load(tmp_path / "net")


def test_what_is_no_file_is_not_read(exported, tmp_path):
    os.mkfifo(tmp_path / "net.json")
    with pytest.raises(sg.LoadError, match="the manifest is no file"):
        sg.load(tmp_path / "net")
    (tmp_path / "net.json").unlink()
    shutil.copy(exported.with_suffix(".json"), tmp_path / "net.json")
    os.mkfifo(tmp_path / "net.so")
    with pytest.raises(sg.LoadError, match="the library is no file"):
        sg.load(tmp_path / "net")


@pytest.mark.parametrize("path", ["", "/", ".", "..", "a\0b", "\ud800", "x" * 5000])
def test_a_path_that_names_no_library_is_refused(path):
    with pytest.raises(sg.LoadError):
        sg.load(path)
