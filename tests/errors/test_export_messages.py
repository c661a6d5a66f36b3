"""The full text of the errors of exporting and loading: what, the values, the line, a hint."""

from __future__ import annotations

import json
from collections import namedtuple

import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime.aot_manifest import print_manifest
from tests.support.refusals import assert_refused

X = sg.placeholder((2, 3), name="x")
OPEN = sg.placeholder(("n", 3), name="open")
NEXT = sg.compile([X], X + 1, name="next")
SIZED = sg.compile([OPEN], OPEN + 1, name="sized")
Pair = namedtuple("Pair", "a b")
NESTED = sg.compile([X], Pair(X, X), name="nested")


def test_a_name_that_c_does_not_take(tmp_path):
    assert_refused(lambda: NEXT.export(tmp_path / "my-step"), RuntimeError, """
        export: the name of the file, 'my-step', becomes part of names in C and is no identifier
          --> <here>
    """)  # fmt: skip


def test_a_step_that_c_does_not_take(tmp_path):
    assert_refused(lambda: sg.export({"1st": NEXT}, tmp_path / "a"), RuntimeError, """
        export: the name of a step, '1st', becomes part of names in C and is no identifier
          --> <here>
    """)  # fmt: skip


@pytest.mark.parametrize("name", ["init", "restore", "save_run"])
def test_a_step_with_the_name_of_a_function(name, tmp_path):
    assert_refused(lambda: sg.export({name: NEXT}, tmp_path / "a"), RuntimeError, f"""
        export: a step cannot be called {name!r}: a function of the library is
          --> <here>
    """)  # fmt: skip


def test_two_steps_of_which_one_is_called_like_the_tables_of_the_other(tmp_path):
    steps = {"go": NEXT, "go_run": NEXT}
    assert_refused(lambda: sg.export(steps, tmp_path / "a"), RuntimeError, """
        export: a step cannot be called 'go_run': a function of the library is
          --> <here>
    """)  # fmt: skip


def test_no_step(tmp_path):
    assert_refused(lambda: sg.export({}, tmp_path / "a"), RuntimeError, """
        export: no step was given
          --> <here>
    """)  # fmt: skip


@pytest.mark.parametrize("formats", [("o", "dll"), (), "so"])
def test_formats_that_do_not_exist(formats, tmp_path):
    assert_refused(lambda: NEXT.export(tmp_path / "a", formats=formats), RuntimeError, f"""
        export: formats {formats!r} are none of so, o, h
          --> <here>
    """)  # fmt: skip


def test_a_folder_that_does_not_exist(tmp_path):
    assert_refused(lambda: NEXT.export(tmp_path / "none" / "a"), RuntimeError, f"""
        export: there is no folder {tmp_path / "none"}
          --> <here>
    """)  # fmt: skip


def test_a_target_that_is_not_known(tmp_path):
    assert_refused(lambda: NEXT.export(tmp_path / "a", target="z80"), RuntimeError, """
        export: target 'z80' is none of native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, aarch64
          --> <here>
    """)  # fmt: skip


@pytest.mark.parametrize("names", [("x86-64-v3", "aarch64"), ("x86-64-v3", "x86-64-v3")])
def test_targets_that_are_not_levels(names, tmp_path):
    assert_refused(lambda: NEXT.export(tmp_path / "a", target=names), RuntimeError, f"""
        export: targets {", ".join(names)} are not different levels of x86-64
          --> <here>
    """)  # fmt: skip


def test_no_target(tmp_path):
    assert_refused(lambda: sg.export({"a": NEXT}, tmp_path / "a", target=[]), RuntimeError, """
        export: no target was given
          --> <here>
    """)  # fmt: skip


def test_a_size_that_is_not_known(tmp_path):
    assert_refused(lambda: SIZED.export(tmp_path / "a"), RuntimeError, """
        sized: size n, axis 0 of input 0 (open), is not known
          --> <here>
          hint: sizes={'n': ...} gives what is missing
    """)  # fmt: skip


def test_sizes_without_a_name_are_told_by_their_axes(tmp_path):
    x, y = sg.placeholder((None, 3), name="x"), sg.placeholder((2, None), name="y")
    step = sg.compile([x, y], [2 * x, 2 * y], name="both")
    first, second = x.shape[0], y.shape[1]
    assert_refused(lambda: step.export(tmp_path / "a"), RuntimeError, f"""
        both: size {first}, axis 0 of input 0 (x), is not known
          --> <here>
          hint: sizes={{{str(first)!r}: ..., {str(second)!r}: ...}} gives what is missing
    """)  # fmt: skip


