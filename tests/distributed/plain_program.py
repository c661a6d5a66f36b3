"""A step without collectives: the digest of its code, with MPI started before or not."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

import symgrad as sg


def main() -> None:
    """Print the digest; with an argument, after a step with a collective has been compiled."""
    x = sg.placeholder((8,), name="x")
    if len(sys.argv) > 1:
        comm = sg.distributed.world()
        sg.compile([x], sg.distributed.all_reduce(x, comm), opt_level=0)
    w = sg.variable(np.ones(8, "float32"), name="w")
    loss = sg.sum(sg.tanh(x * w))
    step = sg.compile([x], loss, sg.optim.Adam().minimize(loss), opt_level=1)
    sys.stdout.write(f"{hashlib.sha256(step.ir('asm').encode()).hexdigest()}\n")


if __name__ == "__main__":
    main()
