"""Command lines that make no sense: one clear line and the exit status 2, never a traceback."""

from __future__ import annotations

import io
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.__main__ import main

_PROGRAM = """
    import symgrad as sg

    def program():
        x = sg.placeholder((2,), name="x")
        return sg.compile([x], x * 2, name="program"), [[1.0, 2.0]]

    def takes(x):
        return x
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put programs in the current folder, of which most are none."""
    (tmp_path / "good.py").write_text(textwrap.dedent(_PROGRAM))
    (tmp_path / "broken.py").write_text("def (\n")
    (tmp_path / "binary.py").write_bytes(b"x = '\xff\0'\n")
    monkeypatch.chdir(tmp_path)


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line of what a command that must fail says."""
    try:
        status: object = main(arguments)
    except SystemExit as end:  # argparse, which says how to use it first
        status = end.code
    assert status == 2
    written = capsys.readouterr()
    assert not written.out
    (said,) = [line for line in written.err.splitlines() if "error: " in line]
    return said


_NO_PROGRAMS = {
    "..:f": "there is no module '..'",
    ".os:f": "there is no module '.os'",
    "os..path:join": "there is no module 'os..path'",
    "a\0b:f": "there is no module",
    "os:system": "system cannot be called without arguments",
    "os.path:join": "join cannot be called without arguments",
    "good.py:takes": "takes cannot be called without arguments",
    "good.py:__class__": "__class__ cannot be called without arguments",
    "broken.py:f": "broken.py is not Python",
    "binary.py:f": "binary.py is not Python",
    "a" * 5000 + ".py:f": "File name too long",
    "a" * 5000 + ":f": "there is no module",
    "\ud800.py:f": "there is no file",
}


@pytest.mark.parametrize("command", ["inspect", "profile", "bench"])
@pytest.mark.parametrize("name", _NO_PROGRAMS, ids=lambda name: ascii(name[:12]))
def test_what_names_no_program_is_refused_in_a_line(command, name, capsys):
    assert _NO_PROGRAMS[name] in _run([command, name], capsys)


@pytest.mark.parametrize("command", ["report", "export"])
@pytest.mark.parametrize(
    "path",
    ["", "/", ".", "a\0b", "\ud800", "x" * 5000, "nowhere/x", "/proc/x", "/dev/null/x"],
    ids=lambda path: ascii(path[:12]),
)
def test_what_cannot_be_written_is_refused_in_a_line(command, path, capsys):
    _run([command, "good.py:program", path], capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "good.py:program", "x", "--size", "n=" + "9" * 5000],
        ["export", "good.py:program", "x", "--size", "n=²"],
        ["profile", "good.py:program", "--repeat", "9" * 5000],
        ["bench", "good.py:program", "--seconds", "nan"],
        ["bench", "good.py:program", "--seconds", "inf"],
        ["bench", "good.py:program", "--seconds", "-1"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_a_number_that_is_none_is_refused_in_a_line(arguments, capsys):
    _run(arguments, capsys)


_MODULES = (
    "..",
    ".",
    "os",
    "os.path",
    "good",
    "good.py",
    "broken.py",
    "é",
    "-",
    "/",
    "\0",
    "\ud800",
)
_FUNCTIONS = ("f", "system", "join", "takes", "x.y", "__class__", "\0", "", "..")
_OPTIONS = (
    "--repeat",
    "--stage",
    "--kernel",
    "--diff",
    "--size",
    "--formats",
    "--",
    "-1",
    "n=1",
    "x",
)


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_any_words_are_refused_in_a_line(count, capsys):
    # As a process has it: argparse writes what cannot be encoded too.
    assert isinstance(sys.stderr, io.TextIOWrapper)
    sys.stderr.reconfigure(errors="backslashreplace")

    @settings(max_examples=count)
    @given(data=st.data())
    def check(data):
        command = data.draw(st.sampled_from(["inspect", "profile", "report", "export", "bench"]))
        module = "".join(data.draw(st.lists(st.sampled_from(_MODULES), max_size=3)))
        words = [f"{module}:{data.draw(st.sampled_from(_FUNCTIONS))}"]
        words += data.draw(st.lists(st.sampled_from(_OPTIONS), max_size=3))
        _run([command, *data.draw(st.permutations(words))], capsys)

    check()
