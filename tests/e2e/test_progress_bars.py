"""Bars of progress of examples: drawn on a terminal, as wide as it is, and nowhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_COLUMNS = 72
_CONTROLS = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_EPOCHS = 3


def _command(folder: Path) -> list[str]:
    example = str(ROOT / "examples" / "fixed_point.py")
    return [sys.executable, example, "--epochs", str(_EPOCHS), "--out", str(folder / "x.png")]


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    return {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", "MPLBACKEND": "agg"}


def _run_on_a_terminal(folder: Path) -> tuple[str, str]:
    """Return what an example prints, and what it writes for errors to a terminal."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 24, _COLUMNS, 0, 0))
    process = subprocess.Popen(
        _command(folder), env=_environment(), stdin=end, stdout=subprocess.PIPE, stderr=end
    )
    os.close(end)
    written = b""
    while True:
        try:
            read = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so when nobody has the other end any more
            break
        if not read:
            break
        written += read
    os.close(terminal)
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read().decode()
    assert process.wait(60) in (0, 1)  # 1: it has not learnt enough in so short a time
    return printed, written.decode()


@pytest.mark.slow
def test_a_bar_is_drawn_on_a_terminal_in_one_line_of_its_width(tmp_path: Path) -> None:
    printed, written = _run_on_a_terminal(tmp_path)
    assert "epoch/s" not in printed
    assert "\r" not in printed
    drawn = [_CONTROLS.sub("", state) for state in re.split(r"\r+", written)]
    bars = [state for state in drawn if "epoch" in state]
    assert bars
    assert f"{_EPOCHS}/{_EPOCHS}" in bars[-1]
    assert "100%" in bars[-1]
    assert all(len(state.strip("\n")) <= _COLUMNS for state in bars)
    # Each state but the last is written over: the terminal is left in a new line, once.
    assert written.endswith("\n")
    assert written.count("\n") == 1


@pytest.mark.slow
def test_a_pipe_and_a_file_get_the_words_and_no_bar(tmp_path: Path) -> None:
    done = subprocess.run(
        _command(tmp_path), env=_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1)
    assert done.stdout
    assert done.stderr == ""
    assert not set(done.stdout) & {"\r", "\x1b"}
