"""What the statistical examples export runs in programs of C, which need the C library only."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import specialize
from symgrad.graph.types import Array
from tests.support.c_programs import X86, needs, run_in_c

_SYSTEM = {"linux-vdso.so.1", "libc.so.6", "libm.so.6"}

pytestmark = [pytest.mark.slow, needs("cc"), pytest.mark.isa("avx2")]


def check_in_c(
    step: sg.Step, sizes: dict[str, int], inputs: Sequence[Array], folder: Path
) -> list[Array]:
    """Run a step in a program of C, which must give what it gives here; return that."""
    graph = specialize(step.graph, sizes)
    found = run_in_c(X86, folder, graph, inputs)
    here = sg.compile(list(graph.inputs), list(graph.outputs), target=X86.target, opt_level=1)
    for a, b in zip(found, here(*inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    listed = subprocess.run(
        ["ldd", str(folder / "once")], capture_output=True, text=True, check=True, timeout=60
    )
    needed = {line.split()[0] for line in listed.stdout.splitlines()}
    assert {name for name in needed if not name.startswith("/lib")} <= _SYSTEM
    return found


@pytest.mark.parametrize("name", ["fit", "track"])
def test_a_kalman_filter_runs_without_python(name, tmp_path):
    from examples.kalman import SEED, make_path, make_steps  # which imports SciPy

    _, seen, is_seen = make_path(np.random.default_rng(SEED))
    times = 100
    inputs = [np.array([-0.2, -0.7]), seen[:times], is_seen[:times]]
    check_in_c(make_steps(times)[name], {}, inputs, tmp_path)


def test_a_gaussian_process_runs_without_python(tmp_path):
    from examples.gaussian_process import load_split, make_steps

    x, z, y, _ = load_split()
    fit, predict = make_steps(x.shape[1])
    p = np.full(2 + x.shape[1], 0.1)
    n, m = fit.graph.inputs[1].shape[0], predict.graph.inputs[3].shape[0]
    (tmp_path / "fit").mkdir()
    (tmp_path / "predict").mkdir()
    known = {str(n): 80}
    loss, gradient = check_in_c(fit, known, [p, x[:80], y[:80]], tmp_path / "fit")
    assert np.isfinite(loss)
    assert gradient.any()
    inputs = [p, x[:80], y[:80], z[:20]]
    mean, deviation = check_in_c(predict, {**known, str(m): 20}, inputs, tmp_path / "predict")
    assert (deviation > 0).all()
    assert mean.any()
