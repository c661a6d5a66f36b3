"""Training steps of whole networks, beside JAX and PyTorch, on one thread and on two.

Each contestant is a process of its own, confined to as many cores as it has threads, and they take
turns. All start from the same weights, and the losses of their first steps must agree before
anything is timed. On two threads, other programs on a machine of two cores take one of them away:
the best rounds say what happens without them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection

import numpy as np

from benchmarks.network_gpt import GPT
from benchmarks.network_lenet import LENET
from benchmarks.network_lstm import LSTM
from benchmarks.network_peers import jax_step, symgrad_step, torch_step
from benchmarks.network_resnet import RESNET
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, Times, interleave

NETWORKS = (LENET, RESNET, GPT, LSTM)
LIBRARIES = {"symgrad": symgrad_step, "JAX": jax_step, "PyTorch": torch_step}
THREADS = (1, 2)
CHECKED_STEPS = 4


def measure(quick: bool = False) -> Report:
    """Return a row for each network, number of threads and library."""
    columns = (
        "network",
        "threads",
        "library",
        "ms a step",
        "best ms",
        "times symgrad",
        "best times",
    )
    report = Report("networks", columns)
    for position, network in enumerate(NETWORKS):
        for threads in THREADS:
            times = _times(position, threads, quick)
            ours = times["symgrad"]
            for name, spent in times.items():
                cells = (spent.median * 1e3, spent.best * 1e3, spent.ratio(ours))
                rounded = (round(cell, 2) for cell in (*cells, spent.best / ours.best))
                report.rows.append((network.name, threads, name, *rounded))
            claim = f"times as fast as the best other, {network.name}, threads: {threads}"
            others = [t.ratio(ours) for name, t in times.items() if name != "symgrad"]
            report.bars += [Bar(claim, min(others), 1.0, at_least=True)] if others else []
    missing = LIBRARIES.keys() - {row[2] for row in report.rows}
    report.notes += [f"{name} is not installed." for name in sorted(missing)]
    return report


def _times(position: int, threads: int, quick: bool) -> dict[str, Times]:
    """Return the times of the libraries that are installed."""
    with ExitStack() as stack:
        calls: dict[str, Contestant] = {}
        losses: dict[str, list[float]] = {}
        for library in LIBRARIES:
            pipe = stack.enter_context(_contestant(position, library, threads, quick))
            first = pipe.recv()
            if first is not None:
                losses[library] = first
                calls[library] = partial(_step, pipe)
        for library, found in losses.items():
            # Of the first loss: what is left of it after a few steps is made of its last digits.
            last_digits = 1e-5 * losses["symgrad"][0]
            is_same = np.allclose(found, losses["symgrad"], rtol=2e-3, atol=last_digits)
            assert is_same, f"{library} differs: {losses}"
        return interleave(calls, rounds=2 if quick else 15, seconds=0.01 if quick else 0.2)


def _step(pipe: Connection) -> None:
    pipe.send(True)
    pipe.recv()


@contextmanager
def _contestant(position: int, library: str, threads: int, quick: bool) -> Iterator[Connection]:
    """Give the pipe to a process that trains one step each time it is sent something true."""
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe()
    process = processes.Process(target=_train, args=(there, position, library, threads, quick))
    process.start()
    there.close()
    try:
        yield here
        here.send(False)
    finally:
        here.close()
        process.join()


def _train(pipe: Connection, position: int, library: str, threads: int, quick: bool) -> None:
    """Make a step, tell the first losses, None without the library, and train when asked to."""
    if hasattr(os, "sched_setaffinity"):
        # Before anything is imported that asks how many cores there are.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    network = NETWORKS[position]
    step = LIBRARIES[library](network, *network.make(quick), threads)
    pipe.send(None if step is None else [step() for _ in range(CHECKED_STEPS)])
    while pipe.recv():
        assert step is not None
        pipe.send(step())


if __name__ == "__main__":
    run_as_program(__doc__, measure)
