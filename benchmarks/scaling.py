"""How the time to compile grows: each stage at 100, 1,000 and 10,000 ops, and what exponent fits.

Three families are built and differentiated: a chain, a wide sum, and a stack of equal layers. Times
are CPU seconds of this process, medians of several runs, so that other programs count little. The
garbage collector runs as users have it, but its time is a row of its own: it falls on whichever
stage makes the next object. What an earlier run left behind is collected before. An exponent is
the slope of the line that fits the logarithms; `last` is that of the last decade alone, where fixed
costs no longer hide growth.

Beside that, a deep chain is compiled in a process of its own, for its time and its peak memory.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, write_json
from benchmarks.report import options as shared_options
from benchmarks.timing import pin_to_one_core
from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.native import jit
from symgrad.codegen.program.build import build_program
from symgrad.codegen.program.passes import Scheduled, run_program_passes
from symgrad.codegen.schedule.parallelize import ONE_THREAD
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.target import target_named
from symgrad.compiler import PASSES
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.pipeline import optimize
from symgrad.passes.table import Options, PassRunner
from symgrad.runtime.function import compile

SIZES = (100, 1_000, 10_000)
MAX_EXPONENT = {"build": 1.15, "gradients": 1.15}
MAX_EXPONENT_OF_COMPILING = 1.3
OPT_LEVEL = 3
COLLECTOR = "garbage collector"

DEEP_OPS, DEEP_SECONDS, DEEP_BYTES = 5_000, 10.0, 1e9

Built = tuple[list[Tensor], Tensor]


def build_chain(ops: int) -> Built:
    """Return inputs and result of `h = tanh(h * w + b)` over and over."""
    x, w, b = (sg.placeholder((1000,)) for _ in range(3))
    h = x
    for _ in range(ops // 3):
        h = sg.tanh(h * w + b)
    return [x, w, b], h.sum()


def build_sum(ops: int) -> Built:
    """Return inputs and result of a sum of products of 8 tensors."""
    xs = [sg.placeholder((1000,)) for _ in range(8)]
    total = xs[0] * xs[1]
    for i in range(1, ops // 2):
        total = total + xs[i % 8] * xs[i // 8 % 8]
    return xs, total.sum()


def build_layers(ops: int) -> Built:
    """Return inputs and result of equal layers `h = tanh(h @ w + b)`, each with its weights.

    Counted with the broadcast of the bias, and in groups of six ops: matmul, broadcast, add, tanh
    and the two weights, which are leaves.
    """
    x = sg.placeholder((16, 32))
    inputs, h = [x], x
    for _ in range(ops // 6):
        w, b = sg.placeholder((32, 32)), sg.placeholder((32,))
        inputs += [w, b]
        h = sg.tanh(h @ w + b)
    return inputs, h.sum()


FAMILIES: dict[str, Callable[[int], Built]] = {
    "chain": build_chain,
    "sum": build_sum,
    "layers": build_layers,
}


class _Watch:
    """Notes the CPU seconds of each stage as it ends, and apart from them the collector's."""

    def __init__(self) -> None:
        self.seconds = {COLLECTOR: 0.0}
        self._collected = 0.0  # since the last stage ended
        self._started = 0.0
        gc.collect()
        gc.callbacks.append(self._note_collection)
        self._last = time.process_time()

    def _note_collection(self, phase: str, _details: object) -> None:
        if phase == "start":
            self._started = time.process_time()
        else:
            self._collected += time.process_time() - self._started

    def note(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[stage] = now - self._last - self._collected
        self.seconds[COLLECTOR] += self._collected
        self._last, self._collected = now, 0.0

    def stop(self) -> dict[str, float]:
        """Return the seconds of each stage, and of all of them."""
        gc.callbacks.remove(self._note_collection)
        collector = self.seconds.pop(COLLECTOR)
        stages = {**self.seconds, COLLECTOR: collector}
        return {**stages, "all": sum(stages.values())}


def time_stages(build: Callable[[int], Built], ops: int) -> tuple[dict[str, float], int, int]:
    """Build, differentiate and compile; return seconds a stage, graph nodes, different kernels."""
    target = target_named("native")
    watch = _Watch()
    inputs, y = build(ops)
    watch.note("build")
    found = [g for g in gradients(y, inputs) if g is not None]
    watch.note("gradients")
    graph = optimize(Graph([y, *found], inputs), options=Options(fast_math=False))
    watch.note("optimize")
    partition = fuse(graph)
    watch.note("fuse")
    runner, machine = PassRunner(Options(), PASSES), Machine(target, ONE_THREAD)
    built = build_program(partition, machine, runner)
    program = run_program_passes(built.program, Scheduled(machine, dict(built.alone)), runner)
    watch.note("lower")
    text = str(emit_module(program, target))
    watch.note("emit LLVM")
    module = jit.optimize(text, target, OPT_LEVEL)
    watch.note("LLVM optimizer")
    image = jit.emit_object(module, target, OPT_LEVEL)
    watch.note("LLVM object")
    jit.load_object(image, [STEP])
    watch.note("link")
    return watch.stop(), len(graph.nodes), len(program.kernels)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of the line through (log size, log seconds) with the least squares."""
    x, y = np.log(sizes), np.log(np.maximum(seconds, 1e-6))
    return float(np.polyfit(x, y, 1)[0])


def measure(quick: bool = False) -> Report:
    """Return a row for each family and stage, and the deep chain as bars."""
    pin_to_one_core()
    sizes = (30, 90) if quick else SIZES
    columns = ("family", "stage", *(f"{n} ops, ms" for n in sizes), "exponent", "last")
    report = Report("scaling", columns)
    worst: dict[str, tuple[float, str]] = {}
    for family, build in FAMILIES.items():
        stages = _median_stages(report, family, build, sizes, runs=1 if quick else 3)
        for stage, seconds in stages.items():
            fitted, last = exponent(sizes, seconds), exponent(sizes[-2:], seconds[-2:])
            cells = [round(s * 1e3, 2) for s in seconds]
            report.rows.append((family, stage, *cells, round(fitted, 2), round(last, 2)))
            worst[stage] = max(worst.get(stage, (-math.inf, "")), (max(fitted, last), family))
    if not quick:
        del worst[COLLECTOR]  # it is Python's, and counts in "all"
        for stage, (slope, family) in worst.items():
            limit = MAX_EXPONENT.get(stage, MAX_EXPONENT_OF_COMPILING)
            report.bars.append(Bar(f"exponent of {stage}, worst for {family}", slope, limit))
    _measure_deep_chain(report, DEEP_OPS if not quick else 120)
    return report


def _median_stages(
    report: Report, family: str, build: Callable[[int], Built], sizes: Sequence[int], runs: int
) -> dict[str, list[float]]:
    time_stages(build, sizes[0])  # loads what is loaded once
    found: dict[str, list[float]] = {}
    for ops in sizes:
        samples = []
        for _ in range(runs):
            seconds, nodes, kernels = time_stages(build, ops)
            samples.append(seconds)
        report.notes.append(f"{family} of {ops}: {nodes} nodes, {kernels} different kernels")
        for stage in samples[0]:
            found.setdefault(stage, []).append(median(s[stage] for s in samples))
    return found


def _measure_deep_chain(report: Report, ops: int) -> None:
    command = [sys.executable, "-m", "benchmarks.scaling", "--deep", str(ops)]
    root = Path(__file__).resolve().parents[1]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    result = json.loads(run.stdout)
    claim = f"to build and compile a chain of {ops} ops with its gradient"
    report.bars.append(Bar(f"seconds {claim}", result["seconds"], DEEP_SECONDS))
    report.bars.append(Bar(f"peak bytes {claim}", result["bytes"], DEEP_BYTES))


def compile_deep_chain(ops: int) -> dict[str, float]:
    """Compile and run a chain with its gradient; return wall-clock seconds and the peak memory."""
    started = time.perf_counter()
    inputs, y = build_chain(ops)
    step = compile(inputs, [y, *gradients(y, inputs)])
    seconds = time.perf_counter() - started
    results = step(*(np.full(t.type.static_shape, 0.5, np.float32) for t in inputs))
    assert all(np.isfinite(r).all() for r in results), "the deep chain overflows"
    return {"seconds": seconds, "bytes": float(peak_memory())}


def peak_memory() -> int:
    """Return the most bytes this process has had in memory."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not `getrusage`: on Linux its maximum begins with that of the process that started this.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _options() -> argparse.ArgumentParser:
    parser = shared_options(__doc__)
    parser.add_argument("--deep", type=int, metavar="OPS", help="compile one deep chain, no more")
    return parser


def main() -> None:
    """Print the report, or with `--deep` what one chain takes, as JSON."""
    chosen = _options().parse_args()
    if chosen.deep is not None:
        print(json.dumps(compile_deep_chain(chosen.deep)))
        return
    report = measure(chosen.quick)
    print(report)
    if chosen.json is not None:
        write_json(chosen.json, [report])


if __name__ == "__main__":
    main()
