"""MPI launchers for tests: programs run by several ranks, over each library that is installed.

The wheel of mpi4py has a module for Open MPI and one for MPICH, and takes the one whose library it
is told of. Debian's MPICH has another file name than the common binary interface: a link says so.

Ranks of both poll without rest, and those that wait keep cores from those that work: with a C
compiler they are made to rest (`resting_ranks.c`). Two ranks that train, one of them mostly waiting
for the other to compile, take 13 s of processors so and not 23.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = ("openmpi", "mpich")
_SECONDS = 100  # after which a program hangs
_RESTS = "resting_ranks.so"
_FOLDERS = [Path(folder) for folder in ("/usr/lib", "/usr/lib64", "/usr/local/lib")]


@dataclass(frozen=True)
class Ended:
    """How a program of several ranks has ended."""

    status: int
    output: str
    errors: str


def run_ranks(
    library: str, ranks: int, arguments: Sequence[str], *, folder: Path | None = None
) -> Ended:
    """Run `python arguments` on several ranks; a program that hangs is killed, which is a failure.

    Skips the test where the library or mpi4py is not installed.
    """
    return run_program(library, ranks, [sys.executable, *arguments], folder=folder)


def run_program(
    library: str, ranks: int, program: Sequence[str], *, folder: Path | None = None
) -> Ended:
    """Run any program on several ranks, as `run_ranks` does one of Python."""
    launcher = _launcher(library)
    if launcher is None or find_spec("mpi4py") is None:
        pytest.skip(f"{library} is not installed with mpi4py: apt-get install, pip install mpi4py")
    command = [*launcher, "-n", str(ranks), *program]
    environment = {**_environment(library), "PYTHONPATH": f"{folder or ROOT}:{ROOT}"}
    done = subprocess.run(
        command, env=environment, cwd=folder or ROOT, capture_output=True, text=True,
        timeout=_SECONDS, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def compiler_of(library: str, name: str) -> str:
    """Return `mpicc` or `mpicxx` of a library; skips the test where it cannot build."""
    found = shutil.which(f"{name}.{library}")
    command = [found or "false", "-x", "c", "-fsyntax-only", "-"]
    done = subprocess.run(command, input="#include <mpi.h>", text=True, capture_output=True)
    if found is None or done.returncode:
        pytest.skip(f"{name}.{library} builds nothing: apt-get install lib{library}-dev")
    return found


def _launcher(library: str) -> list[str] | None:
    """Return the command that starts ranks, which is that of this library or of none."""
    found = shutil.which(f"mpiexec.{library}")
    if found is None:
        return None
    return [found, "--oversubscribe", "--bind-to", "none"] if library == "openmpi" else [found]


def _environment(library: str) -> dict[str, str]:
    folder = Path(_libraries().name)
    settings = {
        # Whoever started pytest may be a rank of another program.
        **{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "MPI"))},
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "MPI4PY_MPIABI": library,
        "OMP_NUM_THREADS": "1",
        # Whether or not ranks are more than cores: others run beside them.
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "SYMGRAD_CACHE": "1",
        "SYMGRAD_CACHE_DIR": str(folder / "cache"),
    }
    if library == "mpich" and (folder / "libmpi.so.12").exists():
        _prepend(settings, "LD_LIBRARY_PATH", folder)
    if (folder / _RESTS).exists():
        _prepend(settings, "LD_PRELOAD", folder / _RESTS)
    return settings


def _prepend(settings: dict[str, str], name: str, path: Path) -> None:
    known = settings.get(name)
    settings[name] = f"{path}:{known}" if known else str(path)


@cache
def _libraries() -> TemporaryDirectory[str]:
    """Return a folder with MPICH by the name mpi4py is linked with, and what lets ranks rest."""
    made = TemporaryDirectory(prefix="symgrad-mpich-")
    folder = Path(made.name)
    found = [p for root in _FOLDERS for p in sorted(root.glob("**/libmpich.so.12"))]
    if found:
        (folder / "libmpi.so.12").symlink_to(found[0])
    source = Path(__file__).with_name("resting_ranks.c")
    if shutil.which("cc") is not None:
        command = ["cc", "-shared", "-fPIC", str(source), "-o", str(folder / _RESTS), "-ldl"]
        subprocess.run(command, check=True)
    return made