def test_a_size_of_nothing(tmp_path):
    assert_refused(lambda: NEXT.export(tmp_path / "a", sizes={"m": 3}), RuntimeError, """
        next: no unknown size is called m
          --> <here>
    """)  # fmt: skip


@pytest.mark.parametrize("size", [-1, 2.5, True])
def test_a_size_that_is_none(size, tmp_path):
    assert_refused(lambda: SIZED.export(tmp_path / "a", sizes={"n": size}), RuntimeError, f"""
        sized: {size!r} is no size for n
          --> <here>
    """)  # fmt: skip


def test_sizes_of_a_step_that_is_not_exported(tmp_path):
    sizes = {"other": {"n": 3}}
    assert_refused(lambda: sg.export({"a": NEXT}, tmp_path / "a", sizes=sizes), RuntimeError, """
        export: sizes are given for 'other', which is no step
          --> <here>
    """)  # fmt: skip


def test_a_nest_that_json_cannot_say(tmp_path):
    assert_refused(lambda: NESTED.export(tmp_path / "a"), RuntimeError, """
        export: a nest of Pair cannot be written to a manifest
          --> <here>
          hint: lists, tuples, dicts with strings as keys and sparse results can
    """)  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_no_linker(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused(lambda: NEXT.export(tmp_path / "a"), RuntimeError, """
        export: a shared library is linked by cc, which is not installed
          --> <here>
          hint: formats=("o", "h") needs no linker
    """)  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    assert len(NEXT.export(tmp_path / "a", formats=("o", "h"))) == 2


def test_a_linker_that_fails(tmp_path, monkeypatch):
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused(lambda: NEXT.export(tmp_path / "a"), RuntimeError, """
        export: cc failed: no space left
          --> <here>
    """)  # fmt: skip
    assert list(tmp_path.iterdir()) == [failing]


# ------------------------------------------------------------------------------------ loading


def test_nothing_to_load(tmp_path):
    assert_refused(lambda: sg.load(tmp_path / "a"), RuntimeError, """
        load a.json: the manifest cannot be read: No such file or directory
          --> <here>
    """)  # fmt: skip


def test_a_manifest_that_is_none(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    assert_refused(lambda: sg.load(tmp_path / "a"), RuntimeError, """
        load a.json: the manifest is altered or truncated
          --> <here>
    """)  # fmt: skip


def test_a_manifest_that_was_written_to(tmp_path):
    NEXT.export(tmp_path / "a")
    path = tmp_path / "a.json"
    path.write_text(path.read_text().replace('"x"', '"z"'))
    assert_refused(lambda: sg.load(tmp_path / "a"), RuntimeError, """
        load a.json: the manifest is altered
          --> <here>
    """)  # fmt: skip


def test_a_library_that_was_written_to(tmp_path):
    NEXT.export(tmp_path / "a")
    image = (tmp_path / "a.so").read_bytes()
    (tmp_path / "a.so").write_bytes(image[:-1] + b"?")
    assert_refused(lambda: sg.load(tmp_path / "a"), RuntimeError, """
        load a.so: the library is altered: its checksum differs
          --> <here>
    """)  # fmt: skip
    (tmp_path / "a.so").write_bytes(image[:-1])
    assert_refused(lambda: sg.load(tmp_path / "a"), RuntimeError, f"""
        load a.so: {len(image) - 1} bytes, {len(image)} were written
          --> <here>
    """)  # fmt: skip


def test_a_library_of_another_version(tmp_path):
    NEXT.export(tmp_path / "a")
    path = tmp_path / "a.json"
    manifest = json.loads(path.read_text())["manifest"]
    path.write_text(print_manifest({**manifest, "abi": 2}))
    assert_refused(lambda: sg.load(tmp_path / "a"), RuntimeError, """
        load a.json: version 2 of abi, 1 is needed
          --> <here>
    """)  # fmt: skip


def test_a_state_of_other_variables(tmp_path):
    libraries = []
    for size in (2, 3):
        v = sg.variable(np.ones(size, np.float32), name="v")
        sg.compile([], sg.sum(v), name="total").export(tmp_path / "total")
        libraries.append(sg.load(tmp_path / "total"))
    assert_refused(lambda: libraries[0].restore(libraries[1].save()), RuntimeError, """
        total: the state is one of other variables
          --> <here>
    """)  # fmt: skip
