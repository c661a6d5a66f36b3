"""Adam as part of a step: beside the same loop in C, and beside gradient and update compiled apart.

Three questions. 10 million float32 parameters in 20 tensors, with gradients that are given: is a
step as fast as a loop in C that reads and writes everything once? A wide linear layer: what is
saved when the kernel that makes the gradient also makes the update, so that the gradient is never
written? And a thousand small parameters: how long does that take to compile? The other rules are
in `update_rules.py`.

The C program is compiled here, for this machine, with OpenMP. What is measured is memory: a round
touches more than a cache holds.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, Times, interleave, optional, pin_to_one_core
from symgrad.errors import CompileError
from symgrad.graph.aligned import aligned_copy
from symgrad.graph.types import Array
from symgrad.optim import Adam
from symgrad.runtime.function import compile
from symgrad.runtime.step import Step

TENSORS = 20
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
MAX_TIMES_C = 1.03
MAX_COMPILE_SECONDS = 2.0
SMALL = 1000  # parameters of some 100 elements
SOURCE = r"""
#include <math.h>
#include <stdint.h>
#include <omp.h>

void adam(int64_t tensors, int64_t n, float **w, float **m, float **v, float **g,
          double t, int threads) {
    const float b1 = 0.9f, b2 = 0.999f, epsilon = 1e-8f;
    const float rate = 1e-3 / (1 - pow(0.9, t)), scale = 1 / sqrt(1 - pow(0.999, t));
    omp_set_num_threads(threads);
    for (int64_t k = 0; k < tensors; k++) {
        float *restrict wk = w[k], *restrict mk = m[k], *restrict vk = v[k];
        const float *restrict gk = g[k];
        #pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; i++) {
            mk[i] = b1 * mk[i] + 0.1f * gk[i];
            vk[i] = b2 * vk[i] + 0.001f * gk[i] * gk[i];
            wk[i] -= rate * mk[i] / (sqrtf(vk[i]) * scale + epsilon);
        }
    }
}
"""
# sqrtf that sets errno is not computed in vectors.
C_OPTIONS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-ffp-contract=fast")


def measure(quick: bool = False) -> Report:
    """Return times of the steps, and how they compare."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    pin_to_one_core()
    report = Report("optimizer", ("step", "ms", "GB/s", "times symgrad"))
    _measure_given(report, quick, threads=1)
    _measure_made(report, quick)
    _measure_compilation(report, quick)
    with _on_cores(before):
        _measure_given(report, quick, threads=2)
    return report


@contextmanager
def _on_cores(cores: set[int]) -> Iterator[None]:
    """Let the process run on `cores` for a while."""
    if not cores:
        yield
        return
    now = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, now)


def _add_rows(report: Report, times: dict[str, Times], ours: str, nbytes: dict[str, int]) -> None:
    for name, spent in times.items():
        cells = (spent.median * 1e3, nbytes[name] / spent.median / 1e9, spent.ratio(times[ours]))
        report.rows.append((name, *(round(cell, 3) for cell in cells)))


# ------------------------------------------------------------------- gradients that are given


def _measure_given(report: Report, quick: bool, threads: int) -> None:
    count = 4_000 if quick else 500_000
    random = np.random.default_rng(0)
    weights, gradients = (
        [aligned_copy(random.standard_normal(count).astype(np.float32)) for _ in range(TENSORS)]
        for _ in range(2)
    )
    suffix = "" if threads == 1 else f", {threads} threads"
    ours = f"symgrad, gradients given{suffix}"
    step = _symgrad_step(weights, gradients, threads)
    if step is None:
        report.notes.append(f"threads={threads} is not an option of this version.")
        return
    contestants: dict[str, Contestant] = {ours: step}
    with tempfile.TemporaryDirectory() as folder:
        in_c = _c_step(Path(folder), weights, gradients, threads)
    if in_c is not None:
        contestants[f"C{suffix}"] = in_c
    in_torch = _torch_step(weights, gradients, threads)
    if in_torch is not None:
        contestants[f"PyTorch fused Adam{suffix}"] = in_torch
    _check_equal(contestants)
    times = interleave(contestants, rounds=3 if quick else 31, seconds=0.01)
    _add_rows(report, times, ours, dict.fromkeys(times, 7 * 4 * count * TENSORS))
    if in_c is not None:
        ratio = times[ours].ratio(times[f"C{suffix}"])
        report.bars.append(Bar(f"gradients given{suffix}: times C", ratio, MAX_TIMES_C))
    else:
        report.notes.append("there is no C compiler to compare with.")


def _symgrad_step(weights: list[Array], gradients: list[Array], threads: int) -> Contestant | None:
    variables = [sg.variable(w) for w in weights]
    given = [sg.placeholder(g.shape) for g in gradients]
    updates = Adam(RATE, BETA1, BETA2, EPSILON).apply_gradients(zip(given, variables, strict=True))
    try:
        step = compile(given, (), updates=updates, threads=threads)
    except CompileError:
        return None

    def run() -> Array:
        step(*gradients)
        return variables[-1].state.array

    return run


def _c_step(
    folder: Path, weights: list[Array], gradients: list[Array], threads: int
) -> Contestant | None:
    if shutil.which("cc") is None:
        return None
    source, library = folder / "adam.c", folder / "adam.so"
    source.write_text(SOURCE)
    command = ["cc", *C_OPTIONS, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True, timeout=60)
    adam = ctypes.CDLL(str(library)).adam
    adam.restype = None
    start = (weights, [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights])
    state = [[aligned_copy(a) for a in arrays] for arrays in start]
    tables = [_table(arrays) for arrays in (*state, gradients)]
    sizes = ctypes.c_int64(TENSORS), ctypes.c_int64(weights[0].size)
    steps = 0.0

    def run() -> Array:
        nonlocal steps
        steps += 1
        adam(*sizes, *tables, ctypes.c_double(steps), ctypes.c_int(threads))
        return state[0][-1]

    return run


