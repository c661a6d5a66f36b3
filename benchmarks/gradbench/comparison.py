"""Comparison of GradBench's problems: symgrad, C++ by hand and, of some, JAX, all on one core.

C++ is compiled for this machine, with sums in any order. What it and symgrad compute must agree
before anything is timed. Unlike GradBench's own numbers of JAX, those here wait for its results.
All are on one core, so a turn begins when the threads of the one before have nothing left to do.
"""

from __future__ import annotations

import tempfile
from ctypes import CDLL
from pathlib import Path

import numpy as np

from benchmarks.gradbench.ba import BA
from benchmarks.gradbench.det import DET
from benchmarks.gradbench.gmm import GMM
from benchmarks.gradbench.ht import HT
from benchmarks.gradbench.kmeans import KMEANS
from benchmarks.gradbench.llsq import LLSQ
from benchmarks.gradbench.lse import LSE
from benchmarks.gradbench.lstm import LSTM
from benchmarks.gradbench.native import has_compiler, load, native_call
from benchmarks.gradbench.ode import ODE
from benchmarks.gradbench.particle import PARTICLE
from benchmarks.gradbench.problem import Call, Problem, jax_call, symgrad_call
from benchmarks.gradbench.saddle import SADDLE
from benchmarks.report import Bar, Report
from benchmarks.timing import (
    Contestant,
    Times,
    interleave,
    optional,
    pin_to_one_core,
    wait_for_threads,
)

PROBLEMS = (LLSQ, LSE, KMEANS, ODE, DET, GMM, BA, HT, LSTM, PARTICLE, SADDLE)
TOLERANCE = 1e-9
MAX_RATIO = 1.0

# Of each function by name, of each library.
Table = dict[str, dict[str, Times]]


def measure(quick: bool = False) -> Report:
    """Return a row for each problem, size, function and library."""
    pin_to_one_core()
    columns = ("problem", "sizes", "function", "library", "ms", "best ms", "times symgrad")
    report = Report("GradBench", columns)
    if not has_compiler():
        report.notes.append("there is no C++ compiler to compare with.")
    with tempfile.TemporaryDirectory() as folder:
        for problem in PROBLEMS:
            library = load(problem, Path(folder)) if has_compiler() else None
            for sizes in (problem.quick,) if quick else problem.sizes:
                _report_rows(report, problem, sizes, times_of(problem, sizes, library, quick))
    if optional("jax") is None:
        report.notes.append("JAX is not installed: its rows are missing.")
    return report


def times_of(problem: Problem, sizes: tuple[int, ...], library: CDLL | None, quick: bool) -> Table:
    """Return the times of all functions of a problem, whose results have been compared."""
    given, found = problem.given(*sizes), {}
    for name, function in problem.functions.items():
        ours = symgrad_call(function, given)
        calls: dict[str, Contestant] = {"symgrad": ours.run}
        if library is not None:
            theirs = native_call(library, f"{problem.name}_{name}", given, sizes, ours.results)
            theirs.run()
            _check_equal(f"{problem.name} {name} of {sizes}", ours, theirs)
            calls["C++"] = theirs.run
        if name in problem.jax and optional("jax") is not None:
            calls["JAX"] = jax_call(problem.jax[name], given)
        rounds, seconds = (1, 1e-4) if quick else (9, 0.03)
        found[name] = interleave(calls, rounds=rounds, seconds=seconds, settle=wait_for_threads)
    return found


def _check_equal(label: str, ours: Call, theirs: Call) -> None:
    for found, wanted in zip(ours.results, theirs.results, strict=True):
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(found, wanted, TOLERANCE, TOLERANCE * scale, err_msg=label)


def _report_rows(report: Report, problem: Problem, sizes: tuple[int, ...], table: Table) -> None:
    label = " ".join(map(str, sizes))
    for name, times in table.items():
        ours = times["symgrad"]
        for library, spent in times.items():
            cells = (spent.median * 1e3, spent.best * 1e3, spent.ratio(ours))
            rounded = (float(f"{cell:.4g}") for cell in cells)
            report.rows.append((problem.name, label, name, library, *rounded))
    if not all("C++" in times for times in table.values()):
        return
    ratios = {name: times["symgrad"].ratio(times["C++"]) for name, times in table.items()}
    if problem.is_of_modes:
        ratios = {"fastest mode": min(ratios.values())}
    for name, ratio in ratios.items():
        claim = f"times as long as C++, {problem.name} {label}, {name}".replace(" ,", ",")
        report.bars.append(Bar(claim, ratio, MAX_RATIO))
