"""Whole steps of training and of derivatives beside other libraries, and how much faster they are.

All contestants are in one process, which is confined to as many cores as they have threads, and
take turns. They start from the same arrays, and the loss and the gradients or moved weights must
agree before anything is timed. Each row has its goal: how many times as fast as the best other
library symgrad is, which on two threads is judged by the best rounds, since other programs on a
machine of two cores take one of them away. Further networks are in `benchmarks/networks.py`.

The share of the limit is of what the arithmetic or the traffic of symgrad's kernels, whichever
takes longer, would take at the rates measured on as many cores (`symgrad.runtime.limits`).
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import geometric_mean

import numpy as np

from benchmarks.report import Bar, Report, options, write_json
from benchmarks.timing import Times, interleave
from benchmarks.workload_bodies import N_BODY
from benchmarks.workload_bundle import BUNDLES
from benchmarks.workload_convnet import CONVNET
from benchmarks.workload_dense import DENSE
from benchmarks.workload_elementwise import ELEMENTWISE
from benchmarks.workload_gru import GRU
from benchmarks.workload_mixture import MIXTURES
from benchmarks.workload_peers import COMPILED, LIBRARIES, Contender, Workload
from benchmarks.workload_sequences import SEQUENCES
from symgrad.graph.types import Array

WORKLOADS = (*DENSE, CONVNET, *SEQUENCES, GRU, *ELEMENTWISE, *MIXTURES, *BUNDLES, N_BODY)
THREADS = (1, 2)
MIN_MEAN = 2.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The times of a workload in each library, and symgrad's at the limits of one core."""

    times: dict[str, Times]
    least_seconds: float


Table = dict[str, Measured]  # of each workload by name


def measure(quick: bool = False, chosen: Sequence[str] = ()) -> Report:
    """Return a row for each workload, number of threads and library; if quick, on one thread.

    Of all workloads, or of those in whose names one of `chosen` is.
    """
    columns = (
        "workload",
        "threads",
        "library",
        "ms a step",
        "best ms",
        "times symgrad",
        "best times",
        "share of limit",
    )
    report = Report("workloads", columns)
    workloads = tuple(w for w in WORKLOADS if not chosen or any(n in w.name for n in chosen))
    for position, threads in enumerate(THREADS[:1] if quick else THREADS):
        table = (
            times_of(threads, workloads, quick=True) if quick else _times_apart(threads, workloads)
        )
        for workload in workloads:
            _report_row(report, workload, position, table[workload.name])
    wanted = {name for w in workloads for name in LIBRARIES if name not in (COMPILED, *w.without)}
    missing = wanted - {row[2] for row in report.rows}
    report.notes += [f"{name} is not installed." for name in sorted(missing)]
    report.notes += [
        f"{w.name}: not in {', '.join(w.without)}, which compile it for more than ten minutes."
        for w in workloads
        if w.without
    ]
    if report.bars:
        mean = geometric_mean([bar.measured for bar in report.bars])
        report.bars.append(Bar("geometric mean of all of these", mean, MIN_MEAN, at_least=True))
    return report


def _report_row(report: Report, workload: Workload, position: int, found: Measured) -> None:
    times, threads = found.times, THREADS[position]
    ours = times["symgrad"]
    for name, spent in times.items():
        cells = (spent.median * 1e3, spent.best * 1e3, spent.ratio(ours), spent.best / ours.best)
        rounded = [round(cell, 3) for cell in cells]
        share = found.least_seconds / threads / spent.median if name == "symgrad" else None
        report.rows.append((workload.name, threads, name, *rounded, share and round(share, 3)))
    others = [
        spent.ratio(ours) if threads == 1 else spent.best / ours.best
        for name, spent in times.items()
        if name != "symgrad"
    ]
    if others:
        claim = f"times as fast as the best other, {workload.name}, threads: {threads}"
        report.bars.append(Bar(claim, min(others), workload.goals[position], at_least=True))


def _times_apart(threads: int, workloads: Sequence[Workload]) -> Table:
    """Return the times on `threads` threads, from a process that has as many cores."""
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe(duplex=False)
    process = processes.Process(
        target=_tell_times, args=(there, threads, [w.name for w in workloads])
    )
    process.start()
    there.close()
    try:
        table: Table = here.recv()
        return table
    finally:
        here.close()
        process.join()


def _tell_times(pipe: Connection, threads: int, names: list[str]) -> None:
    if hasattr(os, "sched_setaffinity"):
        # Before anything is imported that asks how many cores there are.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    pipe.send(times_of(threads, [w for w in WORKLOADS if w.name in names]))


def times_of(threads: int, workloads: Sequence[Workload] = WORKLOADS, quick: bool = False) -> Table:
    """Return the times of workloads, in this process."""
    return {workload.name: _times(workload, threads, quick) for workload in workloads}


def _times(workload: Workload, threads: int, quick: bool) -> Measured:
    """Return the times of the libraries that are installed, whose results agree."""
    # Compiling with PyTorch takes seconds.
    absent = {*workload.without, *((COMPILED,) if quick else ())}
    makers = {name: make for name, make in LIBRARIES.items() if name not in absent}
    made = {n: make(workload, workload.make(quick), threads) for n, make in makers.items()}
    contenders = {name: contender for name, contender in made.items() if contender is not None}
    _check_results(workload, contenders)
    steps = {name: contender.step for name, contender in contenders.items()}
    times = interleave(steps, rounds=1 if quick else 9, seconds=1e-4 if quick else 0.05)
    least_seconds = contenders["symgrad"].least_seconds
    assert least_seconds is not None, "symgrad tells what its kernels take at least"
    return Measured(times, least_seconds())


def _check_results(workload: Workload, contenders: dict[str, Contender]) -> None:
    results = {name: contender.results() for name, contender in contenders.items()}
    for name, found in results.items():
        errors = [_error(*pair) for pair in zip(found, results["symgrad"], strict=True)]
        message = f"{workload.name}: {name} differs from symgrad by {errors}"
        assert max(errors) <= workload.tolerance, message


def _error(found: Array, wanted: Array) -> float:
    """Return the norm of the difference, relative to that of what is wanted."""
    assert found.shape == wanted.shape, f"shapes {found.shape} and {wanted.shape}"
    norm, difference = (float(np.linalg.norm(a.astype(float))) for a in (wanted, found - wanted))
    return difference / max(norm, 1e-30) if math.isfinite(difference) else math.inf


def main() -> None:
    """Measure all workloads, or those after `--only`, print, write."""
    parser = options(__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="parts of names")
    chosen = parser.parse_args()
    report = measure(chosen.quick, chosen.only)
    print(report)
    if chosen.json is not None:
        write_json(chosen.json, [report])


if __name__ == "__main__":
    main()