def _table(arrays: list[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


def _torch_step(weights: list[Array], gradients: list[Array], threads: int) -> Contestant | None:
    torch = optional("torch")
    if torch is None:
        return None
    torch.set_num_threads(threads)
    parameters = [torch.nn.Parameter(torch.tensor(w)) for w in weights]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = torch.tensor(g)
    optimizer = torch.optim.Adam(parameters, lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True)

    def run() -> Array:
        optimizer.step()
        found: Array = parameters[-1].detach().numpy()
        return found

    return run


def _check_equal(contestants: dict[str, Contestant]) -> None:
    results = {name: np.array(run()) for name, run in contestants.items()}
    first = next(iter(results.values()))
    for name, result in results.items():
        np.testing.assert_allclose(result, first, rtol=1e-4, atol=1e-6, err_msg=name)


# -------------------------------------------------------- gradients that the same step makes


def _measure_made(report: Report, quick: bool) -> None:
    size, batch = (128, 8) if quick else (4096, 8)
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((batch, size)).astype(np.float32) for _ in range(2))
    start = (random.standard_normal((size, size)) / size**0.5).astype(np.float32)
    whole, whole_steps = _whole_step(start, x, y)
    apart, apart_steps = _apart_steps(start, x, y)
    names = "symgrad, wide linear layer", "gradient and update apart"
    contestants = dict(zip(names, (whole, apart), strict=True))
    _check_equal(contestants)
    times = interleave(contestants, rounds=3 if quick else 31, seconds=0.01)
    steps = zip(names, (whole_steps, apart_steps), strict=True)
    nbytes = {name: sum(k.bytes for s in several for k in s.kernels) for name, several in steps}
    _add_rows(report, times, names[0], nbytes)
    saved = nbytes[names[1]] - nbytes[names[0]]
    in_memory = sum(s.memory.gradient_bytes for s in whole_steps)
    report.notes.append(
        f"the wide layer: {saved:,} of {nbytes[names[1]]:,} bytes are saved; "
        f"gradient buffers: {in_memory:,} bytes."
    )
    ratio = times[names[1]].ratio(times[names[0]])
    report.bars.append(Bar("times faster than apart", ratio, 1.0, at_least=True))


def _loss_of(start: Array, x: Array, y: Array) -> tuple[sg.Variable, list[sg.Tensor], sg.Tensor]:
    weight = sg.variable(start)
    inputs = [sg.placeholder(x.shape), sg.placeholder(y.shape)]
    return weight, inputs, sg.mean(sg.square(inputs[0] @ weight - inputs[1]))


def _whole_step(start: Array, x: Array, y: Array) -> tuple[Contestant, list[Step]]:
    weight, inputs, loss = _loss_of(start, x, y)
    step = compile(inputs, loss, updates=Adam(RATE).minimize(loss))

    def run() -> Array:
        step(x, y)
        return weight.state.array

    return run, [step]


def _apart_steps(start: Array, x: Array, y: Array) -> tuple[Contestant, list[Step]]:
    weight, inputs, loss = _loss_of(start, x, y)
    (gradient,) = sg.gradients(loss, [weight])
    assert gradient is not None, "the loss depends on the weight"
    backward = compile(inputs, [loss, gradient])
    given = sg.placeholder(start.shape)
    update = compile([given], (), updates=Adam(RATE).apply_gradients([(given, weight)]))
    found = [np.zeros((), np.float32), aligned_copy(np.zeros_like(start))]

    def run() -> Array:
        backward(x, y, out=found)
        update(found[1])
        return weight.state.array

    return run, [backward, update]


# --------------------------------------------------------------------------- many small tensors


def _measure_compilation(report: Report, quick: bool) -> None:
    count = 20 if quick else SMALL
    makers: dict[str, Callable[[], Step]] = {
        "of 100 elements, gradients given": lambda: _small_step([100] * count),
        "of 100 elements, gradients computed": lambda: _small_step([100] * count, is_given=False),
        "of 100, 101, 102, ... elements": lambda: _small_step([100 + i for i in range(count)]),
    }
    for number, (name, make) in enumerate(makers.items()):
        begun = time.process_time()
        step = make()
        seconds = time.process_time() - begun
        kernels = len(step.executable.program.kernels)
        report.rows.append((f"compile {count:,} parameters {name}", seconds * 1e3, None, None))
        report.notes.append(f"{name}: {kernels} kernels, {len(step.kernels):,} calls.")
        if number < 2:
            bar = Bar(f"seconds to compile {count:,} {name}", seconds, MAX_COMPILE_SECONDS)
            report.bars.append(bar)


def _small_step(sizes: list[int], is_given: bool = True) -> Step:
    variables = [sg.variable(np.zeros(size, np.float32)) for size in sizes]
    adam = Adam(RATE)
    if is_given:
        given = [sg.placeholder((size,)) for size in sizes]
        pairs = zip(given, variables, strict=True)
        return compile(given, (), updates=adam.apply_gradients(pairs), cache=False)
    x = sg.placeholder((sizes[0],))
    loss = reduce(sg.add, [sg.sum(sg.square(w * x - 1.0)) for w in variables])
    return compile([x], loss, updates=adam.minimize(loss), cache=False)


if __name__ == "__main__":
    run_as_program(__doc__, measure)
