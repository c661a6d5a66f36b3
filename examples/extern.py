"""A step of training that calls a function of C: compiled here, and exported for a program of C.

The loss is the robust one of Barron (2019) with shape 1, sqrt(r^2 + 1) - 1, of the residuals of a
line through points of which some are far off. Loss and derivative are written in C, compiled by the
system's compiler, and called in the middle of the step: the gradient of that call is the other
function. The step is then exported, and a program of C that has both functions trains with it.

    python examples/extern.py
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import symgrad as sg

COUNT, STEPS, RATE = 64, 200, 0.5

FUNCTIONS = r"""
#include <math.h>
#include <stdint.h>

/* The mean loss of %(count)d residuals; a residual that is no number is refused. */
int32_t robust_loss(const double *r, double *loss) {
    double sum = 0;
    for (int i = 0; i < %(count)d; i++) sum += sqrt(r[i] * r[i] + 1) - 1;
    *loss = sum / %(count)d;
    return isfinite(sum) ? 0 : 1;
}

/* The gradient by the residuals, of a loss that is multiplied by a scale. */
int32_t robust_loss_gradient(const double *r, const double *scale, double *gradient) {
    for (int i = 0; i < %(count)d; i++)
        gradient[i] = *scale * r[i] / sqrt(r[i] * r[i] + 1) / %(count)d;
    return 0;
}
"""

PROGRAM = r"""
#include <stdio.h>
#include "line.h"

static line_instance self;

int main(void) {
    double x[%(count)d], y[%(count)d], loss;
    FILE *in = fopen("points.bin", "rb");
    if (!in || fread(x, sizeof x, 1, in) != 1 || fread(y, sizeof y, 1, in) != 1) return 1;
    if (line_init(&self)) return 2;
    for (int step = 0; step < %(steps)d; step++) {
        int32_t status = line_train(&self, x, y, &loss);
        if (status) return puts(line_message(status)), 3;
    }
    double slope, offset;
    line_read(&self, "slope", &slope, sizeof slope);
    line_read(&self, "offset", &offset, sizeof offset);
    printf("%%.17g %%.17g %%.17g\n", loss, slope, offset);
    return fclose(in);
}
"""


def run_command(*command: str | Path, folder: Path) -> str:
    """Run a command in `folder`, and return what it prints."""
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def build_functions(folder: Path) -> ctypes.CDLL:
    """Compile the functions to a shared library, and load it."""
    (folder / "robust.c").write_text(FUNCTIONS % {"count": COUNT})
    command = ("cc", "-O2", "-shared", "-fPIC", "robust.c", "-o", "robust.so", "-lm")
    run_command(*command, folder=folder)
    return ctypes.CDLL(str(folder / "robust.so"))


def robust_loss(functions: ctypes.CDLL, residuals: sg.Tensor) -> sg.Tensor:
    """Return the loss, by a call, with another call as its gradient."""

    def gradient(node: sg.Node, dy: sg.Tensor) -> sg.Tensor:
        (of_residuals,) = sg.extern(
            "robust_loss_gradient",
            [node.inputs[0], dy],
            [((COUNT,), "float64")],
            pointer=functions.robust_loss_gradient,
        )
        return of_residuals

    (loss,) = sg.extern(
        "robust_loss", [residuals], [((), "float64")],
        pointer=functions.robust_loss, grad=gradient,
    )  # fmt: skip
    return loss


def build_step(functions: ctypes.CDLL) -> tuple[sg.Step, sg.Variable, sg.Variable]:
    """Compile a step of gradient descent; return it with what it learns."""
    x = sg.placeholder((COUNT,), "float64", name="x")
    y = sg.placeholder((COUNT,), "float64", name="y")
    slope, offset = (sg.variable(np.float64(0), name=name) for name in ("slope", "offset"))
    loss = robust_loss(functions, slope * x + offset - y)
    step = sg.compile([x, y], loss, sg.optim.SGD(RATE).minimize(loss))
    return step, slope, offset


def make_points() -> tuple[np.ndarray, np.ndarray]:
    """Return points on the line y = 2 x - 1, of which every eighth is far off."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, COUNT)
    y = 2 * x - 1 + rng.normal(0, 0.05, COUNT)
    y[::8] += 30
    return x, y


def train_in_c(step: sg.Step, points: tuple[np.ndarray, np.ndarray], folder: Path) -> list[float]:
    """Export the step, build a program of C around it, and return what that has learnt."""
    sg.export({"train": step}, folder / "line", formats=("o", "h"))
    (folder / "points.bin").write_bytes(b"".join(array.tobytes() for array in points))
    (folder / "main.c").write_text(PROGRAM % {"count": COUNT, "steps": STEPS})
    sources = ("main.c", "robust.c", "line.o")
    run_command("cc", "-O2", "-I.", *sources, "-lm", "-o", "train", folder=folder)
    return [float(word) for word in run_command(folder / "train", folder=folder).split()]


def main() -> None:
    """Train here and in a program of C, and print what both have learnt."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        functions = build_functions(folder)
        points = make_points()
        step, slope, offset = build_step(functions)
        in_c = train_in_c(step, points, folder)
        losses = [float(step(*points)) for _ in range(STEPS)]
        here = [losses[-1], float(slope.value), float(offset.value)]
        print(f"loss: {losses[0]:.3f} before, {losses[-1]:.3f} after {STEPS} steps")
        print(f"line: y = {here[1]:.2f} x + {here[2]:.2f}")
        print(f"the program of C has learnt the same to the bit: {in_c == here}")


if __name__ == "__main__":
    main()
