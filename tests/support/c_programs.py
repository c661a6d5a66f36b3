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
from symgrad.codegen.c_interface.abi import STATE_HEAD_BYTES
from symgrad.graph.types import Array

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


def needs_library(flag: str) -> pytest.MarkDecorator:
    """Return the mark of a test that runs where programs of C can be linked with a library."""
    command = ["cc", "-x", "c", "-", flag, "-o", os.devnull]
    text = "int main(void) { return 0; }"
    found = (
        shutil.which("cc") is not None
        and not subprocess.run(
            command, input=text, text=True, capture_output=True, timeout=60, check=False
        ).returncode
    )
    return pytest.mark.skipif(not found, reason=f"no program can be linked with {flag}")


needs_arm = needs(ARM.compiler, ARM.runner[0])
MACHINES = [
    pytest.param(X86, id="x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param(ARM, id="aarch64", marks=[needs_arm, pytest.mark.slow]),
]


def build(
    machine: Machine, folder: Path, name: str, sources: Sequence[Path | str], *more: str
) -> Path:
    """Compile `sources`, of C or objects, against the headers in `folder`, with `more` flags."""
    program = folder / name
    flags = [*STRICT, "-std=c11", f"-I{folder}", "-pthread"]
    command = [machine.compiler, *flags, *map(str, sources), "-lm", *more, "-o", str(program)]
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


_RUN_ONCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include "once.h"
static const size_t sizes[] = {%(sizes)s};
enum { INPUTS = %(inputs)d, BUFFERS = sizeof sizes / sizeof *sizes };
static once_instance self;
int main(void) {
    void *buffers[BUFFERS];
    const void *inputs[BUFFERS];
    FILE *in = fopen("inputs.bin", "rb"), *out = fopen("outputs.bin", "wb");
    int32_t status = once_init(&self);
    if (in == NULL || out == NULL || status) return puts(once_message(status)), 1;
    for (int i = 0; i < BUFFERS; i++) {
        inputs[i] = buffers[i] = calloc(sizes[i] + 1, 1);
        if (i < INPUTS && fread(buffers[i], 1, sizes[i], in) != sizes[i]) return 2;
    }
    status = once_step_run(&self, inputs, buffers + INPUTS);
    if (status) return puts(once_message(status)), 3;
    for (int i = INPUTS; i < BUFFERS; i++) fwrite(buffers[i], 1, sizes[i], out);
    return fclose(in) | fclose(out);
}
"""


def run_in_c(
    machine: Machine,
    folder: Path,
    graph: sg.Graph,
    inputs: Sequence[Array],
    target: str | tuple[str, ...] | None = None,
    libraries: Sequence[str] = (),
) -> list[Array]:
    """Export `graph` for `machine`, run it in a program of C and return its outputs.

    The program is linked with `libraries`, as `-llapack`.
    """
    step = sg.compile(list(graph.inputs), list(graph.outputs), graph.updates, opt_level=1)
    files = sg.export(
        {"step": step}, folder / "once", formats=("o", "h"), target=target or machine.target
    )
    types = [t.type for t in (*graph.inputs, *graph.outputs)]
    sizes = ", ".join(str(t.nbytes) for t in types)
    source = folder / "once.c"
    source.write_text(_RUN_ONCE % {"sizes": sizes, "inputs": len(inputs)})
    (folder / "inputs.bin").write_bytes(b"".join(np.asarray(a).tobytes() for a in inputs))
    run(machine, build(machine, folder, "once", [source, files[0]], *libraries))
    content, start, outputs = (folder / "outputs.bin").read_bytes(), 0, []
    for type_ in types[len(inputs) :]:
        found = np.frombuffer(content, type_.dtype.numpy, type_.count, start)
        outputs.append(found.reshape(type_.static_shape))
        start += type_.nbytes
    assert start == len(content), "the program wrote something else"
    return outputs
