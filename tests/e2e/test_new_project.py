"""The project that `symgrad new` writes does what its Makefile says, and the help what it shows.

Each line of a help is run in the folder of a new project, as a user reads it there.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from symgrad.__main__ import main
from symgrad.commands.examples import EXAMPLES, epilog
from symgrad.commands.starting import new_text

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a new project."""
    folder = tmp_path_factory.mktemp("work") / "demo"
    new_text(folder)
    return folder


def make(project: Path, target: str) -> str:
    """Return what `make target` says in the project."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["make", f"PYTHON={sys.executable}", target],
        cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_all_targets_of_a_new_project_work(project: Path) -> None:
    assert "accuracy on new points: 9" in make(project, "train").replace("100.0%", "99.9%")
    assert (project / "demo.safetensors").exists()
    make(project, "test")
    assert "fused away" in make(project, "inspect")
    assert "GFLOP/s" in make(project, "profile")
    assert "wrote build/demo.h" in make(project, "export").replace(f"{project}/", "")
    assert {"demo.so", "demo.o", "demo.h"} <= {p.name for p in (project / "build").iterdir()}
    targets = {line.split()[0] for line in make(project, "help").splitlines()}
    assert targets == {"help", "train", "test", "inspect", "profile", "export", "clean"}
    make(project, "clean")
    assert not (project / "build").exists()
    assert not (project / "demo.safetensors").exists()


def test_a_project_is_not_written_over_and_has_the_name_of_a_library(tmp_path, capsys):
    assert main(["new", str(tmp_path / "demo")]) == 0
    assert "next: cd " in capsys.readouterr().out
    assert main(["new", str(tmp_path / "demo")]) == 2
    assert "it is there already" in capsys.readouterr().err
    assert main(["new", str(tmp_path / "my-net")]) == 2
    assert "'my-net' is no name of a library" in capsys.readouterr().err
    assert "{{" not in "".join(p.read_text() for p in (tmp_path / "demo").iterdir())


_LINES = [(command, line) for command, lines in EXAMPLES.items() for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "line"), _LINES, ids=[line for _, line in _LINES])
def test_an_example_of_a_help_runs(command, line, project, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path))
    folder = tmp_path if command == "new" else project
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(line)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Two programs that are equal do not differ, and a program without a fault has no lint.
    assert done.stdout or "--diff" in line or command == "lint"


def test_every_subcommand_has_an_example_in_its_help(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = capsys.readouterr().out
    for command in EXAMPLES:
        assert f"\n    {command} " in listed
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert epilog(command, "python -m symgrad") in capsys.readouterr().out
