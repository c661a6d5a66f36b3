"""Sharded optimizer state: the results of one rank with all samples, and one file of all parts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.distributed import data_parallel
from tests.support.refusals import assert_refused

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
ROWS = 8  # of all ranks together
SHAPES = {"w": (5, 4), "b": (4,), "v": (4,), "few": (1,), "scalar": ()}

OPTIM = sg.optim
OPTIMIZERS: dict[str, Callable[[list[sg.Variable]], OPTIM.Optimizer]] = {
    "plain": lambda _: OPTIM.SGD(0.1),
    "momentum": lambda vs: OPTIM.SGD(0.1, momentum=0.9, groups=[OPTIM.Group(vs[:1], lr=0.01)]),
    "adam": lambda _: OPTIM.Adam(OPTIM.schedules.cosine(0.1, 10)),
    "adamw": lambda vs: OPTIM.AdamW(0.1, groups=[OPTIM.Group(vs[1:], weight_decay=0)]),
    "rmsprop": lambda _: OPTIM.RMSProp(0.01),
    "adagrad": lambda _: OPTIM.Adagrad(0.1),
    "adadelta": lambda _: OPTIM.Adadelta(1.0),
    "lion": lambda _: OPTIM.Lion(0.01),
    "lars": lambda _: OPTIM.LARS(1.0, weight_decay=0.1),
    "lamb": lambda _: OPTIM.LAMB(0.1, weight_decay=0.1),
    "accumulate": lambda _: OPTIM.Accumulate(OPTIM.Adam(0.1), every=2),
}


class Model:
    """A step of training, its variables and its optimizer."""

    def __init__(self, name: str, comm: Any, *, shard: bool, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        x = sg.placeholder((None, 5), "float64", name="x")
        self.variables = [
            sg.variable(random.normal(size=shape), name=name) for name, shape in SHAPES.items()
        ]
        w, b, v, few, scalar = self.variables
        y = (sg.tanh(x @ w + b) @ v) * few + scalar
        loss = sg.mean((y - sg.sum(x, axis=1)) ** 2)
        self.optimizer = OPTIMIZERS[name](self.variables)
        updates = self.optimizer.minimize(loss, data_parallel=comm, shard_state=shard)
        self.step = sg.compile([x], loss, updates, opt_level=0)

    def all(self) -> list[Any]:
        """Return what is saved."""
        return [self.variables, self.optimizer.state]


def samples(comm: Any) -> np.ndarray[Any, Any]:
    """Return the rows of this rank in `comm`."""
    rows = np.random.default_rng(5).normal(size=(ROWS, 5))
    return rows[comm.rank * ROWS // comm.size : (comm.rank + 1) * ROWS // comm.size]


def check_equal(model: Model, wanted: Model) -> None:
    """Compare variables with those of one rank that has all samples."""
    for got, want in zip(model.variables, wanted.variables, strict=True):
        np.testing.assert_allclose(got.value, want.value, rtol=1e-9, atol=1e-12)
        assert all((other == got.value).all() for other in COMM.exchange(got.value))


def train(name: str, folder: Path) -> None:
    """Train, save, go on from the file on fewer ranks and on one, and train on."""
    model, alone = Model(name, COMM, shard=True, seed=RANK), Model(name, None, shard=False)
    rows = np.random.default_rng(5).normal(size=(ROWS, 5))
    for _ in range(4):
        model.step(samples(COMM))
        alone.step(rows)
    check_equal(model, alone)
    path = folder / f"{name}.safetensors"
    sg.save(path, model.all())
    group = COMM.split(RANK // 2)
    assert group is not None
    smaller, one = Model(name, group, shard=True, seed=7), Model(name, None, shard=False, seed=8)
    for other in (smaller, one):
        sg.restore(path, other.all())
    for _ in range(3):
        alone.step(rows)
        one.step(rows)
        model.step(samples(COMM))
        smaller.step(samples(group))
    for other in (model, smaller, one):
        check_equal(other, alone)


def check_memory() -> None:
    """Keep of each slot one part, and move variables of a half float in float32."""
    model = Model("adam", COMM, shard=True)
    lengths = {name: slot.value.shape for name, slot in model.optimizer.state.items()}
    whole = {name: int(np.prod(shape)) for name, shape in SHAPES.items()}
    for name, count in whole.items():
        assert lengths[f"{name}/m"] == lengths[f"{name}/v"] == (-(-count // SIZE),)
    wide = sg.variable(np.zeros((400, 500), "float32"), name="wide")
    state = {}
    for shard in (False, True):
        updates = OPTIM.Adam(0.1).minimize(sg.sum(wide**2), data_parallel=COMM, shard_state=shard)
        state[shard] = sg.compile([], (), updates, opt_level=0).memory.state_bytes
    assert state[False] == 3 * wide.type.nbytes + 8
    assert state[True] == wide.type.nbytes + 2 * wide.type.nbytes // SIZE + 8
    half = sg.variable(np.ones(5), "bfloat16", name="half")
    adam = OPTIM.Adam(0.125)
    sg.compile([], (), adam.minimize(sg.sum(half**2), data_parallel=COMM, shard_state=True))()
    np.testing.assert_array_equal(half.value.astype("float32"), np.full(5, 0.875))
    assert adam.state["half/m"].dtype.name == "float32"


def start_early() -> None:
    """Start to send gradients while others are computed, and new weights before the last wait."""
    x = sg.placeholder((16, 16), name="x")
    y = x
    for number in range(3):
        y = sg.tanh(y @ sg.variable(np.ones((16, 16), "float32"), name=f"w{number}"))
    loss = sg.mean(y)
    updates = OPTIM.Adam(0.1).minimize(loss, data_parallel=COMM, shard_state=True)
    step = sg.compile([x], loss, updates, opt_level=0)
    calls = [call.label for call in step.executable.program.native_calls]
    starts = [i for i, call in enumerate(calls) if call == "extern MPI_Ireduce_scatter_block"]
    gathers = [i for i, call in enumerate(calls) if call == "extern MPI_Iallgather"]
    waits = [i for i, call in enumerate(calls) if call == "extern MPI_Wait"]
    products = [i for i, call in enumerate(calls) if "einsum" in call]
    assert [sum(place > start for place in products) for start in starts] == [4, 2, 0], calls
    assert len(waits) == 6, calls
    assert max(gathers) < waits[3], calls


def refuse(path: Path) -> None:
    """Refuse what has no parts, and tell all ranks of a file that cannot be written."""
    w = sg.variable(np.ones(3), name="w")
    assert_refused(lambda: OPTIM.SGD(0.1).minimize(sg.sum(w), shard_state=True), ValueError, """
        SGD.minimize: shard_state is given without data_parallel, a communicator
          --> <here>
    """)  # fmt: skip
    clipped = OPTIM.Accumulate(
        OPTIM.SGD(0.1), 2, clip=lambda gs: OPTIM.clip_by_global_norm(gs, 1.0)
    )
    assert_refused(
        lambda: clipped.minimize(sg.sum(w), data_parallel=COMM, shard_state=True), ValueError, """
        Accumulate.minimize: clip takes whole gradients, of which shard_state gives each rank parts
          --> <here>
    """)  # fmt: skip
    model = Model("momentum", COMM, shard=True)
    problem, text = (
        (sg.CheckpointError, "rank 0 could not write: ") if RANK else (OSError, "nowhere")
    )
    with pytest.raises(problem, match=text):
        sg.save(path / "nowhere" / "file", model.all())


if __name__ == "__main__":
    for number, key in enumerate(sys.argv[2:] or OPTIMIZERS):
        data_parallel.BUCKET_BYTES = (4 << 20, 100)[number % 2]
        train(key, Path(sys.argv[1]))
    data_parallel.BUCKET_BYTES = 4 << 20
    check_memory()
    data_parallel.BUCKET_BYTES = 1
    start_early()
    refuse(Path(sys.argv[1]))
    sys.stdout.write(f"rank {RANK} of {SIZE} has trained\n")
