"""What the model of ranks predicts of a step, beside what the step takes on 1, 2 and 4 ranks.

Latency and bandwidth are those that two sums take here, and kernels are measured on all ranks at
once, which share the machine. A library of MPI moves a message while ranks compute, or in calls
alone: the step should take about as long as is predicted for one of these, or be in between. Ranks
that have more threads than cores take turns, as 4 do on 2 cores.

`python -m benchmarks.plan` starts `mpiexec`.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.distributed import WORKER, run_ranks
from benchmarks.report import Bar, Report, run_as_program
from symgrad.runtime.inspection.plan import Network, make_plan

RANKS = (1, 2, 4)
CLOSE = 1.25  # times what is predicted for either way
LAYERS, WIDTH, ROWS = 6, 512, 64
TURNS, ROUNDS = 5, 8


def measure(quick: bool = False) -> Report:
    """Return milliseconds a step, predicted for either way of the library and measured."""
    columns = ("ranks", "all moves meanwhile", "nothing does", "measured")
    report = Report("Steps on ranks, predicted and measured: ms", columns)
    if shutil.which("mpiexec") is None:
        report.notes.append("No mpiexec: nothing is measured.")
        return report
    for ranks in RANKS[:2] if quick else RANKS:
        found = run_ranks("benchmarks.plan", ranks, quick)
        least, most, taken = found["least"], found["most"], found["measured"]
        report.rows.append((ranks, 1e3 * least, 1e3 * most, 1e3 * taken))
        beyond = max(taken / most, least / taken)
        report.bars.append(Bar(f"{ranks} ranks: times what is predicted", beyond, CLOSE))
    return report


# ---------------------------------------------------------------------------- one of the ranks


def work(quick: bool) -> None:
    """Measure on this rank, as all others do at the same time; rank 0 prints what it found."""
    comm = sg.distributed.world()
    step, rows = _make_step(comm, 32 if quick else WIDTH)
    network = _network(comm)
    measured: list[float] = []
    least: list[float] = []
    most: list[float] = []
    for _ in range(1 if quick else TURNS):
        measured.append(_seconds(partial(step, rows), comm))
        plan = make_plan(step.executable, step.profile(rows, repeat=ROUNDS))
        for progress, times in ((1.0, least), (0.0, most)):
            of_way = replace(network, progress=progress)
            times.append(plan.predict(of_way, comm.size).seconds)
    if comm.rank == 0:
        found = {"measured": min(measured), "least": min(least), "most": min(most)}
        print(json.dumps({**found, "bytes": sum(m.bytes for m in plan.messages)}))


def _seconds(call: Callable[[], Any], comm: Any) -> float:
    """Return the least time of a call that all ranks make at once, by the slowest of them."""
    found = []
    for _ in range(ROUNDS):
        comm.mpi.Barrier()
        began = time.perf_counter()
        call()
        found.append(max(comm.exchange(time.perf_counter() - began)))
    return float(min(found))


def _network(comm: Any) -> Network:
    """Return the latency and the bandwidth by which the model prices two sums as they are here."""
    if comm.size == 1:
        return Network(0.0, 1e9)
    rounds, share = int(np.ceil(np.log2(comm.size))), (comm.size - 1) / comm.size
    times = []
    for count in (2, 1 << 20):
        array, total = np.ones(count, "float32"), np.empty(count, "float32")
        times.append(_seconds(partial(comm.mpi.Allreduce, array, total), comm))
    latency = times[0] / rounds
    moving = max(times[1] - 2 * rounds * latency, 1e-9)
    return Network(latency, 2 * share * array.nbytes / moving)


def _make_step(comm: Any, width: int) -> tuple[sg.Step, Any]:
    random = np.random.default_rng(0)
    x = sg.placeholder((ROWS, width), name="x")
    h = x
    for number in range(LAYERS):
        start = random.normal(size=(width, width)) / width**0.5
        h = sg.tanh(h @ sg.variable(start.astype("float32"), name=f"w{number}"))
    loss = sg.mean(h**2)
    updates = sg.optim.Adam(0.01).minimize(loss, data_parallel=comm)
    rows = random.normal(size=(ROWS, width)).astype("float32")
    return sg.compile([x], loss, updates), rows


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        work(quick=bool(int(sys.argv[2])))
    else:
        run_as_program(__doc__, measure)
