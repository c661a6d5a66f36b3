"""Programs of several ranks that fail on one of them: by an exception, or by a signal."""

from __future__ import annotations

import importlib
import os
import signal
import sys

import numpy as np

import symgrad as sg

COMM = sg.distributed.world()


def main(how: str) -> None:
    """Run a step of which rank 1 makes the first call and then fails; the others wait in it."""
    if how == "finalize":
        COMM.mpi.Barrier()
        importlib.import_module("mpi4py.MPI").Finalize()
        return
    if how == "together":
        sys.exit(COMM.rank + 4)
    x = sg.placeholder((2,), name="x")
    step = sg.compile([x], sg.distributed.all_reduce(x, COMM), opt_level=0)
    for number in range(3):
        if number and COMM.rank == 1:
            if how == "leave":
                return
            if how == "raise":
                raise ValueError("the samples are gone")
            if how == "exit":
                sys.exit(3)
            os.kill(os.getpid(), signal.SIGKILL)
        step(np.ones(2, "float32"))


if __name__ == "__main__":
    main(sys.argv[1])
