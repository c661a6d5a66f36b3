"""A sparse result of an exported step: its values are written, its pattern is in the library."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import symgrad as sg

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
X = np.arange(1.0, 6.0)
PROGRAM = """
#include <stdio.h>
#include "net.h"
int main(void) {
    static net_instance net;
    double x[5] = {1, 2, 3, 4, 5}, y[4], values[8];
    if (net_init(&net) || net_step(&net, x, y, values)) return 1;
    size_t rows = sizeof net_step_output1_indptr / sizeof *net_step_output1_indptr - 1;
    size_t count = sizeof net_step_output1_indices / sizeof *net_step_output1_indices;
    printf("%zu %zu\\n", rows, count);
    for (size_t row = 0; row < rows; ++row)
        for (int32_t i = net_step_output1_indptr[row]; i < net_step_output1_indptr[row + 1]; ++i)
            printf("%zu %d %.17g\\n", row, (int)net_step_output1_indices[i], values[i]);
    return 0;
}
"""


def residuals() -> tuple[sg.Tensor, sg.Tensor]:
    x = sg.placeholder((5,), "float64", name="x")
    return x, sg.exp(x[1:] / 8) * x[:-1]


def make_step() -> sg.Step:
    x, y = residuals()
    return sg.compile([x], (y, sg.jacobian(y, x, sparsity="auto")), name="step")


@needs_cc
def test_a_loaded_step_gives_the_matrix_of_the_compiled_one(tmp_path: Path) -> None:
    x, y = residuals()
    found = {"y": y, "j": [sg.jacobian(y, x, sparsity="auto"), None]}
    step = sg.compile([x], {**found, "h": sg.hessian(sg.sum(y * y), x, sparsity="auto")})
    step.export(tmp_path / "net")
    expected, given = step(X), sg.load(tmp_path / "net")(X)
    for one, other in ((expected["j"][0], given["j"][0]), (expected["h"], given["h"])):
        assert isinstance(other, csr_array)
        assert (other.shape, other.dtype) == (one.shape, one.dtype)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(other, part), getattr(one, part))
    assert given["j"][1] is None
    np.testing.assert_array_equal(given["y"], expected["y"])


@needs_cc
def test_a_program_of_c_finds_the_pattern_in_the_object(tmp_path: Path) -> None:
    step = make_step()
    step.export(tmp_path / "net", formats=("o", "h"))
    (tmp_path / "main.c").write_text(PROGRAM)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(tmp_path)]
    made = [str(tmp_path / name) for name in ("main.c", "net.o")]
    binary = tmp_path / "main"
    subprocess.run(["cc", *flags, *made, "-lm", "-o", str(binary)], check=True)
    told = subprocess.run([binary], capture_output=True, text=True, check=True).stdout.split()
    _, matrix = step(X)
    rows = np.repeat(np.arange(4), np.diff(matrix.indptr))
    assert told[:2] == ["4", "8"]
    assert [int(n) for n in told[2::3]] == rows.tolist()
    assert [int(n) for n in told[3::3]] == matrix.indices.tolist()
    assert [float(n) for n in told[4::3]] == matrix.data.tolist()


@needs_cc
def test_the_manifest_says_where_the_pattern_is(tmp_path: Path) -> None:
    make_step().export(tmp_path / "net")
    manifest = json.loads((tmp_path / "net.json").read_text())["manifest"]
    assert manifest["steps"][0]["output_nest"] == {"tuple": [0, {"csr": {
        "values": 1, "shape": [4, 5], "non_zeros": 8, "dtype": "int32",
        "indptr": "net_step_output1_indptr", "indices": "net_step_output1_indices",
    }}]}  # fmt: skip


@needs_cc
def test_a_matrix_without_non_zeros_is_one_as_well(tmp_path: Path) -> None:
    x = sg.placeholder((3,), name="x")
    step = sg.compile([x], sg.jacobian(sg.zeros(2), x, sparsity="auto"), name="net")
    step.export(tmp_path / "net")
    found = sg.load(tmp_path / "net")(np.ones(3, np.float32))
    assert (found.shape, found.nnz) == ((2, 3), 0)
    assert "net_net_output0_indices[1];" in (tmp_path / "net.h").read_text()


def test_a_step_with_the_name_of_a_pattern_is_refused(tmp_path: Path) -> None:
    x, y = residuals()
    steps = {"step": make_step(), "step_output1_indptr": sg.compile([x], y)}
    with pytest.raises(sg.CompileError, match="would both be called net_step_output1_indptr"):
        sg.export(steps, tmp_path / "net", formats=("h",))
    assert not list(tmp_path.iterdir())
