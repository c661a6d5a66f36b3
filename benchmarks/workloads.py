"""Whole steps of training and of derivatives beside JAX and PyTorch, and how much faster they are.

All contestants are in one process, which is confined to as many cores as they have threads, and
take turns. They start from the same arrays, and the loss and the gradients or moved weights must
agree before anything is timed. Each row has its goal: how many times as fast as the best other
library symgrad is, which on two threads is judged by the best rounds, since other programs on a
machine of two cores take one of them away. Further networks are in `benchmarks/networks.py`.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from multiprocessing.connection import Connection
from statistics import geometric_mean

import numpy as np

from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Times, interleave
from benchmarks.workload_bodies import N_BODY
from benchmarks.workload_bundle import BUNDLES
from benchmarks.workload_convnet import CONVNET
from benchmarks.workload_dense import DENSE
from benchmarks.workload_elementwise import ELEMENTWISE
from benchmarks.workload_gru import GRU
from benchmarks.workload_mixture import MIXTURES
from benchmarks.workload_peers import COMPILED, LIBRARIES, Contender, Workload
from symgrad.graph.types import Array

WORKLOADS = (*DENSE, CONVNET, GRU, *ELEMENTWISE, *MIXTURES, *BUNDLES, N_BODY)
THREADS = (1, 2)
MIN_MEAN = 2.0

# Of each workload by name, of each library.
Table = dict[str, dict[str, Times]]


def measure(quick: bool = False) -> Report:
    """Return a row for each workload, number of threads and library; if quick, on one thread."""
    columns = (
        "workload",
        "threads",
        "library",
        "ms a step",
        "best ms",
        "times symgrad",
        "best times",
    )
    report = Report("workloads", columns)
    for position, threads in enumerate(THREADS[:1] if quick else THREADS):
        table = times_of(threads, quick=True) if quick else _times_apart(threads)
        for workload in WORKLOADS:
            _report_row(report, workload, position, table[workload.name])
    missing = LIBRARIES.keys() - {COMPILED} - {row[2] for row in report.rows}
    report.notes += [f"{name} is not installed." for name in sorted(missing)]
    if report.bars:
        mean = geometric_mean([bar.measured for bar in report.bars])
        report.bars.append(Bar("geometric mean of all of these", mean, MIN_MEAN, at_least=True))
    return report


def _report_row(report: Report, workload: Workload, position: int, times: dict[str, Times]) -> None:
    ours, threads = times["symgrad"], THREADS[position]
    for name, spent in times.items():
        cells = (spent.median * 1e3, spent.best * 1e3, spent.ratio(ours), spent.best / ours.best)
        report.rows.append((workload.name, threads, name, *(round(cell, 3) for cell in cells)))
    others = [
        spent.ratio(ours) if threads == 1 else spent.best / ours.best
        for name, spent in times.items()
        if name != "symgrad"
    ]
    if others:
        claim = f"times as fast as the best other, {workload.name}, threads: {threads}"
        report.bars.append(Bar(claim, min(others), workload.goals[position], at_least=True))


def _times_apart(threads: int) -> Table:
    """Return the times on `threads` threads, from a process that has as many cores."""
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe(duplex=False)
    process = processes.Process(target=_tell_times, args=(there, threads))
    process.start()
    there.close()
    try:
        table: Table = here.recv()
        return table
    finally:
        here.close()
        process.join()


def _tell_times(pipe: Connection, threads: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        # Before anything is imported that asks how many cores there are.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    pipe.send(times_of(threads))


def times_of(threads: int, quick: bool = False) -> Table:
    """Return the times of all workloads, in this process."""
    return {workload.name: _times(workload, threads, quick) for workload in WORKLOADS}


def _times(workload: Workload, threads: int, quick: bool) -> dict[str, Times]:
    """Return the times of the libraries that are installed, whose results agree."""
    # Compiling with PyTorch takes seconds.
    makers = {name: make for name, make in LIBRARIES.items() if name != COMPILED or not quick}
    made = {n: make(workload, workload.make(quick), threads) for n, make in makers.items()}
    contenders = {name: contender for name, contender in made.items() if contender is not None}
    _check_results(workload, contenders)
    steps = {name: contender.step for name, contender in contenders.items()}
    return interleave(steps, rounds=1 if quick else 9, seconds=1e-4 if quick else 0.05)


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


if __name__ == "__main__":
    run_as_program(__doc__, measure)
