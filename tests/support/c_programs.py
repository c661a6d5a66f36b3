"""Programs of C around exported steps: built by the system's compiler, run natively or emulated."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.abi import STATE_HEAD_BYTES

STRICT = ("-O1", "-Wall", "-Wextra", "-Werror", "-pedantic")


@dataclass(frozen=True, slots=True)
class Machine:
    """How programs for an architecture are built and run: a compiler, and what runs them."""

    target: str
    compiler: str
    runner: tuple[str, ...] = ()


# Valgrind knows AVX2 and not AVX-512.
X86 = Machine("x86-64-v3", "cc")
ARM = Machine("aarch64", "aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return the mark of a test that runs where `programs` are installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


needs_arm = needs(ARM.compiler, ARM.runner[0])
MACHINES = [
    pytest.param(X86, id="x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param(ARM, id="aarch64", marks=needs_arm),
]


def build(machine: Machine, folder: Path, name: str, sources: Sequence[Path | str]) -> Path:
    """Compile `sources`, of C or objects, against the headers in `folder`."""
    program = folder / name
    flags = [*STRICT, "-std=c11", f"-I{folder}", "-pthread"]
    command = [machine.compiler, *flags, *map(str, sources), "-lm", "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    return program


def run(
    machine: Machine, program: Path, *arguments: str, wrapper: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `program` in its folder, and return what it printed; it must succeed."""
    command = [*wrapper, *machine.runner, str(program), *arguments]
    done = subprocess.run(
        command,
        cwd=program.parent,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


def values_of_state(state: bytes) -> bytes:
    """Return what follows the head of a saved state."""
    return state[STATE_HEAD_BYTES:]


def values_of(variables: Sequence[sg.Variable]) -> bytes:
    """Return the values of variables as a saved state has them, in words of 8 bytes."""
    parts = [np.ascontiguousarray(v.value).tobytes() for v in variables]
    return b"".join(part + bytes(-len(part) % 8) for part in parts)
