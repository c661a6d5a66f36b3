"""What ranks cost: steps on 2 ranks of one core beside 1 rank, and all_reduce beside mpi4py's own.

Weak scaling: each rank has a batch of its own, of the size that one has alone, so that a step would
take as long if gradients were sent in no time. The efficiency is how much of that is reached, the
median of ratios in turns: of a step of one rank while the other sleeps, and one of both. A round is
some steps in a row, as in training, behind one that is not timed.

What communication costs is what a step takes beyond the same step in which nothing is sent: the
same program on the same memory, in which each rank is a group of its own for as long as it runs.
Both take turns, step by step, and ranks meet at a barrier behind each. That is the median of the
differences, with the interval in which it is with 95 % certainty. What it is less than the sums
take by mpi4py alone, of all gradients at once, is hidden.

On one machine nobody but the cores can add, and so there are three more numbers: what the same sums
cost by the code of steps where there is nothing to compute meanwhile, measured like the first;
which part of that is hidden; and how long a rank is in the calls that start sums and wait for them,
by the clock of `step.profile`, in which it waits for the slower rank as well. Beside each step is
PyTorch's DistributedDataParallel over gloo, where torch is installed, with one core a rank.

`python -m benchmarks.distributed` starts `mpiexec`, each rank of which is kept to one core.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from operator import truediv
from statistics import median
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.distributed_peers import ddp_step
from benchmarks.network_gpt import GPT
from benchmarks.network_lstm import LSTM
from benchmarks.network_peers import Arrays, Network, random_weights
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, optional, time_calls
from symgrad.distributed.data_parallel import averaged
from symgrad.distributed.node_memory import node_sums

RANKS = 2
WORKER = "worker"  # the first argument of a process that `mpiexec` has started
KIB = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
LEAST_EFFICIENCY = {"MLP": 0.93, "GPT": 0.96, "LSTM": 0.93}
LAYERS, BATCH = (784, 1024, 1024, 10), 256
_SECONDS = 600
_SECONDS_TO_SLEEP = 2e-4
_LEAST_CALLS, _SECONDS_OF_ROUND = 3, 0.05
_LEAST_PAIRS = 8
_SECONDS_OF_PAIRS = {"MLP": 20, "GPT": 60, "LSTM": 60}  # whose steps vary by more
_SECONDS_OF_SUMS = 5
_DEVIATIONS = 1.96  # of a normal distribution, to either side, with 95 % between them


def measure(quick: bool = False) -> Report:
    """Return milliseconds a step on 1 and 2 ranks, and microseconds a sum."""
    columns = (
        *("what", "1 rank", "2 ranks", "beyond nothing sent", "in calls", "sums by mpi4py"),
        *("sums by ranks", "efficiency", "hidden", "of those by ranks"),
    )
    report = Report("Ranks of MPI, one core each: ms a step, us a sum", columns)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if shutil.which("mpiexec") is None or len(cores) < RANKS:
        report.notes.append("No mpiexec, or fewer cores than two: nothing is measured.")
        return report
    found = run_ranks("benchmarks.distributed", RANKS, quick)
    for name, bar in LEAST_EFFICIENCY.items():
        _add_step(report, name, bar, found["steps"][name])
    for size, (own, peer) in found["sums"].items():
        report.rows.append((f"all_reduce of {size} KiB", None, own, *[None] * 7))
        report.rows.append(("  the same by mpi4py", None, peer, *[None] * 7))
        report.bars.append(Bar(f"all_reduce of {size} KiB: times mpi4py", own / peer, 1.1))
    report.notes.append(f"{found['library']}.")
    return report


def _add_step(report: Report, name: str, bar: float, found: Mapping[str, Any]) -> None:
    times = (round(found[of], 3) for of in ("one", "parallel"))
    row = [f"step of {name}", *times, *[None] * 2, round(found["sums"], 3), None]
    hidden: float | None = None
    shown: tuple[str | float | None, ...] = (None, None)
    if "beyond" in found:
        middle, low, high = found["beyond"]
        hidden, least, most = (1 - beyond / found["sums"] for beyond in (middle, high, low))
        row[3:] = [
            f"{middle:.3f} ({low:.3f} to {high:.3f})",
            *(round(found[of], 3) for of in ("calls", "sums", "own sums")),
        ]
        shown = f"{hidden:.2f} ({least:.2f} to {most:.2f})", 1 - middle / found["own sums"]
    report.rows.append((*row, found["efficiency"], *shown))
    report.bars.append(Bar(f"step of {name}: efficiency", found["efficiency"], bar, at_least=True))
    if hidden is not None:
        report.bars.append(Bar(f"step of {name}: sums hidden", hidden, 0.8, at_least=True))
    if "peer" in found:
        times_peer = found["one peer"], found["peer"]
        peers = *times_peer, *[None] * 4, found["peer efficiency"], *[None] * 2
        report.rows.append(("  by PyTorch DDP", *peers))
        ratio = found["parallel"] / found["peer"]
        report.bars.append(Bar(f"step of {name}: times PyTorch", ratio, 1.0))


def run_ranks(module: str, count: int, quick: bool) -> Any:
    """Return what rank 0 of `count` ranks prints in the last line, as workers of a benchmark."""
    told = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=False)
    is_open = "Open MPI" in told.stdout or "OpenRTE" in told.stdout
    options = ["--oversubscribe", "--bind-to", "none"] if is_open else []
    settings = {
        "MPI4PY_MPIABI": "openmpi" if is_open else "mpich",  # of the wheel, which has both
        **{"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    }
    program = [sys.executable, "-m", module, WORKER, str(int(quick))]
    done = subprocess.run(
        ["mpiexec", *options, "-n", str(count), *program],
        env={**settings, **os.environ},
        capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{count} ranks have failed: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


# ---------------------------------------------------------------------------- one of the ranks


def _work(quick: bool) -> None:
    """Measure on this rank, as all others do at the same time; rank 0 prints what it found."""
    comm = sg.distributed.world()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})
    steps = {network.name: _steps(network, comm, quick) for network in (MLP, GPT, LSTM)}
    sums = {size: _sums(size, comm, quick) for size in KIB[: 2 if quick else None]}
    if comm.rank == 0:
        library = str(sys.modules["mpi4py.MPI"].Get_library_version())
        found = {"steps": steps, "sums": sums, "library": library.split(",")[0].split("\n")[0]}
        print(json.dumps(found))


def _steps(network: Network, comm: Any, quick: bool) -> dict[str, Any]:
    """Return on rank 0 ms of a step of one rank, of one with averaged gradients, of sums alone.

    And the efficiency; and, where ranks share memory, what the sums cost.
    """
    weights, batch = network.make(quick)
    joined = np.ones(sum(a.size for a in weights.values()), "float32")
    total = np.empty_like(joined)
    step, arrays = _compiled(network, weights, batch, comm)
    calls: dict[str, Contestant] = {
        "one": _step(network, weights, batch, None),
        "parallel": lambda: step(*arrays),
        "sums": lambda: comm.mpi.Allreduce(joined, total),
    }
    peers = [ddp_step(network, weights, batch, group) for group in (None, comm)]
    if peers[0] is not None and peers[1] is not None:
        calls |= {"one peer": peers[0], "peer": peers[1]}
    times = _timed(calls, comm, quick)
    costs: dict[str, Any] = {}
    if comm.has_shared_memory:
        in_calls = comm.exchange(step.profile(*arrays, repeat=2 if quick else 50).communication)
        seconds = 0 if quick else _SECONDS_OF_PAIRS[network.name]
        costs["beyond"] = _cost_of_sums(calls["parallel"], comm, seconds)
        costs["calls"] = 1e3 * sum(found.seconds for found in in_calls) / comm.size
        sums = _only_sums(weights, comm)
        costs["own sums"] = _cost_of_sums(sums, comm, 0 if quick else _SECONDS_OF_SUMS)[0]
    if comm.rank:
        return {}
    found: dict[str, Any] = {name: 1e3 * median(rounds) for name, rounds in times.items()}
    found["efficiency"] = median(map(truediv, times["one"], times["parallel"]))
    if "peer" in times:
        found["peer efficiency"] = median(map(truediv, times["one peer"], times["peer"]))
    return found | costs


def _cost_of_sums(
    call: Callable[[], object], comm: Any, seconds: float
) -> tuple[float, float, float]:
    """Return ms that a call takes longer where ranks add up than where each is alone.

    The median of differences in turns, and the interval in which it is with 95 % certainty.
    """
    differences: list[float] = []
    start = time.perf_counter()
    while comm.mpi.bcast(len(differences) < _LEAST_PAIRS or time.perf_counter() - start < seconds):
        turns = (True, False) if len(differences) % 2 else (False, True)
        found = {is_alone: _seconds_of_all(call, comm, is_alone) for is_alone in turns}
        differences.append(1e3 * (found[False] - found[True]))
    return _median_between(differences)


def _seconds_of_all(call: Callable[[], object], comm: Any, is_alone: bool) -> float:
    """Return the seconds from a barrier in front of a call to one behind it."""
    comm.mpi.Barrier()
    with node_sums().alone(comm.mpi) if is_alone else nullcontext():
        start = time.perf_counter()
        call()
        comm.mpi.Barrier()
        return time.perf_counter() - start


def _median_between(found: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of what was found, and between which two of them it is for all there are.

    How many of a sample lie below the median of all there are is binomial, whatever they are.
    """
    ordered, count = sorted(found), len(found)
    reach = _DEVIATIONS * math.sqrt(count) / 2
    low, high = max(0, math.floor(count / 2 - reach)), math.ceil(count / 2 + reach)
    return median(ordered), ordered[low], ordered[min(high, count - 1)]


