"""Uncaught errors of a mistake are printed without internal frames, by Python and IPython."""

from __future__ import annotations

import subprocess
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path

import pytest

import symgrad as sg
from symgrad.tracebacks import user_traceback

PROGRAM = """\
import symgrad as sg


def step(carry, x):
    return sg.ones((2, 3)) + sg.ones((2, 4)), None


sg.scan(step, sg.zeros(3), sg.zeros((4, 3)))
"""


def run(path: Path, *, internal_frames: str = "0") -> str:
    """Return what Python prints of a program that fails."""
    # From 3.13 on Python shows the line of `-c` too, which should not say more than it must.
    code = "import sys; sys.path.insert(0, sys.argv[1]); path = sys.argv[2]; "
    code += "exec(compile(open(path).read(), path, 'exec'), {})"
    environment = {"SYMGRAD_INTERNAL_FRAMES": internal_frames}
    command = [sys.executable, "-c", code, str(Path(sg.__file__).parents[1]), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    return done.stderr


def test_python_prints_the_users_frames_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    text = run(path)
    assert "/symgrad/" not in text
    assert text.count("program.py") == 3  # the call, the body, and the line that is told
    assert "return sg.ones((2, 3)) + sg.ones((2, 4)), None" in text
    assert "ShapeError: add: shapes do not broadcast" in text


@pytest.mark.slow
def test_a_setting_shows_all_frames(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    assert run(path, internal_frames="1").count("/symgrad/") > 3


@pytest.mark.slow
def test_other_errors_are_shown_whole(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("sg.ones((2, 3)) + sg.ones((2, 4)), None", "1 / 0"))
    text = run(path)
    assert "ZeroDivisionError" in text
    assert "/symgrad/" in text


def test_the_error_itself_keeps_its_frames():
    with pytest.raises(sg.ShapeError) as caught:
        sg.ones((2, 3)) + sg.ones((2, 4))
    whole = traceback.extract_tb(caught.value.__traceback__)
    short = traceback.extract_tb(user_traceback(caught.value.__traceback__))
    assert any("/symgrad/" in frame.filename for frame in whole)
    assert [frame.filename for frame in short] == [__file__]


def test_a_traceback_of_internal_frames_alone_stays():
    assert user_traceback(None) is None


@pytest.mark.slow
@pytest.mark.skipif(find_spec("IPython") is None, reason="IPython is not installed")
def test_ipython_shows_cells_and_no_internal_frames(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(sg.__file__).parents[1])!r})\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor')\n"
        "shell.run_cell('import symgrad as sg', store_history=True)\n"
        "shell.run_cell('a = sg.ones((2, 3))\\na + sg.ones((2, 4))', store_history=True)\n"
        "print('AGAIN')\n"
        "shell.run_cell('import symgrad.config as c\\nwith c.override(internal_frames=True):"
        " a + sg.ones((2, 4))', store_history=True)\n"
    )
    environment = {"IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    short, _, _ = done.stdout.partition("AGAIN")
    assert "ShapeError" in short
    assert "a + sg.ones((2, 4))" in short
    assert "--> In[2]:2" in short
    assert "symgrad/" not in short.replace("symgrad.errors", "")
