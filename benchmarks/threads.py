"""Two threads beside one: the same step, interleaved; how many times as fast two are.

Both must give the same bits before anything is timed. Products are bound by arithmetic, which two
cores have twice of. What is bound by memory gains what two cores draw from it more than one does,
which differs from machine to machine, so it is shown and not judged. Other programs on the machine
take one of two cores away: the best rounds say what happens without them.

The last rows say what happens with them: a program that never rests, on a core that the system
chooses and kept on one, beside a training step of many small kernels. Two threads must not be
slower than one there, and medians are judged, as a scheduler takes a core away for milliseconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, Times, interleave
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.types import Array
from symgrad.optim import Adam
from symgrad.runtime.function import compile

THREADS = 2
PRODUCTS = (512, 1024, 2048)
MIN_SPEED_UP = 1.7  # of products
MAX_SLOW_DOWN = 1.15  # of a step, while another program keeps a core busy

# From a number of threads to a call of the step on that many, and the state it leaves.
Maker = Callable[[int], tuple[Contestant, Callable[[], Array]]]


@dataclass(frozen=True, slots=True)
class Work:
    """Something to compute, and whether its arithmetic takes longer than its memory."""

    name: str
    make: Maker
    is_judged: bool = False


def measure(quick: bool = False) -> Report:
    """Return a row for each kind of work."""
    report = Report("threads", ("work", "us, 1", f"us, {THREADS}", "speed-up", "best rounds"))
    for work in _small() if quick else _all():
        one, two = _times(work, rounds=3 if quick else 25)
        best = one.best / two.best
        numbers = one.median * 1e6, two.median * 1e6, one.ratio(two), best
        report.rows.append((work.name, *(round(n, 2) for n in numbers)))
        if work.is_judged:
            claim = f"times as fast on {THREADS} threads, best rounds, {work.name}"
            report.bars.append(Bar(claim, best, MIN_SPEED_UP, at_least=True))
    for name, core in _RIVALS:
        _measure_beside(report, name, core, rounds=3 if quick else 25)
    return report


# Programs beside the step: on any core, and on one of them.
_RIVALS = (("anywhere", None), ("on a core", 0))


def _measure_beside(report: Report, name: str, core: int | None, rounds: int) -> None:
    """Add the row of a training step beside a program that never rests."""
    work = Work(f"training step, a program {name}", _training)
    with _busy_program(core):
        one, two = _times(work, rounds, seconds=0.1)
    numbers = one.median * 1e6, two.median * 1e6, one.ratio(two), one.best / two.best
    report.rows.append((work.name, *(round(n, 2) for n in numbers)))
    claim = f"times as slow on {THREADS} threads as on one, {work.name}"
    report.bars.append(Bar(claim, two.median / one.median, MAX_SLOW_DOWN))


@contextmanager
def _busy_program(core: int | None) -> Iterator[None]:
    """Run a program that never rests, on one of the cores of this process if `core` says which."""
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        if core is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(program.pid, {sorted(os.sched_getaffinity(0))[core]})
        yield
    finally:
        program.kill()
        program.wait()


def _times(work: Work, rounds: int, seconds: float = 0.02) -> tuple[Times, Times]:
    calls, results = {}, []
    for threads in (1, THREADS):
        call, result = work.make(threads)
        call()
        results.append(result().tobytes())
        calls[str(threads)] = call
    assert results[0] == results[1], f"{work.name}: threads change the result"
    times = interleave(calls, rounds=rounds, seconds=seconds)
    return times["1"], times[str(THREADS)]


def _all() -> list[Work]:
    products = [Work(f"f32 product {n}", partial(_product, n), is_judged=True) for n in PRODUCTS]
    return [
        *products,
        Work("tanh of 1M f32", partial(_map, 1 << 20, sg.tanh)),
        Work("x + 1 of 10M f32", partial(_map, 10_000_000, lambda x: x + 1)),
        Work("sum of 10M f32", partial(_map, 10_000_000, sg.sum)),
        Work("Adam, 10M parameters", partial(_adam, 10_000_000)),
    ]


def _small() -> list[Work]:
    return [
        Work("f32 product 128", partial(_product, 128), is_judged=True),
        Work("tanh of 64k f32", partial(_map, 1 << 16, sg.tanh)),
        Work("Adam, 100k parameters", partial(_adam, 100_000)),
    ]


def _product(size: int, threads: int) -> tuple[Contestant, Callable[[], Array]]:
    a, b = (_random((size, size), seed) for seed in range(2))
    x, y = sg.placeholder((size, size)), sg.placeholder((size, size))
    return _into(compile([x, y], x @ y, threads=threads), (size, size), a, b)


def _map(
    count: int, function: Callable[[sg.Tensor], sg.Tensor], threads: int
) -> tuple[Contestant, Callable[[], Array]]:
    x = sg.placeholder((count,))
    y = function(x)
    return _into(compile([x], y, threads=threads), y.type.static_shape, _random((count,), 0))


def _into(
    step: sg.Step, shape: tuple[int, ...], *arrays: Array
) -> tuple[Contestant, Callable[[], Array]]:
    out = aligned_empty(shape, np.dtype(np.float32))
    return partial(step, *arrays, out=out), lambda: out


def _adam(count: int, threads: int) -> tuple[Contestant, Callable[[], Array]]:
    w = sg.variable(_random((count,), 0))
    g = sg.placeholder((count,))
    step = compile([g], [], Adam(1e-3).minimize(sg.sum(w * g), [w]), threads=threads)
    return partial(step, _random((count,), 1)), lambda: w.value


def _training(threads: int) -> tuple[Contestant, Callable[[], Array]]:
    sizes = (784, 512, 256, 10)
    ws = [sg.variable(_random(pair, 0) * np.float32(0.05)) for pair in pairwise(sizes)]
    x, y = sg.placeholder((64, 784)), sg.placeholder((64, 10))
    hidden = x
    for w in ws[:-1]:
        hidden = sg.tanh(hidden @ w)
    loss = sg.nn.mse(hidden @ ws[-1], y)
    step = compile([x, y], loss, Adam(1e-3).minimize(loss, ws), threads=threads)
    return partial(step, _random((64, 784), 1), _random((64, 10), 2)), lambda: ws[0].value


def _random(shape: tuple[int, ...], seed: int) -> Array:
    values = aligned_empty(shape, np.dtype(np.float32))
    values[...] = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return values


if __name__ == "__main__":
    run_as_program(__doc__, measure)