def _only_sums(weights: Arrays, comm: Any) -> Callable[[], object]:
    """Return a step that averages arrays of the sizes of gradients, and does nothing meanwhile."""
    made = [sg.variable(array, name=name) * 2.0 for name, array in weights.items()]
    step = sg.compile([], [m for m in averaged("sums", made, comm) if m is not None])
    return lambda: step()


def _step(network: Network, weights: Arrays, batch: Arrays, comm: Any) -> Any:
    step, arrays = _compiled(network, weights, batch, comm)
    return lambda: step(*arrays)


def _compiled(
    network: Network, weights: Arrays, batch: Arrays, comm: Any
) -> tuple[Any, Sequence[Any]]:
    """Return a step that trains, and what to call it with."""
    w = {name: sg.variable(array, name=name) for name, array in weights.items()}
    given = {n: sg.placeholder(a.shape, str(a.dtype), name=n) for n, a in batch.items()}
    loss = network.symgrad(w, given)
    updates = sg.optim.Adam(0.001).minimize(loss, data_parallel=comm)
    return sg.compile(list(given.values()), loss, updates), list(batch.values())


def _sums(size: int, comm: Any, quick: bool) -> tuple[float, float]:
    """Return us of a sum of `size` KiB, compiled and by mpi4py."""
    array = np.ones(size * 256, "float32")
    x = sg.placeholder(array.shape, name="x")
    step = sg.compile([x], sg.distributed.all_reduce(x, comm))
    out = np.empty_like(array)
    calls = {
        "own": lambda: step(array, out=out),
        "peer": lambda: comm.mpi.Allreduce(array, out),
    }
    times = _timed(calls, comm, quick)
    return 1e6 * median(times["own"]), 1e6 * median(times["peer"])


