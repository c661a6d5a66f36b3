"""A loop whose end only its values know, forward and backward, beside the same loop written in C.

    while i < 10,000 and v[0] < limit:  v = v * decay + drive;  i = i + 1        64 float32

The gradient of the sum of the last v with respect to v, decay and drive comes from
`sg.gradients` through a loop without a bound: every iteration is recorded on tapes that grow. The C
program is compiled here, for this machine, with the record in memory that is already there.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import interleave, pin_to_one_core
from symgrad.graph.types import Array

WIDTH = 64
SOURCE = r"""
#include <stdint.h>
#define N 64

int64_t forward(const float *restrict start, const float *restrict decay,
                const float *restrict drive, float limit, int64_t bound,
                float *restrict record, float *restrict v) {
    int64_t i = 0;
    for (int k = 0; k < N; k++) v[k] = start[k];
    for (; i < bound && v[0] < limit; i++) {
        if (record)
            for (int k = 0; k < N; k++) record[i * N + k] = v[k];
        for (int k = 0; k < N; k++) v[k] = v[k] * decay[k] + drive[k];
    }
    return i;
}

void backward(const float *restrict decay, const float *restrict record, int64_t trips,
              float *restrict g, float *restrict g_decay, float *restrict g_drive) {
    for (int k = 0; k < N; k++) { g[k] = 1; g_decay[k] = 0; g_drive[k] = 0; }
    for (int64_t i = trips - 1; i >= 0; i--) {
        const float *v = record + i * N;
        for (int k = 0; k < N; k++) g_decay[k] += g[k] * v[k];
        for (int k = 0; k < N; k++) g_drive[k] += g[k];
        for (int k = 0; k < N; k++) g[k] *= decay[k];
    }
}
"""

Pass = Callable[[], list[Array]]


def measure(quick: bool = False) -> Report:
    """Return the times of both ways through the loop, and how they compare with those of C."""
    pin_to_one_core()
    trips = 200 if quick else 10_000
    report = Report("loops", ("pass", "symgrad us", "C us", "ns an iteration", "times C"))
    if shutil.which("cc") is None:
        report.notes.append("there is no C compiler to compare with.")
        return report
    arguments = _arguments(trips)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = _symgrad_passes(arguments), _c_passes(_compiled(Path(folder)), arguments)
    for name in ours:
        for got, wanted in zip(ours[name](), theirs[name](), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
        contestants = {"symgrad": ours[name], "C": theirs[name]}
        times = interleave(contestants, rounds=5 if quick else 41, seconds=0.005)
        mine, c = times["symgrad"], times["C"]
        ratio = mine.ratio(c)
        cells = (mine.median * 1e6, c.median * 1e6, mine.median * 1e9 / trips, ratio)
        report.rows.append((name, *(round(cell, 2) for cell in cells)))
        report.bars.append(Bar(f"{name}: times C", ratio, 1.5))
    return report


def _arguments(trips: int) -> list[Array]:
    """Return start, decay, drive, a limit that is never met and the most iterations to run."""
    random = np.random.default_rng(0)
    vectors = [random.uniform(low, high, WIDTH) for low, high in ((0, 1), (0.9, 0.999), (0, 0.1))]
    limit, bound = np.array(1e6, np.float32), np.array(trips, np.int64)
    return [*(v.astype(np.float32) for v in vectors), limit, bound]


def _symgrad_passes(arguments: list[Array]) -> dict[str, Pass]:
    start, decay, drive = (sg.placeholder((WIDTH,)) for _ in range(3))
    limit, bound = sg.placeholder(()), sg.placeholder((), "int64")
    inputs = [start, decay, drive, limit, bound]
    _, last = sg.while_loop(
        lambda i, v: sg.logical_and(i < bound, v[0] < limit),
        lambda i, v: (i + 1, v * decay + drive),
        (sg.constant(0, "int64"), start),
    )
    forward = sg.compile(inputs, [last])
    both = sg.compile(inputs, [last, *sg.gradients(last, [start, decay, drive])])
    return {
        "forward": lambda: list(forward(*arguments)),
        "forward and backward": lambda: list(both(*arguments)),
    }


def _compiled(folder: Path) -> ctypes.CDLL:
    """Compile the loop in C and load it."""
    source, library = folder / "loop.c", folder / "loop.so"
    source.write_text(SOURCE)
    options = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")
    subprocess.run(["cc", *options, str(source), "-o", str(library)], check=True, timeout=60)
    loaded = ctypes.CDLL(str(library))
    pointer, int64 = ctypes.c_void_p, ctypes.c_int64
    loaded.forward.argtypes = [pointer] * 3 + [ctypes.c_float, int64, pointer, pointer]
    loaded.forward.restype = int64
    loaded.backward.argtypes = [pointer, pointer, int64, pointer, pointer, pointer]
    loaded.backward.restype = None
    return loaded


def _c_passes(library: ctypes.CDLL, arguments: list[Array]) -> dict[str, Pass]:
    limit, bound = float(arguments[3]), int(arguments[4])
    record = np.zeros((bound, WIDTH), np.float32)
    results = [np.zeros(WIDTH, np.float32) for _ in range(4)]
    start, decay, drive, last, *gradients = (a.ctypes.data for a in (*arguments[:3], *results))

    def forward() -> list[Array]:
        library.forward(start, decay, drive, limit, bound, None, last)
        return results[:1]

    def both() -> list[Array]:
        trips = library.forward(start, decay, drive, limit, bound, record.ctypes.data, last)
        library.backward(decay, record.ctypes.data, trips, *gradients)
        return results

    return {"forward": forward, "forward and backward": both}


if __name__ == "__main__":
    run_as_program(__doc__, measure)
