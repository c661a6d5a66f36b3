"""Exported steps with collectives run in programs of C, over each library by the same object."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.c_programs import STRICT
from tests.support.mpi import LIBRARIES, ROOT, compiler_of, run_program, run_ranks

RANKS = 2
_SOURCE = ROOT / "tests" / "distributed" / "run_net.c"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a library that was exported by one of two ranks, and of its results."""
    folder = tmp_path_factory.mktemp("exported")
    ended = run_ranks("openmpi", RANKS, ["-m", "tests.distributed.export_programs", str(folder)])
    assert ended.status == 0, ended.errors
    assert ended.output.count("has written") == RANKS
    return folder


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_program_of_c_gives_the_bits_of_the_compiled_step(library: str, exported: Path) -> None:
    compiler = compiler_of(library, "mpicc")
    program = exported / f"net_{library}"
    flags = [*STRICT, "-std=c11", f"-I{exported}"]
    command = [compiler, *flags, str(_SOURCE), str(exported / "net.o"), "-lm", "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    ended = run_program(library, RANKS, [str(program)], folder=exported)
    assert ended.status == 0, ended.errors
    for rank in range(RANKS):
        outputs = exported / f"outputs{rank}.bin"
        assert outputs.read_bytes() == Path(exported, f"wanted{rank}.bin").read_bytes()
        outputs.unlink()


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_header_is_one_of_cpp(library: str, exported: Path) -> None:
    compiler = compiler_of(library, "mpicxx")
    # A header of Open MPI has such casts.
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-std=c++11"]
    call = "net_init_mpi(&net, MPI_COMM_WORLD, MPI_COMM_SELF)"
    text = f'#include "net.h"\nnet_instance net;\nint main() {{ return {call}; }}\n'
    command = [compiler, *flags, f"-I{exported}", "-fsyntax-only", "-x", "c++", "-"]
    subprocess.run(command, input=text, text=True, check=True, timeout=60)