def _timed(calls: Mapping[str, Contestant], comm: Any, quick: bool) -> dict[str, list[float]]:
    """Return the seconds of a call of each by rounds, which all ranks make at the same time.

    But for the calls of one, rank 0, during which the others sleep. How many calls a round has is
    for rank 0 to say: of a collective all must make as many.
    """
    counts = {}
    for name, call in calls.items():
        call()
        seconds = time_calls(call, 3) / 3
        counts[name] = comm.mpi.bcast(max(_LEAST_CALLS, int(_SECONDS_OF_ROUND / seconds)))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(2 if quick else 25):
        for name, call in calls.items():
            comm.mpi.Barrier()
            if comm.rank == 0 or not name.startswith("one"):
                call()
                found[name].append(time_calls(call, counts[name]) / counts[name])
            if name.startswith("one"):
                _sleep_until_all(comm)
    return found


def _sleep_until_all(comm: Any) -> None:
    """Wait for all ranks to come here, and leave caches and memory to them until then."""
    have_come = comm.mpi.Ibarrier()
    while not have_come.Test():
        time.sleep(_SECONDS_TO_SLEEP)


def _make_mlp(quick: bool) -> tuple[Arrays, Arrays]:
    layers = (8, 16, 16, 10) if quick else LAYERS
    shapes: dict[str, tuple[int, ...]] = {
        f"w{i}": pair for i, pair in enumerate(itertools.pairwise(layers))
    }
    shapes |= {f"b{i}": (n,) for i, n in enumerate(layers[1:])}
    random = np.random.default_rng(1)
    x = random.normal(size=(BATCH, layers[0])).astype("float32")
    return random_weights(shapes), {"x": x, "labels": random.integers(0, 10, BATCH)}


def _mlp(w: Any, batch: Any) -> Any:
    x = batch["x"]
    for i in range(len(LAYERS) - 1):
        x = sg.nn.linear(sg.nn.relu(x) if i else x, w[f"w{i}"], w[f"b{i}"])
    return sg.nn.cross_entropy(x, batch["labels"])


def _jax_mlp(w: Any, batch: Any) -> Any:
    jax = optional("jax")
    x = batch["x"]
    for i in range(len(LAYERS) - 1):
        x = (jax.nn.relu(x) if i else x) @ w[f"w{i}"] + w[f"b{i}"]
    scores = jax.nn.log_softmax(x)
    return -jax.numpy.take_along_axis(scores, batch["labels"][:, None], axis=1).mean()


def _torch_mlp(weights: Arrays, batch: Arrays) -> tuple[list[Any], Any]:
    torch = optional("torch")
    w = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in weights.items()}
    given, labels = torch.tensor(batch["x"]), torch.tensor(batch["labels"])
    functional = torch.nn.functional

    def loss_of() -> Any:
        x = given
        for i in range(len(LAYERS) - 1):
            x = (functional.relu(x) if i else x) @ w[f"w{i}"] + w[f"b{i}"]
        return functional.cross_entropy(x, labels)

    return list(w.values()), loss_of


MLP = Network("MLP", _make_mlp, _mlp, _jax_mlp, _torch_mlp)


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        _work(quick=bool(int(sys.argv[2])))
    else:
        run_as_program(__doc__, measure)
