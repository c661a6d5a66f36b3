"""Training that is killed at any moment, and goes on from its checkpoint on other ranks.

`python -m tests.distributed.restart_programs FOLDER SECONDS RANK` is killed on one rank that long
after its first step, if SECONDS is not 0. Rank 0 appends to a file the loss of each step.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
STEPS, EVERY, BATCH = 60, 4, 16


def main(folder: Path, seconds: float, killed: int) -> None:
    """Go on from the last checkpoint to the last step."""
    random = np.random.default_rng(RANK)
    w = sg.variable(random.normal(size=(10, 300)), name="w")
    v = sg.variable(random.normal(size=300), name="v")
    x = sg.placeholder((None, 10), "float64", name="x")
    loss = sg.mean((sg.tanh(x @ w) @ v - sg.sum(x, axis=1)) ** 2)
    adam = sg.optim.Adam(0.01)
    updates = adam.minimize(loss, data_parallel=COMM, shard_state=True, reproducible=True)
    step = sg.compile([x], adam.loss, updates)
    path, rows = folder / "training.safetensors", slice(RANK * BATCH // SIZE, None)
    w.value, v.value = (np.random.default_rng(7).normal(size=a.value.shape) for a in (w, v))
    with sg.distributed.Checkpoints(path, [w, v, adam.state], COMM, every=EVERY) as checkpoints:
        first = checkpoints.restore()
        for number in range(first, STEPS):
            batch = np.random.default_rng(number).normal(size=(BATCH, 10))
            found = step(batch[rows][: BATCH // SIZE])
            note(folder / "losses", f"{number} {float(found).hex()}\n")
            if seconds and number == first and killed == RANK:
                # By default this signal ends the process wherever it is.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, seconds)
            checkpoints.after(number + 1)
            time.sleep(0.02)  # so that it is killed between its first step and its last
    if not seconds and SIZE > 1:
        refuse(folder, w)


def note(path: Path, line: str) -> None:
    """Append a line, on rank 0, that is there when the process is killed."""
    if RANK == 0:
        with path.open("a") as file:
            file.write(line)


def refuse(folder: Path, w: sg.Variable) -> None:
    """Refuse where ranks find different files; an error of the thread that writes is raised."""
    own = folder / f"own{RANK}.safetensors"
    if RANK == 0:
        steps = sg.variable(np.asarray(8), name="checkpoint/steps")
        sg.save(own, [w, steps])
    problem = (
        "rank 1 has a file after 0 steps, rank 0 after 8" if RANK == 0 else "rank 0 has a file"
    )
    with pytest.raises(sg.CheckpointError, match=problem):
        sg.distributed.Checkpoints(own, [w], COMM, every=1).restore()
    nowhere = sg.distributed.Checkpoints(folder / "no" / "where", [w], COMM, every=1)
    nowhere.after(1)
    if RANK == 0:
        with pytest.raises(OSError, match="where"):
            nowhere.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(f"rank {RANK} of {SIZE} has come to the end\n")
