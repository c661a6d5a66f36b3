"""Exports of steps with collectives: written by rank 0, loaded by all, run by programs of C.

`python -m tests.distributed.export_programs FOLDER` leaves the library, the inputs of each rank and
what the steps give in the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.types import Array
from tests.support.refusals import assert_refused

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
STEPS = 3
SHARED = 8  # rows of a rank, of which each piece has some


def make_steps() -> dict[str, sg.Step]:
    """Return a step of training, one of all collectives on two communicators, and one of none."""
    other = COMM.split(0)
    assert other is not None
    w = sg.variable(np.linspace(-1, 1, 12).reshape(4, 3), name="w")
    b = sg.variable(np.zeros(3, "float32"), name="b")
    x, y = sg.placeholder((6, 4), "float64", name="x"), sg.placeholder((6, 3), "float64", name="y")
    loss = sg.mean((sg.tanh(x @ w) + sg.astype(b, "float64") - y) ** 2)
    updates = sg.optim.Adam(0.1).minimize(loss, data_parallel=COMM)
    mean = sg.distributed.all_reduce(loss, COMM, "mean")
    v, a = sg.variable(np.ones((4, 3)), name="v"), sg.placeholder(("n", 4), "float64", name="a")
    adam = sg.optim.Adam(0.1)
    options: dict[str, Any] = {"shard_state": True, "reproducible": True}
    share = adam.minimize(sg.mean(sg.sin(a @ v)), data_parallel=COMM, **options)
    rows = sg.placeholder((SIZE, 5), name="rows")
    moved = [
        sg.distributed.all_gather(sg.sum(rows, axis=0), COMM),
        sg.distributed.reduce_scatter(rows, other),
        sg.distributed.broadcast(rows, COMM, root=SIZE - 1),
        sg.distributed.all_to_all(rows, other),
        sg.distributed.send_recv(rows, COMM, [(0, 1)]),
        sg.distributed.all_reduce(rows, COMM, "max"),
        sg.distributed.all_reduce(sg.astype(rows, "complex128"), other),
    ]
    return {
        "train": sg.compile([x, y], mean, updates),
        "move": sg.compile([rows], [*moved, *sg.gradients(moved[0] ** 2, rows)]),
        "predict": sg.compile([x], sg.tanh(x @ w)),
        "share": sg.compile([a], adam.loss, share),
    }


def make_inputs() -> tuple[Array, Array, Array]:
    """Return samples and rows of this rank."""
    random = np.random.default_rng(RANK)
    x = random.normal(size=(6, 4))
    return x, np.sin(x[:, :3]), random.normal(size=(SIZE, 5)).astype("float32")


def check_texts(path: Path) -> None:
    """Find the communicators, the handles and what to build with in header and manifest."""
    header = path.with_suffix(".h").read_text()
    manifest = json.loads(path.with_suffix(".json").read_text())["manifest"]
    assert "#include <mpi.h>" in header
    assert "MPI_Iallreduce: link with mpicc" in header
    assert f"mpi_world_0: {SIZE} ranks, split of mpi_world" in header
    assert {"name": "MPI_Allgather", "library": "mpi"} in manifest["functions"]
    assert {"name": "MPI_DOUBLE"} in manifest["handles"]
    assert {"name": "mpi_world", "ranks": SIZE} in manifest["handles"]
    chosen = [record for record in manifest["handles"] if "chosen" in record]
    nobody = [None] * (SIZE - 1)
    assert [record["chosen"] for record in chosen] == [[1, *nobody], [None, 0, *nobody[1:]]]


def refuse(path: Path) -> None:
    """Refuse to load without a communicator, with one of other ranks, and one that is not used."""
    here = f"mpi_world of {SIZE} ranks, mpi_world_0 of {SIZE} ranks"
    assert_refused(lambda: sg.load(path), RuntimeError, f"""
        load net.so: its steps call MPI on {here}, and mpi_world is not given
          --> <here>
          hint: load(path, comm=sg.distributed.world()), or a dict by these names
    """)  # fmt: skip
    alone = COMM.split(RANK)
    comms = {"mpi_world": alone, "mpi_world_0": COMM}
    assert_refused(lambda: sg.load(path, comm=comms), RuntimeError, f"""
        load net.so: made for {SIZE} ranks of mpi_world, comm has 1
          --> <here>
    """)  # fmt: skip
    plain = path.with_name(f"plain{RANK}")
    x = sg.placeholder((2,), name="x")
    sg.compile([x], 2 * x, opt_level=0).export(plain)
    assert_refused(lambda: sg.load(plain, comm=COMM), RuntimeError, f"""
        load plain{RANK}.so: comm is given, and its steps call MPI on no communicator
          --> <here>
    """)  # fmt: skip


def make_cut_step() -> sg.Step:
    """Return a step whose weights are cut over ranks."""
    random = np.random.default_rng(3)
    w, v = (sg.variable(random.normal(size=s), name=n) for n, s in (("w", (4, 6)), ("v", (6, 3))))
    w, v = sg.distributed.shard(w, 1, COMM), sg.distributed.shard(v, 0, COMM)
    x = sg.placeholder((6, 4), "float64", name="x")
    loss = sg.mean((sg.tanh(x @ w) @ v) ** 2)
    return sg.compile([x], loss, sg.optim.Adam(0.1).minimize(loss, [w, v]))


def go_on(step: sg.Step, first: Array, path: Path) -> None:
    """Export what each rank has of a state that they share, and go on with either."""
    x = COMM.mpi.bcast(first)
    step(x)
    paths = [path.with_name(f"{path.name}{rank}") for rank in range(SIZE)]
    step.export(paths[RANK], sizes={"n": SHARED} if step.graph.inputs[0].name == "a" else None)
    header = paths[RANK].with_suffix(".h").read_text()
    assert f"|| rank != {RANK}) return" in header
    assert f"variables start with the parts of rank {RANK}" in header
    sg.distributed.barrier(COMM)
    other = (RANK + 1) % SIZE
    assert_refused(lambda: sg.load(paths[other], comm=COMM), RuntimeError, f"""
        load {paths[other].name}.so: made for rank {other} of mpi_world, which has parts of variables; this is rank {RANK}
          --> <here>
          hint: export on each rank, to a path of its own
    """)  # fmt: skip  # noqa: E501
    (again,) = sg.load(paths[RANK], comm=COMM).steps.values()
    for _ in range(STEPS):
        np.testing.assert_array_equal(again(x), step(x))


def main(folder: Path) -> None:
    """Write the library, and what each rank gives and gets; compare with what is loaded."""
    steps, (x, y, rows) = make_steps(), make_inputs()
    if RANK == 0:
        sg.export(steps, folder / "net", sizes={"share": {"n": SHARED}})
        check_texts(folder / "net")
    sg.distributed.barrier(COMM)
    refuse(folder / "net")
    library = sg.load(folder / "net", comm={"mpi_world": COMM, "mpi_world_0": COMM})
    outputs = [steps["train"](x, y) for _ in range(STEPS)]
    outputs += [*steps["move"](rows), steps["predict"](x)]
    wide = np.tile(x, (2, 1))[:SHARED]
    outputs += [steps["share"](wide) for _ in range(STEPS)]
    again = [library["train"](x, y) for _ in range(STEPS)]
    again += [*library["move"](rows), library["predict"](x)]
    again += [library["share"](wide) for _ in range(STEPS)]
    for here, there in zip(outputs, again, strict=True):
        np.testing.assert_array_equal(here, there)
    go_on(steps["share"], wide, folder / "late")
    go_on(make_cut_step(), x, folder / "cut")
    Path(folder, f"inputs{RANK}.bin").write_bytes(x.tobytes() + y.tobytes() + rows.tobytes())
    Path(folder, f"wanted{RANK}.bin").write_bytes(b"".join(a.tobytes() for a in outputs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.write(f"rank {RANK} of {SIZE} has written\n")
