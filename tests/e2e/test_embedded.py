"""The embedded example: a network trained by a program of C that knows nothing of Python.

Making it takes seconds. What it is made with has tests in `test_c_interface.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from symgrad.runtime.step import Step
from tests.support.c_programs import (
    ARM,
    STRICT,
    X86,
    Machine,
    build,
    needs,
    needs_arm,
    run,
    values_of,
    values_of_state,
)

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "examples" / "embedded" / "main.c"

_SYSTEM = {"linux-vdso.so.1", "libc.so.6", "libm.so.6"}


def build_example(machine: Machine, folder: Path) -> Path:
    command = [sys.executable, "-m", "examples.embedded.export", "--out", str(folder)]
    subprocess.run(
        [*command, "--target", machine.target],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        timeout=120,
    )
    return build(machine, folder, "digits", [MAIN, folder / "digits.o"])


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_example(X86, tmp_path_factory.mktemp("digits"))


def state_after(steps: int) -> bytes:
    """Return the variables after `steps` steps of the compiled training step."""
    # Imported late: not every process that collects tests should wait for scikit-learn.
    from examples.digits import BATCH, SEED, load_split
    from examples.embedded.export import EPOCHS, build_steps

    rng = np.random.default_rng(SEED)
    train: Step = build_steps(rng, target=X86.target)["train"]
    train_x, _, train_y, _ = load_split()
    whole = len(train_x) // BATCH * BATCH
    orders = [rng.permutation(len(train_x))[:whole] for _ in range(EPOCHS)]
    for batch in np.concatenate(orders).reshape(-1, BATCH)[:steps]:
        train(train_x[batch], train_y[batch])
    return values_of(train.graph.variables)


@pytest.mark.slow
@pytest.mark.isa("avx2")
def test_the_program_learns_to_read_and_needs_the_c_library_only(example):
    printed = run(X86, example).stdout
    (accuracy,) = re.findall(r"test accuracy: ([\d.]+)%", printed)
    assert float(accuracy) >= 97
    listed = subprocess.run(
        ["ldd", str(example)], capture_output=True, text=True, check=True, timeout=60
    )
    needed = {line.split()[0] for line in listed.stdout.splitlines()}
    assert {name for name in needed if not name.startswith("/lib")} <= _SYSTEM


@pytest.mark.slow
@pytest.mark.isa("avx2")
def test_the_program_computes_the_bits_of_the_compiled_step(example):
    _check_bits(X86, example)


@needs_arm
@pytest.mark.slow
def test_the_program_computes_the_same_bits_on_aarch64(tmp_path):
    _check_bits(ARM, build_example(ARM, tmp_path))


def _check_bits(machine: Machine, program: Path) -> None:
    run(machine, program, "100")
    state = (program.parent / "digits.state").read_bytes()
    assert values_of_state(state) == state_after(100)


@pytest.mark.slow
@pytest.mark.isa("avx2")
def test_another_number_of_steps_is_another_state(example):
    run(X86, example, "99")
    state = (example.parent / "digits.state").read_bytes()
    assert values_of_state(state) != state_after(100)


@pytest.mark.slow
@pytest.mark.isa("avx2")
@needs("valgrind")
def test_valgrind_finds_nothing(example):
    checked = ("valgrind", "-q", "--leak-check=full", "--error-exitcode=9")
    done = run(X86, example, "20", wrapper=checked)
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "cc"])
def test_the_header_is_one_of_c_and_of_cpp(example, compiler):
    language = ("-x", "c++", "-std=c++11") if compiler == "g++" else ("-x", "c", "-std=c11")
    command = [compiler, *STRICT, "-fsyntax-only", *language, str(example.parent / "digits.h")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_program_is_short():
    assert len(MAIN.read_text().splitlines()) < 100
